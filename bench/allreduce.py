"""allreduce.py: builds allreduce.c and runs it under Open MPI's mpirun, for allreduce and scaling: our sums against MPI_Allreduce.

Two processes on this machine stand for two machines. Messages go through shared memory, or through TCP on the loopback.
"""
import json
import os
import shutil
import statistics
import subprocess

import common

SIZES = {"lenet5": 61706, "resnet18": 11173962, "alexnet": 61100840}  # parameters
WAYS = {"shared memory": ["--mca", "btl", "self,vader"], "tcp": ["--mca", "btl", "self,tcp"]}
# Each process becomes a machine of its own, as far as Lockstep knows.
AS_MACHINES = ["/bin/sh", "-c", 'LOCKSTEP_MACHINE=machine$OMPI_COMM_WORLD_RANK exec "$0" "$@"']


def mpirun(more=(), n=2):
    """The command that starts n ranks, or None where there is no Open MPI."""
    for name in ("mpirun.openmpi", "mpirun"):
        path = shutil.which(name)
        if path and "Open MPI" in subprocess.run([path, "--version"], capture_output=True, text=True).stdout:
            return [path, *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "-q", "-n", str(n), "--oversubscribe", "--bind-to",
                    "none", "--mca", "pml", "ob1", *more]
    return None


def build(program, folder):
    """The path of the built program. Failure says what is missing."""
    library, out = os.path.join(os.path.dirname(program), "liblockstep.a"), os.path.join(folder, "allreduce")
    compiler = shutil.which("mpicc.openmpi") or shutil.which("mpicc")
    if not compiler or not mpirun():
        raise common.Failure("needs Open MPI: on Debian, openmpi-bin and libopenmpi-dev")
    if not os.path.exists(library):
        raise common.Failure(f"needs {library}, which is built beside the program")
    command = [compiler, "-D_GNU_SOURCE", "-std=gnu11", "-O2", "-I", os.path.join(common.ROOT, "include"),
               "-I", os.path.join(common.ROOT, "src"), os.path.join(common.BENCH, "allreduce.c"), library, "-lpthread", "-ldl", "-lm", "-o", out]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise common.Failure(f"{' '.join(command)}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
    return out


def start(command, plugins, tell):
    tell(command)
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env={**os.environ, "LOCKSTEP_PLUGINS": plugins})
    if done.returncode != 0:
        raise common.Failure(f"{' '.join(command)}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def measure(program, binary, nets, rounds, repeats, tell):
    """[{way, net, elements, mpi_seconds, our_seconds, our_bytes, ...}], and the seconds of a barrier within a machine."""
    plugins, barriers, seen = os.path.dirname(program), [], {}
    sizes = [str(SIZES[net]) for net in nets]
    for _ in range(rounds):
        for way, arguments in WAYS.items():
            for what, shell in (("mpi", []), ("ours", AS_MACHINES)):
                for line in start([*mpirun(arguments), *shell, binary, what, str(repeats), *sizes], plugins, tell):
                    entry = seen.setdefault((way, line["elements"]), {"mpi": [], "ours": [], "bytes": {}})
                    entry[what] += line["seconds"]
                    entry["bytes"][what] = line["bytes_sent"]
        for line in start([*mpirun(WAYS["shared memory"]), binary, "barrier", str(repeats)], plugins, tell):
            barriers += line["seconds"]
    rows = []
    for (way, elements), entry in seen.items():
        mpi, ours = statistics.median(entry["mpi"]), statistics.median(entry["ours"])
        rows.append({"way": way, "net": next(n for n in nets if SIZES[n] == elements), "elements": elements, "mpi_seconds": mpi,
                     "our_seconds": ours, "mpi_bytes": entry["bytes"]["mpi"], "our_bytes": entry["bytes"]["ours"],
                     "mpi_gb_per_second": 8e-9 * elements / mpi, "our_gb_per_second": 8e-9 * elements / ours, "ratio": mpi / ours})
    return rows, statistics.median(barriers)


def print_result(rows, barrier):
    common.print_table(
        ["int64 sums of", "numbers", "through", "MPI ms", "GB/s", "MB sent", "ours ms", "GB/s", "MB sent", "MPI / ours"],
        [[r["net"], r["elements"], r["way"], f"{1e3 * r['mpi_seconds']:.2f}", f"{r['mpi_gb_per_second']:.2f}", f"{1e-6 * r['mpi_bytes']:.1f}",
          f"{1e3 * r['our_seconds']:.2f}", f"{r['our_gb_per_second']:.2f}", f"{1e-6 * r['our_bytes']:.1f}", f"{r['ratio']:.2f}"] for r in rows])
    print(f"within a machine nothing is sent; a barrier of its workers takes {1e6 * barrier:.1f} us, a step has five or six")
