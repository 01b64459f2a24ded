#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Numbers of torchvision's ResNet-18 on pictures of 32 x 32, for tests/nn/resnet_oracle_test.cpp: a line for each, its
name and values.

With --check FILE they are compared with those of a file instead of printed. Weights, pictures and classes are formulas
that the test has, too. Statistics are made of groups of 4 samples: a batch goes through the model in such pieces. What
running statistics follow in a step is the mean over its pieces.
"""
import math
import sys

import torch
import torchvision

STEPS, GROUP, CLASSES, EDGE = 20, 4, 10, 32


def values(count, key, scale, offset):
    """Even numbers around `offset` without a pattern, of the deviation `scale`."""
    bits = (torch.arange(count, dtype=torch.int64) * 1103515245 + key * 362437 + 54321) & 0x7fffffff
    for _ in range(2):
        bits = ((bits ^ bits >> 13) * 1274126177) & 0x7fffffff
    return offset + scale * math.sqrt(3.0) * ((bits ^ bits >> 16).to(torch.float64) / 2.0**30 - 1)


def key_of(name):
    return sum((i + 1) * ord(letter) for i, letter in enumerate(name)) % 1000


def make(dtype):
    model = torchvision.models.resnet18(num_classes=CLASSES).to(dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            is_matrix = parameter.dim() > 1
            scale = math.sqrt(2 / parameter[0].numel()) if is_matrix else 0.1
            offset = 1.0 if not is_matrix and name.endswith("weight") else 0.0
            parameter.copy_(values(parameter.numel(), key_of(name), scale, offset).reshape(parameter.shape))
    return model


def batch_of(step, size, dtype):
    width = 3 * EDGE * EDGE
    x = torch.stack([values(width, 1 + step * size + s, 1.0, 0.0) for s in range(size)])
    y = torch.tensor([(7 * (step * size + s) + 3) % CLASSES for s in range(size)])
    return x.reshape(size, 3, EDGE, EDGE).to(dtype), y


def run(size, dtype, rate=1e-5):
    model = make(dtype)
    norms = {name: layer for name, layer in model.named_modules() if isinstance(layer, torch.nn.BatchNorm2d)}
    running = {name: (layer.running_mean.clone(), layer.running_var.clone()) for name, layer in norms.items()}
    for layer in norms.values():
        layer.momentum = 1.0  # the statistics of one piece
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    losses = []
    for step in range(STEPS):
        x, y = batch_of(step, size, dtype)
        optimizer.zero_grad()
        total, pieces = 0.0, size // GROUP
        found = {name: [torch.zeros_like(mean), torch.zeros_like(mean)] for name, (mean, _) in running.items()}
        for begin in range(0, size, GROUP):
            loss = torch.nn.functional.cross_entropy(model(x[begin:begin + GROUP]), y[begin:begin + GROUP]) / pieces
            loss.backward()
            total += loss.item()
            for name, layer in norms.items():
                found[name][0] += layer.running_mean / pieces
                found[name][1] += layer.running_var / pieces
        optimizer.step()
        losses.append(total)
        for name, (mean, variance) in running.items():
            running[name] = (0.9 * mean + 0.1 * found[name][0], 0.9 * variance + 0.1 * found[name][1])
    for name, layer in norms.items():
        layer.running_mean.copy_(running[name][0])
        layer.running_var.copy_(running[name][1])
    x, y = batch_of(0, size, dtype)
    with torch.no_grad():
        evaluated = torch.nn.functional.cross_entropy(model.eval()(x), y).item()
    statistics = {name + suffix: tensor
                  for name, pair in running.items() for suffix, tensor in zip((".running_mean", ".running_var"), pair)}
    return losses, evaluated, statistics


def hash(named_tensors):
    """The number of tensors and of elements, and a number that changes with most names and shapes."""
    count, elements, mixed = 0, 0, 0
    for name, tensor in named_tensors:
        count, elements = count + 1, elements + tensor.numel()
        shape = list(tensor.shape) + [0] * (4 - tensor.dim())
        mixed += key_of(name) * sum(factor * length for factor, length in zip((1, 3, 5, 7), shape))
    return [count, elements, mixed]


def all_lines():
    yield "names_resnet50", hash((name, tensor) for name, tensor in torchvision.models.resnet50().state_dict().items()
                                   if not name.endswith("num_batches_tracked"))
    for size, dtype, rate, name in ((4, torch.float64, 1e-5, "whole_double"), (8, torch.float64, 1e-5, "groups_double"),
                                    (4, torch.float32, 1e-6, "whole_float"), (8, torch.float32, 1e-6, "groups_float")):
        losses, evaluated, statistics = run(size, dtype, rate)
        yield "losses_" + name, losses
        yield "evaluated_" + name, [evaluated]
        if dtype == torch.float64:
            for layer in ("bn1", "layer1.1.bn2", "layer3.0.downsample.1", "layer4.1.bn2"):
                for suffix in (".running_mean", ".running_var"):
                    tensor = statistics[layer + suffix]
                    yield layer + suffix + "_" + name, tensor[::max(1, len(tensor) // 8)].tolist()
            yield "buffers_" + name, [statistics[key].sum().item() for key in sorted(statistics)]


def main():
    if sys.argv[1:2] == ["--check"]:
        with open(sys.argv[2], encoding="ascii") as file:
            stored = {words[0]: [float(word) for word in words[1:]] for words in map(str.split, file)}
        for name, numbers in all_lines():
            kept, bound = stored.pop(name), 1e-4 if name.endswith("float") else 1e-10
            if len(kept) != len(numbers) or any(abs(a - b) > bound * max(1, abs(b)) for a, b in zip(kept, numbers)):
                sys.exit(f"{name}: stored are {kept}, torchvision has {numbers}")
        if stored:
            sys.exit(f"torchvision has no {sorted(stored)}")
        return
    for name, numbers in all_lines():
        print(name, *(f"{number:.17g}" for number in numbers))


if __name__ == "__main__":
    main()
