"""lib.py: for the end-to-end scripts: looks into checkpoints, damages files, makes small data sets. No dependencies."""
import gzip
import hashlib
import json
import math
import os
import struct
import sys
import zlib

CLOCK_KEYS = {"train_seconds", "seconds", "target", "lockstep.checksum"}


def read_header(path):
    with open(path, "rb") as f:
        blob = f.read()
    (n,) = struct.unpack("<Q", blob[:8])
    return json.loads(blob[8 : 8 + n]), blob[8 + n :]


def tensors(path):
    """Names, shapes and a hash of each tensor's bytes; then the metadata that do not depend on the clock."""
    header, data = read_header(path)
    meta = header.pop("__metadata__", {})
    for name in sorted(header):
        begin, end = header[name]["data_offsets"]
        print(name, header[name]["dtype"], header[name]["shape"], hashlib.sha256(data[begin:end]).hexdigest())
    for key in sorted(set(meta) - CLOCK_KEYS):
        print(key, "=", meta[key])


def finite(path):
    """Exit code 0 when every float of the checkpoint is finite."""
    header, data = read_header(path)
    header.pop("__metadata__", None)
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        if entry["dtype"] != "F32":
            continue
        if not all(map(math.isfinite, struct.unpack("<%df" % ((end - begin) // 4), data[begin:end]))):
            sys.exit("%s: %s is not finite" % (path, name))


def meta(path, key):
    print(read_header(path)[0]["__metadata__"][key])


def flip(path, offset):
    """Inverts one bit; a negative offset counts from the end."""
    with open(path, "r+b") as f:
        f.seek(int(offset), 0 if int(offset) >= 0 else 2)
        at = f.tell()
        byte = f.read(1)[0] ^ 1
        f.seek(at)
        f.write(bytes([byte]))


def pixels(n, size):
    return b"".join(hashlib.shake_128(b"%d" % i).digest(size) for i in range(n))


def idx_images(n, h=28, w=28):
    return struct.pack(">IIII", 0x803, n, h, w) + pixels(n, h * w)


def idx_labels(n, bad=None):
    labels = bytearray(i % 10 for i in range(n))
    if bad is not None:
        labels[n // 2] = bad
    return struct.pack(">II", 0x801, n) + bytes(labels)


def put(folder, name, blob):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as f:
        f.write(blob)


def mnist(folder, n=40):
    """A small mnist as torchvision lays it out."""
    raw = os.path.join(folder, "MNIST/raw")
    for name in ("train", "t10k"):
        put(raw, name + "-images-idx3-ubyte", idx_images(int(n)))
        put(raw, name + "-labels-idx1-ubyte", idx_labels(int(n)))


def cifar(folder, n=20):
    raw = os.path.join(folder, "cifar-10-batches-bin")
    for name in ["data_batch_%d" % i for i in range(1, 6)] + ["test_batch"]:
        put(raw, name + ".bin", b"".join(bytes([i % 10]) + pixels(1, 3072) for i in range(int(n))))


def mat_element(kind, blob):
    return struct.pack("<II", kind, len(blob)) + blob + b"\0" * (-len(blob) % 8)


def mat_array(name, dims, blob):
    body = mat_element(6, struct.pack("<II", 9, 0))
    body += mat_element(5, struct.pack("<%di" % len(dims), *dims))
    body += mat_element(1, name)
    body += mat_element(2, blob)
    return mat_element(14, body)


def mat_file(n, compress=True, bad=None):
    labels = bytearray(i % 10 + 1 for i in range(n))
    if bad is not None:
        labels[n // 2] = bad
    arrays = [mat_array(b"X", [32, 32, 3, n], pixels(n, 3072)), mat_array(b"y", [n, 1], bytes(labels))]
    if compress:
        arrays = [struct.pack("<II", 15, len(z)) + z for z in map(zlib.compress, arrays)]
    return b"MATLAB 5.0 MAT-file".ljust(116) + b"\0" * 8 + struct.pack("<HH", 0x100, 0x4D49) + b"".join(arrays)


def svhn(folder, n=20):
    put(folder, "train_32x32.mat", mat_file(int(n)))
    put(folder, "test_32x32.mat", mat_file(int(n)))


def png(n, h=32, w=32):
    def chunk(kind, blob):
        return struct.pack(">I", len(blob)) + kind + blob + struct.pack(">I", zlib.crc32(kind + blob))

    rows = b"".join(b"\0" + hashlib.shake_128(b"%d,%d" % (n, y)).digest(3 * w) for y in range(h))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def folder(path, n=6):
    at = 0
    for split in ("train", "test"):
        for name in ("cat", "dog"):
            for i in range(int(n)):
                put(os.path.join(path, split, name), "%d.png" % i, png(at))
                at += 1


def bomb(path, megabytes):
    """A gzip file of a few kB that grows to so many MB of zeros behind a header that promises 40 images."""
    with gzip.open(path, "wb", 9) as f:
        f.write(struct.pack(">IIII", 0x803, 40, 28, 28))
        block = b"\0" * (1 << 20)
        for _ in range(int(megabytes)):
            f.write(block)


def blob(path, kind, *args):
    """One file: idx_images N [H W], idx_labels N [BAD], mat N BAD, text HEX."""
    makers = {
        "idx_images": idx_images,
        "idx_labels": idx_labels,
        "mat": lambda n, bad: mat_file(n, True, bad),
    }
    if kind == "hex":
        content = bytes.fromhex("".join(args))
    else:
        content = makers[kind](*map(int, args))
    put(os.path.dirname(path) or ".", os.path.basename(path), content)


def safetensors(path, header, size="0"):
    """A file with this header text and so many zero bytes behind it."""
    text = header.encode()
    put(os.path.dirname(path) or ".", os.path.basename(path), struct.pack("<Q", len(text)) + text + b"\0" * int(size))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
