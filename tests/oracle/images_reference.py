#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Numbers of PyTorch's convolutions, pooling and normalisations, for tests/nn/image_oracle_test.cpp: a line for each
tensor, its name, its sum, and elements of it.

With --check FILE they are compared with those of a file instead of printed. Values are a formula that the test has, too.
"""
import math
import sys

import torch
from torch import nn

SAMPLES = 3


def values(shape, key):
    count = math.prod(shape)
    return torch.tensor([math.sin(12.9898 * i + 78.233 * key) for i in range(count)],
                        dtype=torch.float64).reshape(shape)


def line(name, tensor):
    flat = tensor.detach().reshape(-1)
    step = max(1, len(flat) // 12)
    return name, [flat.sum().item()] + flat[::step].tolist()


def lines_of(name, layer, shape):
    layer = layer.double()
    for key, parameter in enumerate(layer.parameters()):
        with torch.no_grad():
            parameter.copy_(values(parameter.shape, key + 2))
    x = values((SAMPLES,) + shape, 1).requires_grad_()
    y = layer(x)
    y.backward(values(y.shape, 9))
    yield line(name + ".y", y)
    yield line(name + ".dx", x.grad)
    for label, parameter in layer.named_parameters():
        yield line(name + "." + label, parameter.grad)
    if isinstance(layer, nn.BatchNorm2d):
        yield line(name + ".running_mean", layer.running_mean)
        yield line(name + ".running_var", layer.running_var)
        x.grad = None
        y = layer.eval()(x)
        y.backward(values(y.shape, 9))
        yield line(name + ".evaluated", y)
        yield line(name + ".evaluated_dx", x.grad)


def all_lines():
    layers = {
        "conv_3x3": (nn.Conv2d(4, 6, 3, padding=1), (4, 5, 7)),
        "conv_stride": (nn.Conv2d(3, 5, 3, stride=2, padding=2, bias=False), (3, 6, 7)),
        "conv_groups": (nn.Conv2d(6, 4, 3, stride=2, groups=2), (6, 7, 5)),
        "conv_1x1": (nn.Conv2d(5, 3, 1), (5, 4, 3)),
        "conv_1x1_large": (nn.Conv2d(2, 3, 1), (2, 17, 16)),
        "conv_large": (nn.Conv2d(2, 3, 5, padding=2), (2, 37, 33)),
        "conv_1x1_groups": (nn.Conv2d(4, 6, 1, groups=2), (4, 17, 16)),
        "conv_large_groups": (nn.Conv2d(4, 6, 5, padding=2, groups=2), (4, 37, 33)),
        "max_pool": (nn.MaxPool2d(3, 2, 1), (2, 7, 6)),
        "max_pool_2": (nn.MaxPool2d(2), (3, 5, 4)),
        "average_pool": (nn.AvgPool2d(3, 2, 1), (2, 7, 6)),
        "average_pool_global": (nn.AdaptiveAvgPool2d(1), (4, 3, 5)),
        "group_norm": (nn.GroupNorm(2, 6), (6, 3, 4)),
        "batch_norm": (nn.BatchNorm2d(4), (4, 3, 2)),
    }
    for name, (layer, shape) in layers.items():
        yield from lines_of(name, layer, shape)


def main():
    if sys.argv[1:2] == ["--check"]:
        with open(sys.argv[2], encoding="ascii") as file:
            stored = {words[0]: [float(word) for word in words[1:]] for words in map(str.split, file)}
        for name, numbers in all_lines():
            kept = stored.pop(name)
            if len(kept) != len(numbers) or any(abs(a - b) > 1e-12 * max(1, abs(b)) for a, b in zip(kept, numbers)):
                sys.exit(f"{name}: stored are {kept}, PyTorch has {numbers}")
        if stored:
            sys.exit(f"PyTorch has no {sorted(stored)}")
        return
    for name, numbers in all_lines():
        print(name, *(f"{number:.17g}" for number in numbers))


if __name__ == "__main__":
    main()
