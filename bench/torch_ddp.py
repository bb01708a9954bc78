#!/usr/bin/env python3
"""torch_ddp.py NET -b N --processes P: a training step in PyTorch's DistributedDataParallel over gloo, for scaling. Needs torch.

The step is that of torch_step.py. -b is the batch of all processes together; each has its part of it and a CPU of its own. One
process runs without DistributedDataParallel, which would only cost it time. Rank 0 says how many steps fit into --seconds.
Out:  the result as JSON: images per second of the median step of rank 0; a step ends when the gradients of all are summed.
"""
import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import torch_step


def wrap(net):
    """Without copies between gradients and buckets, and without sending batch norm's statistics: as fast as it goes."""
    warnings.filterwarnings("ignore", category=FutureWarning)  # the newest versions would like another name for it
    return torch.nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True, broadcast_buffers=False)


def count_of(seconds, per_step):
    """Steps that fit, the same on all ranks."""
    count = torch.tensor([max(3, round(seconds / per_step))])
    if dist.is_initialized():
        dist.broadcast(count, 0)
    return int(count)


def timed(step, n):
    times = []
    for _ in range(n):
        before = time.perf_counter()
        step()
        times.append(time.perf_counter() - before)
    return times


def work(rank, options, folder, cpus):
    if options.processes > 1:
        os.sched_setaffinity(0, {cpus[rank % len(cpus)]})
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=options.processes)
    whole, options.batch = options.batch, options.batch // options.processes
    step = torch_step.make(options, wrap if options.processes > 1 else lambda net: net)
    warm = timed(step, max(2, options.warmup))
    times = timed(step, count_of(options.seconds, min(warm)))
    if rank == 0:
        print(json.dumps({"torch": torch.__version__, "mode": options.mode, "processes": options.processes, "steps": len(times),
                          "images_per_second": whole / statistics.median(times)}), flush=True)
    if options.processes > 1:
        dist.barrier()
        os._exit(0)  # ending gloo in order aborts now and then, when a peer was faster ("terminate called without ...")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("net")
    parser.add_argument("-b", "--batch", type=int, default=128, help="of all processes together")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--input", default="3x32x32")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--mode", choices=("eager", "channels_last", "compile"), default="eager")
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()
    if options.processes < 1 or options.batch % options.processes:
        sys.exit(f"torch_ddp.py: a batch of {options.batch} cannot be cut into {options.processes} equal parts")
    cpus = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        if options.processes == 1:
            work(0, options, folder, cpus)
        else:
            mp.spawn(work, (options, folder, cpus), nprocs=options.processes)


if __name__ == "__main__":
    main()
