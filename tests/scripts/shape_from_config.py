#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shape_from_config.py FOLDER

scripts/shape_from_config: the constants that it writes, among them one of train_llama's own, and its sentences for
configurations that train_llama does not have."""
import json
import os
import shutil
import subprocess
import sys

root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
folder = os.path.abspath(sys.argv[1])
script = os.path.join(root, "scripts", "shape_from_config")
shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
os.chdir(folder)
failures = 0

# As Meta has published it.
LLAMA_1B = {
    "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 128000,
    "eos_token_id": 128001, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
    "intermediate_size": 8192, "max_position_embeddings": 131072, "mlp_bias": False, "model_type": "llama",
    "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8, "pretraining_tp": 1,
    "rms_norm_eps": 1e-05, "rope_scaling": {
        "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
        "rope_type": "llama3"},
    "rope_theta": 500000.0, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
    "transformers_version": "4.45.0.dev0", "use_cache": True, "vocab_size": 128256}
SCALING = LLAMA_1B["rope_scaling"]

# As Google has published it.
GEMMA_1B = {
    "architectures": ["Gemma3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
    "attn_logit_softcapping": None, "bos_token_id": 2, "cache_implementation": "hybrid", "eos_token_id": 1,
    "final_logit_softcapping": None, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152,
    "initializer_range": 0.02, "intermediate_size": 6912, "max_position_embeddings": 32768,
    "model_type": "gemma3_text", "num_attention_heads": 4, "num_hidden_layers": 26, "num_key_value_heads": 1,
    "pad_token_id": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000,
    "rope_scaling": None, "rope_theta": 1000000, "sliding_window": 512, "sliding_window_pattern": 6,
    "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0", "use_cache": True, "vocab_size": 262144}


def check(name, condition):
    global failures
    if not condition:
        failures += 1
        print("FAILED: " + name, file=sys.stderr)


def run(*words):
    done = subprocess.run([sys.executable, script, *words], capture_output=True, text=True)
    check("no traceback of %s: %s" % (words, done.stderr), "Traceback" not in done.stderr)
    return done.returncode, done.stdout, done.stderr.strip()


def write(config, name="model"):
    os.makedirs(name, exist_ok=True)
    with open(os.path.join(name, "config.json"), "w") as file:
        file.write(config if isinstance(config, str) else json.dumps(config))
    return name


def refused(sentence, config, *words):
    code, out, said = run(*words, write(config))
    expected = "shape_from_config: configuration '%s' %s" % (os.path.join("model", "config.json"), sentence)
    check("expected %r, found %d %r %r" % (expected, code, out, said), (code, out) == (1, "") and said == expected)


def changed(**fields):
    return dict(LLAMA_1B, **fields)


def mistral(**fields):
    return changed(model_type="mistral", architectures=["MistralForCausalLM"], **fields)


def without(*names):
    return {name: value for name, value in LLAMA_1B.items() if name not in names}


def constant(config, *words):
    code, out, said = run(*words, write(config))
    check("%s: %d %s" % (words, code, said), code == 0 and said == "")
    return " ".join(out.split())


def has(config, part, *words):
    found = constant(config, *words)
    check("expected %r in %r" % (part, found), part in found)


def lacks(config, part, *words):
    found = constant(config, *words)
    check("expected no %r in %r" % (part, found), part not in found)


# The constant of train_llama is the one of Llama-3.2-1B, with its comment.
code, out, said = run("--name", "llama_1b_shape", write(LLAMA_1B, "Llama-3.2-1B"))
with open(os.path.join(root, "examples", "train_llama", "model.hpp")) as file:
    program = file.read()
lines = out.splitlines(keepends=True)
check("the comments: %s" % lines[:2], lines[:2] == [
    "/// Llama-3.2-1B on 4096 tokens.\n", "/// Its head is the table of the embedding: the model is tied_llama.\n"])
check("train_llama has the constant: %s" % out, code == 0 and "".join(lines[:1] + lines[2:]) in program)

# Names and sequences.
has(LLAMA_1B, "constexpr train_llama::shape model_shape{ .layers = 16,")
check("a name from digits", "constexpr train_llama::shape model_7_b_shape{" in run(write(LLAMA_1B, "7-B"))[1])
has(LLAMA_1B, ".sequence = 131072,", "--sequence", "131072")
has(changed(max_position_embeddings=2048), ".sequence = 2048,")
check("no comment on a head of its own", "tied" not in constant(changed(tie_word_embeddings=False)))

# Defaults of transformers for missing fields.
tiny = {"model_type": "llama"}
check("defaults of llama: " + constant(tiny), constant(tiny).endswith(
    "shape model_shape{ .layers = 32, .width = 4096, .hidden = 11008, .heads = 32, .key_value_heads = 32, "
    ".head_width = 128, .sequence = 2048, .vocabulary = 32000, .norm = {.epsilon = plait::fraction(1e-6)}};"))
check("defaults of mistral: " + constant({"model_type": "mistral"}, "--sequence", "8192"),
      constant({"model_type": "mistral"}, "--sequence", "8192").endswith(
          ".key_value_heads = 8, .head_width = 128, .sequence = 8192, .vocabulary = 32000, "
          ".norm = {.epsilon = plait::fraction(1e-6)}, .attention = {.window = 4096}};"))

# Rotary positions, norms and windows.
lacks(changed(rope_scaling=None, rope_theta=10000.0), ".rotary")
lacks(without("rope_scaling", "rope_theta"), ".rotary")
has(changed(rope_scaling={"type": "linear", "factor": 2}),
    ".rotary = {.base = 500000, .scaling = plait::nn::rotary_scaling::linear, .factor = plait::fraction(2.0)}")
has(changed(rope_scaling=None, rope_parameters={"rope_type": "default", "rope_theta": 5e5}, rope_theta=5e5),
    ".rotary = {.base = 500000}")
has(changed(rope_scaling=dict(SCALING, low_freq_factor=2.5, high_freq_factor=8, original_max_position_embeddings=4096)),
    ".factor = plait::fraction(32.0), .low_frequency_factor = plait::fraction(2.5), "
    ".high_frequency_factor = plait::fraction(8.0), .original_positions = 4096}")
short = {key: value for key, value in SCALING.items() if key != "original_max_position_embeddings"}
has(changed(rope_scaling=short), ".original_positions = 131072}")
has(changed(rms_norm_eps=2.5e-07), ".norm = {.epsilon = plait::fraction(2.5e-7)}")
# Only Mistral and Gemma read sliding_window, and none of the three types reads use_sliding_window.
has(mistral(sliding_window=1024), ".attention = {.window = 1024}")
has(mistral(sliding_window=1024, use_sliding_window=False),
    "/// Its config.json has the use_sliding_window false, which transformers ignores for the model_type mistral. inline")
has(mistral(sliding_window=1024, use_sliding_window=False), ".attention = {.window = 1024}")
for config in (mistral(sliding_window=4096), mistral(sliding_window=None),
               mistral(sliding_window=1024, layer_types=["full_attention"] * 16)):
    lacks(config, "window")
has(changed(sliding_window=1024),
    "/// Its config.json has the sliding_window 1024, which transformers ignores for the model_type llama. inline")
lacks(changed(sliding_window=1024), ".window")
lacks(changed(use_sliding_window=False, sliding_window=None), "window")

# Gemma 3, as transformers 4 and 5 write it.
def gemma(**fields):
    return dict(GEMMA_1B, **fields)


def gemma_5(full, sliding, **fields):
    config = gemma(rope_parameters={"full_attention": full, "sliding_attention": sliding},
                   layer_types=(["sliding_attention"] * 5 + ["full_attention"]) * 4 + ["sliding_attention"] * 2,
                   _sliding_window_pattern=6, use_bidirectional_attention=False, **fields)
    return {name: value for name, value in config.items()
            if name not in ("rope_theta", "rope_local_base_freq", "rope_scaling", "sliding_window_pattern")}


plain, local = {"rope_type": "default", "rope_theta": 1e6}, {"rope_type": "default", "rope_theta": 1e4}
code, out, said = run("--name", "gemma_1b_shape", write(GEMMA_1B, "gemma-3-1b"))
check("the constant of Gemma 3 1B: %d %s %s" % (code, out, said), code == 0 and " ".join(out.split()) == (
    "/// gemma-3-1b on 4096 tokens. /// Its head is the table of the embedding: the model is tied_llama. "
    "inline constexpr train_llama::shape gemma_1b_shape{ .layers = 26, .width = 1152, .hidden = 6912, .heads = 4, "
    ".key_value_heads = 1, .head_width = 256, .sequence = 4096, .vocabulary = 262144, "
    ".norm = {.epsilon = plait::fraction(1e-6)}, .rotary = {.base = 1000000}, .attention = {.window = 512}, "
    ".gemma = {.pattern = 6}};"))
check("both versions of transformers", constant(gemma_5(plain, local)) == constant(GEMMA_1B))
has(gemma(rope_scaling={"rope_type": "linear", "factor": 8.0}, rope_local_base_freq=20000, query_pre_attn_scalar=168),
    ".rotary = {.base = 1000000, .scaling = plait::nn::rotary_scaling::linear, .factor = plait::fraction(8.0)}, "
    ".attention = {.window = 512}, .gemma = {.pattern = 6, .local_base = 20000, .query_scalar = 168}")
has(gemma_5(dict(plain, rope_type="linear", factor=8.0), dict(local, rope_theta=2e4)),
    ".factor = plait::fraction(8.0)}, .attention = {.window = 512}, .gemma = {.pattern = 6, .local_base = 20000}")
has(gemma(sliding_window_pattern=2), ".gemma = {.pattern = 2}")
has(gemma(num_hidden_layers=2, layer_types=["sliding_attention"] * 2), ".gemma = {.pattern = 3}")
lacks(GEMMA_1B, ".window", "--sequence", "512")  # the rotation of local layers remains
has(GEMMA_1B, ".gemma = {.pattern = 6}", "--sequence", "512")
refused("has the hidden_activation \"gelu\"; train_llama's Gemma has \"gelu_pytorch_tanh\"",
        gemma(hidden_activation="gelu"))
refused("has the sliding_window null; it must be a whole number from 1", gemma(sliding_window=None))
refused("has the final_logit_softcapping 30.0, and train_llama's model null", gemma(final_logit_softcapping=30.0))
refused("has the attn_logit_softcapping 50.0, and train_llama's model null", gemma(attn_logit_softcapping=50.0))
refused("has the use_bidirectional_attention true, and train_llama's model false",
        gemma(use_bidirectional_attention=True))
refused("has the query_pre_attn_scalar 0; it must be a whole number from 1", gemma(query_pre_attn_scalar=0))
refused("has the layer_types [\"full_attention\", \"sliding_attention\"]; in train_llama's Gemma the layers with full "
        "attention are the last of every so many layers",
        gemma(num_hidden_layers=2, layer_types=["full_attention", "sliding_attention"]))
refused("has the layer_types [\"sliding_attention\"]; they must be \"sliding_attention\" or \"full_attention\" for "
        "each of 26 layers", gemma(layer_types=["sliding_attention"]))
refused("has the rope_local_base_freq 10000.5, and train_llama's is a whole number from 1",
        gemma(rope_local_base_freq=10000.5))
refused("has the rope_parameters.sliding_attention.rope_type \"linear\", and train_llama's layers with a window have "
        "\"default\"", gemma_5(plain, dict(local, rope_type="linear", factor=8.0)))
refused("has rope_parameters.sliding_attention.factor, 8.0, which train_llama's model does not have",
        gemma_5(plain, dict(local, factor=8.0)))
refused("has the rope_parameters.full_attention 4, which is not an object", gemma_5(4, local))

# Models that train_llama does not have.
refused("has the model_type \"gemma\", and train_llama's model is of llama, mistral or gemma3_text", changed(model_type="gemma"))
refused("has the model_type null, and train_llama's model is of llama, mistral or gemma3_text", without("model_type"))
refused("has the architectures [\"LlamaModel\"], and train_llama's model is LlamaForCausalLM",
        changed(architectures=["LlamaModel"]))
refused("has the hidden_act \"gelu\"; train_llama has \"silu\"", changed(hidden_act="gelu"))
refused("has the attention_bias true; train_llama's layers have no bias", changed(attention_bias=True))
refused("has the mlp_bias true; train_llama's layers have no bias", changed(mlp_bias=True))
refused("has the hidden_size \"2048\"; it must be a whole number from 1", changed(hidden_size="2048"))
refused("has the vocab_size 0; it must be a whole number from 1", changed(vocab_size=0))
refused("has num_attention_heads 32, which is not a multiple of its num_key_value_heads 7",
        changed(num_key_value_heads=7))
refused("has the hidden_size 2050, which is not a multiple of its num_attention_heads 32",
        changed(hidden_size=2050, head_dim=None))
refused("has the head_dim 63, and train_llama's is even and at most 512", changed(head_dim=63))
refused("has the max_position_embeddings 2048, and --sequence is 4096", changed(max_position_embeddings=2048),
        "--sequence", "4096")
refused("has the rms_norm_eps 1.5e-09, and plait::fraction has nine digits after the point",
        changed(rms_norm_eps=1.5e-09))
refused("has the rms_norm_eps null; it must be a number above 0 and below 9e+09", changed(rms_norm_eps=None))
refused("has the rope_theta 10000.5, and train_llama's is a whole number from 1", changed(rope_theta=10000.5))
refused("has the rope_theta 500000.0 and, in rope_parameters, 10000.0",
        changed(rope_scaling=None, rope_parameters={"rope_theta": 10000.0}))
refused("has rope_scaling and rope_parameters; remove one of them", changed(rope_parameters={"rope_type": "default"}))
refused("has the rope_type \"yarn\", and train_llama has default, linear and llama3",
        changed(rope_scaling={"rope_type": "yarn", "factor": 2.0}))
refused("has the rope_type \"llama3\" and the type \"linear\"", changed(rope_scaling=dict(SCALING, type="linear")))
refused("has no rope_scaling.low_freq_factor, which the rope_type llama3 needs",
        changed(rope_scaling={"rope_type": "llama3", "factor": 2.0}))
refused("has the low_freq_factor 4.0, which must be below its high_freq_factor 4.0",
        changed(rope_scaling=dict(SCALING, low_freq_factor=4.0)))
refused("has rope_scaling.beta_fast, 32, which train_llama's model does not have",
        changed(rope_scaling=dict(SCALING, beta_fast=32)))
refused("has the rope_scaling 4, which is not an object", changed(rope_scaling=4))
refused("has layer_types [\"full_attention\", \"sliding_attention\"]; train_llama's layers all have the same attention",
        mistral(sliding_window=8, layer_types=["full_attention", "sliding_attention"]))
refused("has the quantization_config {\"bits\": 4}, and train_llama's model null",
        changed(quantization_config={"bits": 4}))
refused("has the field 'logit_scale' (0.5), which train_llama's model does not have and which may change the model",
        changed(logit_scale=0.5))

# Other files.
refused("is not an object", "[1]")
refused("is not JSON: it has the field 'a' twice", '{"a": 1, "a": 2}')
refused("is not JSON: NaN is not a number of JSON", '{"rope_theta": NaN}')
refused("has more than 1048576 bytes", " " * (1 << 20) + "{}")
for text in ('{"model_type": "llama"', "", "[" * 200000):
    code, out, said = run(write(text))
    check("%d %s" % (code, said), code == 1 and out == "" and "is not JSON" in said and "\n" not in said)
code, out, said = run("nowhere")
check(said, code == 1 and said == "shape_from_config: configuration '%s' cannot be read: No such file or directory" %
      os.path.join("nowhere", "config.json"))
os.makedirs(os.path.join("pipe"))
os.mkfifo(os.path.join("pipe", "config.json"))
code, out, said = run("pipe")
check(said, code == 1 and said.endswith("cannot be read: it is not a regular file"))

# Arguments.
for words, sentence in ((["--sequence", "0"], "0 is not a number of positions; write 1 or more"),
                        (["--name", "7b"], "'7b' is not a name in C++; write letters, digits and _")):
    code, out, said = run(*words, write(LLAMA_1B))
    check("%s: %d %s" % (words, code, said), code == 2 and out == "" and said.endswith(sentence))
check("no folder", run()[0] == 2)
check("--help", run("--help")[0] == 0 and "--sequence" in run("--help")[1])

if failures:
    sys.exit(1)
