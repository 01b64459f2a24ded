#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Numbers of small Llamas in transformers, for tests/nn/llama_oracle_test.cpp: a line for each, its name and values.

With --check FILE they are compared with those of a file instead of printed.

Weights, tokens and targets are formulas that the test has, too. transformers goes to float in models of doubles for
the rotation's angles, the norms and, by its attention "eager", the softmax: angles are computed in double here (that
both have the same frequencies is checked), norms in the model's type, and attention is PyTorch's own.
"""
import math
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

VOCABULARY, WIDTH, HIDDEN, LAYERS, HEADS, HEAD_WIDTH, SEQUENCE = 256, 64, 160, 2, 4, 16, 64
BATCH, STEPS, RANK, ALPHA = 4, 20, 4, 8
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}


def values(count, key, scale, offset):
    return torch.tensor([offset + scale * math.sin(12.9898 * i + 78.233 * key) for i in range(count)],
                        dtype=torch.float64)


def frequencies(rope, head_width=HEAD_WIDTH):
    """In double: a rotation for each pair, and what llama3 makes of the slow ones."""
    out = [rope["rope_theta"] ** (-2 * i / head_width) for i in range(head_width // 2)]
    if rope["rope_type"] == "default":
        return out
    old, factor = rope["original_max_position_embeddings"], rope["factor"]
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    scaled = []
    for frequency in out:
        length = 2 * math.pi / frequency
        if length < old / high:
            scaled.append(frequency)
        elif length > old / low:
            scaled.append(frequency / factor)
        else:
            share = (old / length - low) / (high - low)
            scaled.append((1 - share) * frequency / factor + share * frequency)
    return scaled


def make(key_value_heads=2, rope=PLAIN, window=None, dtype=torch.float64):
    options = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": HIDDEN, "num_hidden_layers": LAYERS,
               "num_attention_heads": HEADS, "num_key_value_heads": key_value_heads, "head_dim": HEAD_WIDTH,
               "max_position_embeddings": SEQUENCE, "rms_norm_eps": 1e-6, "rope_parameters": dict(rope),
               "tie_word_embeddings": False, "attn_implementation": "sdpa"}
    if window:
        model = MistralForCausalLM(MistralConfig(sliding_window=window, **options))
    else:
        model = LlamaForCausalLM(LlamaConfig(**options))
    return prepare(model.to(dtype), frequencies(rope))


def prepare(model, in_double, with_weights=True):
    """Gives a model angles in double, norms in its own type, and parameters by the formula."""
    exact = torch.tensor(in_double, dtype=torch.float64)
    rotary = model.model.rotary_emb
    if not torch.allclose(rotary.inv_freq.double(), exact, rtol=1e-5, atol=0):
        sys.exit("transformers has other frequencies: %s, %s" % (rotary.inv_freq, exact))

    def angles(x, position_ids):
        each = position_ids[:, :, None].double() * exact[None, None, :]
        both = torch.cat((each, each), dim=-1)
        return both.cos().to(x.dtype), both.sin().to(x.dtype)

    def norm(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))

    rotary.forward = angles
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = norm.__get__(module)
    if with_weights:
        set_weights(model)
    return model.eval()  # no dropout


def set_weights(model):
    with torch.no_grad():
        for key, (name, parameter) in enumerate(sorted(model.named_parameters())):
            is_norm = name.endswith("norm.weight")
            parameter.copy_(values(parameter.numel(), key, *((0.1, 1.0) if is_norm else (0.1, 0.0)))
                            .reshape(parameter.shape))


def batch(step):
    numbers = [(7 * i + i // 5 + i * i // 11) % VOCABULARY for i in
               range(step * BATCH * SEQUENCE, (step + 1) * BATCH * SEQUENCE + 1)]
    tokens = torch.tensor(numbers)
    return tokens[:-1].reshape(BATCH, SEQUENCE), tokens[1:].reshape(BATCH, SEQUENCE)


def loss_of(model, step):
    tokens, targets = batch(step)
    logits = model(tokens).logits
    return torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1))


def train(model, steps=STEPS):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, step)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def logits(model, mask=None):
    """Every 37th logit of one batch."""
    with torch.no_grad():
        return model(batch(0)[0], attention_mask=mask).logits.reshape(-1)[::37 * 41].tolist()


class Lora(torch.nn.Module):
    def __init__(self, base, key):
        super().__init__()
        self.base = base
        self.a = torch.nn.Parameter(values(RANK * base.in_features, 100 + key, 0.1, 0).reshape(RANK, -1))
        self.b = torch.nn.Parameter(values(RANK * base.out_features, 200 + key, 0.1, 0).reshape(-1, RANK))

    def forward(self, x):
        return self.base(x) + (x @ self.a.T @ self.b.T) * (ALPHA / RANK)


def lora_gradients():
    """Sums that weigh the elements of each gradient, of A and of B of q_proj and v_proj in each layer."""
    model = make()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    added = []
    for layer in model.model.layers:
        for name in ("q_proj", "v_proj"):
            lora = Lora(getattr(layer.self_attn, name), len(added))
            setattr(layer.self_attn, name, lora)
            added.append(lora)
    loss_of(model, 0).backward()
    out = []
    for lora in added:
        for gradient in (lora.a.grad, lora.b.grad):
            out.append((gradient.reshape(-1) * values(gradient.numel(), 300, 1, 0)).sum().item())
    return out


def check(lines, path):
    with open(path) as file:
        stored = {words[0]: [float(word) for word in words[1:]] for words in map(str.split, file)}
    if stored.keys() != lines.keys():
        sys.exit("%s has %s; wanted are %s" % (path, sorted(stored), sorted(lines)))
    for name, numbers in lines.items():
        most = 1e-4 if name.endswith("float") else 1e-9
        pairs = list(zip(numbers, stored[name], strict=True))
        worst = max(abs(a - b) / max(1, abs(b)) for a, b in pairs)
        if not worst <= most:
            sys.exit("%s of %s: off by %.1e, more than %g" % (name, path, worst, most))
        print("%s: as stored, to %.1e" % (name, worst))


def main():
    torch.manual_seed(1)
    whole = torch.zeros(BATCH, 1, SEQUENCE, SEQUENCE, dtype=torch.float64)
    lines = {
        "losses_double": train(make()),
        "losses_float": train(make(dtype=torch.float32)),
        "logits_heads_1": logits(make(1)),
        "logits_heads_2": logits(make(2)),
        "logits_heads_4": logits(make(4)),
        "logits_llama3": logits(make(rope=LLAMA3)),
        "logits_window_8": logits(make(window=8)),
        "logits_not_causal": logits(make(), whole),
        "lora_gradients": lora_gradients(),
    }
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        return check(lines, sys.argv[2])
    for name, numbers in lines.items():
        print(name, *("%.17g" % number for number in numbers))


if __name__ == "__main__":
    main()
