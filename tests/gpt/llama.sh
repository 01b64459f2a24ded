#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# train_llama from the command line: weights that are saved are started from, with LoRA and without, in files and in
# folders; what is asked for in vain is one sentence.
#   llama.sh TRAIN_LLAMA TEXT FOLDER
set -euo pipefail
export LC_ALL=C
program="$1" text="$2" out="$3"
source "$(dirname "${BASH_SOURCE[0]}")/weights_file.sh"
rm -rf "$out"
mkdir -p "$out"

fail() {
  printf 'llama.sh: %s\n' "$1" >&2
  exit 1
}
train() {
  "$program" --data "$text" --precision double --batch 8 --generate 0 --in-order "$@" >"$out/said" 2>&1 ||
    fail "this failed: $* ($(cat "$out/said"))"
}
# The loss of the first step.
first_loss() { sed -n 's/^loss \([0-9.]*\) -> .*/\1/p' "$out/said"; }
# refused TEXT OPTIONS...
refused() {
  local said code=0
  said="$("$program" "${@:2}" 2>&1)" || code=$?
  [[ $code == 2 && $said == "train_llama: "*"$1"* ]] || fail "'${*:2}' said ($code) '$said', not '$1'"
}
names_of() {  # of a safetensors file
  local length
  length="$(od -An -t u8 -N 8 "$1")"
  head -c $((8 + length)) "$1" | tail -c "$length" | tr '{},' '\n\n\n' | sed -n 's/^"\([^"]*\.weight\)":.*/\1/p' | sort
}

train --steps 5 --save "$out/base.safetensors"
train --steps 0 --init "$out/base.safetensors" --save "$out/base/"
train --steps 1 --init "$out/base.safetensors"
from_file="$(first_loss)"
train --steps 1 --init "$out/base" --plan tp4
[[ $from_file == "$(first_loss)" ]] || fail "the loss is $from_file from a file and $(first_loss) from a folder under tp4"

# --init leaves out frequencies only, and no other tensor, such as Qwen2's biases. Other models use Llama's
# names.
with_tensor "$out/base.safetensors" "$out/old.safetensors" model.layers.0.self_attn.rotary_emb.inv_freq
train --steps 1 --init "$out/old.safetensors"
[[ $from_file == "$(first_loss)" ]] || fail "the loss is $from_file, and $(first_loss) next to frequencies"
mkdir "$out/qwen2" "$out/gemma"
with_tensor "$out/base.safetensors" "$out/qwen2/model.safetensors" model.layers.0.self_attn.q_proj.bias
refused "has no parameter for 1 tensor of the weights, 'model.layers.0.self_attn.q_proj.bias': these weights belong to another model" \
  --precision double --init "$out/qwen2"
cp "$out/base.safetensors" "$out/gemma/model.safetensors"
config() {  # writes a configuration with further fields
  echo '{"vocab_size": 256, "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, '"$1"'}' >"$out/gemma/config.json"
}
differs="does not fit the program's model: "
config '"model_type": "gemma", "hidden_act": "silu", "rms_norm_eps": 1e-05, "rope_theta": 1e4, "tie_word_embeddings": true'
refused "${differs}model_type is 'gemma' in the file and 'llama' or 'mistral' in the program; correct" \
  --precision double --init "$out/gemma"
config '"model_type": "llama", "rope_parameters": {"rope_theta": 5e5}'
refused "${differs}the file gives no rms_norm_eps, so that transformers takes 1e-06, and the program has 1e-05; \
rope_parameters.rope_theta is 500000.0 in the file and 10000.0 in the program; correct" \
  --precision double --init "$out/gemma"
config '"model_type": "mistral", "sliding_window": 4096, "rms_norm_eps": 1e-05, "logit_scale": 2'
refused "${differs}plait does not know the field 'logit_scale' (2), which may change the model" \
  --precision double --init "$out/gemma"
config '"model_type": "mistral", "sliding_window": 4096, "rms_norm_eps": 1e-05'
train --steps 1 --init "$out/gemma"
grep -q '^config.json: sliding_window is 4096, which has no effect on a sequence of 64 positions$' "$out/said" ||
  fail "no note on the window: $(cat "$out/said")"
[[ $from_file == "$(first_loss)" ]] || fail "the loss is $from_file, and $(first_loss) with a configuration"

# B starts as zeros, so that the first loss is the loss of the base.
train --steps 5 --init "$out/base" --lora 8 --plan dp2.tp2.pp2 --save "$out/adapter_model.safetensors"
[[ $from_file == "$(first_loss)" ]] || fail "the loss is $from_file, with LoRA $(first_loss)"
expected="$(for layer in 0 1; do
  for name in q v; do
    for matrix in A B; do
      echo "base_model.model.model.layers.$layer.self_attn.${name}_proj.lora_$matrix.weight"
    done
  done
done)"
[[ $(names_of "$out/adapter_model.safetensors") == "$expected" ]] ||
  fail "the adapter has $(names_of "$out/adapter_model.safetensors")"

"$program" --explain --size llama_1b --precision bfloat16 --plan tp4 >"$out/said"
grep -q '^mesh: tensor 4, .* 1235814400 parameters of 2 bytes$' "$out/said" || fail "$(head -1 "$out/said")"

refused "--size llama_1b is built only for --explain and --draw" --size llama_1b --precision bfloat16 --plan tp4
refused "sizes are tiny, llama_1b" --size large
refused "with --lora 3; none is; configure with -D PLAIT_LLAMA_MODELS=tiny.double" --precision double --lora 3
refused "unknown option '--reproducible'" --reproducible 4
refused "--lora needs a whole number from 1" --lora 0
# Before the training.
refused "'$out/no/w' cannot be written: folder '$out/no' does not exist; make it first" --data "$text" --precision double \
  --save "$out/no/w"
refused "has no tensor 'model.embed_tokens.weight'" --precision double --init "$out/adapter_model.safetensors"
