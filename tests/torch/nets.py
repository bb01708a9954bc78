"""nets.py: the zoo in PyTorch, by hand, with torchvision's parameter names where it has the network."""
import torch
from torch import nn


class Chain(nn.Module):
    """Named layers one after another; those without parameters are given as functions."""

    def __init__(self, *layers):
        super().__init__()
        self.steps = []
        for layer in layers:
            if isinstance(layer, tuple):
                self.add_module(*layer)
                self.steps.append(layer[0])
            else:
                self.steps.append(layer)

    def forward(self, x):
        for step in self.steps:
            x = getattr(self, step)(x) if isinstance(step, str) else step(x)
        return x


def flatten(x):
    return torch.flatten(x, 1)


def pool(kernel, stride=None):
    return lambda x: nn.functional.max_pool2d(x, kernel, stride)


def softmax(classes):
    return Chain(flatten, ("fc", nn.Linear(784, classes)))


def mlp(classes):
    return Chain(flatten, ("fc1", nn.Linear(784, 512)), torch.relu, ("fc2", nn.Linear(512, classes)))


def lenet5(classes):
    return Chain(("conv1", nn.Conv2d(1, 6, 5, padding=2)), torch.relu, pool(2), ("conv2", nn.Conv2d(6, 16, 5)), torch.relu,
                 pool(2), flatten, ("fc1", nn.Linear(400, 120)), torch.relu, ("fc2", nn.Linear(120, 84)), torch.relu,
                 ("fc3", nn.Linear(84, classes)))


def svhn_cnn(classes):
    return Chain(("conv1", nn.Conv2d(3, 6, 5)), torch.relu, pool(2), ("conv2", nn.Conv2d(6, 16, 5, padding=2)), torch.relu,
                 pool(2), flatten, ("fc1", nn.Linear(784, 64)), torch.relu, ("fc2", nn.Linear(64, classes)))


def alexnet(classes):
    features = nn.Sequential(
        nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(),
        nn.MaxPool2d(3, 2), nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(), nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2))
    classifier = nn.Sequential(
        nn.Dropout(), nn.Linear(9216, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(),
        nn.Linear(4096, classes))
    return Chain(("features", features), nn.AdaptiveAvgPool2d(6), flatten, ("classifier", classifier))


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
    return Chain(("features", nn.Sequential(*layers)), nn.AdaptiveAvgPool2d(7), flatten, ("classifier", classifier))


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
        self.downsample = None
        if stride != 1:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + (self.downsample(x) if self.downsample else x))


def resnet(stem, widths, blocks, classes):
    layers, channels = [], widths[0]
    for i, out in enumerate(widths):
        stage = [Block(channels if k == 0 else out, out, 2 if k == 0 and i > 0 else 1) for k in range(blocks)]
        layers.append((f"layer{i + 1}", nn.Sequential(*stage)))
        channels = out
    return Chain(*stem, *layers, nn.AdaptiveAvgPool2d(1), flatten, ("fc", nn.Linear(channels, classes)))


def small_stem(width, channels=3):
    return [("conv1", nn.Conv2d(channels, width, 3, 1, 1, bias=False)), ("bn1", nn.BatchNorm2d(width)), torch.relu]


def resnet18(classes):
    return resnet(small_stem(64), [64, 128, 256, 512], 2, classes)


def resnet18_224(classes):
    stem = [("conv1", nn.Conv2d(3, 64, 7, 2, 3, bias=False)), ("bn1", nn.BatchNorm2d(64)), torch.relu,
            nn.MaxPool2d(3, 2, 1)]
    return resnet(stem, [64, 128, 256, 512], 2, classes)


def resnet_small(classes, channels=3):
    return resnet(small_stem(16, channels), [16, 32, 64, 128], 1, classes)
