"""nets.py: the zoo in PyTorch, by hand, with torchvision's parameter names where it has the network."""
import torch
from torch import nn


class Chain(nn.Module):
    """Layers one after another; (name, layer) for those whose parameters have a name."""

    def __init__(self, *layers):
        super().__init__()
        self.steps = []
        for layer in layers:
            name, module = layer if isinstance(layer, tuple) else (f"step{len(self.steps)}", layer)
            self.add_module(name, module)
            self.steps.append(name)

    def forward(self, x):
        for step in self.steps:
            x = getattr(self, step)(x)
        return x


def softmax(classes):
    return Chain(nn.Flatten(), ("fc", nn.Linear(784, classes)))


def mlp(classes):
    return Chain(nn.Flatten(), ("fc1", nn.Linear(784, 512)), nn.ReLU(), ("fc2", nn.Linear(512, classes)))


def lenet5(classes):
    return Chain(("conv1", nn.Conv2d(1, 6, 5, padding=2)), nn.ReLU(), nn.MaxPool2d(2), ("conv2", nn.Conv2d(6, 16, 5)), nn.ReLU(),
                 nn.MaxPool2d(2), nn.Flatten(), ("fc1", nn.Linear(400, 120)), nn.ReLU(), ("fc2", nn.Linear(120, 84)), nn.ReLU(),
                 ("fc3", nn.Linear(84, classes)))


def svhn_cnn(classes):
    return Chain(("conv1", nn.Conv2d(3, 6, 5)), nn.ReLU(), nn.MaxPool2d(2), ("conv2", nn.Conv2d(6, 16, 5, padding=2)), nn.ReLU(),
                 nn.MaxPool2d(2), nn.Flatten(), ("fc1", nn.Linear(784, 64)), nn.ReLU(), ("fc2", nn.Linear(64, classes)))


def alexnet(classes):
    features = nn.Sequential(
        nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(),
        nn.MaxPool2d(3, 2), nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(), nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2))
    classifier = nn.Sequential(
        nn.Dropout(), nn.Linear(9216, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(),
        nn.Linear(4096, classes))
    return Chain(("features", features), nn.AdaptiveAvgPool2d(6), nn.Flatten(), ("classifier", classifier))


def vgg(plan, classes):
    layers, channels = [], 3
    for out in plan:
        if out == "pool":
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(channels, out, 3, padding=1), nn.ReLU()]
            channels = out
    classifier = nn.Sequential(
        nn.Linear(25088, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(),
        nn.Linear(4096, classes))
    return Chain(("features", nn.Sequential(*layers)), nn.AdaptiveAvgPool2d(7), nn.Flatten(), ("classifier", classifier))


def vgg11(classes):
    return vgg([64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool", 512, 512, "pool"], classes)


def vgg16(classes):
    return vgg([64, 64, "pool", 128, 128, "pool", 256, 256, 256, "pool", 512, 512, 512, "pool", 512, 512, 512, "pool"],
               classes)


class Block(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.relu1, self.relu2 = nn.ReLU(), nn.ReLU()
        self.downsample = None
        if stride != 1:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x)))))
        return self.relu2(y + (self.downsample(x) if self.downsample else x))


def resnet(stem, widths, blocks, classes):
    layers, channels = [], widths[0]
    for i, out in enumerate(widths):
        stage = [Block(channels if k == 0 else out, out, 2 if k == 0 and i > 0 else 1) for k in range(blocks)]
        layers.append((f"layer{i + 1}", nn.Sequential(*stage)))
        channels = out
    return Chain(*stem, *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), ("fc", nn.Linear(channels, classes)))


def small_stem(width, channels=3):
    return [("conv1", nn.Conv2d(channels, width, 3, 1, 1, bias=False)), ("bn1", nn.BatchNorm2d(width)), nn.ReLU()]


def resnet18(classes):
    return resnet(small_stem(64), [64, 128, 256, 512], 2, classes)


def resnet18_224(classes):
    stem = [("conv1", nn.Conv2d(3, 64, 7, 2, 3, bias=False)), ("bn1", nn.BatchNorm2d(64)), nn.ReLU(),
            nn.MaxPool2d(3, 2, 1)]
    return resnet(stem, [64, 128, 256, 512], 2, classes)


def resnet_small(classes, channels=3):
    return resnet(small_stem(16, channels), [16, 32, 64, 128], 1, classes)


class Inverted(nn.Module):
    def __init__(self, channels, out, stride, expand):
        super().__init__()
        wide = channels * expand
        layers = [unit6(channels, wide, 1)] if expand > 1 else []
        layers += [unit6(wide, wide, 3, stride, wide), nn.Conv2d(wide, out, 1, bias=False), nn.BatchNorm2d(out)]
        self.conv, self.is_residual = nn.Sequential(*layers), stride == 1 and channels == out

    def forward(self, x):
        return x + self.conv(x) if self.is_residual else self.conv(x)


def unit6(channels, out, kernel, stride=1, groups=1):
    return nn.Sequential(nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False),
                         nn.BatchNorm2d(out), nn.ReLU6())


def mobilenetv2(classes):
    layers, channels = [unit6(3, 32, 3, 2), Inverted(32, 16, 1, 1)], 16
    for out, n, stride in [(24, 2, 2), (32, 3, 2), (64, 4, 2), (96, 3, 1), (160, 3, 2), (320, 1, 1)]:
        for k in range(n):
            layers.append(Inverted(channels, out, stride if k == 0 else 1, 6))
            channels = out
    layers.append(unit6(320, 1280, 1))
    return Chain(("features", nn.Sequential(*layers)), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                 ("classifier", nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))))


class DenseLayer(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm1, self.relu1, self.conv1 = nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, 128, 1, bias=False)
        self.norm2, self.relu2, self.conv2 = nn.BatchNorm2d(128), nn.ReLU(), nn.Conv2d(128, 32, 3, padding=1, bias=False)

    def forward(self, x):
        y = self.conv2(self.relu2(self.norm2(self.conv1(self.relu1(self.norm1(x))))))
        return torch.cat([x, y], 1)


def densenet121(classes):
    features = [("conv0", nn.Conv2d(3, 64, 7, 2, 3, bias=False)), ("norm0", nn.BatchNorm2d(64)), nn.ReLU(),
                nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for i, n in enumerate([6, 12, 24, 16], 1):
        features.append((f"denseblock{i}", Chain(*((f"denselayer{k + 1}", DenseLayer(channels + 32 * k)) for k in range(n)))))
        channels += 32 * n
        if i < 4:
            features.append((f"transition{i}", Chain(("norm", nn.BatchNorm2d(channels)), nn.ReLU(),
                                                     ("conv", nn.Conv2d(channels, channels // 2, 1, bias=False)),
                                                     nn.AvgPool2d(2))))
            channels //= 2
    features += [("norm5", nn.BatchNorm2d(channels)), nn.ReLU()]
    return Chain(("features", Chain(*features)), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                 ("classifier", nn.Linear(channels, classes)))


def unit(channels, out, kernel=1, stride=1):
    return Chain(("conv", nn.Conv2d(channels, out, kernel, stride, kernel // 2, bias=False)),
                 ("bn", nn.BatchNorm2d(out, eps=0.001)), nn.ReLU())


class Inception(nn.Module):
    def __init__(self, channels, one, reduce3, three, reduce5, five, pooled):
        super().__init__()
        self.branch1 = unit(channels, one)
        self.branch2 = nn.Sequential(unit(channels, reduce3), unit(reduce3, three, 3))
        self.branch3 = nn.Sequential(unit(channels, reduce5), unit(reduce5, five, 3))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, 1, ceil_mode=True), unit(channels, pooled))
        self.settle_filters = [self.branch1.conv, self.branch2[1].conv, self.branch3[1].conv, self.branch4[1].conv]

    def forward(self, x):
        pooled = self.branch4(x)  # first: settle.py changes the filters it saw last where pooling finds two alike
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), pooled], 1)


def googlenet(classes):
    def pool(kernel=3):
        return nn.MaxPool2d(kernel, 2, ceil_mode=True)

    return Chain(("conv1", unit(3, 64, 7, 2)), pool(), ("conv2", unit(64, 64)), ("conv3", unit(64, 192, 3)), pool(),
                 ("inception3a", Inception(192, 64, 96, 128, 16, 32, 32)),
                 ("inception3b", Inception(256, 128, 128, 192, 32, 96, 64)), pool(),
                 ("inception4a", Inception(480, 192, 96, 208, 16, 48, 64)),
                 ("inception4b", Inception(512, 160, 112, 224, 24, 64, 64)),
                 ("inception4c", Inception(512, 128, 128, 256, 24, 64, 64)),
                 ("inception4d", Inception(512, 112, 144, 288, 32, 64, 64)),
                 ("inception4e", Inception(528, 256, 160, 320, 32, 128, 128)), pool(2),
                 ("inception5a", Inception(832, 256, 160, 320, 32, 128, 128)),
                 ("inception5b", Inception(832, 384, 192, 384, 48, 128, 128)), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                 nn.Dropout(0.2), ("fc", nn.Linear(1024, classes)))


class PixelNorm(nn.LayerNorm):
    """Over the channels of each pixel, as torchvision's LayerNorm2d."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def layers(classes):
    """tests/torch/layers.net: what no network of the zoo has."""
    return Chain(("c1", nn.Conv2d(3, 12, 3, padding=1)), ("g1", nn.GroupNorm(3, 12)), nn.GELU(),
                 ("c2", nn.Conv2d(12, 24, 3, 2, 1, groups=12)), ("l1", PixelNorm(24)), nn.SiLU(),
                 nn.MaxPool2d(3, 2, ceil_mode=True), ("c3", nn.Conv2d(24, 17, 3, padding=2, dilation=2, groups=1)), nn.Sigmoid(),
                 nn.MaxPool2d(2, 1, dilation=2), ("c4", nn.Conv2d(17, 18, (1, 3), padding=(0, 1))),
                 ("g2", nn.GroupNorm(6, 18)), nn.Hardswish(),
                 nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False), ("c5", nn.Conv2d(18, 18, 3, padding=1)),
                 nn.LeakyReLU(0.1), ("l2", nn.LayerNorm([18, 4, 4])), nn.AvgPool2d(2, 3, 1, ceil_mode=True),
                 nn.AdaptiveAvgPool2d(3), nn.GELU("tanh"), nn.Flatten(), ("f1", nn.Linear(162, 40)), ("l3", nn.LayerNorm(40)),
                 nn.Tanh(), ("f2", nn.Linear(40, classes)))
