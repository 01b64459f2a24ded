# SPDX-License-Identifier: Apache-2.0
"""Compares the probabilities that llama.cpp computes from GGUF files of plait with plait's own.

  gguf_logits.py      compiles gguf_logits.cpp with $CXX, runs it, and reads its files by the package xllamacpp of PyPI

The files have weights of all sizes, the rotary scaling of Llama 3 and a tokenizer of single bytes. In F32 with keys and
values in F32, logarithms differ by less than 1e-4; in the other types, by rounding.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import xllamacpp

ROOT = pathlib.Path(__file__).parent.parent.parent
MOST = {"f32": 1e-4, "f16": 0.02, "bf16": 0.3, "q8_0": 0.6}


def tokenizer():
    vocab = {chr(256 + byte): byte for byte in range(256)} | {chr(byte): byte for byte in range(33, 127)}
    names = {number: name for name, number in vocab.items()}
    return {"added_tokens": [{"id": 0, "content": "<|begin|>", "special": True}],
            "pre_tokenizer": {"type": "ByteLevel", "use_regex": True},
            "model": {"type": "BPE", "vocab": {names[i]: i for i in range(1, 256)}, "merges": []}}


def difference(path, expected):
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_gpu_layers, params.verbosity = 64, 0, 0
    params.warmup = params.fit_params = False
    # Keys and values in half precision would differ more than the weights do.
    params.cache_type_k = params.cache_type_v = type(params.cache_type_k)(0)
    params.flash_attn_type = type(params.flash_attn_type)(0)
    answer = xllamacpp.Server(params).handle_completions(
        {"prompt": [ord(c) for c in "Hello, world"], "n_predict": 1, "n_probs": 256, "temperature": 0})
    answer = json.loads(answer) if isinstance(answer, str) else answer
    found = answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    assert len(found) == 256
    return max(abs(one["logprob"] - expected[one["id"]]) for one in found)


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    program = folder / "gguf_logits"
    subprocess.run([os.environ.get("CXX", "g++"), "-std=c++20", "-O1", f"-I{ROOT}/include", f"-I{ROOT}/examples",
                    ROOT / "tests/oracle/gguf_logits.cpp", "-pthread", "-lisal", "-lopenblas", "-o", program], check=True)
    lines = subprocess.run([program, folder], check=True, capture_output=True, text=True).stdout.split()
    expected = [float(line) for line in lines]
    wrong = False
    for kind, most in MOST.items():
        found = difference(folder / f"{kind}.gguf", expected)
        wrong = wrong or not found < most
        print(f"{kind}: logarithms of probabilities differ by at most {found:.2g}, allowed {most:g}", flush=True)
sys.stdout.flush()
os._exit(1 if wrong else 0)  # the server's threads do not end by themselves
