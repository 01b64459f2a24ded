#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Losses of small nets in PyTorch, as arrays for tests/train/losses_oracle_test.cpp.

The nets, their start weights and their data are formulas that the test has, too. Prints one array for each
case: the loss before each of 20 steps over batches of 8 of 30 samples, the last batch of an epoch having 6.
"""
import math

import torch

SAMPLES, WIDTH, HIDDEN, OUT, BATCH, STEPS = 30, 6, 12, 3, 8, 20
torch.set_default_dtype(torch.float64)


def number(i, k):
    """A number between -1 and 1 for each i and k."""
    return math.sin(12.9898 * i + 78.233 * k)


def tensor(rows, columns, k, scale=1.0, offset=0.0):
    values = [offset + scale * number(i, k) for i in range(rows * columns)]
    return torch.tensor(values).reshape(rows, columns)


INPUTS = tensor(SAMPLES, WIDTH, 1)
TARGETS = tensor(SAMPLES, OUT, 2)
SHARES = tensor(SAMPLES, OUT, 3, 0.5, 0.5)
CLASSES = torch.tensor([(7 * i + i // 5) % OUT for i in range(SAMPLES)])
WEIGHTS = torch.tensor([0.25 * (i % 4) + 0.5 for i in range(SAMPLES)])


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = torch.nn.Parameter(tensor(WIDTH, HIDDEN, 4, 0.5))
        self.b1 = torch.nn.Parameter(tensor(1, HIDDEN, 5, 0.5).reshape(-1))
        self.w2 = torch.nn.Parameter(tensor(HIDDEN, OUT, 6, 0.5))
        self.b2 = torch.nn.Parameter(tensor(1, OUT, 7, 0.5).reshape(-1))

    def forward(self, x):
        self.hidden = torch.relu(x @ self.w1 + self.b1)
        return self.hidden @ self.w2 + self.b2


def run(loss, groups=None, balance=0.0, average=0.0):
    """With `average` the losses, after each step, of the averages of the weights on the next batch."""
    net = Net()
    averages = [parameter.detach().clone() for parameter in net.parameters()]
    optimizer = torch.optim.AdamW(groups(net) if groups else net.parameters(), lr=0.02,
                                  betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    batches = [range(first, min(first + BATCH, SAMPLES)) for first in range(0, SAMPLES, BATCH)]
    out = []
    for step in range(STEPS):
        rows = list(batches[step % len(batches)])
        value = loss(net(INPUTS[rows]), rows)
        if balance:
            value = value + balance * (net.hidden ** 2).mean()
        out.append(value.item())
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        if average:
            with torch.no_grad():
                now = [parameter.clone() for parameter in net.parameters()]
                averages = [average * old + (1 - average) * new for old, new in zip(averages, now)]
                for parameter, value in zip(net.parameters(), averages):
                    parameter.copy_(value)
                rows = list(batches[(step + 1) % len(batches)])
                out[-1] = loss(net(INPUTS[rows]), rows).item()
                for parameter, value in zip(net.parameters(), now):
                    parameter.copy_(value)
    return out


F = torch.nn.functional


def weighted_mse(made, rows):
    weights = WEIGHTS[rows].reshape(-1, 1)
    return (weights * (made - TARGETS[rows]) ** 2).sum() / (weights.sum() * OUT)


CASES = {
    "mse": lambda made, rows: F.mse_loss(made, TARGETS[rows]),
    "weighted_mse": weighted_mse,
    "huber": lambda made, rows: F.huber_loss(made, TARGETS[rows], delta=0.7),
    "binary": lambda made, rows: F.binary_cross_entropy_with_logits(made, SHARES[rows]),
    "two_losses": lambda made, rows: F.cross_entropy(made, CLASSES[rows])
    + 0.3 * F.cross_entropy(made, CLASSES[rows], ignore_index=1),
    "smoothed": lambda made, rows: F.cross_entropy(made, CLASSES[rows], label_smoothing=0.1),
}


def show(name, losses):
    lines = [", ".join(f"{value:.15g}" for value in losses[i:i + 4]) for i in range(0, STEPS, 4)]
    print(f"std::vector<double> const {name}{{\n    " + ",\n    ".join(lines) + "};")


for name, loss in CASES.items():
    show(name, run(loss))
# Two rates, decay on the first layer alone, and then the first layer frozen.
show("two_groups", run(CASES["mse"], lambda net: [
    {"params": [net.w1, net.b1], "lr": 0.002},
    {"params": [net.w2, net.b2], "weight_decay": 0.0}]))
show("first_frozen", run(CASES["mse"], lambda net: [{"params": [net.w2, net.b2]}]))
# A term in mid-model, and averages of the weights.
show("balanced", run(CASES["mse"], balance=0.25))
show("averaged", run(CASES["mse"], average=0.9))
