#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps of PyTorch for scripts/benchmark: pytorch_steps.py MODEL VARIANT

MODEL    gpt (4 layers of width 256, 8 x 128 tokens, AdamW), mlp (784-1024-1024-10, 256 samples, SGD) or resnet
         (torchvision's ResNet-50, 8 pictures of 224 x 224, SGD), in float32 on two threads
VARIANT  eager       as one writes it
         tuned       scaled_dot_product_attention and the fused optimizer
         compiled    as tuned, by torch.compile
         ddp         two processes of one thread, DistributedDataParallel over Gloo
         ddp-tuned   as ddp, tuned, gradients as views of buckets of 4 MB
         pipelined   for resnet: two processes of one thread, a stage each, 1F1B with four microbatches over Gloo
Reads the number of steps of the next turn, and answers with their milliseconds and the last loss, as turns.hpp does.
"""
import os
import socket
import sys
import time

MODEL, VARIANT = (sys.argv[1:] + ["", ""])[:2]
ALLOWED = {"gpt": ("eager", "tuned", "compiled", "ddp", "ddp-tuned"), "resnet": ("eager", "pipelined")}
ALLOWED["mlp"] = ALLOWED["gpt"]
if VARIANT not in ALLOWED.get(MODEL, ()):
    sys.exit("pytorch_steps.py: gpt|mlp eager|tuned|compiled|ddp|ddp-tuned, or resnet eager|pipelined")
RANKS = 2 if VARIANT.startswith(("ddp", "pipelined")) else 1
THREADS = 2 // RANKS
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(THREADS)
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
from torch import nn
from torch.nn import functional

TUNED = VARIANT not in ("eager", "ddp", "pipelined")
LAYERS, WIDTH, HEADS, SEQUENCE, VOCABULARY = 4, 256, 8, 128, 256


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.projection = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.c_fc, self.c_proj = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        later = torch.full((SEQUENCE, SEQUENCE), float("-inf")).triu(1)
        self.register_buffer("mask", later, persistent=False)

    def forward(self, x):
        batch = x.shape[0]
        q, k, v = (part.view(batch, SEQUENCE, HEADS, -1).transpose(1, 2)
                   for part in self.qkv(self.ln_1(x)).split(WIDTH, 2))
        if TUNED:
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) * (WIDTH // HEADS) ** -0.5 + self.mask
            mixed = scores.softmax(-1) @ v
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, SEQUENCE, WIDTH))
        return x + self.c_proj(functional.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(SEQUENCE, WIDTH)
        self.h = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.ln_f = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.register_buffer("places", torch.arange(SEQUENCE), persistent=False)

    def forward(self, tokens):
        return self.head(self.ln_f(self.h(self.wte(tokens) + self.wpe(self.places))))


def work(rank, port, turns):
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    if RANKS > 1:
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank % 2]})
        torch.distributed.init_process_group("gloo", rank=rank, world_size=RANKS,
                                             init_method=f"tcp://127.0.0.1:{port}")
    if MODEL == "gpt":
        model = Gpt()
        drawn = torch.randint(0, VOCABULARY, (8, SEQUENCE + 1))
        mine = drawn[rank * 8 // RANKS:(rank + 1) * 8 // RANKS]
        inputs, targets = mine[:, :-1].contiguous(), mine[:, 1:].reshape(-1)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=TUNED or None)
    elif MODEL == "resnet":
        import torchvision
        model = torchvision.models.resnet50()
        inputs, targets = torch.randn(8, 3, 224, 224), torch.randint(0, 1000, (8,))
        if VARIANT == "pipelined":
            return turns(pipelined_step(model, inputs, targets, rank))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    else:
        model = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
                              nn.Linear(1024, 10))
        count = 256 // RANKS
        inputs, targets = torch.randn(count, 784), torch.randint(0, 10, (count,))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=TUNED or None)
    if RANKS > 1:
        options = {"bucket_cap_mb": 4, "gradient_as_bucket_view": True} if TUNED else {}
        model = nn.parallel.DistributedDataParallel(model, **options)

    def loss_of():
        out = model(inputs)
        return functional.cross_entropy(out.view(-1, out.shape[-1]), targets)
    if VARIANT == "compiled":
        loss_of = torch.compile(loss_of)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return float(loss.detach())
    for _ in range(3):
        step()
    turns(step)


def pipelined_step(model, inputs, targets, rank):
    from torch.distributed import pipelining
    split = {"layer3": pipelining.SplitPoint.BEGINNING}  # stages of about equal work
    pieces = pipelining.pipeline(model, mb_args=(inputs[:2],), split_spec=split)
    stage = pieces.build_stage(rank, torch.device("cpu"))
    schedule = pipelining.Schedule1F1B(stage, n_microbatches=4, loss_fn=functional.cross_entropy)
    optimizer = torch.optim.SGD(stage.submod.parameters(), lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad(set_to_none=True)
        losses = []
        if rank == 0:
            schedule.step(inputs)
        else:
            schedule.step(target=targets, losses=losses)
        optimizer.step()
        torch.distributed.barrier()
        return float(sum(loss.detach() for loss in losses)) / 4
    step()
    return step


def lead(step, tell=None):
    print("ready", flush=True)
    for line in sys.stdin:
        times, loss = [], 0.0
        for _ in range(int(line)):
            if tell:
                tell(1)
            begin = time.perf_counter()
            loss = step()
            times.append((time.perf_counter() - begin) * 1e3)
        print(*(f"{t:.4f}" for t in times), f"{loss:.9g}", flush=True)
    if tell:
        tell(0)


def follow(port, pipe):
    work(1, port, lambda step: [step() for _ in iter(pipe.recv, 0)])


def main():
    if RANKS == 1:
        return work(0, 0, lead)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    spawn = torch.multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    second = spawn.Process(target=follow, args=(port, theirs), daemon=True)
    second.start()
    work(0, port, lambda step: lead(step, ours.send))
    second.join()


if __name__ == "__main__":
    main()
