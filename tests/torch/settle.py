"""settle.py: moves a network and a batch away from the kinks, where gradients cannot be compared.

A gradient jumps where a ReLU's input is zero or two candidates of a max pooling are equal. A network of millions of
activations has always some that are within rounding of such a place; there float32 falls on one side or the other, and one of
them is enough to change a gradient by a percent, in PyTorch (float32 against float64) as anywhere. So before comparing:

  - each channel's bias is shifted a little until no input of its ReLU lies within `margin` of zero;
  - where the two largest values of a pooling window lie within `margin`, the filter of that channel is changed a little.

Layer after layer, in float64, but the parameters stay float32 numbers. `margin` is relative to the channel's root mean square,
and wider where a channel has few values: those layers are deep, where rounding errors have added up.
"""
import torch
from torch import nn


class Restart(Exception):
    """A filter was changed: what was computed after it is void."""


def channels_first(x):
    return x.transpose(0, 1).reshape(x.shape[1], -1)  # [c, all the rest]


def rms(x):
    return channels_first(x).square().mean(1).sqrt().clamp_min(1e-30)


def along(values, x):
    return values.view(1, -1, *([1] * (x.dim() - 2)))


KINKED = (nn.ReLU, nn.ReLU6, nn.LeakyReLU)


def kinks(module, x):
    """[c, all the rest]: distances to the places where the slope changes."""
    values = channels_first(x)
    return torch.cat([values, values - 6], 1) if isinstance(module, nn.ReLU6) else values


def relu_margin(module, x):
    """Per channel: distance of the value nearest to a kink, relative."""
    return kinks(module, x).abs().amin(1) / rms(x)


def pair(value):
    return value if isinstance(value, tuple) else (value, value)


def pool_margin(pool, x):
    """Per channel: distance of the two largest values of a window, relative. Equal ones do not count: they are zeros behind a
    ReLU, or one pixel that an earlier pooling made two of, and its gradient is the same whichever is chosen."""
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = map(pair, (pool.kernel_size, pool.stride, pool.padding, pool.dilation))
    outside = -1e30  # never the second either, in a window of two and more
    more = (sh, sw) if pool.ceil_mode else (0, 0)
    padded = nn.functional.pad(x, (pw, pw + more[1], ph, ph + more[0]), value=outside)
    windows = nn.functional.unfold(padded, (kh, kw), (dh, dw), 0, (sh, sw))
    top = windows.reshape(*x.shape[:2], kh * kw, -1).topk(2, 2).values
    counts = (top[:, :, 0] != top[:, :, 1]) & (top[:, :, 1] > outside / 2)
    gap = torch.where(counts, top[:, :, 0] - top[:, :, 1], torch.inf)
    return channels_first(gap).amin(1) / rms(x)


def widened(margin, x, by=0.1):
    return max(margin, by / (x.numel() // x.shape[1]))


def shift_to_gap(values, half):
    """The smallest shift after which no value lies within `half` of zero."""
    near = values[values.abs() < 1000 * half].sort().values
    ends = near.new_tensor([-1000 * half, 1000 * half])
    near = torch.cat([ends[:1], near, ends[1:]])
    middle, width = (near[1:] + near[:-1]) / 2, near[1:] - near[:-1]
    good = width >= 2.5 * half
    return -middle[good][middle[good].abs().argmin()] if good.any() else values.new_tensor(0.0)


class Settler:
    def __init__(self, net, margin):
        self.margin, self.last, self.filters = margin, None, None
        self.handles = []
        for module in net.modules():
            if hasattr(module, "settle_filters") or isinstance(
                    module, (nn.Conv2d, nn.Linear, nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm)):
                self.handles.append(module.register_forward_hook(self.seen))
            elif isinstance(module, KINKED):
                self.handles.append(module.register_forward_pre_hook(self.before_relu))
            elif isinstance(module, nn.MaxPool2d):
                self.handles.append(module.register_forward_pre_hook(self.before_pool))

    def remove(self):
        for handle in self.handles:
            handle.remove()

    def seen(self, module, inputs, output):
        if hasattr(module, "settle_filters"):  # joins what these make
            self.filters = module.settle_filters
            return
        if module.bias is not None:
            self.last = module
        if isinstance(module, nn.Conv2d):
            self.filters = [module]

    def before_relu(self, module, inputs):
        x = inputs[0]
        scale, margin = rms(x), widened(self.margin, x)
        bad = (relu_margin(module, x) < margin).nonzero().flatten().tolist()
        for c in bad:
            shift = shift_to_gap(kinks(module, x)[c], margin * scale[c].item())
            old = self.last.bias.data[c].item()
            new = torch.tensor(old + shift.item()).float().double().item()
            self.last.bias.data[c] = new
            x[:, c] += new - old
        return (x,)

    def before_pool(self, pool, inputs):
        bad = pool_margin(pool, inputs[0]) < widened(self.margin, inputs[0], 0.01)
        if bad.any():
            for conv, part in zip(self.filters, bad.split([f.out_channels for f in self.filters])):
                weight = conv.weight.data
                weight[part] = (weight[part] * (1 + 0.05 * torch.randn_like(weight[part]))).float().double()
            raise Restart


def settle(net, x, margin, most=200):
    """Changes net (float64, training mode) so that x meets no kink; False if that did not work out."""
    buffers = {k: v.clone() for k, v in net.named_buffers()}
    settler = Settler(net, margin)
    done = False
    with torch.no_grad():
        for _ in range(most):
            try:
                net(x)
                done = True
                break
            except Restart:
                pass
    settler.remove()
    for k, v in net.named_buffers():
        v.copy_(buffers[k])
    return done


class Watch:
    """The smallest margin that a network meets while it is watched."""

    def __init__(self, net):
        self.least = float("inf")
        self.handles = [m.register_forward_pre_hook(self.look) for m in net.modules()
                        if isinstance(m, (*KINKED, nn.MaxPool2d))]

    def look(self, module, inputs):
        x = inputs[0].detach()
        margin = relu_margin(module, x) if isinstance(module, KINKED) else pool_margin(module, x)
        self.least = min(self.least, margin.min().item())

    def remove(self):
        for handle in self.handles:
            handle.remove()
