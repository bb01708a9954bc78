"""pictures.py FOLDER N_TRAIN N_TEST: grey pictures of 12x12 random pixels in two classes, FOLDER/{train,test}/{a,b}/*.png."""
import os
import random
import struct
import sys
import zlib


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(seed):
    r = random.Random(seed)
    rows = b"".join(b"\0" + r.randbytes(12) for _ in range(12))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 12, 12, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def main():
    for split, n in (("train", int(sys.argv[2])), ("test", int(sys.argv[3]))):
        for i in range(n):
            folder = os.path.join(os.fsencode(sys.argv[1]), split.encode(), b"ab"[i % 2:i % 2 + 1])
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, b"%04d.png" % i), "wb") as f:
                f.write(png(i if split == "train" else 10000 + i))


main()
