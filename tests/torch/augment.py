"""augment.py: augmentation against torchvision. compare.py calls it.

The random numbers are ours, drawn once more here (Philox, in Python); what is made of them is torchvision's: its functions get
the same crops, factors, order and shares, and must give the same images.
"""
import math
import subprocess

import torch

SEED, EPOCH, N, SIDE = 11, 3, 24, 40
AUGMENT, MIX = 3, 33  # enum ls_rng_purpose
MASK = 0xFFFFFFFF


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & MASK, (p0 >> 32) ^ c[3] ^ k[1], p0 & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def draw(purpose, sample, block):
    return philox([EPOCH, sample, block & MASK, block >> 32], [SEED ^ (purpose * 0x9E3779B9 & MASK), 0])


def unit(word):
    return (word >> 8) / 2**24


def below(word, n):
    return word * n >> 32


def ours(program, images, labels, **options):
    names = ["flip", "crop", "brightness", "contrast", "saturation", "hue", "erasing", "mixup", "cutmix"]
    args = [*images.shape[1:], len(images), SEED, EPOCH, *(options.get(k, 0) for k in names)]
    out = subprocess.run([program, *map(str, args)], input=images.numpy().tobytes() + labels.numpy().tobytes(), check=True,
                         stdout=subprocess.PIPE).stdout
    n = images.numel()
    pixels = torch.frombuffer(bytearray(out[:4 * n]), dtype=torch.float32).reshape(images.shape)
    rest = bytearray(out[4 * n:])
    return pixels, torch.frombuffer(rest, dtype=torch.int32)[:len(images)], torch.frombuffer(rest, dtype=torch.float32)[len(images):]


def resized_crop(F, image, sample, least):
    _, h, w = image.shape
    for attempt in range(10):
        r = draw(AUGMENT, sample, 16 + attempt)
        area = h * w * (least + (1 - least) * unit(r[0]))
        ratio = math.exp(math.log(4 / 3) * (2 * unit(r[1]) - 1))
        cw, ch = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < cw <= w and 0 < ch <= h:
            return F.resized_crop(image, below(r[2], h - ch + 1), below(r[3], w - cw + 1), ch, cw, [h, w], antialias=True)
    return image


def colours(F, image, sample, strength, hue):
    r, o = draw(AUGMENT, sample, 2), draw(AUGMENT, sample, 3)
    order = [0, 1, 2, 3]
    for i in (3, 2, 1):
        j = below(o[i], i + 1)
        order[i], order[j] = order[j], order[i]
    low = max(0.0, 1 - strength)
    factors = [low + (1 + strength - low) * unit(r[i]) for i in range(3)]
    for k in order:
        if k == 3:
            image = F.adjust_hue(image, hue * (2 * unit(r[3]) - 1))
        else:
            image = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation)[k](image, factors[k])
    return image


def worst(check, what, got, want, tolerance):
    error = (got - want).abs().max().item()
    print(f"augmentation {what:20s} off by {error:.1e} at most", flush=True)
    check(error <= tolerance, f"augmentation {what}: off by {error:.2e}, at most {tolerance:.0e}")


def compare(program, check):
    try:
        import torchvision.transforms.v2.functional as F
    except ImportError:
        print("augmentation: torchvision is not there; skipped")
        return
    generator = torch.Generator().manual_seed(1)
    coarse = torch.rand(N, 3, 5, 5, generator=generator)
    images = (torch.nn.functional.interpolate(coarse, (SIDE, SIDE), mode="bicubic").clamp(0, 1) * 255).to(torch.uint8)
    labels = torch.randint(0, 10, (N,), dtype=torch.uint8, generator=generator)
    floats = images.float() * torch.tensor(1 / 255, dtype=torch.float32)  # as we do, to the bit: cutmix copies
    for least in (0.08, 0.5):
        got, _, _ = ours(program, images, labels, crop=least)
        want = torch.stack([resized_crop(F, x, i, least) for i, x in enumerate(floats)])
        worst(check, f"resized crop {least}", got, want, 1e-5)
    for strength, hue in ((0.4, 0.1), (1.5, 0.5)):
        got, _, _ = ours(program, images, labels, brightness=strength, contrast=strength, saturation=strength, hue=hue)
        want = torch.stack([colours(F, x, i, strength, hue) for i, x in enumerate(floats)])
        worst(check, f"colours {strength} {hue}", got, want, 1e-5)
    got, others, shares = ours(program, images, labels, mixup=0.4)
    partner = floats.reshape(N // 2, 2, 3, SIDE, SIDE).flip(1).reshape(floats.shape)
    share = shares.view(-1, 1, 1, 1)
    worst(check, "mixup", got, share * floats + (1 - share) * partner, 1e-6)
    check(torch.equal(others, labels.reshape(-1, 2).flip(1).reshape(-1).int()), "augmentation mixup: not the partners' labels")
    got, _, shares = ours(program, images, labels, cutmix=1)
    for i in range(N):  # torchvision's rectangle for this share before rounding is not known; what is cut must be one
        cut = (got[i] != floats[i]).any(0)
        check(torch.equal(got[i][:, cut], partner[i][:, cut]), f"augmentation cutmix: sample {i} has pixels of nobody")
        check(abs((1 - shares[i].item()) * SIDE * SIDE - cut.sum().item()) <= 25, f"augmentation cutmix: sample {i}: share")
    print("augmentation cutmix               one rectangle of the partner each", flush=True)
