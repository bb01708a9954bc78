"""onnx.py: reads ONNX files without any library, checks what they say and computes them in plain Python. No dependencies.

    onnx.py check FILE CHECKPOINT [folded]   every name is made before it is read, once; weights are the checkpoint's bytes
    onnx.py run FILE PICTURE ANSWERS.json    probabilities of the picture (a PNG of shapes.py) are those of `classify --json --top N`
    onnx.py show FILE                        operators, shapes and metadata, one line each
"""
import json
import math
import struct
import sys
import zlib

import lib


# --- protobuf: a message is a list of (field, value); the value is a number or bytes ---

def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    at, found = 0, {}
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
            value -= (value >> 63) << 64
        elif kind == 1:
            value, at = data[at:at + 8], at + 8
        elif kind == 2:
            n, at = varint(data, at)
            value, at = data[at:at + n], at + n
            assert len(value) == n, "the file is cut short"
        else:
            assert kind == 5, f"wire type {kind}"
            value, at = struct.unpack("<f", data[at:at + 4])[0], at + 4
        found.setdefault(key >> 3, []).append(value)
    return found


def one(message, field, default=None):
    return message.get(field, [default])[0]


def text(message, field):
    return one(message, field, b"").decode()


class Model:
    def __init__(self, path):
        with open(path, "rb") as f:
            model = fields(f.read())
        graph = fields(one(model, 7))
        self.ir, self.producer, self.name = one(model, 1), text(model, 2), text(graph, 2)
        self.opset = one(fields(one(model, 8)), 2)
        self.meta = {text(fields(m), 1): text(fields(m), 2) for m in model.get(14, [])}
        self.tensors = {}
        for raw in graph.get(5, []):
            t = fields(raw)
            assert text(t, 8) not in self.tensors, f"two tensors {text(t, 8)}"
            self.tensors[text(t, 8)] = (one(t, 2), t.get(1, []), one(t, 9))
        self.nodes = []
        for raw in graph.get(1, []):
            n = fields(raw)
            attrs = {}
            for a in map(fields, n.get(5, [])):
                attrs[text(a, 1)] = {1: one(a, 2), 2: one(a, 3), 7: a.get(8, [])}[one(a, 20)]
            self.nodes.append((text(n, 4), text(n, 3), [i.decode() for i in n.get(1, [])], [o.decode() for o in n.get(2, [])], attrs))
        (self.input,), (self.output,) = [self.value(v) for v in graph[11]], [self.value(v) for v in graph[12]]

    @staticmethod
    def value(raw):
        v = fields(raw)
        tensor = fields(one(fields(one(v, 2)), 1))
        dims = [one(fields(d), 1) or text(fields(d), 2) for d in fields(one(tensor, 2)).get(1, [])]
        return text(v, 1), one(tensor, 1), dims

    def floats(self, name):
        kind, dims, data = self.tensors[name]
        assert kind == 1 and len(data) == 4 * math.prod(dims), f"{name}: {kind} {dims} in {len(data)} bytes"
        return list(struct.unpack(f"<{len(data) // 4}f", data))


# --- check ---

def check(path, checkpoint, *folded):
    m = Model(path)
    assert (m.ir, m.producer, m.opset) == (8, "lockstep", 17), (m.ir, m.producer, m.opset)
    assert m.input[2][0] == "batch" and m.output[2][0] == "batch", "the number of images is not free"
    known = {m.input[0]} | set(m.tensors)
    names = set()
    for op, name, inputs, outputs, _ in m.nodes:
        assert set(inputs) <= known, f"{op} {name} reads {set(inputs) - known}, which nobody has made"
        assert not set(outputs) & known, f"{op} {name} makes {outputs} again"
        assert name and name not in names, f"two operators {name}"
        names.add(name)
        known |= set(outputs)
    assert m.output[0] in known, "nobody makes the output"
    read = {i for _, _, inputs, _, _ in m.nodes for i in inputs}
    assert set(m.tensors) <= read, f"tensors that nobody reads: {set(m.tensors) - read}"
    header, data = lib.read_header(checkpoint)
    same = 0
    for name, entry in header.items():
        if name in m.tensors:
            begin, end = entry["data_offsets"]
            assert m.tensors[name][1] == entry["shape"], f"{name}: {m.tensors[name][1]} instead of {entry['shape']}"
            assert m.tensors[name][2] == data[begin:end], f"{name}: other bytes than the checkpoint's"
            same += 1
    norms = sum(op == "BatchNormalization" for op, *_ in m.nodes)
    assert not folded or (norms == 0 and any(t.endswith(".folded") for t in m.tensors)), f"{norms} batch norms are left"
    print(f"{len(m.nodes)} operators, {same} tensors as in the checkpoint")


# --- run: images are [c][h][w], vectors are lists ---

def windows(x, kernel, strides, pads, dilations=(1, 1)):
    """For each output place the (row, column) pairs of its window, inside or not."""
    h, w = len(x[0]), len(x[0][0])
    oh = (h + pads[0] + pads[2] - (kernel[0] - 1) * dilations[0] - 1) // strides[0] + 1
    ow = (w + pads[1] + pads[3] - (kernel[1] - 1) * dilations[1] - 1) // strides[1] + 1
    return [[[(i * strides[0] - pads[0] + a * dilations[0], j * strides[1] - pads[1] + b * dilations[1])
              for a in range(kernel[0]) for b in range(kernel[1])] for j in range(ow)] for i in range(oh)]


def inside(x, place):
    return 0 <= place[0] < len(x[0]) and 0 <= place[1] < len(x[0][0])


def conv(m, x, weights, bias, a):
    oc, per_group, kh, kw = m.tensors[weights][1]
    w = m.floats(weights)
    b = m.floats(bias) if bias else [0.0] * oc
    group = oc // a["group"]
    places = windows(x, a["kernel_shape"], a["strides"], a["pads"], a["dilations"])
    size, out = kh * kw, []
    for o in range(oc):
        first = o // group * per_group
        out.append([[b[o] + sum(w[(o * per_group + c) * size + k] * x[first + c][p[0]][p[1]]
                                for k, p in enumerate(place) if inside(x, p) for c in range(per_group))
                     for place in row] for row in places])
    return out


def pool(x, a, of):
    places = windows(x, a["kernel_shape"], a["strides"], a["pads"])
    return [[[of([channel[r][c] for r, c in place if inside(x, (r, c))], len(place)) for place in row] for row in places] for channel in x]


def each(f, x, *others):
    if isinstance(x, list):
        return [each(f, v, *(o[i] if isinstance(o, list) else o for o in others)) for i, v in enumerate(x)]
    return f(x, *others)


def flat(x):
    return [v for part in x for v in flat(part)] if isinstance(x, list) else [x]


def norm(m, x, names, a):
    gamma, beta, mean, var = map(m.floats, names)
    return [each(lambda v, c=c: (v - mean[c]) / math.sqrt(var[c] + a["epsilon"]) * gamma[c] + beta[c], x[c]) for c in range(len(x))]


def gemm(m, x, names):
    rows, columns = m.tensors[names[0]][1]
    w = m.floats(names[0])
    b = m.floats(names[1]) if len(names) > 1 else [0.0] * rows
    return [b[r] + sum(w[r * columns + c] * x[c] for c in range(columns)) for r in range(rows)]


def compute(m, op, names, values, a):
    x = values[names[0]]
    if op == "Conv":
        return conv(m, x, names[1], names[2] if len(names) > 2 else None, a)
    if op == "Gemm":
        return gemm(m, x, names[1:])
    if op == "BatchNormalization":
        return norm(m, x, names[1:], a)
    if op == "Relu":
        return each(lambda v: max(v, 0.0), x)
    if op == "MaxPool":
        return pool(x, a, lambda v, n: max(v))
    if op == "AveragePool":
        return pool(x, a, lambda v, n: sum(v) / (n if a["count_include_pad"] else len(v)))
    if op == "Flatten":
        return flat(x)
    if op == "Concat":
        return [c for name in names for c in values[name]]
    if op == "LRN":
        half = a["size"] // 2
        return [each(lambda v, *near: v / (a["bias"] + a["alpha"] / a["size"] * sum(q * q for q in near)) ** a["beta"],
                     x[c], *x[max(0, c - half):c + half + 1]) for c in range(len(x))]
    if op in ("Identity", "Cast"):
        return x
    other = values[names[1]] if names[1] in values else m.floats(names[1])  # one number per channel
    act = {"Add": lambda p, q: p + q, "Sub": lambda p, q: p - q, "Div": lambda p, q: p / q}[op]
    if names[1] in values:
        return each(act, x, other)
    return [each(lambda v, q=other[c]: act(v, q), x[c]) for c in range(len(x))]


def read_png(path):
    """[c][h][w] of an 8-bit PNG without filters, as shapes.py makes them."""
    with open(path, "rb") as f:
        data = f.read()
    w, h, _, colour = struct.unpack(">IIBB", data[16:26])
    c, at, packed = 3 if colour == 2 else 1, 8, b""
    while at < len(data):
        (n,) = struct.unpack(">I", data[at:at + 4])
        packed += data[at + 8:at + 8 + n] if data[at + 4:at + 8] == b"IDAT" else b""
        at += n + 12
    rows = zlib.decompress(packed)
    return [[[rows[y * (w * c + 1) + 1 + x * c + k] for x in range(w)] for y in range(h)] for k in range(c)]


def run(path, picture, answers):
    m = Model(path)
    values = {m.input[0]: read_png(picture)}
    if m.input[1] == 1:  # what the metadata says of the input
        mean, std = ([float(v) for v in m.meta[k].split(",")] for k in ("mean", "std"))
        is_unit = "x / 255," in m.meta["input"]
        values[m.input[0]] = [each(lambda v, c=c: v / 255 if is_unit else (v / 255 - mean[c]) / std[c], x)
                              for c, x in enumerate(values[m.input[0]])]
    for op, _, names, outputs, attrs in m.nodes:
        values[outputs[0]] = compute(m, op, names, values, attrs)
    logits = values[m.output[0]]
    total = sum(math.exp(v - max(logits)) for v in logits)
    mine = [math.exp(v - max(logits)) / total for v in logits]
    with open(answers) as f:
        theirs = {g["class"]: g["probability"] for a in json.load(f)["answers"] if a["file"] == picture for g in a["guesses"]}
    assert sorted(theirs) == list(range(len(mine))), f"{len(theirs)} classes of {len(mine)} in {answers}"
    off = max(abs(mine[c] - theirs[c]) for c in theirs)
    assert off < 1e-5, f"probabilities differ by {off}: {mine} and {theirs}"
    print(f"the same probabilities within {off:.1e}")


def show(path):
    m = Model(path)
    print(m.name, m.input, m.output)
    for key in sorted(m.meta):
        print(f"meta {key} = {m.meta[key]}")
    for op, name, inputs, outputs, attrs in m.nodes:
        print(op, name, inputs, outputs, attrs)
    for name in sorted(m.tensors):
        print("tensor", name, m.tensors[name][1])


if __name__ == "__main__":
    {"check": check, "run": run, "show": show}[sys.argv[1]](*sys.argv[2:])
