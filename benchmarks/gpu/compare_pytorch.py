#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times training steps of train_gpt's GPT in PyTorch and prints the same JSON as step_benchmark.

Weights and optimizer are float32; on a GPU the forward pass runs under autocast to bfloat16,
products of float32 may be TF32, attention is scaled_dot_product_attention and AdamW is fused. A step
has the parts of a step of plait: tokens to the device, forward, backward, clipping of the gradient norm,
update. Only the loss differs: it is read after the last step only. Padding counts as classes. Variants:
  eager           as written
  compiled        torch.compile of forward and loss
  compiled-graphs the same with CUDA graphs (mode="reduce-overhead")
  compiled-cudnn  the same with cuDNN's backend of scaled_dot_product_attention
Runs with PyTorch 1.13 and later, on the processor too, then in float32.
"""

import argparse
import contextlib
import gc
import json
import math
import statistics
import sys
import time
from collections import namedtuple
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

Size = namedtuple("Size", "layers width heads sequence vocabulary padded tied")
SIZES = {
    "tiny": Size(2, 64, 4, 64, 256, 256, False),
    "gpt2": Size(12, 768, 12, 1024, 50257, 50304, True),
}
VARIANTS = ("eager", "compiled", "compiled-graphs", "compiled-cudnn")


# ---- The model; its parameters have the names of train_gpt's files ---------------------------

def causal_attention(q, k, v):
    if hasattr(functional, "scaled_dot_product_attention"):
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(later, -math.inf).softmax(-1) @ v


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        width, self.heads = size.width, size.heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(width, 3 * width),
                                   "c_proj": nn.Linear(width, width)})
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width),
                                  "c_proj": nn.Linear(4 * width, width)})

    def forward(self, x):
        batch, sequence, width = x.shape
        q, k, v = (part.view(batch, sequence, self.heads, -1).transpose(1, 2)
                   for part in self.attn["c_attn"](self.ln_1(x)).split(width, dim=-1))
        mixed = causal_attention(q, k, v).transpose(1, 2).reshape(batch, sequence, width)
        x = x + self.attn["c_proj"](mixed)
        hidden = functional.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh")
        return x + self.mlp["c_proj"](hidden)


class Gpt(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.wte = nn.Embedding(size.padded, size.width)
        self.wpe = nn.Embedding(size.sequence, size.width)
        self.h = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.ln_f = nn.LayerNorm(size.width)
        self.lm_head = nn.Linear(size.width, size.padded, bias=False)
        for name, parameter in self.named_parameters():
            if name.endswith(".bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 2:
                last = name.endswith("c_proj.weight")
                nn.init.normal_(parameter, std=0.02 / (math.sqrt(2 * size.layers) if last else 1))
        if size.tied:
            self.lm_head.weight = self.wte.weight

    def forward(self, inputs, targets):
        """(batch, sequence) tokens, twice -> the mean loss."""
        positions = torch.arange(inputs.shape[1], device=inputs.device)
        x = self.wte(inputs) + self.wpe(positions)
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return functional.cross_entropy(logits.view(-1, self.size.padded), targets.view(-1))

    def parameter_count(self):
        """Omits the rows that are padding."""
        tables = 1 if self.size.tied else 2
        padding = tables * (self.size.padded - self.size.vocabulary) * self.size.width
        return sum(parameter.numel() for parameter in self.parameters()) - padding

    def load(self, path):
        """The weights that `train_gpt --save` wrote: h.* matrices are stored (in, out)."""
        sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "oracle"))
        from gpt_reference import read_safetensors
        tensors = {}
        for name, values in read_safetensors(path).items():
            stored = torch.from_numpy(values)
            tensors[name] = stored.T if name.startswith("h.") and stored.dim() == 2 else stored
        self.load_state_dict(tensors)


def flops_per_token(model):
    """6 N + 6 L C T, as step_figures.hpp explains."""
    size = model.size
    return 6 * model.parameter_count() + 6 * size.layers * size.width * size.sequence


# ---- Training ------------------------------------------------------------------------------------

class Trainer:
    def __init__(self, args):
        torch.manual_seed(1)
        self.args, self.on_gpu = args, args.device == "cuda"
        model = Gpt(SIZES[args.size])
        if args.init:
            model.load(args.init)
        self.model = model.to(args.device)
        settings = {"fused": True} if self.on_gpu else {}
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=args.learning_rate,
                                           weight_decay=0.01, **settings)
        self.text = None
        if args.data:
            self.text = torch.frombuffer(bytearray(Path(args.data).read_bytes()), dtype=torch.uint8)

    def batch_at(self, step, batch):
        """The samples of a step: if there is a text, sample i of step s starts at token (s * batch + i) * sequence."""
        size = self.model.size
        tokens = batch * size.sequence
        if self.text is None:
            generator = torch.Generator().manual_seed(step)
            drawn = torch.randint(size.vocabulary, (tokens + 1,), generator=generator)
        else:
            drawn = self.text[step * tokens:(step + 1) * tokens + 1].long()
        inputs, targets = (part.reshape(batch, size.sequence) for part in (drawn[:-1], drawn[1:]))
        return (inputs.pin_memory(), targets.pin_memory()) if self.on_gpu else (inputs, targets)

    def loss_function(self, variant):
        if variant == "eager":
            return self.model
        if not hasattr(torch, "compile"):
            raise RuntimeError(f"PyTorch {torch.__version__} has no torch.compile")
        return torch.compile(self.model,
                             mode="default" if variant == "compiled" else "reduce-overhead")

    def attention_of(self, variant):
        if variant != "compiled-cudnn":
            return contextlib.nullcontext()
        if not self.on_gpu:
            raise RuntimeError("cuDNN needs a GPU")
        from torch.nn.attention import SDPBackend, sdpa_kernel
        return sdpa_kernel(SDPBackend.CUDNN_ATTENTION)

    def step(self, loss_of, batch):
        inputs, targets = (part.to(self.args.device, non_blocking=True) for part in batch)
        if hasattr(torch, "compiler") and hasattr(torch.compiler, "cudagraph_mark_step_begin"):
            torch.compiler.cudagraph_mark_step_begin()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16) if self.on_gpu else contextlib.nullcontext():
            loss = loss_of(inputs, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach().clone()  # a graph writes the next loss to the same place

    def run(self, variant, batch, warm_up, steps):
        """The losses of all steps and the milliseconds of those after the first `warm_up`."""
        with self.attention_of(variant):
            return self.run_steps(self.loss_function(variant), batch, warm_up, steps)

    def run_steps(self, loss_of, batch, warm_up, steps):
        batches = [self.batch_at(step, batch) for step in range(warm_up + steps)]
        losses, marks = [], []
        for step, tokens in enumerate(batches):
            if step >= warm_up:
                marks.append(self.mark())
            losses.append(self.step(loss_of, tokens))
        marks.append(self.mark())
        if self.on_gpu:
            torch.cuda.synchronize()
        return [loss.item() for loss in losses], [self.ms_between(*pair)
                                                  for pair in zip(marks, marks[1:])]

    def mark(self):
        if not self.on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def ms_between(self, begin, end):
        return begin.elapsed_time(end) if self.on_gpu else 1e3 * (end - begin)


def release_memory():
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def largest_batch(args, grain=4):
    """Doubles the batch until it is too large, then bisects."""
    def fits(batch):
        try:
            Trainer(args).run("eager", batch, 1, 1)
            return True
        except torch.cuda.OutOfMemoryError:
            return False
        finally:
            release_memory()

    fitting, too_much = 0, grain
    while fits(too_much):
        fitting, too_much = too_much, 2 * too_much
    while too_much - fitting > grain:
        between = (fitting + too_much) // 2 // grain * grain
        fitting, too_much = (between, too_much) if fits(between) else (fitting, between)
    return fitting


def measure(args, variant, batch):
    trainer = Trainer(args)
    losses, ms = trainer.run(variant, batch, args.warm_up, args.steps)
    size, on_gpu = trainer.model.size, trainer.on_gpu
    median = statistics.median(ms)
    tokens_per_second = 1e3 * batch * size.sequence / median
    free, total = torch.cuda.mem_get_info() if on_gpu else (0, 0)
    return {
        "program": f"PyTorch {torch.__version__}",
        "variant": variant,
        "device": torch.cuda.get_device_name() if on_gpu else "host",
        "cuda": torch.version.cuda if on_gpu else None,
        "size": args.size,
        "plan": "serial",
        "precision": "autocast to bfloat16" if on_gpu else "float",
        "batch": batch,
        "largest": args.batch == "largest",
        "sequence": size.sequence,
        "parameters": trainer.model.parameter_count(),
        "flops_per_token": flops_per_token(trainer.model),
        "steps": len(ms),
        "step_ms": {"median": median, "least": min(ms), "greatest": max(ms)},
        "tokens_per_second": tokens_per_second,
        "tflops": 1e-12 * flops_per_token(trainer.model) * tokens_per_second,
        "memory_bytes": total - free if on_gpu else None,
        "first_loss": losses[0],
        "last_loss": losses[-1],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--size", choices=sorted(SIZES), default="gpt2")
    parser.add_argument("--batch", default="4", metavar="N|largest")
    parser.add_argument("--warm-up", type=int, default=5, help="steps before those that are timed")
    parser.add_argument("--steps", type=int, default=20, help="timed steps")
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--variant", choices=VARIANTS, action="append", help="without it: all")
    parser.add_argument("--init", metavar="FILE.safetensors", help="initial weights of train_gpt")
    parser.add_argument("--data", metavar="FILE", help="bytes to train on (random tokens)")
    parser.add_argument("--output", metavar="FILE",
                        help="where the JSON goes, written anew after each variant")
    parser.add_argument("--only-compile", action="store_true",
                        help="one step of each variant, which fills torch.compile's cache; prints nothing")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        print(f"no GPU: PyTorch {torch.__version__} sees none; nothing is measured")
        return
    if args.device == "cpu" and args.batch == "largest":
        parser.error("--batch largest needs a GPU")
    torch.backends.cuda.matmul.allow_tf32 = True

    batch = largest_batch(args) if args.batch == "largest" else int(args.batch)
    lines = []
    for variant in args.variant or VARIANTS:
        try:
            if args.only_compile:
                Trainer(args).run(variant, batch, 1, 0)
                continue
            lines.append(measure(args, variant, batch))
            if args.output:
                Path(args.output).write_text(json.dumps(lines, indent=1) + "\n")
        except Exception as problem:  # torch.compile may lack much; the other variants continue
            if variant == "eager":
                raise
            print(f"{variant} is left out: {str(problem).splitlines()[0]}", file=sys.stderr)
        release_memory()
    if not args.output and not args.only_compile:
        print(json.dumps(lines, indent=1))


if __name__ == "__main__":
    main()
