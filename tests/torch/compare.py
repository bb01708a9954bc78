"""compare.py: Lockstep's networks against PyTorch, with the same weights and the same batch. tests/torch/run calls it.

    compare.py DUMP_GRADIENTS LOCKSTEP [--only PART]...

The truth is PyTorch in float64. The error of a tensor is max|ours - truth| / max|truth|; a network's is that of its worst
tensor, and must be at most 1e-4 for the loss, the logits (evaluation), every parameter's gradient and, after three training
steps on the same batch, every parameter and running statistic. The change that those steps made, which is small beside the
parameter, is held against PyTorch's change too, with 1e-2. PyTorch's own float32 error is shown beside ours.

PARTs: schedules, checkpoints, or a network. Exit code 0 if everything held.
"""
import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile
import warnings

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn
from torch.optim import lr_scheduler

import nets

TOLERANCE, CHANGE_TOLERANCE = 1e-4, 1e-2
CLASSES, MEAN, STD = 10, 0.45, 0.25
SGD = {"optimizer": "sgd", "lr": 0.01, "momentum": 0.9, "nesterov": 1, "weight_decay": 5e-4}
PLAIN = {"optimizer": "sgd", "lr": 0.05}
# eps is large: with 1e-8 a gradient that is nearly zero moves its parameter by the whole learning rate, in the direction
# of its rounding error, in PyTorch as here.
ADAMW = {"optimizer": "adamw", "lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-4, "weight_decay": 0.01}
SMOOTH, CLIP = {"label_smoothing": 0.1}, {"clip": 0.5}  # clip: share of the gradient's norm

# network: maker, image, batch, batch for ref or 0, [(shards, what else)] on cpu besides the first
IMAGE = {"28": (1, 28, 28), "32": (3, 32, 32), "224": (3, 224, 224)}
NETS = {
    "softmax": (nets.softmax, "28", 64, 64, True),
    "mlp": (nets.mlp, "28", 64, 64, True),
    "lenet5": (nets.lenet5, "28", 64, 64, True),
    "svhn-cnn": (nets.svhn_cnn, "32", 32, 32, True),
    "resnet-small": (nets.resnet_small, "32", 16, 8, False),
    "resnet18": (nets.resnet18, "32", 8, 0, False),
    "resnet18-224": (nets.resnet18_224, "224", 8, 0, False),
    "alexnet": (nets.alexnet, "224", 8, 0, True),
    "vgg11": (nets.vgg11, "224", 4, 0, True),
    "vgg16": (nets.vgg16, "224", 2, 0, True),
}
LARGE = {"vgg11", "vgg16"}  # fewer variants
TORCHVISION = {"resnet18-224": "resnet18", "alexnet": "alexnet", "vgg11": "vgg11", "vgg16": "vgg16"}

failures = []


def check(good, text):
    if not good:
        failures.append(text)
        print(f"FAIL {text}", flush=True)


def error_of(ours, truth):
    truth = truth.double()
    scale = truth.abs().max().item()
    worst = (ours.double().reshape(truth.shape) - truth).abs().max().item()
    return worst / scale if scale > 0 else (0.0 if worst == 0 else float("inf"))


class Worst:
    """The largest error seen, and of what."""

    def __init__(self):
        self.error, self.name = 0.0, "-"

    def add(self, name, error):
        if not error <= self.error:
            self.error, self.name = error, name

    def __format__(self, spec):
        return f"{self.error:.1e}"


# --- PyTorch's side ---


def make_net(name, maker):
    torch.manual_seed(1)
    net = maker(CLASSES)
    for module in net.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, nn.BatchNorm2d):  # the defaults 1, 0, 0, 1 would hide mistakes
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.2, 0.2)
            nn.init.uniform_(module.running_mean, -0.5, 0.5)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
    check_names(name, net)
    return net


def check_names(name, net):
    try:
        import torchvision
    except ImportError:
        return
    if name in TORCHVISION:
        with torch.device("meta"):
            theirs = getattr(torchvision.models, TORCHVISION[name])(num_classes=CLASSES).state_dict()
        ours = net.state_dict()
        check({k: v.shape for k, v in theirs.items()} == {k: v.shape for k, v in ours.items()},
              f"{name}: names or shapes are not torchvision's")


def loss_of(net, batch, smoothing=0.0):
    dtype = next(net.parameters()).dtype
    x = (batch["input"].to(dtype) / 255 - MEAN) / STD
    return nn.functional.cross_entropy(net(x), batch["labels"].long(), label_smoothing=smoothing)


def gradients_of(net, batch, smoothing):
    """(loss, {name: gradient}) in training mode; the running statistics of `net` are not kept."""
    net = copy.deepcopy(net).train()
    loss = loss_of(net, batch, smoothing)
    loss.backward()
    return loss.detach(), {k: p.grad for k, p in net.named_parameters()}


def logits_of(net, batch):
    net.eval()
    with torch.no_grad():
        return net((batch["input"].double() / 255 - MEAN) / STD)


def make_optimizer(net, rule):
    if rule["optimizer"] == "adamw":
        return torch.optim.AdamW(net.parameters(), lr=rule["lr"], betas=(rule["beta1"], rule["beta2"]), eps=rule["eps"],
                                 weight_decay=rule["weight_decay"])
    return torch.optim.SGD(net.parameters(), lr=rule["lr"], momentum=rule.get("momentum", 0),
                           nesterov=bool(rule.get("nesterov", 0)), weight_decay=rule.get("weight_decay", 0))


def train(net, batch, rule, steps, smoothing, clip_norm):
    net = copy.deepcopy(net).train()
    optimizer = make_optimizer(net, rule)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(net, batch, smoothing).backward()
        if clip_norm:
            nn.utils.clip_grad_norm_(net.parameters(), clip_norm)
        optimizer.step()
    return {k: v for k, v in net.state_dict().items() if v.is_floating_point()}


# --- both ---


def dump(program, folder, settings):
    """Runs our side on folder/in; the opened results."""
    out = os.path.join(folder, "out")
    words = [f"{k}={v!r}" if isinstance(v, float) else f"{k}={v}" for k, v in settings.items()]
    subprocess.run([program, "batch", os.path.join(folder, "in"), out, *words], check=True)
    return safe_open(out, framework="pt")


def compare_gradients(ours, truth, title):
    loss, gradients, logits = truth
    row = {"loss": Worst(), "logits": Worst(), "gradient": Worst()}
    row["loss"].add("loss", error_of(ours.get_tensor("loss"), loss))
    row["logits"].add("logits", error_of(ours.get_tensor("logits"), logits))
    names = {k[len("gradient."):] for k in ours.keys() if k.startswith("gradient.")}
    check(names == set(gradients), f"{title}: parameters {sorted(names ^ set(gradients))} are on one side only")
    for name in names & set(gradients):
        error = error_of(ours.get_tensor("gradient." + name), gradients[name])
        row["gradient"].add(name, error)
    return row


def compare_training(ours, truth, before):
    row = {"after": Worst(), "change": Worst()}
    for name, want in truth.items():
        got = ours.get_tensor("after." + name).double()
        row["after"].add(name, error_of(got, want))
        row["change"].add(name, error_of(got - before[name].double(), want - before[name].double()))
    return row


def judge(title, row, note=""):
    cells = " ".join(f"{row[k]:>9}" if k in row else " " * 9 for k in ("loss", "logits", "gradient", "after", "change"))
    worst = row.get("gradient", row.get("after"))
    print(f"{title:44s} {cells}  {note}{worst.name}", flush=True)
    for key, value in row.items():
        limit = CHANGE_TOLERANCE if key == "change" else TOLERANCE
        check(value.error <= limit, f"{title}: {key} of {value.name} is off by {value.error:.2e}, at most {limit:.0e}")


def variants(name):
    """(device, shards, optimizer, settings besides) of every run of a network."""
    _, _, _, ref_batch, can_shard = NETS[name]
    yield "cpu", 1, SGD, {}
    if name not in LARGE:
        yield "cpu", 1, ADAMW, SMOOTH
        yield "cpu", 1, PLAIN, CLIP
    if can_shard:  # with batch norm every shard has statistics of its own, which PyTorch has not
        yield "cpu", 2 if name in LARGE else 3, SGD, {**SMOOTH, **CLIP}
    if ref_batch:
        yield "ref", 1, SGD, {}
        yield "ref", 1, ADAMW, {**SMOOTH, **CLIP}


def compare_net(name, program, folder):
    maker, image, batch_size, ref_batch, _ = NETS[name]
    net = make_net(name, maker)
    weights = {k: v for k, v in net.state_dict().items() if v.is_floating_point()}
    generator = torch.Generator().manual_seed(2)
    batch = {
        "input": torch.randint(0, 256, (batch_size, *IMAGE[image]), dtype=torch.uint8, generator=generator),
        "labels": torch.randint(0, CLASSES, (batch_size,), dtype=torch.uint8, generator=generator),
    }
    before = {k: v.clone() for k, v in weights.items()}
    net32, net64 = net, copy.deepcopy(net).double()
    known = {}
    for device, shards, rule, extra in variants(name):
        n = ref_batch if device == "ref" else batch_size
        cut = {k: v[:n].contiguous() for k, v in batch.items()}
        save_file({**weights, **cut}, os.path.join(folder, "in"))
        smoothing, steps = extra.get("label_smoothing", 0.0), 1 if name in LARGE else 3
        key = (n, smoothing)
        if key not in known:
            known[key] = (*gradients_of(net64, cut, smoothing), logits_of(net64, cut))
        truth = known[key]
        norm = sum(g.square().sum().item() for g in truth[1].values()) ** 0.5
        clip_norm = extra.get("clip", 0.0) * norm
        note = ""
        if (device, shards, rule) == ("cpu", 1, SGD):
            own = Worst()
            for k, g in gradients_of(net32, cut, smoothing)[1].items():
                own.add(k, error_of(g, truth[1][k]))
            least = min((g.abs().max().item(), k) for k, g in truth[1].items())
            note = f"(PyTorch f32: {own}; smallest gradient {least[0]:.1e}) "
        settings = {"model": name, "device": device, "classes": CLASSES, "shards": shards, "mean": MEAN, "std": STD,
                    "label_smoothing": smoothing, "clip_norm": clip_norm, "steps": steps, **rule}
        after = train(net64, cut, rule, steps, smoothing, clip_norm)
        with dump(program, folder, settings) as ours:
            title = f"{name} {device} batch={n} shards={shards} {rule['optimizer']}" + "".join(f" {k}" for k in extra)
            row = {**compare_gradients(ours, truth, title), **compare_training(ours, after, before)}
        judge(title, row, note)


# --- learning rates ---


def torch_rates(make, steps, per_epoch=1, lr=0.1):
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=lr)
    scheduler = make(optimizer)
    rates = []
    for step in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if (step + 1) % per_epoch == 0 and step + 1 < steps:
            scheduler.step()
    return rates


def warmup_then(optimizer, warmup, after):
    first = lr_scheduler.LinearLR(optimizer, start_factor=1 / warmup, total_iters=warmup - 1)
    return lr_scheduler.SequentialLR(optimizer, [first, after], milestones=[warmup])


def compare_schedules(program):
    cases = [
        ("step", {"step_epochs": 3, "gamma": 0.3}, 10, lambda o: lr_scheduler.StepLR(o, 3, 0.3)),
        ("multistep", {"milestones": "2,5,6", "gamma": 0.1}, 10, lambda o: lr_scheduler.MultiStepLR(o, [2, 5, 6], 0.1)),
        ("cosine", {"min_lr": 0.002}, 1, lambda o: lr_scheduler.CosineAnnealingLR(o, 100, 0.002)),
        ("cosine", {"warmup_epochs": 2.0}, 1,
         lambda o: warmup_then(o, 20, lr_scheduler.CosineAnnealingLR(o, 80))),
        ("onecycle", {}, 1, lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=100)),
        ("constant", {}, 1, lambda o: lr_scheduler.ConstantLR(o, 1.0)),
    ]
    for kind, extra, per_epoch, make in cases:
        settings = {"kind": kind, "lr": 0.1, "steps_per_epoch": 10, "total_steps": 100, **extra}
        out = subprocess.run([program, "schedule", *(f"{k}={v}" for k, v in settings.items())], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
        ours, theirs = [float(x) for x in out.split()], torch_rates(make, 100, per_epoch)
        check(len(ours) == len(theirs), f"schedule {kind}: {len(ours)} rates instead of {len(theirs)}")
        step, error = max(((i, abs(a - b)) for i, (a, b) in enumerate(zip(ours, theirs))), key=lambda p: p[1])
        print(f"schedule {kind:10s} {' '.join(f'{k}={v}' for k, v in extra.items()):26s} off by {error:.1e} at most",
              flush=True)
        check(error <= 1e-12, f"schedule {kind} {extra}: step {step}: {ours[step]} instead of {theirs[step]}")


# --- checkpoints ---


def test_split(program, folder, spec):
    out = os.path.join(folder, "data")
    subprocess.run([program, "data", spec, out], check=True)
    data = load_file(out)
    shape = (1, -1, 1, 1)
    x = (data["input"].float() / 255 - data["mean"].view(shape)) / data["std"].view(shape)
    return x, data["labels"].long()


def compare_checkpoint(lockstep, program, folder, name, net, iterations):
    """A checkpoint of a short training loads into PyTorch and judges the test images as Lockstep does."""
    run = os.path.join(folder, "run-" + name)
    out = subprocess.run([lockstep, "train", name, "digits", "--iterations", str(iterations), "--run", run, "--json",
                          "--quiet"], check=True, text=True, stdout=subprocess.PIPE).stdout
    result = json.loads(out)
    state = load_file(os.path.join(run, "checkpoints", "latest.safetensors"))
    missing, unexpected = net.load_state_dict(state, strict=False)
    check(not missing, f"{name}: the checkpoint lacks {missing}")
    strange = [k for k in unexpected if not k.startswith("optimizer.")]
    check(not strange, f"{name}: PyTorch's network has no {strange}")
    x, labels = test_split(program, folder, "digits")
    with torch.no_grad():
        logits = torch.cat([net.eval()(part) for part in x.split(500)])
    loss = nn.functional.cross_entropy(logits, labels).item()
    right = (logits.argmax(1) == labels).sum().item()
    ours = round(result["test_accuracy"] * len(labels))
    print(f"checkpoint {name}: {right} of {len(labels)} right in PyTorch, {ours} here; loss {loss:.6f}, here "
          f"{result['test_loss']:.6f}", flush=True)
    check(abs(right - ours) <= 2, f"{name}: accuracy {right} in PyTorch, {ours} here")
    check(abs(loss - result["test_loss"]) <= TOLERANCE * loss, f"{name}: loss {loss} in PyTorch, {result['test_loss']} here")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dump_gradients")
    parser.add_argument("lockstep")
    parser.add_argument("--only", action="append", metavar="PART")
    args = parser.parse_args()
    known = {"schedules", "checkpoints", *NETS}
    if args.only and not set(args.only) <= known:
        parser.error(f"parts are {', '.join(sorted(known))}")
    warnings.filterwarnings("ignore", category=UserWarning, module="torch.optim.lr_scheduler")
    parts = args.only or ["schedules", "checkpoints", *NETS]
    with tempfile.TemporaryDirectory() as folder:
        if "schedules" in parts:
            compare_schedules(args.dump_gradients)
        if "checkpoints" in parts:
            compare_checkpoint(args.lockstep, args.dump_gradients, folder, "lenet5", nets.lenet5(10), 200)
            compare_checkpoint(args.lockstep, args.dump_gradients, folder, "resnet-small", nets.resnet_small(10, 1), 10)
        print(f"\n{'errors against PyTorch in float64':44s} {'loss':>9} {'logits':>9} {'gradient':>9} {'after':>9} {'change':>9}"
              "  worst gradient")
        for name in parts:
            if name in NETS:
                compare_net(name, args.dump_gradients, folder)
    print(f"\n{len(failures)} failure(s)" if failures else "\neverything within tolerance")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
