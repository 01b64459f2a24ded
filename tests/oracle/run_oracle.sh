#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares the losses of 20 steps of train_gpt with PyTorch's. See README.md in this folder.
#   run_oracle.sh [--stored | --pytorch | --renew] TRAIN_GPT BUILD_DIR
# --stored: compares with the stored losses of PyTorch. --pytorch: runs PyTorch and compares with it;
# skipped if it is missing. Neither: both. --renew: runs PyTorch and writes the stored losses.
# Scratch files go to BUILD_DIR/oracle.
# Exit codes: 0 equal or skipped, 1 different, 2 wrong arguments or something is missing.
set -euo pipefail
export LC_ALL=C
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

# name, size, precision, learning rate, largest relative difference. Double shows what changes
# little in 20 steps (the exact GELU: 5e-6). At 3e-3 the loss of size small jumps once, and that
# alone can take float 8e-4 away from double.
runs=("tiny tiny float 3e-3 1e-4"
      "tiny_double tiny double 3e-3 1e-9"
      "small small float 3e-4 1e-4")
stored=" tiny tiny_double "
steps=20
common=(--data "$here/text.txt" --steps "$steps" --batch 8 --weight-decay 0.01 --clip 1.0)

fail() {
  printf 'run_oracle.sh: %s\n' "$2" >&2
  exit "$1"
}

mode=both
case "${1-}" in
  --stored | --pytorch | --renew) mode="${1#--}"; shift ;;
esac
[[ $# == 2 ]] || fail 2 "usage: run_oracle.sh [--stored | --pytorch | --renew] TRAIN_GPT BUILD_DIR"
train_gpt="$1"
[[ -x $train_gpt ]] || fail 2 "$train_gpt is not a program"
out="$2/oracle/$mode"
mkdir -p "$out"

# quietly LOG COMMAND...: shows what the command said only if it failed.
quietly() {
  local log="$1"
  shift
  "$@" >"$log" 2>&1 && return
  cat "$log" >&2
  fail 1 "this command failed: $*"
}

# compare NAME EXPECTED GOT TOLERANCE: both are step,loss with as many rows as there are steps.
compare() {
  awk -F, -v name="$1" -v expected="$2" -v got="$3" -v tolerance="$4" -v steps="$steps" '
    function refuse(text) { print "run_oracle.sh: " name ": " text > "/dev/stderr"; exit 1 }
    function read_row(file, row,    line, field) {  # the loss in this row of the file
      if ((getline line < file) <= 0) refuse(file " ends after " row " rows of " steps + 1)
      if (row == 0) { if (line != "step,loss") refuse(file " begins with \"" line "\""); return 0 }
      if (split(line, field, ",") != 2 || field[1] !~ /^[0-9]+$/ ||
          field[2] !~ /^[0-9]+([.][0-9]*)?([eE][-+]?[0-9]+)?$/)
        refuse(file ": no step and loss: \"" line "\"")
      if (row > 1 && field[1] != last[file] + 1)
        refuse(file ": step " field[1] " after " last[file])
      last[file] = field[1]
      return field[2] + 0
    }
    BEGIN {
      for (row = 0; row <= steps; ++row) {
        a = read_row(expected, row); b = read_row(got, row)
        if (row == 0) continue
        if (a == 0) refuse(expected ": the loss is 0")
        difference = (a > b ? a - b : b - a) / a
        if (difference > worst) worst = difference
        if (difference > tolerance)
          refuse(sprintf("step %d of %d: loss %.10g, PyTorch %.10g: off by %.1e, more than %g",
                         row, steps, b, a, difference, tolerance))
      }
      if ((getline line < got) > 0) refuse(got " has more than " steps " steps")
      if ((getline line < expected) > 0) refuse(expected " has more than " steps " steps")
      printf "%s: losses of %d steps differ from PyTorch by at most %.1e (allowed: %g)\n",
             name, steps, worst, tolerance
    }' </dev/null || exit 1
}

# The first Python that has PyTorch; empty if none.
python=""
if [[ $mode != stored ]]; then
  for candidate in "${PYTHON:-python3}" /usr/bin/python3; do
    if "$candidate" -c 'import torch' >/dev/null 2>&1; then
      python="$candidate"
      break
    fi
  done
  if [[ -z $python ]]; then
    [[ $mode != renew ]] || fail 2 "--renew needs Python with torch (Debian: python3-torch)"
    if [[ $mode == pytorch ]]; then
      echo "skipped: Python with torch is not installed"
      exit 0
    fi
  fi
fi
if [[ -n $python ]]; then
  "$python" "$here/gpt_reference.py" --self-check --size tiny "${common[@]}"
fi

# Layers on images and a ResNet, of tests/nn/image_oracle_test.cpp and resnet_oracle_test.cpp, and layers as formulas, of
# tests/formula/oracle_test.cpp and attention_oracle_test.cpp.
for of in images formula resnet; do
  [[ -n $python ]] || break
  if [[ $of == resnet ]] && ! "$python" -c 'import torchvision' >/dev/null 2>&1; then
    [[ $mode != renew ]] || fail 2 "--renew needs torchvision (pip install torchvision)"
    echo "resnet: torchvision is not installed"
  elif [[ $mode == renew ]]; then
    "$python" "$here/${of}_reference.py" >"$out/${of}_numbers.txt" && mv "$out/${of}_numbers.txt" "$here/"
    echo "wrote $here/${of}_numbers.txt"
  else
    "$python" "$here/${of}_reference.py" --check "$here/${of}_numbers.txt" || exit 1
  fi
done

# The models of tests/nn/llama_oracle_test.cpp, qwen_oracle_test.cpp and gemma_oracle_test.cpp, which need no program.
if [[ -n $python ]] && "$python" -c 'import transformers' >/dev/null 2>&1; then
  "$python" "$here/config_defaults.py" || [[ $? == 77 ]] || exit 1
fi
for of in llama qwen gemma; do
  numbers="$here/${of}_numbers.txt"
  if [[ -n $python ]] && "$python" -c 'import transformers' >/dev/null 2>&1; then
    if [[ $mode == renew ]]; then
      "$python" "$here/${of}_reference.py" >"$out/${of}_numbers.txt" && mv "$out/${of}_numbers.txt" "$numbers"
      echo "wrote $numbers"
    else
      "$python" "$here/${of}_reference.py" --check "$numbers" || exit 1
    fi
  elif [[ $mode == renew ]]; then
    fail 2 "--renew needs transformers (pip install transformers)"
  elif [[ -n $python ]]; then
    echo "$of: transformers is not installed"
  fi
done

compared=""
for run in "${runs[@]}"; do
  read -r name size precision learning_rate tolerance <<<"$run"
  is_stored=""
  [[ $stored != *" $name "* ]] || is_stored=yes
  fixture="$here/losses_$name.csv"
  weights="$out/$name.safetensors"
  options=("${common[@]}" --size "$size" --precision "$precision" --learning-rate "$learning_rate")
  [[ $is_stored || ($mode != renew && $python) ]] || continue
  if [[ -z "$("$train_gpt" --list-plans --size "$size" --precision "$precision")" ]]; then
    echo "$name: train_gpt is built without it"
    continue
  fi
  compared=yes

  rm -f "$weights" "$out/$name".*csv
  quietly "$out/$name.log" "$train_gpt" --data "$here/text.txt" --plan serial --size "$size" \
    --precision "$precision" --steps 0 --seed 1 --save "$weights"
  if [[ $mode == renew ]]; then
    "$python" "$here/gpt_reference.py" --weights "$weights" --losses "$fixture" \
      "${options[@]}" || exit 1
    echo "wrote $fixture"
    continue
  fi

  quietly "$out/$name.log" "$train_gpt" --plan serial --in-order "${options[@]}" --init "$weights" \
    --losses "$out/$name.csv"
  if [[ $is_stored && $mode != pytorch ]]; then
    [[ -f $fixture ]] || fail 2 "$fixture is missing; write it with --renew"
    compare "$name, stored" "$fixture" "$out/$name.csv" "$tolerance"
  fi
  if [[ $python ]]; then
    "$python" "$here/gpt_reference.py" --weights "$weights" --losses "$out/$name.pytorch.csv" \
      "${options[@]}" || exit 1
    compare "$name" "$out/$name.pytorch.csv" "$out/$name.csv" "$tolerance"
  fi
done
[[ $compared ]] || fail 2 "train_gpt is built without any of the models to compare"
if [[ $mode == both && -z $python ]]; then
  echo "skipped: Python with torch is not installed"
fi
