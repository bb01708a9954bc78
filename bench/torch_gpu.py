#!/usr/bin/env python3
"""torch_gpu.py NET -b N: the training step of `lockstep bench --device cuda` in PyTorch, in its strongest forms, for bench/gpu.

A step: forward, cross entropy, backward, SGD with momentum 0.9 (fused); random images and labels that lie on the card. bf16 by
autocast with channels last, or float32 with TF32. Modes: graph (the whole step in one CUDA graph), compile (torch.compile,
"reduce-overhead", then the same). cuDNN may try its algorithms. Out: the result as JSON.
"""
import argparse
import json
import os
import statistics
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "torch"))
sys.dont_write_bytecode = True
import nets  # noqa: E402


def make(options):
    """The step as a function."""
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    channels, height, width = map(int, options.input.split("x"))
    is_bf16 = options.precision == "bf16"
    layout = torch.channels_last if is_bf16 else torch.contiguous_format
    net = getattr(nets, options.net.replace("-", "_"))(options.classes).cuda().to(memory_format=layout).train()
    images = torch.randn(options.batch, channels, height, width, device="cuda").to(memory_format=layout)
    labels = torch.randint(options.classes, (options.batch,), device="cuda")
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9, fused=True)
    forward = torch.compile(net, mode="max-autotune-no-cudagraphs") if options.mode == "compile" else net
    loss_of = torch.nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=is_bf16, cache_enabled=False):
            loss = loss_of(forward(images), labels)
        loss.backward()
        optimizer.step()

    return step


def captured(step):
    """The step as one graph's replay."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("net")
    parser.add_argument("-b", "--batch", type=int, default=128)
    parser.add_argument("--input", default="3x32x32")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--precision", choices=("bf16", "tf32"), default="bf16")
    parser.add_argument("--mode", choices=("graph", "compile"), default="graph")
    parser.add_argument("--seconds", type=float, default=1)
    options = parser.parse_args()
    started = time.perf_counter()
    step = captured(make(options))
    step()
    torch.cuda.synchronize()
    ready = time.perf_counter() - started
    times, begun = [], time.perf_counter()
    while time.perf_counter() - begun < options.seconds or len(times) < 5:
        first = time.perf_counter()
        for _ in range(10):
            step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - first) / 10)
    seconds = statistics.median(times)
    print(json.dumps({"images_per_second": options.batch / seconds, "ms_per_step": 1e3 * seconds, "ready_seconds": ready,
                      "peak_bytes": torch.cuda.max_memory_reserved(), "torch": torch.__version__}))


main()
