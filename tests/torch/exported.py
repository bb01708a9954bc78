"""exported.py: exported networks computed by onnxruntime and by PyTorch, against our own. tests/torch/onnx calls it.

    exported.py LOCKSTEP LIBLOCKSTEP [NET]...

A network is trained for a few steps, so that batch norm has statistics, and exported: plainly, with --fold, and with --pixels unit
and bytes. For five random images (and one, for the number of images is free) the error is max|theirs - ours| / max|ours| over all
logits. It must be at most 1e-5. That is relative to the logits' size, for rounding is: one float32 operation errs by 6e-8, and
networks of a hundred layers, summed in another order, were seen to differ by some 1e-6; a wrong padding, epsilon or order of
channels gives 1e-2 and more. Beside it stands how far PyTorch is from us with the same tensors, loaded by name with strict=True.

Exit code 0 if everything held.
"""
import ctypes
import glob
import json
import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
import onnxruntime
import torch
from safetensors import safe_open
from safetensors.torch import load_file

import nets

TOLERANCE, CLASSES = 1e-5, 10
HERE = os.path.dirname(os.path.abspath(__file__))
# name -> image, (optional) its definition in PyTorch
ZOO = {"softmax": ("1x28x28", nets.softmax), "mlp": ("1x28x28", nets.mlp), "lenet5": ("1x28x28", nets.lenet5),
       "svhn-cnn": ("3x32x32", nets.svhn_cnn), "resnet-small": ("3x32x32", nets.resnet_small), "resnet18": ("3x32x32", nets.resnet18),
       "resnet18-224": ("3x224x224", nets.resnet18_224), "alexnet": ("3x224x224", nets.alexnet), "vgg11": ("3x224x224", nets.vgg11),
       "vgg16": ("3x224x224", nets.vgg16)}


def torchvision_net(name):
    """torchvision's own, where it is installed and has the network."""
    try:
        from torchvision import models
    except ImportError:
        return None
    make = {"alexnet": models.alexnet, "vgg11": models.vgg11, "vgg16": models.vgg16, "resnet18-224": models.resnet18,
            "mobilenetv2": models.mobilenet_v2, "densenet121": models.densenet121}
    if name == "googlenet":
        return models.googlenet(num_classes=CLASSES, aux_logits=False, transform_input=False, init_weights=False)
    return make[name](num_classes=CLASSES) if name in make else None


class Options(ctypes.Structure):
    _fields_ = [(n, ctypes.c_char_p) for n in ("what", "device", "isa", "tune")] + [("threads", ctypes.c_int64)]


class Lockstep:
    """ls_classify_logits of the shared library (include/lockstep/classify.h)."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(os.path.abspath(path))
        self.lib.ls_error_message.restype = ctypes.c_char_p

    def check(self, status):
        if status:
            raise RuntimeError(self.lib.ls_error_message().decode())

    def logits(self, run, pixels):
        classifier, out = ctypes.c_void_p(), np.zeros((len(pixels), CLASSES), np.float32)
        self.check(self.lib.ls_classifier_open(ctypes.byref(classifier), ctypes.byref(Options(what=run.encode(), threads=2))))
        self.check(self.lib.ls_classify_logits(classifier, ctypes.c_int64(len(pixels)), pixels.ctypes.data_as(ctypes.c_void_p),
                                               out.ctypes.data_as(ctypes.c_void_p)))
        self.lib.ls_classifier_close(ctypes.byref(classifier))
        return out


def error(theirs, ours):
    return float(np.abs(theirs.astype(np.float64) - ours).max() / np.abs(ours).max())


def run_onnx(path, images):
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    every = session.run(None, {"images": images})[0]
    alone = session.run(None, {"images": images[:1]})[0]
    assert every.shape == (len(images), CLASSES) and alone.shape == (1, CLASSES), (every.shape, alone.shape)
    return every, {p.key: p.value for p in model.metadata_props}, [n.op_type for n in model.graph.node]


def inputs(form, pixels, meta):
    if form == "bytes":
        return pixels
    unit = pixels.astype(np.float32) / np.float32(255)
    if form == "unit":
        return unit
    mean, std = (np.array([float(v) for v in meta[k].split(",")], np.float32).reshape(1, -1, 1, 1) for k in ("mean", "std"))
    return (unit - mean) / std


def torch_error(path, net, images, ours):
    with safe_open(path, "pt") as f:
        assert f.metadata()["format"] == "pt"
    net.load_state_dict(load_file(path), strict=True)
    with torch.no_grad():
        return error(net.eval()(torch.from_numpy(images)).numpy(), ours)


def compare(program, library, folder, name, image, in_torch):
    model = name if name in ZOO or not name.startswith("./") else os.path.join(HERE, "onnx_nets", name[2:] + ".net")
    c, h, w = map(int, image.split("x"))
    run = os.path.join(folder, "run")
    batch = "8" if h > 64 else "16"
    subprocess.run([program, "train", model, f"fake:{image}:{CLASSES}:64", "-b", batch, "-i", "3", "--lr", "0.001", "--no-eval",
                    "-q", "--run", run], check=True, stdout=subprocess.DEVNULL)
    pixels = np.random.default_rng(1).integers(0, 256, (5, c, h, w), np.uint8)
    ours = library.logits(run, pixels)
    errors, ops, meta = {}, [], {}
    for form, fold in (("normalized", False), ("normalized", True), ("unit", True), ("bytes", False)):
        path = os.path.join(folder, "net.onnx")
        subprocess.run([program, "export", run, "--onnx", path, "--force", "--pixels", form, *(["--fold"] if fold else [])], check=True,
                       stdout=subprocess.DEVNULL)
        if not meta:
            meta = {p.key: p.value for p in onnx.load(path).metadata_props}
        theirs, _, used = run_onnx(path, inputs(form, pixels, meta))
        if not fold:
            ops += used
        errors[form + (" folded" if fold else "")] = error(theirs, ours)
    path = os.path.join(folder, "net.safetensors")
    subprocess.run([program, "export", run, "--safetensors", path, "--force"], check=True, stdout=subprocess.DEVNULL)
    images = inputs("normalized", pixels, meta)
    others = [in_torch(CLASSES) if in_torch else None, torchvision_net(name)]
    in_pytorch = [torch_error(path, net, images, ours) for net in others if net]
    subprocess.run(["rm", "-rf", run], check=True)
    return errors, in_pytorch, set(ops)


def main(program, shared, only):
    warnings.filterwarnings("ignore")
    library = Lockstep(shared)
    known = json.loads(subprocess.run([program, "models", "--json"], check=True, stdout=subprocess.PIPE).stdout)["models"]
    every = {m["name"]: (ZOO.get(m["name"], ["x".join(map(str, m["input"]))])[0], ZOO.get(m["name"], (0, None))[1]) for m in known}
    for path in sorted(glob.glob(os.path.join(HERE, "onnx_nets", "*.net"))):
        every["./" + os.path.basename(path)[:-4]] = ("3x20x24", None)
    n_bad, worst, used = 0, 0.0, set()
    print(f"{'network':16} {'plain':>9} {'folded':>9} {'unit':>9} {'bytes':>9}   in PyTorch")
    for name, (image, in_torch) in every.items():
        if only and name not in only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            errors, in_pytorch, ops = compare(program, library, folder, name, image, in_torch)
        used |= ops
        worst = max(worst, *errors.values(), *in_pytorch)
        is_bad = max(*errors.values(), *in_pytorch) > TOLERANCE
        n_bad += is_bad
        print(f"{name:16} " + " ".join(f"{e:9.1e}" for e in errors.values()) + "   " + (", ".join(f"{e:.1e}" for e in in_pytorch) or "-")
              + ("   TOO FAR" if is_bad else ""), flush=True)
    print(f"worst {worst:.1e}, at most {TOLERANCE:.0e} is allowed; operators: {' '.join(sorted(used))}")
    print(f"{n_bad} networks are too far off" if n_bad else "all held")
    return 1 if n_bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
