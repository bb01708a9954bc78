"""nets.py: the zoo in PyTorch, by hand, with torchvision's parameter names where it has the network."""
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
