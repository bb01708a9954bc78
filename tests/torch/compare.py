"""compare.py: Lockstep's networks against PyTorch, with the same weights and the same batch. tests/torch/run calls it.

    compare.py DUMP_GRADIENTS LOCKSTEP [--device NAME] [--truth-on cuda] [--only PART]...

The truth is PyTorch in float64, on the CPU or, quicker for large networks, on a card (--truth-on). The error of a tensor is max|ours - truth| / max|truth|; a network's is that of its worst
tensor, and must be at most 1e-4 for the loss, the logits (evaluation), every parameter's gradient (or three times PyTorch's own
float32 error, where that is more) and, after training steps on the same batch, every parameter and running statistic. The change that those steps made, which is small beside the
parameter, is held against PyTorch's change too, with 1e-2. PyTorch's own float32 error is shown beside ours.

Weights are PyTorch's initial ones, then moved a little (settle.py) so that rounding decides no ReLU and no max pooling.

PARTs: schedules, checkpoints, augmentation, or a network. Exit code 0 if everything held.
"""
import argparse
import copy
import functools
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

import augment
import nets
import settle

TOLERANCE, CHANGE_TOLERANCE, TIMES_TORCH = 1e-4, 1e-2, 3
CLASSES, MEAN, STD = 10, 0.45, 0.25
SGD = {"optimizer": "sgd", "lr": 0.01, "momentum": 0.9, "nesterov": 1, "weight_decay": 5e-4}
PLAIN = {"optimizer": "sgd", "lr": 0.05}
# eps is large: with 1e-8 a gradient that is nearly zero moves its parameter by the whole learning rate, in the direction
# of its rounding error, in PyTorch as here.
ADAMW = {"optimizer": "adamw", "lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-4, "weight_decay": 0.01}
SMOOTH, CLIP = {"label_smoothing": 0.1}, {"clip": 0.5}  # clip: share of the gradient's norm

# network: maker, image, batch, training steps, whether `ref` is fast enough. With more than one step a batch is looked for on
# which the later steps meet no kink either, which takes a small network.
IMAGE = {"28": (1, 28, 28), "32": (3, 32, 32), "64": (3, 64, 64), "224": (3, 224, 224)}
NETS = {
    "softmax": (nets.softmax, "28", 64, 3, True),
    "mlp": (nets.mlp, "28", 64, 3, True),
    "lenet5": (nets.lenet5, "28", 16, 3, True),
    "svhn-cnn": (nets.svhn_cnn, "32", 8, 3, True),
    "resnet-small": (nets.resnet_small, "32", 4, 3, True),
    "resnet18": (nets.resnet18, "32", 8, 1, False),
    "resnet18-224": (nets.resnet18_224, "224", 8, 1, False),
    "alexnet": (nets.alexnet, "224", 8, 1, False),
    "vgg11": (nets.vgg11, "224", 2, 1, False),
    "vgg16": (nets.vgg16, "224", 2, 1, False),
    "mobilenetv2": (nets.mobilenetv2, "64", 8, 1, False),
    "densenet121": (nets.densenet121, "64", 4, 1, False),
    "googlenet": (nets.googlenet, "64", 16, 1, False),
    "layers": (nets.layers, "32", 8, 1, True),
}
FILES = {"layers": os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers.net")}  # not of the zoo
SETTLED, CLEAR, MOST_BATCHES = 2e-5, 5e-6, 100  # margins: at the first step, at later ones
TORCHVISION = {"resnet18-224": "resnet18", "alexnet": "alexnet", "vgg11": "vgg11", "vgg16": "vgg16",
               "mobilenetv2": "mobilenet_v2", "densenet121": "densenet121", "googlenet": "googlenet"}

failures = []
truth_on = "cpu"


def check(good, text):
    if not good:
        failures.append(text)
        print(f"FAIL {text}", flush=True)


def error_of(ours, truth):
    truth = truth.double()
    scale = truth.abs().max().item()
    worst = (ours.double().reshape(truth.shape) - truth).abs().max().item()
    return worst / scale if scale > 0 else (0.0 if worst == 0 else float("inf"))


def gradient_error(name, ours, truths):
    """As error_of, but a gradient that is zero by construction (a shift that the next batch norm takes out again) is held
    against the largest one: 1e-2 of the tolerance there is as good as zero."""
    largest = max(g.abs().max().item() for g in truths.values())
    if truths[name].abs().max().item() > 1e-12 * largest:
        return error_of(ours, truths[name])
    return ours.abs().max().item() / largest * 100


class Worst:
    """The largest error seen, and of what."""

    def __init__(self):
        self.error, self.name = 0.0, "-"

    def add(self, name, error):
        if not error <= self.error:
            self.error, self.name = error, name

    def __str__(self):
        return f"{self.error:.1e}"


# --- PyTorch's side ---


def make_net(name):
    net = NETS[name][0](CLASSES)
    for module in net.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, (nn.GroupNorm, nn.LayerNorm)):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.2, 0.2)
        if isinstance(module, nn.BatchNorm2d):  # the defaults 1, 0, 0, 1 would hide mistakes
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.2, 0.2)
            nn.init.uniform_(module.running_mean, -0.5, 0.5)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
        if name.startswith("vgg") and isinstance(module, nn.Conv2d):  # torchvision's; with the default the signal dies out
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    check_names(name, net)
    return net


def check_names(name, net):
    try:
        import torchvision
    except ImportError:
        return
    if name in TORCHVISION:
        options = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
        with torch.device("meta"):
            theirs = getattr(torchvision.models, TORCHVISION[name])(num_classes=CLASSES, **options).state_dict()
        ours = net.state_dict()
        check({k: v.shape for k, v in theirs.items()} == {k: v.shape for k, v in ours.items()},
              f"{name}: names or shapes are not torchvision's")


def input_of(net, batch):
    like = next(net.parameters())
    return (batch["input"].to(like.device, like.dtype) / 255 - MEAN) / STD


def loss_of(net, batch, smoothing=0.0):
    x = input_of(net, batch)
    return nn.functional.cross_entropy(net(x), batch["labels"].to(x.device).long(), label_smoothing=smoothing)


def gradients_of(net, batch, smoothing):
    """(loss, {name: gradient}) in training mode; the running statistics of `net` are not kept."""
    net = copy.deepcopy(net).train()
    loss = loss_of(net, batch, smoothing)
    loss.backward()
    return loss.detach().cpu(), {k: p.grad.cpu() for k, p in net.named_parameters()}


def logits_of(net, batch):
    net.eval()
    with torch.no_grad():
        return net(input_of(net, batch)).cpu()


def make_optimizer(net, rule):
    if rule["optimizer"] == "adamw":
        return torch.optim.AdamW(net.parameters(), lr=rule["lr"], betas=(rule["beta1"], rule["beta2"]), eps=rule["eps"],
                                 weight_decay=rule["weight_decay"])
    return torch.optim.SGD(net.parameters(), lr=rule["lr"], momentum=rule.get("momentum", 0),
                           nesterov=bool(rule.get("nesterov", 0)), weight_decay=rule.get("weight_decay", 0))


def train(net, batch, rule, steps, smoothing, clip_norm):
    """(parameters and statistics after the steps, smallest margin met after the first one)"""
    net = copy.deepcopy(net).train()
    watch = settle.Watch(net) if steps > 1 else None
    optimizer = make_optimizer(net, rule)
    for step in range(steps):
        if watch and step == 1:
            watch.least = float("inf")
        optimizer.zero_grad()
        loss_of(net, batch, smoothing).backward()
        if clip_norm:
            nn.utils.clip_grad_norm_(net.parameters(), clip_norm)
        optimizer.step()
    return floats_of(net), watch.least if watch else float("inf")


def floats_of(net):
    return {k: v.detach().cpu() for k, v in net.state_dict().items() if v.is_floating_point()}


def draw_batch(name, seed):
    _, image, n, _, _ = NETS[name]
    generator = torch.Generator().manual_seed(seed)
    return {"input": torch.randint(0, 256, (n, *IMAGE[image]), dtype=torch.uint8, generator=generator),
            "labels": torch.randint(0, CLASSES, (n,), dtype=torch.uint8, generator=generator)}


def truth_for(name, rule, smoothing, clip):
    """A settled network, a batch, and what PyTorch makes of them."""
    for seed in range(MOST_BATCHES):
        batch = draw_batch(name, seed)
        net, loss, gradients = settled(name, seed, smoothing)
        norm = sum(g.square().sum().item() for g in gradients.values()) ** 0.5
        after, margin = train(net, batch, rule, NETS[name][3], smoothing, clip * norm)
        if margin >= CLEAR:
            return net, batch, loss, gradients, clip * norm, after
    raise SystemExit(f"{name}: no batch among {MOST_BATCHES} keeps away from the kinks")


@functools.lru_cache(maxsize=2)
def settled(name, seed, smoothing):
    torch.manual_seed(seed)
    net, batch = make_net(name).double().train().to(truth_on), draw_batch(name, seed)
    check(settle.settle(net, input_of(net, batch), SETTLED), f"{name}: could not be moved away from the kinks")
    return net, *gradients_of(net, batch, smoothing)


# --- both ---


def dump(program, folder, settings):
    """Runs our side on folder/in; the opened results."""
    out = os.path.join(folder, "out")
    words = [f"{k}={v!r}" if isinstance(v, float) else f"{k}={v}" for k, v in settings.items()]
    subprocess.run([program, "batch", os.path.join(folder, "in"), out, *words], check=True)
    return safe_open(out, framework="pt")


def compare_gradients(ours, loss, gradients, logits, title):
    row = {"loss": Worst(), "logits": Worst(), "gradient": Worst()}
    row["loss"].add("loss", error_of(ours.get_tensor("loss"), loss))
    row["logits"].add("logits", error_of(ours.get_tensor("logits"), logits))
    names = {k[len("gradient."):] for k in ours.keys() if k.startswith("gradient.")}
    check(names == set(gradients), f"{title}: parameters {sorted(names ^ set(gradients))} are on one side only")
    for name in names & set(gradients):
        error = gradient_error(name, ours.get_tensor("gradient." + name), gradients)
        row["gradient"].add(name, error)
    return row


def compare_training(ours, truth, before):
    row = {"after": Worst(), "change": Worst()}
    for name, want in truth.items():
        got = ours.get_tensor("after." + name).double()
        row["after"].add(name, error_of(got, want))
        row["change"].add(name, error_of(got - before[name].double(), want - before[name].double()))
    return row


def judge(title, row, own, note=""):
    """own: PyTorch's float32 error. A network that amplifies rounding does so to both (GoogLeNet's last batch norms over 2x2 pixels)."""
    cells = " ".join(f"{row[k]!s:>9}" for k in ("loss", "logits", "gradient", "after", "change"))
    print(f"{title:56s} {cells}  {note}{row['gradient'].name}", flush=True)
    for key, value in row.items():
        limit = CHANGE_TOLERANCE if key == "change" else max(TOLERANCE, TIMES_TORCH * own) if key == "gradient" else TOLERANCE
        check(value.error <= limit, f"{title}: {key} of {value.name} is off by {value.error:.2e}, at most {limit:.0e}")


def variants(name, device):
    """(device, shards, optimizer, settings besides) of every run of a network: on `device`, and beside cpu on `ref`."""
    small, has_norm = NETS[name][4], any(k in name for k in ("resnet", "mobilenet", "densenet", "googlenet"))
    has_ref = device == "cpu"
    yield device, 1, SGD, {}
    if name == "googlenet" and has_ref:  # `ref` sums in double: what is left of its error is not rounding
        yield "ref", 1, SGD, {}
    if small:
        yield device, 1, ADAMW, SMOOTH
        yield device, 1, PLAIN, CLIP
    if small and has_ref:
        yield "ref", 1, SGD, {}
        yield "ref", 1, ADAMW, {**SMOOTH, **CLIP}
    if not has_norm:  # with batch norm every shard has statistics of its own, which PyTorch has not
        yield device, 3 if small else 2, SGD, {**SMOOTH, **CLIP} if small else {}


def torch_error(net, batch, gradients, smoothing):
    """How far PyTorch itself is off in float32."""
    own = Worst()
    for k, g in gradients_of(copy.deepcopy(net).float().cpu(), batch, smoothing)[1].items():
        own.add(k, gradient_error(k, g, gradients))
    return own


def compare_net(name, where, program, folder):
    for device, shards, rule, extra in variants(name, where):
        smoothing = extra.get("label_smoothing", 0.0)
        net, batch, loss, gradients, clip_norm, after = truth_for(name, rule, smoothing, extra.get("clip", 0.0))
        before = {k: v.float() for k, v in floats_of(net).items()}
        save_file({**before, **batch}, os.path.join(folder, "in"))
        settings = {"model": FILES.get(name, name), "device": device, "classes": CLASSES, "shards": shards, "mean": MEAN, "std": STD,
                    "label_smoothing": smoothing, "clip_norm": clip_norm, "steps": NETS[name][3], **rule}
        title = f"{name} {device} n={len(batch['labels'])} shards={shards} {rule['optimizer']}" + "".join(
            f" {k}" for k in extra)
        with dump(program, folder, settings) as ours:
            row = {**compare_gradients(ours, loss, gradients, logits_of(net, batch), title),
                   **compare_training(ours, after, before)}
        net.train()
        own, least = torch_error(net, batch, gradients, smoothing), min(g.abs().max().item() for g in gradients.values())
        judge(title, row, own.error, "" if extra else f"PyTorch's float32 {own}, smallest gradient {least:.1e}; ")


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
    parser.add_argument("--device", default="cpu", help="what computes our side of the networks: cpu, ref, cuda")
    parser.add_argument("--truth-on", default="cpu", help="what computes PyTorch's float64: cpu, cuda")
    parser.add_argument("--only", action="append", metavar="PART")
    args = parser.parse_args()
    global truth_on
    truth_on = args.truth_on
    known = {"schedules", "checkpoints", "augmentation", *NETS}
    if args.only and not set(args.only) <= known:
        parser.error(f"parts are {', '.join(sorted(known))}")
    warnings.filterwarnings("ignore", category=UserWarning, module="torch.optim.lr_scheduler")
    parts = args.only or ["schedules", "checkpoints", "augmentation", *NETS]
    with tempfile.TemporaryDirectory() as folder:
        if "schedules" in parts:
            compare_schedules(args.dump_gradients)
        if "augmentation" in parts:
            augment.compare(os.path.join(os.path.dirname(args.dump_gradients), "dump_augmented"), check)
        if "checkpoints" in parts:
            compare_checkpoint(args.lockstep, args.dump_gradients, folder, "lenet5", nets.lenet5(10), 200)
            compare_checkpoint(args.lockstep, args.dump_gradients, folder, "resnet-small", nets.resnet_small(10, 1), 10)
        if set(parts) & set(NETS):
            print(f"\n{'errors against PyTorch in float64':56s} {'loss':>9} {'logits':>9} {'gradient':>9} {'after':>9} "
                  f"{'change':>9}  worst gradient")
        for name in parts:
            if name in NETS:
                compare_net(name, args.device, args.dump_gradients, folder)
    print(f"\n{len(failures)} failure(s)" if failures else "\neverything within tolerance")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
