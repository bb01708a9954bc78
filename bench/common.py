"""common.py: what the benchmarks share: the networks, the program under test, the machine, tables and files of results."""
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import time

BENCH = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(BENCH)
RESULTS = os.path.join(BENCH, "results")
# The peak of memory that Linux tells of a process begins with what the process was before exec: a copy of Python, unless a
# shell stands between.
SMALL_PARENT = ["/bin/sh", "-c", '"$@"; exit $?', "sh"]


# What callgrind counts, by whose code it is.
KINDS = ("own", "library", "allocator")
# What the allocator does during the start differs from run to run by more than our limit; steps do not allocate.
ALLOCATOR = re.compile(r"fn=(_int_|\w*alloc|c?free|unlink_chunk|tcache|systrim|sysmalloc|arena_|mem_)")


class Failure(Exception):
    """Something a person can put right; the message is one line."""


def lockstep_program():
    """$LOCKSTEP, or what `make` builds in build/."""
    path = os.environ.get("LOCKSTEP")
    if not path:
        if subprocess.run(["make", "-C", ROOT, "--no-print-directory"], stdout=sys.stderr).returncode != 0:
            raise Failure("make failed; set LOCKSTEP to a program built elsewhere, or see above")
        path = os.path.join(ROOT, "build", "lockstep")
    path = os.path.abspath(path)
    if not os.access(path, os.X_OK):
        raise Failure(f"{path} is not a program; LOCKSTEP should name one")
    return path


def torch_python():
    """A Python that has PyTorch."""
    given = os.environ.get("TORCH_PYTHON")
    venv = os.path.join(BENCH, "venv")
    python = given or os.path.join(venv, "bin", "python")
    if os.path.exists(python) and subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0:
        return python
    if given:
        raise Failure(f"TORCH_PYTHON={given} cannot import torch")
    print(f"making {os.path.relpath(venv)} with PyTorch (once; some gigabytes)", file=sys.stderr)
    for command in ([sys.executable, "-m", "venv", venv], [python, "-m", "pip", "install", "--quiet", "--upgrade", "pip"],
                    [python, "-m", "pip", "install", "--quiet", "torch", "numpy"]):
        if subprocess.run(command).returncode != 0:
            raise Failure(f"{' '.join(command)} failed; python3-venv and the network are needed, or set TORCH_PYTHON")
    return python


def torch_env():
    """The environment for PyTorch: what torch.compile makes is kept beside it."""
    return {**os.environ, "TORCHINDUCTOR_CACHE_DIR": os.path.join(BENCH, "venv", "inductor-cache"), "PYTHONDONTWRITEBYTECODE": "1"}


def pinned(cores):
    """Keeps a child process on the first `cores` CPUs this process may use; for subprocess's preexec_fn."""
    cpus = sorted(os.sched_getaffinity(0))[:cores]
    return lambda: os.sched_setaffinity(0, cpus)


def bench(program, model, batch, threads, *more):
    """The JSON of `lockstep bench` on `threads` cores."""
    command = [program, "bench", model, "-b", str(batch), "--threads", str(threads), "--json", *map(str, more)]
    done = subprocess.run(SMALL_PARENT + command, capture_output=True, text=True, preexec_fn=pinned(threads))
    if done.returncode != 0:
        raise Failure(f"{' '.join(command[1:])}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return json.loads(done.stdout)


def cpu_count():
    return len(os.sched_getaffinity(0))


def cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        return next((line.partition(":")[2].strip() for line in f if line.startswith("model name")), platform.machine())


def version_lines(program):
    return subprocess.run([program, "--version"], capture_output=True, text=True).stdout.splitlines()


def self_counts(path):
    """{'own': n, 'library': n, 'allocator': n} of a callgrind file: costs of functions themselves, by the object they lie in."""
    counts, kind, is_call, is_library = dict.fromkeys(KINDS, 0), "own", False, False
    with open(path, encoding="utf-8", errors="replace") as f:
        for line in f:
            if line.startswith("ob="):
                is_library = "dnnl" in line or "???" in line  # ??? is code the library generated
            elif line.startswith("fn="):
                kind = "library" if is_library else "allocator" if ALLOCATOR.match(line) else "own"
            elif line.startswith("calls="):
                is_call = True  # the next line is the cost of what was called
            elif line[:1].isdigit():
                if not is_call:
                    counts[kind] += int(line.split()[-1])
                is_call = False
    return counts


class Watch:
    """How busy others keep the machine while we measure: CPU time spent by everybody less that of our ended children."""

    def __init__(self, is_silent=False):
        self.wall, self.all, self.own = time.monotonic(), self.busy_seconds(), self.own_seconds()
        if not is_silent and os.getloadavg()[0] > 0.5:
            print(f"warning: the machine is busy (load average {os.getloadavg()[0]:.1f}); the numbers will be noisy", file=sys.stderr)

    @staticmethod
    def busy_seconds():
        with open("/proc/stat", encoding="utf-8") as f:
            user, nice, system, _idle, _wait, irq, soft, *_ = map(int, f.readline().split()[1:])
        return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def own_seconds():
        t = os.times()
        return t.user + t.system + t.children_user + t.children_system

    def others(self):
        """CPUs used by others, on average since the beginning."""
        busy, own = self.busy_seconds() - self.all, self.own_seconds() - self.own
        return max(0.0, busy - own) / max(time.monotonic() - self.wall, 1e-3)

    def is_quiet(self):
        return self.others() <= 0.1

    def report(self, is_silent=False):
        others = self.others()
        if not is_silent and not self.is_quiet():
            print(f"warning: other processes used {others:.2f} CPUs during the measurement; repeat it on a quiet machine", file=sys.stderr)
        return {"load_average": os.getloadavg(), "cpus_used_by_others": round(others, 3),
                "is_quiet": self.is_quiet()}


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def machine(program, watch, is_silent=False, **more):
    """Where and with what a result was made. Call it after measuring."""
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    return {"cpu": cpu_model(), "cpus": cpu_count(), "kernel": platform.release(), "lockstep": version_lines(program), "commit": commit,
            "date": now(), **more, **watch.report(is_silent)}


def print_table(heads, rows, n_left=1):
    """Rows of texts; the first n_left columns are aligned left, the others right."""
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    for row in [heads, ["-" * w for w in widths], *rows]:
        print("  ".join(c.ljust(w) if i < n_left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))).rstrip())


def write(name, text):
    """A result, complete or not at all."""
    os.makedirs(RESULTS, exist_ok=True)
    path = os.path.join(RESULTS, name)
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(path + ".new", path)
    print(f"wrote {os.path.relpath(path)}", file=sys.stderr)


def write_json(name, value):
    write(name, json.dumps(value, indent=1) + "\n")


def draw(program, name, picture):
    """A picture (docs/formats/plot.md) as results/NAME.svg, with its description beside it, NAME.plot.json."""
    write(f"{name}.plot.json", json.dumps(picture, indent=1, allow_nan=False) + "\n")
    done = subprocess.run([program, "plot", os.path.join(RESULTS, f"{name}.plot.json"), "-o", os.path.join(RESULTS, f"{name}.svg")],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"plot {name}: {done.stderr.strip()}")
    print(f"wrote {os.path.relpath(os.path.join(RESULTS, name))}.svg", file=sys.stderr)


def numbers(text):
    return [int(word) for word in text.split(",")]


def run(main):
    """main(), with failures as one line."""
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"{os.path.basename(sys.argv[0])}: {failure}")
    except BrokenPipeError:  # `bench/roofline | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
