#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Numbers of small Gemma 3s in transformers, for tests/nn/gemma_oracle_test.cpp: a line for each, its name and values.

  gemma_reference.py                 prints the lines
  gemma_reference.py --check FILE    compares them with the lines of a file
  gemma_reference.py fixture FOLDER  writes the weights of a small Gemma 3: tests/checkpoint/fixtures/gemma3

Weights, tokens and exceptions from transformers' float are as in llama_reference.py. The factor of the embeddings is
computed in double, too.
"""
import math
import os
import sys

import torch
import transformers
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

import llama_reference as llama

FIXTURE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "checkpoint", "fixtures", "gemma3")
KINDS = ("sliding_attention", "full_attention")
LINEAR = {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0}
PLAIN = {"rope_type": "default", "rope_theta": 1000000.0}


def kinds(layers, pattern):
    """The last of every `pattern` layers has no window."""
    return [KINDS[layer % pattern == pattern - 1] for layer in range(layers)]


def config(layers, pattern, full_rope, **options):
    return Gemma3TextConfig(
        num_hidden_layers=layers, num_key_value_heads=2, layer_types=kinds(layers, pattern),
        rope_parameters={KINDS[0]: {"rope_type": "default", "rope_theta": 10000.0}, KINDS[1]: full_rope},
        bos_token_id=None, eos_token_id=None, pad_token_id=None, **options)


def make(pattern=6, full_rope=LINEAR, width=36, query_scalar=48, tied=True):
    """Heads are wider than the model."""
    model = Gemma3ForCausalLM(config(
        7, pattern, full_rope, vocab_size=llama.VOCABULARY, hidden_size=width, intermediate_size=48,
        num_attention_heads=4, head_dim=12, query_pre_attn_scalar=query_scalar, sliding_window=8,
        max_position_embeddings=llama.SEQUENCE, tie_word_embeddings=tied, attn_implementation="sdpa"))
    model = prepare(model.to(torch.float64))
    llama.set_weights(model)
    return model


def prepare(model):
    """Gives a model angles and the factor of its embeddings in double, and norms in its own type."""
    of, rotary = model.config, model.model.rotary_emb
    exact = {}
    for kind in KINDS:
        rope = of.rope_parameters[kind]
        exact[kind] = torch.tensor([rope["rope_theta"] ** (-2 * i / of.head_dim) / rope.get("factor", 1.0)
                                    for i in range(of.head_dim // 2)], dtype=torch.float64)
        theirs = getattr(rotary, kind + "_inv_freq").double()
        if not torch.allclose(theirs, exact[kind], rtol=1e-5, atol=0):
            sys.exit("transformers has other frequencies: %s, %s" % (theirs, exact[kind]))

    def angles(x, position_ids, kind):
        each = position_ids[:, :, None].double() * exact[kind][None, None, :]
        both = torch.cat((each, each), dim=-1)
        return both.cos().to(x.dtype), both.sin().to(x.dtype)

    def norm(self, x):
        return self._norm(x) * (1.0 + self.weight)

    rotary.forward = angles
    table = model.model.embed_tokens
    factor = torch.tensor(math.sqrt(of.hidden_size), dtype=torch.float64)
    if not torch.allclose(table.embed_scale.double(), factor, rtol=1e-6, atol=0):
        sys.exit("transformers has another factor: %s, %s" % (table.embed_scale, factor))
    table.embed_scale = factor
    for module in model.modules():
        if type(module).__name__ == "Gemma3RMSNorm":
            module.forward = norm.__get__(module)
    return model.eval()


def gradients(model):
    """A sum that weighs the elements of each gradient, in the order of the names."""
    llama.loss_of(model, 0).backward()
    return [(parameter.grad.reshape(-1) * llama.values(parameter.numel(), 300, 1, 0)).sum().item()
            for _, parameter in sorted(model.named_parameters())]


# ---- The folder -----------------------------------------------------------------------------------

def fixture(folder):
    torch.manual_seed(1)
    model = Gemma3ForCausalLM(config(
        7, 6, PLAIN, vocab_size=64, hidden_size=16, intermediate_size=24, num_attention_heads=4, head_dim=8,
        query_pre_attn_scalar=8, sliding_window=5, max_position_embeddings=32, tie_word_embeddings=True))
    model = model.to(torch.bfloat16)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.copy_(torch.randn(tensor.shape) / 4)
    model.save_pretrained(folder, max_shard_size="25KB")
    os.remove(os.path.join(folder, "generation_config.json"))


def folder_logits():
    """Every fifth logit of the weights in the folder, in double."""
    model = prepare(Gemma3ForCausalLM.from_pretrained(FIXTURE, dtype=torch.float64))
    tokens = torch.tensor([(5 * i + i * i // 3) % model.config.vocab_size for i in range(16)]).reshape(1, 16)
    with torch.no_grad():
        return model(tokens).logits.reshape(-1)[::5].tolist()


def main():
    transformers.logging.set_verbosity_error()
    if len(sys.argv) == 3 and sys.argv[1] == "fixture":
        return fixture(sys.argv[2])
    alternating = {"pattern": 2, "full_rope": PLAIN, "width": 40, "query_scalar": 12, "tied": False}
    lines = {
        "gemma3_losses": llama.train(make(), 3),
        "gemma3_logits": llama.logits(make()),
        "gemma3_gradients": gradients(make()),
        "gemma3_alternating_logits": llama.logits(make(**alternating)),
        "gemma3_alternating_gradients": gradients(make(**alternating)),
        "gemma3_folder": folder_logits(),
    }
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        return llama.check(lines, sys.argv[2])
    for name, numbers in lines.items():
        print(name, *("%.17g" % number for number in numbers))


if __name__ == "__main__":
    main()
