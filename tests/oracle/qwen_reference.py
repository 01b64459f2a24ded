#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Numbers of small Qwen2s and Qwen3s in transformers, for tests/nn/qwen_oracle_test.cpp: a line for each, its name and
values.

  qwen_reference.py                 prints the lines
  qwen_reference.py --check FILE    compares them with the lines of a file
  qwen_reference.py fixture FOLDER  writes the weights of a small Qwen3: tests/checkpoint/fixtures/qwen3

Weights, tokens and exceptions from transformers' float are as in llama_reference.py.
"""
import os
import sys

import torch
import transformers
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

import llama_reference as llama

HEAD_WIDTH, THETA = 24, 1000000.0  # four heads are wider than the model
FIXTURE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "checkpoint", "fixtures", "qwen3")


def make(kind="qwen3", tied=False, dtype=torch.float64):
    of_qwen3 = kind == "qwen3"
    options = {"vocab_size": llama.VOCABULARY, "hidden_size": llama.WIDTH, "intermediate_size": llama.HIDDEN,
               "num_hidden_layers": llama.LAYERS, "num_attention_heads": llama.HEADS, "num_key_value_heads": 2,
               "max_position_embeddings": llama.SEQUENCE, "rms_norm_eps": 1e-6, "tie_word_embeddings": tied,
               "rope_parameters": {"rope_type": "default", "rope_theta": THETA}, "attn_implementation": "sdpa"}
    if of_qwen3:
        model = Qwen3ForCausalLM(Qwen3Config(head_dim=HEAD_WIDTH, **options))
    else:
        model = Qwen2ForCausalLM(Qwen2Config(**options))
    head_width = HEAD_WIDTH if of_qwen3 else llama.WIDTH // llama.HEADS
    return llama.prepare(model.to(dtype), llama.frequencies(options["rope_parameters"], head_width))


def gradients(model):
    """A sum that weighs the elements of each gradient, in the order of the names."""
    llama.loss_of(model, 0).backward()
    return [(parameter.grad.reshape(-1) * llama.values(parameter.numel(), 300, 1, 0)).sum().item()
            for _, parameter in sorted(model.named_parameters())]


# ---- The folder -----------------------------------------------------------------------------------

def fixture(folder):
    torch.manual_seed(1)
    model = Qwen3ForCausalLM(Qwen3Config(
        vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=12, max_position_embeddings=16, tie_word_embeddings=True, bos_token_id=None,
        eos_token_id=None, pad_token_id=None, rope_parameters={"rope_type": "default", "rope_theta": THETA}))
    model = model.to(torch.bfloat16)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.copy_(torch.randn(tensor.shape) / 5 + (1 if tensor.dim() == 1 else 0))
    model.save_pretrained(folder, max_shard_size="30KB")
    os.remove(os.path.join(folder, "generation_config.json"))


def folder_logits():
    """Every fifth logit of the weights in the folder, in double."""
    model = Qwen3ForCausalLM.from_pretrained(FIXTURE, dtype=torch.float64)
    of = model.config
    model = llama.prepare(model, llama.frequencies(of.rope_parameters, of.head_dim), with_weights=False)
    tokens = torch.tensor([(5 * i + i * i // 3) % of.vocab_size for i in range(16)]).reshape(1, 16)
    with torch.no_grad():
        return model(tokens).logits.reshape(-1)[::5].tolist()


def main():
    transformers.logging.set_verbosity_error()
    if len(sys.argv) == 3 and sys.argv[1] == "fixture":
        return fixture(sys.argv[2])
    lines = {
        "qwen3_tied_losses": llama.train(make(tied=True), 5),
        "qwen3_logits": llama.logits(make()),
        "qwen3_gradients": gradients(make()),
        "qwen3_tied_gradients": gradients(make(tied=True)),
        "qwen2_logits": llama.logits(make("qwen2")),
        "qwen2_gradients": gradients(make("qwen2")),
        "qwen3_folder": folder_logits(),
    }
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        return llama.check(lines, sys.argv[2])
    for name, numbers in lines.items():
        print(name, *("%.17g" % number for number in numbers))


if __name__ == "__main__":
    main()
