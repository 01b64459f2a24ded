#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the GPT of examples/train_gpt.cpp in PyTorch and writes the loss of every step.

Same architecture, weights, batches and optimizer as `train_gpt --plan serial --in-order`; runs with
PyTorch 1.13 and later and NumPy, and needs no safetensors package. --self-check needs --data only.
"""

import argparse
import json
import math
import sys
from collections import namedtuple

import numpy
import torch
from torch.nn import functional

Size = namedtuple("Size", "layers width heads sequence")
SIZES = {"tiny": Size(2, 64, 4, 64), "small": Size(4, 256, 8, 128)}
VOCABULARY = 256
NUMPY_TYPES = {"F32": "<f4", "F64": "<f8"}  # safetensors is little-endian
TORCH_TYPES = {"float": torch.float32, "double": torch.float64}


# ---- safetensors: 8 bytes of header length, a JSON header, then the values of all tensors -----

def read_safetensors(path):
    with open(path, "rb") as file:
        content = file.read()
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 + length:
        sys.exit(f"{path}: truncated: {len(content)} bytes; the header needs {8 + length}")
    header = json.loads(content[8:8 + length])
    header.pop("__metadata__", None)
    values = content[8 + length:]
    tensors = {}
    for name, entry in header.items():
        if entry["dtype"] not in NUMPY_TYPES:
            sys.exit(f"{path}: {name} is {entry['dtype']}; only F32 and F64 can be read")
        begin, end = entry["data_offsets"]
        dtype = numpy.dtype(NUMPY_TYPES[entry["dtype"]])
        needed = math.prod(entry["shape"]) * dtype.itemsize
        if not 0 <= begin <= end <= len(values) or end - begin != needed:
            sys.exit(f"{path}: {name}: data_offsets {begin}, {end}; shape needs {needed} bytes, "
                     f"and the file has {len(values)} for all tensors")
        tensors[name] = numpy.frombuffer(values[begin:end], dtype).reshape(entry["shape"]).copy()
    return tensors


def write_safetensors(path, tensors):
    header, values = {}, b""
    for name, tensor in tensors.items():
        dtype = {4: "F32", 8: "F64"}[tensor.dtype.itemsize]
        data = numpy.ascontiguousarray(tensor, NUMPY_TYPES[dtype]).tobytes()
        header[name] = {"dtype": dtype, "shape": list(tensor.shape),
                        "data_offsets": [len(values), len(values) + len(data)]}
        values += data
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + values)


# ---- The model -----------------------------------------------------------------------------------

def shapes(size):
    """Shapes by name, as in Hugging Face's GPT-2: h.* matrices are stored (in, out)."""
    width = size.width
    result = {"wte.weight": (VOCABULARY, width), "wpe.weight": (size.sequence, width)}
    for layer in range(size.layers):
        for name, inputs, outputs in (("ln_1", 0, width), ("attn.c_attn", width, 3 * width),
                                      ("attn.c_proj", width, width), ("ln_2", 0, width),
                                      ("mlp.c_fc", width, 4 * width),
                                      ("mlp.c_proj", 4 * width, width)):
            result[f"h.{layer}.{name}.weight"] = (inputs, outputs) if inputs else (outputs,)
            result[f"h.{layer}.{name}.bias"] = (outputs,)
    result.update({"ln_f.weight": (width,), "ln_f.bias": (width,)})
    result["lm_head.weight"] = (VOCABULARY, width)
    return result


def check_names_and_shapes(path, tensors, size):
    expected = shapes(size)
    for name in expected.keys() - tensors.keys():
        sys.exit(f"{path}: {name} is missing")
    for name in tensors.keys() - expected.keys():
        sys.exit(f"{path}: {name} is no parameter of this model")
    for name, shape in expected.items():
        if tensors[name].shape != shape:
            sys.exit(f"{path}: {name} has the shape {tensors[name].shape}; the model needs {shape}")


def logits(parameters, inputs, size):
    """(batch, sequence) bytes -> (batch, sequence, vocabulary)."""
    def linear(x, name):
        return x @ parameters[name + ".weight"] + parameters[name + ".bias"]

    def norm(x, name):
        return functional.layer_norm(x, (size.width,), parameters[name + ".weight"],
                                     parameters[name + ".bias"], eps=1e-5)

    batch, sequence = inputs.shape
    later = torch.ones(sequence, sequence, dtype=torch.bool).triu(1)

    def attention(x, name):
        q, k, v = (part.reshape(batch, sequence, size.heads, -1).transpose(1, 2)  # (b, head, s, d)
                   for part in linear(x, name + ".c_attn").split(size.width, dim=-1))
        scores = q @ k.transpose(2, 3) / math.sqrt(size.width // size.heads)
        mixed = scores.masked_fill(later, -math.inf).softmax(dim=-1) @ v
        return linear(mixed.transpose(1, 2).reshape(batch, sequence, size.width), name + ".c_proj")

    x = parameters["wte.weight"][inputs] + parameters["wpe.weight"][:sequence]
    for layer in range(size.layers):
        block = f"h.{layer}"
        x = x + attention(norm(x, block + ".ln_1"), block + ".attn")
        hidden = linear(norm(x, block + ".ln_2"), block + ".mlp.c_fc")
        x = x + linear(functional.gelu(hidden, approximate="tanh"), block + ".mlp.c_proj")
    return norm(x, "ln_f") @ parameters["lm_head.weight"].T


def mean_loss(parameters, inputs, targets, size):
    return functional.cross_entropy(logits(parameters, inputs, size).reshape(-1, VOCABULARY),
                                    targets.reshape(-1))


# ---- Training ------------------------------------------------------------------------------------

def read_text(path, tokens):
    with open(path, "rb") as file:
        text = file.read()
    if len(text) < tokens + 1:
        sys.exit(f"{path}: {len(text)} bytes; this run needs {tokens + 1}")
    return torch.from_numpy(numpy.frombuffer(text, numpy.uint8).astype(numpy.int64))


def batch_at(text, step, batch, sequence):
    """Sample i of step s starts at byte (s * batch + i) * sequence; targets are one byte later."""
    begin, tokens = step * batch * sequence, batch * sequence
    return (text[begin:begin + tokens].reshape(batch, sequence),
            text[begin + 1:begin + 1 + tokens].reshape(batch, sequence))


def to_parameters(tensors, precision):
    return {name: torch.tensor(tensor, dtype=TORCH_TYPES[precision], requires_grad=True)  # copies
            for name, tensor in tensors.items()}


def train(parameters, text, size, args):
    """Trains `parameters` in place and returns each step's loss, taken before its update."""
    optimizer = torch.optim.AdamW(list(parameters.values()), lr=args.learning_rate,
                                  betas=(0.9, 0.999), eps=1e-8, weight_decay=args.weight_decay)
    losses = []
    for step in range(args.steps):
        inputs, targets = batch_at(text, step, args.batch, size.sequence)
        optimizer.zero_grad()
        loss = mean_loss(parameters, inputs, targets, size)
        loss.backward()
        if args.clip > 0:
            torch.nn.utils.clip_grad_norm_(list(parameters.values()), args.clip)
        optimizer.step()
        losses.append(loss.item())
    return losses


# ---- Checks of this script itself ----------------------------------------------------------------

def random_weights(size):
    """Random everywhere, also where training would start from 0 or 1, so that no term drops out."""
    generator = numpy.random.RandomState(1)
    tensors = {name: 0.02 * generator.standard_normal(shape)
               for name, shape in shapes(size).items()}
    for name in tensors:
        if "ln_" in name and name.endswith(".weight"):
            tensors[name] += 1
    return tensors


def self_check(size, text, args):
    """Float follows double, the loss falls, and gradients agree with finite differences."""
    weights = random_weights(size)
    single = train(to_parameters(weights, "float"), text, size, args)
    double = train(to_parameters(weights, "double"), text, size, args)
    drift = max(abs(a - b) / abs(b) for a, b in zip(single, double))

    parameters = to_parameters(weights, "double")
    inputs, targets = batch_at(text, 0, args.batch, size.sequence)
    mean_loss(parameters, inputs, targets, size).backward()
    generator = torch.Generator().manual_seed(1)
    worst, step = 0.0, 1e-5
    with torch.no_grad():
        for parameter in parameters.values():  # one random direction in each tensor
            direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            direction /= direction.norm()
            parameter += step * direction
            above = mean_loss(parameters, inputs, targets, size)
            parameter -= 2 * step * direction
            below = mean_loss(parameters, inputs, targets, size)
            parameter += step * direction
            difference = (above - below) / (2 * step) - (parameter.grad * direction).sum()
            worst = max(worst, abs(difference.item()) / parameter.grad.norm().item())

    print(f"self-check: loss {double[0]:.4f} -> {double[-1]:.4f}; float differs from double by at "
          f"most {drift:.1e}; finite differences from gradients by at most {worst:.1e} of the norm")
    if not (double[-1] < 0.9 * double[0] and drift < 1e-4 and worst < 1e-6):
        sys.exit("self-check failed: wanted a loss lower by a tenth, at most 1e-4, at most 1e-6")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, metavar="FILE", help="the text")
    parser.add_argument("--weights", metavar="FILE.safetensors", help="initial weights")
    parser.add_argument("--losses", metavar="OUT.csv", help="where step,loss go")
    parser.add_argument("--save", metavar="OUT.safetensors", help="where the trained weights go")
    parser.add_argument("--size", choices=sorted(SIZES), default="tiny")
    parser.add_argument("--precision", choices=sorted(TORCH_TYPES), default="float")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=8, help="samples in a step")
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--clip", type=float, default=0, help="largest gradient norm; 0: any")
    parser.add_argument("--self-check", action="store_true", help="check this on random weights")
    args = parser.parse_args()

    size = SIZES[args.size]
    text = read_text(args.data, args.steps * args.batch * size.sequence)
    if args.self_check:
        return self_check(size, text, args)
    if not args.weights or not args.losses:
        parser.error("--weights and --losses are needed")

    tensors = read_safetensors(args.weights)
    check_names_and_shapes(args.weights, tensors, size)
    parameters = to_parameters(tensors, args.precision)
    losses = train(parameters, text, size, args)
    with open(args.losses, "w", newline="\n") as file:
        file.write("step,loss\n")
        file.writelines(f"{step},{loss!r}\n" for step, loss in enumerate(losses))
    if args.save:
        write_safetensors(args.save, {name: p.detach().numpy() for name, p in parameters.items()})


if __name__ == "__main__":
    main()
