#!/usr/bin/env python3
"""safetensors_interop.py: the safetensors package reads our checkpoints, and we read its files.

Not part of the default tests, as it needs Python with numpy and safetensors:

    pip install numpy safetensors
    python3 tests/e2e/safetensors_interop.py BUILD/checkpoint_loop BUILD/liblockstep-test.so

The first argument is tests/fault/checkpoint_loop.c, built; it writes what Python reads. The second is the checkpoint module as
a shared library, through which Python's file is read back; without it that half is skipped, and said so:

    cc -shared -fPIC -D_GNU_SOURCE -Isrc -Iinclude src/base/*.c src/tensor/*.c src/checkpoint/*.c \\
        -o liblockstep-test.so -ljansson -lxxhash -lpthread -lm
"""
import ctypes
import os
import subprocess
import sys
import tempfile

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

MAX_DIMS = 4
DTYPES = {0: np.float32, 1: np.int64, 2: np.int32, 3: np.uint8}


class Shape(ctypes.Structure):
    _fields_ = [("n_dims", ctypes.c_int), ("dims", ctypes.c_int64 * MAX_DIMS)]


class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("shape", Shape), ("data", ctypes.c_void_p)]


def python_reads_ours(program, folder):
    subprocess.run([program, "write", folder, "1", "3"], check=True, stdout=subprocess.DEVNULL)
    with safe_open(os.path.join(folder, "latest.safetensors"), framework="np") as f:
        assert f.metadata()["step"] == "3", f.metadata()
        assert len(f.metadata()["lockstep.checksum"]) == 32, f.metadata()
        assert sorted(f.keys()) == [f"layer{i}" for i in range(8)], list(f.keys())
        for name in f.keys():
            t = f.get_tensor(name)
            assert t.dtype == np.float32 and t.shape == (2048,), (name, t.dtype, t.shape)
            assert (t == 3).all(), name
    print("python reads ours: 8 tensors, metadata")


def load_library(path):
    lib = ctypes.CDLL(os.path.abspath(path))
    lib.ls_error_message.restype = ctypes.c_char_p
    lib.ls_ckpt_meta.restype = ctypes.c_char_p
    lib.ls_ckpt_find.restype = ctypes.POINTER(Tensor)
    return lib


def we_read_pythons(lib, folder):
    rng = np.random.default_rng(1)
    tensors = {
        "f32": rng.standard_normal((3, 5, 2, 2), dtype=np.float32),
        "i64": np.array(-7, dtype=np.int64),
        "i32": rng.integers(-9, 9, (4, 3), dtype=np.int32),
        "u8": rng.integers(0, 255, (13,), dtype=np.uint8),
        "empty": np.zeros((2, 0), dtype=np.float32),
        "层.вес": np.ones((2,), dtype=np.float32),
    }
    path = os.path.join(folder, "python.safetensors")
    save_file(tensors, path, metadata={"step": "12", "naïve": "\"quoted\"\n"})
    ckpt = ctypes.c_void_p()
    status = lib.ls_ckpt_open(ctypes.byref(ckpt), path.encode())
    assert status == 0, lib.ls_error_message()
    assert lib.ls_ckpt_n_tensors(ckpt) == len(tensors), lib.ls_ckpt_n_tensors(ckpt)
    assert lib.ls_ckpt_meta(ckpt, b"step") == b"12"
    assert lib.ls_ckpt_meta(ckpt, "naïve".encode()) == b"\"quoted\"\n"
    for name, want in tensors.items():
        t = lib.ls_ckpt_find(ckpt, name.encode()).contents
        shape = tuple(t.shape.dims[: t.shape.n_dims])
        got = np.frombuffer(ctypes.string_at(t.data, want.nbytes), DTYPES[t.dtype]).reshape(shape)
        assert got.dtype == want.dtype and got.shape == want.shape and (got == want).all(), name
    lib.ls_ckpt_close(ctypes.byref(ckpt))
    save_file({"h": np.ones(3, dtype=np.float16)}, path)
    assert lib.ls_ckpt_open(ctypes.byref(ckpt), path.encode()) != 0
    assert b"F16 is not supported" in lib.ls_error_message(), lib.ls_error_message()
    print(f"we read python's: {len(tensors)} tensors, metadata; F16 is refused by name")


def main():
    with tempfile.TemporaryDirectory() as folder:
        python_reads_ours(sys.argv[1], folder)
        if len(sys.argv) > 2:
            we_read_pythons(load_library(sys.argv[2]), folder)
        else:
            print("SKIPPED: reading Python's files (no library given)")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main()
