#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Losses of small models in PyTorch, for tests/formula/oracle.hpp: a line for each layer, its name and the losses
of ten steps. With --check FILE they are compared with those of a file instead of printed.

Each model is linear -> layer -> linear, in double. Weights and data are formulas of a name and a place that the test has,
too. The layers are written with PyTorch's own words where it has them: conv1d, GRUCell, scaled_dot_product written out.
"""
import math
import sys

import torch
import torch.nn.functional as F

IN, WIDTH, OUT, SEQUENCE, BATCH, STEPS, HEADS = 3, 12, 2, 4, 4, 10, 6
torch.set_default_dtype(torch.float64)


def values(count, key, scale=1.0, offset=0.0):
    return [offset + scale * math.sin(12.9898 * i + 78.233 * key) for i in range(count)]


def weights(name, shape):
    """The start of a parameter: a key is made of its name."""
    key = sum((i + 1) * ord(letter) for i, letter in enumerate(name)) % 97
    return torch.nn.Parameter(torch.tensor(
        values(math.prod(shape), key, 0.5, 1.0 if name.endswith("norm") else 0.0)).reshape(shape))


class Weights(dict):
    """Parameters by name, each made when it is first asked for."""
    def __init__(self, shapes):
        super().__init__({name: weights(name, shape) for name, shape in shapes.items()})

    def of(self, part):
        return {name[len(part) + 1:]: value for name, value in self.items() if name.startswith(part + ".")}


def heads(x, count=HEADS):
    return x.reshape(*x.shape[:-1], count, -1)


def flat(x):
    return x.reshape(*x.shape[:-2], -1)


def rms_norm(x, gamma):
    return gamma * x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5)


MASK = torch.tril(torch.ones(SEQUENCE, SEQUENCE, dtype=torch.bool))


def attend(q, k, v, scale, change=lambda scores: scores, mask=MASK):
    """q, k and v are (batch, positions, heads, width)."""
    scores = change(torch.einsum("bthd,bshd->bhts", q, k) * scale)
    shares = scores.masked_fill(~mask, -math.inf).softmax(-1)
    return flat(torch.einsum("bhts,bshd->bthd", shares, v))


def three(x, p):
    return [heads(each) for each in (x @ p["qkv"]).chunk(3, -1)]


def scan(a, x):
    out, h = [], torch.zeros_like(x[:, 0])
    for t in range(SEQUENCE):
        h = a[:, t] * h + x[:, t]
        out.append(h)
    return torch.stack(out, 1)


# ---- The layers -----------------------------------------------------------------------------------

def gated_residual(p, x):
    return x + torch.sigmoid(x @ p["gate"] + p["bias"]) * torch.tanh(x @ p["w"])


def bilinear_gate(p, x):
    return ((x @ p["left"]) * (x @ p["right"])) @ p["down"]


def squeeze_excite(p, x):
    maps = x.reshape(-1, 6, 1, 2)
    squeezed = F.silu(F.conv2d(F.adaptive_avg_pool2d(maps, 1), p["fc1.weight"][..., None, None], p["fc1.bias"]))
    gates = torch.sigmoid(F.conv2d(squeezed, p["fc2.weight"][..., None, None], p["fc2.bias"]))
    return (maps * gates).reshape(x.shape)


def rotary(x):
    """Turns pairs half a head apart, in (batch, positions, heads, width)."""
    half = x.shape[-1] // 2
    rates = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(SEQUENCE, dtype=torch.float64)[:, None, None] * rates
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


def qk_norm_attention(p, x):
    q, k, v = [F.linear(x, p[name + "_proj.weight"], p[name + "_proj.bias"]) for name in "qkv"]
    q, k = [F.rms_norm(each, each.shape[-1:], p[name + "_norm.weight"], 1e-6) for name, each in (("q", q), ("k", k))]
    return F.linear(attend(rotary(heads(q)), rotary(heads(k)), heads(v), 0.5), p["o_proj.weight"])


def alibi_attention(p, x):
    place = torch.arange(SEQUENCE, dtype=torch.float64)
    slopes = 2.0 ** -(1 + torch.arange(HEADS, dtype=torch.float64))
    bias = slopes[:, None, None] * (place[None, :] - place[:, None])
    return attend(*three(x, p), 0.5, lambda scores: scores + bias)


def soft_cap_attention(p, x):
    return attend(*three(x, p), 1, lambda scores: 0.4 * torch.tanh(scores / 0.5))


def sink_attention(p, x):
    q, k, v = three(x, p)
    scores = (torch.einsum("bthd,bshd->bhts", q, k) * 0.5).masked_fill(~MASK, -math.inf)
    sinks = p["sink"].reshape(1, HEADS, 1, 1).expand(*scores.shape[:-1], 1)
    shares = torch.cat([scores, sinks], -1).softmax(-1)[..., :-1]
    return flat(torch.einsum("bhts,bshd->bthd", shares, v))


def document_attention(p, x, mark):
    document = mark[..., 0] > 0
    same = document.unsqueeze(-1) == document.unsqueeze(-2)
    return attend(*three(x, p), 0.5, mask=(MASK & same).unsqueeze(1))


def latent_attention(p, x):
    latent = F.rms_norm(F.linear(x, p["kv_a.weight"]), (4,), p["kv_a_layernorm.weight"], 1e-5)
    turned = rotary(heads(F.linear(x, p["q_rope.weight"])))
    shared = rotary(F.linear(x, p["k_rope.weight"]).unsqueeze(-2)).expand(turned.shape)
    q = torch.cat([heads(F.linear(x, p["q_nope.weight"])), turned], -1)
    k = torch.cat([heads(F.linear(latent, p["k_b.weight"])), shared], -1)
    v = heads(F.linear(latent, p["v_b.weight"]))
    return F.linear(attend(q, k, v, 1 / math.sqrt(6)), p["o_proj.weight"])


def causal_conv1d(p, x):
    kernel = torch.stack([p["tap_%d.weight" % tap] for tap in (2, 1, 0)], -1).unsqueeze(1)
    return F.conv1d(F.pad(x.transpose(1, 2), (2, 0)), kernel, p["bias"], groups=WIDTH).transpose(1, 2)


def rg_lru(p, x):
    def gate(name):
        blocks = torch.einsum("btki,koi->btko", heads(x), p[name + ".weight"].reshape(HEADS, 2, 2))
        return torch.sigmoid(flat(blocks) + p[name + ".bias"])
    a = torch.exp(-8 * F.softplus(p["decay"]) * gate("recurrent_gate"))
    is_first = (torch.arange(SEQUENCE) == 0)[None, :, None]
    return scan(a, torch.where(is_first, 1, torch.sqrt(1 - a * a)) * gate("input_gate") * x)


def gru_cell(p, x, h):
    # GRUCell keeps the matrices transposed.
    return torch._VF.gru_cell(x.reshape(-1, WIDTH), h.reshape(-1, WIDTH), p["of_x"].T, p["of_h"].T, p["of_x_bias"],
                              p["of_h_bias"]).reshape(x.shape)


def selective_scan(p, x):
    u, dt = F.silu(x @ p["in"]), F.softplus(x @ p["step"] + p["step_bias"])
    kept = torch.exp(-dt.unsqueeze(-1) * torch.exp(p["decay"]))
    enters = (dt * u).unsqueeze(-1) * (x @ p["b"]).unsqueeze(-2)
    y = torch.einsum("btcn,btn->btc", scan(kept, enters), x @ p["c"])
    return (y + u * p["skip"]) @ p["out"]


def mixture(p, x, shares):
    hidden = torch.einsum("btd,deh->bteh", x, p["up"].reshape(WIDTH, 4, -1))
    return torch.einsum("bteh,ehd->btd", F.silu(hidden) * shares.unsqueeze(-1), p["down"].reshape(4, -1, WIDTH))


def dense_mixture(p, x):
    return mixture(p, x, (x @ p["router"]).softmax(-1))


def masked_mixture(p, x):
    best, which = (x @ p["router"]).softmax(-1).topk(2)
    shares = best / best.sum(-1, keepdim=True)
    return mixture(p, x, torch.zeros(*x.shape[:-1], 4).scatter(-1, which, shares))


def z_loss(p, x):
    return x, 0.1 * torch.logsumexp(x, -1).square().mean()


def variational(p, x, noise):
    of = torch.distributions.Normal(x @ p["mean"], torch.exp(0.5 * (x @ p["log_variance"])))
    to = torch.distributions.Normal(torch.zeros_like(of.mean), torch.ones_like(of.mean))
    divergence = torch.distributions.kl_divergence(of, to).sum(-1).mean()
    return (of.mean + of.stddev * noise) @ p["out"], divergence


def square(*names):
    return {name: (WIDTH, WIDTH) for name in names}


# For each layer its function and the shapes of its parameters.
LAYERS = {
    "gated_residual": (gated_residual, {**square("w", "gate"), "bias": (12,)}),
    "bilinear_gate": (bilinear_gate, {"left": (12, 18), "right": (12, 18), "down": (18, 12)}),
    "squeeze_excite": (squeeze_excite, {"fc1.weight": (3, 6), "fc1.bias": (3,), "fc2.weight": (6, 3), "fc2.bias": (6,)}),
    "qk_norm_attention": (qk_norm_attention, {
        **{name + "_proj.weight": (24, 12) for name in "qkv"}, **{name + "_proj.bias": (24,) for name in "qkv"},
        "q_norm.weight": (24,), "k_norm.weight": (24,), "o_proj.weight": (12, 24)}),
    "alibi_attention": (alibi_attention, {"qkv": (12, 36)}),
    "soft_cap_attention": (soft_cap_attention, {"qkv": (12, 36)}),
    "sink_attention": (sink_attention, {"qkv": (12, 36), "sink": (6,)}),
    "document_attention": (document_attention, {"qkv": (12, 36)}),
    "latent_attention": (latent_attention, {
        "q_nope.weight": (24, 12), "q_rope.weight": (12, 12), "kv_a.weight": (4, 12), "kv_a_layernorm.weight": (4,),
        "k_rope.weight": (2, 12), "k_b.weight": (24, 4), "v_b.weight": (18, 4), "o_proj.weight": (12, 18)}),
    "causal_conv1d": (causal_conv1d, {**{"tap_%d.weight" % tap: (12,) for tap in range(3)}, "bias": (12,)}),
    "rg_lru": (rg_lru, {"input_gate.weight": (12, 2), "input_gate.bias": (12,), "recurrent_gate.weight": (12, 2),
                        "recurrent_gate.bias": (12,), "decay": (12,)}),
    "gru_cell": (gru_cell, {"of_x": (12, 36), "of_x_bias": (36,), "of_h": (12, 36), "of_h_bias": (36,)}),
    "selective_scan": (selective_scan, {"in": (12, 18), "step": (12, 18), "step_bias": (18,), "b": (12, 3), "c": (12, 3),
                                        "decay": (3,), "skip": (18,), "out": (18, 12)}),
    "dense_mixture": (dense_mixture, {"router": (12, 4), "up": (12, 24), "down": (24, 12)}),
    "z_loss": (z_loss, {}),
    "variational": (variational, {"mean": (12, 3), "log_variance": (12, 3), "out": (3, 12)}),
    "focal_loss": (lambda p, x: torch.tanh(x), {}),
    "masked_mixture": (masked_mixture, {"router": (12, 4), "up": (12, 24), "down": (24, 12)}),
}


def linear(p, x):
    return x @ p["weight"] + p["bias"]


def focal_loss(made, labels):
    entropy = F.cross_entropy(made.reshape(-1, 4), labels, reduction="none")
    return (torch.tensor([1, 2, 0.5, 3])[labels] * (1 - torch.exp(-entropy)) ** 2 * entropy).mean()


def losses(name):
    layer, shapes = LAYERS[name]
    first = ["x", "h"] if name == "gru_cell" else ["in"]
    made_width = 4 if name == "focal_loss" else OUT
    all_shapes = {"layer." + label: shape for label, shape in shapes.items()}
    for part in first:
        all_shapes.update({part + ".weight": (IN, WIDTH), part + ".bias": (WIDTH,)})
    p = Weights({**all_shapes, "out.weight": (WIDTH, made_width), "out.bias": (made_width,)})
    optimizer = torch.optim.AdamW(p.values(), lr=0.02, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    rows = BATCH * STEPS * SEQUENCE
    inputs = torch.tensor(values(rows * IN, 1)).reshape(STEPS, BATCH, SEQUENCE, IN)
    targets = torch.tensor(values(rows * OUT, 2)).reshape(STEPS, BATCH, SEQUENCE, OUT)
    labels = torch.tensor([(7 * i + i // 5) % 4 for i in range(rows)]).reshape(STEPS, -1)
    out = []
    for step in range(STEPS):
        given = [linear(p.of(part), inputs[step]) for part in first]
        if name in ("variational", "document_attention"):
            given.append(inputs[step])
        made, term = layer(p.of("layer"), *given), 0
        if isinstance(made, tuple):
            made, term = made
        made = linear(p.of("out"), made)
        loss = focal_loss(made, labels[step]) if name == "focal_loss" else F.mse_loss(made, targets[step]) + term
        out.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return out


def check(lines, path):
    with open(path) as file:
        stored = {words[0]: [float(word) for word in words[1:]] for words in map(str.split, file)}
    if stored.keys() != lines.keys():
        sys.exit("%s has %s; wanted are %s" % (path, sorted(stored), sorted(lines)))
    for name, numbers in lines.items():
        worst = max(abs(a - b) for a, b in zip(numbers, stored[name], strict=True))
        if not worst <= 1e-10:
            sys.exit("%s of %s: off by %.1e" % (name, path, worst))


def main():
    lines = {name: losses(name) for name in LAYERS}
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        return check(lines, sys.argv[2])
    for name, numbers in lines.items():
        print(name, *("%.17g" % number for number in numbers))


if __name__ == "__main__":
    main()
