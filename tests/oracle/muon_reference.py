#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Weights of small matrices after steps of Muon, for tests/train/muon_test.cpp: a line for each case, its name and the
weights. With --check FILE it compares them with the weights in a file instead of printing them.

The steps are the steps of Jordan's reference (github.com/KellerJordan/Muon) and of PyTorch's torch.optim.Muon, computed in
double, because both of these compute in bfloat16. It needs no library.
"""
import math
import sys

A, B, C = 3.4445, -4.7750, 2.0315
STEPS, RATE, DECAY = 4, 0.02, 0.1


def product(a, b):
    return [[math.fsum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]


def transposed(a):
    return [list(column) for column in zip(*a)]


def combined(*terms):
    """The sum of number * matrix over the terms."""
    rows, columns = len(terms[0][1]), len(terms[0][1][0])
    return [[sum(number * of[r][c] for number, of in terms) for c in range(columns)] for r in range(rows)]


def orthogonal(g, iterations):
    is_tall = len(g) > len(g[0])
    x = transposed(g) if is_tall else g
    norm = math.sqrt(math.fsum(value * value for row in x for value in row))
    x = combined((1 / (norm + 1e-7), x))
    for _ in range(iterations):
        gram = product(x, transposed(x))
        x = combined((A, x), (1, product(combined((B, gram), (C, product(gram, gram))), x)))
    return transposed(x) if is_tall else x


def train(rows, columns, momentum, nesterov, iterations, scale):
    weights = [[math.cos(0.3 * (r * columns + c)) for c in range(columns)] for r in range(rows)]
    mean = [[0.0] * columns for _ in range(rows)]
    for step in range(STEPS):
        gradient = [[math.sin(1.7 * step + 0.9 * (r * columns + c) + 0.05 * (r * columns + c) ** 2)
                     for c in range(columns)] for r in range(rows)]
        mean = combined((momentum, mean), (1 - momentum, gradient))
        update = combined((1 - momentum, gradient), (momentum, mean)) if nesterov else mean
        update = orthogonal(update, iterations)
        weights = combined((1 - RATE * DECAY, weights), (-RATE * scale(rows, columns), update))
    return [value for row in weights for value in row]


def jordan(rows, columns):
    return max(1, rows / columns) ** 0.5


def moonlight(rows, columns):
    return 0.2 * math.sqrt(max(rows, columns))


CASES = {
    "wide": train(4, 6, 0.95, True, 5, moonlight),
    "tall": train(7, 3, 0.95, True, 5, moonlight),
    "tall.output_input": train(7, 3, 0.95, True, 5, jordan),
    "square": train(5, 5, 0.8, True, 5, jordan),
    "square.plain": train(5, 5, 0.8, False, 3, jordan),
    "row": train(1, 6, 0.95, True, 5, moonlight),
}

if sys.argv[1:2] == ["--check"]:
    for line in open(sys.argv[2]):
        name, *stored = line.split()
        for got, expected in zip(CASES.pop(name), map(float, stored), strict=True):
            assert abs(got - expected) <= 1e-12, (name, got, expected)
    assert not CASES, CASES.keys()
else:
    for name, values in CASES.items():
        print(name, *map(repr, values))
