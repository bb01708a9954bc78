#!/usr/bin/env python3
"""torch_step.py NET -b N: the training step of `lockstep bench` in PyTorch, for compare. Needs torch.

A step: zero_grad, forward, cross entropy, backward, SGD with momentum 0.9; float32, random images and labels that are tensors
in memory already. Modes: eager; channels_last; compile (torch.compile, whose compiling is not counted). SGD is the fused one.
Out:  the line "first" at the end of the first step (the launcher takes the time), then the result as JSON.
"""
import argparse
import json
import os
import resource
import statistics
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "torch"))
sys.dont_write_bytecode = True
import nets  # noqa: E402


def make(options, wrap=lambda net: net):
    """The step as a function; wrap: what is put around the network (torch_ddp.py)."""
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    channels, height, width = map(int, options.input.split("x"))
    net = getattr(nets, options.net.replace("-", "_"))(options.classes)
    images = torch.randn(options.batch, channels, height, width)
    labels = torch.randint(options.classes, (options.batch,))
    if options.mode == "channels_last":
        net, images = net.to(memory_format=torch.channels_last), images.to(memory_format=torch.channels_last)
    net = wrap(net.train())
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9, fused=True)
    forward = torch.compile(net) if options.mode == "compile" else net
    loss_of = torch.nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(forward(images), labels).backward()
        optimizer.step()

    return step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("net")
    parser.add_argument("-b", "--batch", type=int, default=128)
    parser.add_argument("--input", default="3x32x32")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--mode", choices=("eager", "channels_last", "compile"), default="eager")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()
    step = make(options)
    step()
    print("first", flush=True)
    for _ in range(options.warmup - 1):
        step()
    times, start = [], time.perf_counter()
    while options.seconds > 0 and (not times or time.perf_counter() - start < options.seconds):
        before = time.perf_counter()
        step()
        times.append(time.perf_counter() - before)
    print(json.dumps({
        "mode": options.mode, "torch": torch.__version__, "threads": torch.get_num_threads(), "steps": len(times),
        "images_per_second": options.batch / statistics.median(times) if times else None,
        "peak_rss_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))


if __name__ == "__main__":
    main()
