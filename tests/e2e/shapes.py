"""shapes.py FOLDER N SIDE: coloured pictures in three classes that are easy to tell apart, FOLDER/{train,val}/CLASS/*.png: N of each
for training, a third of it for testing. SIDE 0: of many sizes. No dependencies."""
import os
import random
import struct
import sys
import zlib

CLASSES = {"mostly blue": (40, 40, 200), 'red, "warm"': (210, 50, 30), "grün": (40, 180, 40)}


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(rng, colour, h, w):
    rows = b""
    for _ in range(h):
        rows += b"\0" + bytes(min(255, max(0, c + rng.randint(-40, 40))) for _ in range(w) for c in colour)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


def main(folder, n, side):
    for split, count in (("train", n), ("val", max(1, n // 3))):
        for name, colour in CLASSES.items():
            path = os.path.join(os.fsencode(folder), split.encode(), name.encode())
            os.makedirs(path, exist_ok=True)
            for i in range(count):
                rng = random.Random(f"{split} {name} {i}")
                h, w = (side, side) if side else (rng.randint(8, 40), rng.randint(8, 40))
                with open(os.path.join(path, b"%03d.png" % i), "wb") as f:
                    f.write(png(rng, colour, h, w))


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
