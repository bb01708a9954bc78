"""Weights made in PyTorch go into Lockstep: torchvision's networks in float32, float16 and bfloat16, evaluated by both.

    init.py LOCKSTEP [NET]...

Pictures are PNG files of 224x224, so that nothing is resized; both sides normalise with ImageNet's constants. PyTorch evaluates in double
precision, with the weights as they were rounded for the file. Loss must agree to 1e-5 and every answer must be the same; so must a checkpoint of
`train --init` in which everything but the last layer is frozen: those weights are the file's to the bit.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy
import torch
from safetensors.torch import load_file, save_file

import nets

NETS = {"resnet18-224": (nets.resnet18_224, "fc"), "alexnet": (nets.alexnet, "classifier.6"), "vgg16": (nets.vgg16, "classifier.6")}
CLASSES, SIDE = 5, 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(pixels):
    """pixels: [224,224,3] bytes"""
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


def make_pictures(folder):
    """Smooth random pictures; returns those of the test split as a batch, in the order of their names."""
    random = numpy.random.default_rng(1)
    images, labels = [], []
    for split, n in (("train", 4), ("test", 3)):
        for label in range(CLASSES):
            path = f"{folder}/{split}/{'abcde'[label]}"
            os.makedirs(path)
            for i in range(n):
                coarse = random.integers(0, 256, (14, 14, 3), dtype=numpy.uint8)
                pixels = numpy.kron(coarse, numpy.ones((16, 16, 1), dtype=numpy.uint8))
                with open(f"{path}/{i}.png", "wb") as file:
                    file.write(png(pixels))
                if split == "test":
                    images.append(pixels.transpose(2, 0, 1))
                    labels.append(label)
    x = torch.tensor(numpy.stack(images), dtype=torch.float64) / 255
    mean, std = (torch.tensor(v, dtype=torch.float64).reshape(1, 3, 1, 1) for v in (MEAN, STD))
    return (x - mean) / std, torch.tensor(labels)


def make_net(make, batch):
    """Random weights whose logits are not all alike, and running statistics of these pictures."""
    torch.manual_seed(3)
    net = make(CLASSES)
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 0.5
        elif isinstance(module, (torch.nn.Conv2d, torch.nn.Linear)):
            torch.nn.init.kaiming_normal_(module.weight)
    net.train()
    with torch.no_grad():
        for _ in range(3):
            net(batch.float())
    return net.eval()


def truth_of(make, state, batch, labels):
    net = make(CLASSES).double().eval()
    net.load_state_dict({k: v.double() if v.is_floating_point() else v for k, v in state.items()})
    with torch.no_grad():
        logits = net(batch)
    return torch.nn.functional.cross_entropy(logits, labels).item(), (logits.argmax(1) == labels).double().mean().item()


def lockstep(program, *args):
    run = subprocess.run([program, *args, "--json"], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{' '.join(args)}: exit code {run.returncode}: {run.stderr}")
    return json.loads(run.stdout)


def check_frozen(program, folder, name, last, file, dtype):
    run = f"{folder}/run"
    lockstep(program, "train", name, f"folder:{folder}", "--init", file, "-b", "10", "-i", "1", "--lr", "0.01", "--no-eval", "--run", run,
             "--freeze", "features.*,classifier.[0-5].*" if last != "fc" else "[!f]*")
    ours, theirs = load_file(f"{run}/checkpoints/latest.safetensors"), load_file(file)
    for key, value in theirs.items():
        if key.endswith("num_batches_tracked"):
            continue
        same = torch.equal(ours[key], value.float())
        if same == key.startswith(last):
            sys.exit(f"{name} {dtype}: {key} is {'frozen though it should train' if same else 'changed though it is frozen'}")
    subprocess.run(["rm", "-rf", run], check=True)


def main():
    program, names = os.path.abspath(sys.argv[1]), sys.argv[2:] or list(NETS)
    with tempfile.TemporaryDirectory() as folder:
        batch, labels = make_pictures(folder)
        for name in names:
            make, last = NETS[name]
            state = make_net(make, batch).state_dict()
            for dtype in (torch.float32, torch.float16, torch.bfloat16):
                rounded = {k: v.to(dtype).contiguous() if v.is_floating_point() else v for k, v in state.items()}
                file = f"{folder}/weights.safetensors"
                save_file(rounded, file)
                loss, accuracy = truth_of(make, rounded, batch, labels)
                ours = lockstep(program, "eval", file, f"folder:{folder}", "--model", name)
                error = abs(ours["loss"] - loss) / max(1, abs(loss))
                print(f"{name:14s} {str(dtype)[6:]:9s} loss {ours['loss']:.7f}, PyTorch {loss:.7f}: {error:.1e}; accuracy {ours['accuracy']:.4f} {accuracy:.4f}", flush=True)
                if error > 1e-5 or abs(ours["accuracy"] - accuracy) > 1e-9:
                    sys.exit("they differ")
                if dtype != torch.float32:
                    check_frozen(program, folder, name, last, file, str(dtype)[6:])


main()
