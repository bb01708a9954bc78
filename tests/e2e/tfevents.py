"""tfevents.py FILE...: reads TensorBoard event files by the format's own rules and prints one line per value:
step tag kind value. Every length and checksum is verified; anything wrong ends with exit code 1 and its offset."""
import struct
import sys


def crc32c(data, table=[]):
    if not table:
        for i in range(256):
            c = i
            for _ in range(8):
                c = (c >> 1) ^ (0x82F63B78 if c & 1 else 0)
            table.append(c)
    c = 0xFFFFFFFF
    for byte in data:
        c = (c >> 8) ^ table[(c ^ byte) & 255]
    return c ^ 0xFFFFFFFF


def masked(data):
    c = crc32c(data)
    return (((c >> 15) | (c << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    data = open(path, "rb").read()
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        assert struct.unpack_from("<I", data, at + 8)[0] == masked(data[at : at + 8]), f"{path}: length at {at}"
        body = data[at + 12 : at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(body), f"{path}: record at {at}"
        yield body
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """{number: [values]}: ints, bytes, or raw 4 and 8 bytes"""
    out, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(key & 7)
            if size is None:
                size, at = varint(data, at)
            value, at = data[at : at + size], at + size
        out.setdefault(key >> 3, []).append(value)
    return out


def describe(value):
    if 2 in value:
        return "scalar", repr(struct.unpack("<f", value[2][0])[0])
    if 4 in value:
        image = fields(value[4][0])
        return "image", f"{image[3][0]}x{image[1][0]}x{image[2][0]} {image[4][0][:4]!r}"
    if 5 in value:
        return "histogram", f"{struct.unpack('<d', fields(value[5][0])[3][0])[0]:.0f}"
    metadata = fields(fields(value[9][0])[1][0])
    return metadata[1][0].decode(), fields(value[8][0])[8][0].decode() if 8 in value else len(metadata[2][0])


for name in sys.argv[1:]:
    for n, record in enumerate(records(name)):
        event = fields(record)
        step = event.get(2, [0])[0]
        if n == 0:
            assert event[3][0] == b"brain.Event:2", "the first record names the version"
        if 4 in event:
            nodes = [fields(node) for node in fields(event[4][0])[1]]
            print(step, "graph", *(node[1][0].decode() + ":" + node[2][0].decode() for node in nodes))
        if 7 in event:
            print(step, "start")
        for value in fields(event[5][0])[1] if 5 in event else []:
            value = fields(value)
            kind, text = describe(value)
            print(step, value[1][0].decode(), kind, str(text).replace("\n", " "))
