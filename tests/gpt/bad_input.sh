#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What train_gpt does with wrong input: one sentence on stderr, exit code 2, nothing written. And what
# its files and its plain output look like.
#   bad_input.sh TRAIN_GPT SCRATCH_DIR TEXT
set -euo pipefail
export LC_ALL=C
train_gpt="$1" scratch="$2" text="$3"
rm -rf "$scratch"
mkdir -p "$scratch/work"
cd "$scratch/work"
failures=0

complain() {
  printf 'bad_input.sh: %s\n' "$*" >&2
  failures=$((failures + 1))
}

# refused WORDS ARGUMENTS...: the run must fail with one sentence that contains WORDS.
refused() {
  local words="$1" before code=0 lines
  shift
  before="$(find . | sort)"
  "$train_gpt" "$@" >../out 2>../err || code=$?
  lines="$(wc -l <../err)"
  [[ $code == 2 ]] || complain "exit code $code instead of 2: $*: $(cat ../err)"
  [[ $lines == 1 && $(cat ../err) == "train_gpt: "* ]] || complain "not one sentence: $*: $(cat ../err)"
  grep -qF -e "$words" ../err || complain "'$words' is not said: $*: $(cat ../err)"
  [[ ! -s ../out ]] || complain "there is output before the refusal: $*: $(cat ../out)"
  [[ "$(find . | sort)" == "$before" ]] || complain "a file was written: $*: $(find . | sort)"
}

# succeeds ARGUMENTS...: the run must end with exit code 0 and say nothing on stderr.
succeeds() {
  local code=0
  "$train_gpt" "$@" >../out 2>../err || code=$?
  [[ $code == 0 && ! -s ../err ]] || complain "exit code $code: $*: $(cat ../err)"
}

: >empty
head -c 64 "$text" >short
head -c 65 "$text" >just_long_enough
mkdir folder
some=(--data "$text" --batch 4 --generate 0)

# The text.
refused "'missing' cannot be read" --data missing
refused "'folder' cannot be read: it is a directory" --data folder
refused "'empty' is empty" --data empty
refused "'short' has 64 bytes; one sequence of 64 needs at least 64 + 1" --data short
refused "--batch 2 is more than the 1 sequences of the text" --data just_long_enough --batch 2
refused "--data needs a value" --data
refused "--data needs a value" --data ""

# Plans, sizes, batches.
refused "unknown plan 'dp3'; --list-plans prints them" --plan dp3
refused "is not built for size 'huge'" --size huge
refused "in precision 'half'" --precision half
refused "--attention is own or cudnn, got 'fast'" --attention fast
refused "--attention cudnn needs --backend cuda and --precision bfloat16" --attention cudnn --backend cuda
refused "--attention cudnn needs --backend cuda and --precision bfloat16" --attention cudnn --precision bfloat16
refused "--batch 7 does not divide over 2 data ranks" --plan dp2 --batch 7
refused "--batch 6 does not divide over 1 data ranks with 4 microbatches each" --plan pp4 --batch 6
refused "--batch 4 does not divide" --batch 4 --microbatches 3
refused "--batch 99999999999 is more than" --data "$text" --batch 99999999999
refused "--batch 99999999999 is more than" --data "$text" --batch 99999999999 \
  --microbatches 99999999999

# Options and numbers.
refused "unknown option '--stepps'; see --help" --stepps 3
refused "unknown option 'stray'" stray
for number in abc -1 1e999 nan inf 3x 1.5 99999999999999999999; do
  refused "--steps needs a number of at least 0, got '$number'" --steps "$number"
done
for number in abc -1 1e999 nan inf 3x; do
  for option in --learning-rate --weight-decay --clip; do
    refused "$option needs a number of at least 0, got '$number'" "$option" "$number"
  done
done
refused "--batch needs a number of at least 1, got '0'" --batch 0
refused "--microbatches needs a number of at least 1, got '0'" --microbatches 0
refused "--seed needs a number of at least 0, got '-5'" --seed -5
refused "--generate needs a number of at least 0, got 'many'" --generate many
refused "--save needs a value" --save

# Files that cannot be written are found before the training.
refused "'nowhere/w.partial' cannot be opened" "${some[@]}" --save nowhere/w
refused "'folder' cannot be written: it is there and not a regular file" "${some[@]}" --save folder
refused "'empty/w.partial' cannot be opened" "${some[@]}" --save empty/w
refused "the losses cannot be written to 'nowhere/l'" "${some[@]}" --losses nowhere/l --save w
refused "the losses cannot be written to 'folder'" "${some[@]}" --losses folder

# Weights.
succeeds "${some[@]}" --steps 0 --save good
[[ -s good && ! -e good.partial ]] || complain "--steps 0 --save wrote no weights"
printf 'no weights at all' >noise
head -c 7 good >cut_length
head -c 1000 good >cut_header
head -c 100000 good >cut_data
cp good longer && printf 'x' >>longer
sed 's/ln_f[.]bias/ln_f.byas/' good >other_name
sed 's/"shape":\[256,64\]/"shape":[64,256]/' good >turned
sed 's/{/[/' good >no_json
init=("${some[@]}" --steps 1 --save w --losses l --init)
refused "'missing' cannot be opened" "${init[@]}" missing
refused "'folder' cannot be read: it is not a regular file" "${init[@]}" folder
refused "'empty'" "${init[@]}" empty
refused "'noise'" "${init[@]}" noise
refused "'cut_length'" "${init[@]}" cut_length
refused "'cut_header' says that its header has" "${init[@]}" cut_header
refused "'cut_data': tensor" "${init[@]}" cut_data
refused "'longer' has" "${init[@]}" longer
refused "'other_name' has no tensor 'ln_f.bias'" "${init[@]}" other_name
refused "'turned': tensor 'wte.weight' has the shape (64, 256), but (256, 64) is needed" \
  "${init[@]}" turned
refused "'no_json' has a header" "${init[@]}" no_json

# What is written: the same first loss from saved weights, losses that round-trip, files that replace.
first() { sed -n 2p "$1"; }
succeeds "${some[@]}" --steps 2 --losses from_seed
succeeds "${some[@]}" --steps 2 --losses from_file --init good --seed 0
[[ "$(first from_seed)" == "$(first from_file)" ]] ||
  complain "the first loss is $(first from_seed), from saved weights $(first from_file)"
cp from_seed old
succeeds "${some[@]}" --steps 3 --losses from_seed
[[ "$(head -n 3 from_seed)" == "$(cat old)" && $(wc -l <from_seed) == 4 ]] ||
  complain "--losses did not replace the file: $(cat from_seed)"
[[ "$(first from_seed)" =~ ^0,[0-9]\.[0-9]{12,}$ ]] ||
  complain "too few digits of a loss: $(first from_seed)"
[[ -z "$(find . -name '*.partial')" ]] || complain "partial files are left"

# Output that is no terminal is plain lines.
succeeds "${some[@]}" --steps 40
! grep -q $'[\r\033]' ../out || complain "control characters in plain output"
grep -q '^loss [0-9.]* -> [0-9.]*, [0-9]* tokens/s$' ../out || complain "no last line: $(cat ../out)"
(($(wc -l <../out) < 40)) || complain "a line for every step: $(cat ../out)"

succeeds --list-plans
for plan in $(awk '{ print $1 }' ../out); do
  succeeds --plan "$plan" --batch 16 --explain
  [[ -s ../out ]] || complain "--explain says nothing of $plan"
done
grep -q . ../out || complain "--list-plans prints nothing"
succeeds --help
grep -q -e '--learning-rate' ../out || complain "--help does not explain the options"

# Tokens, where size gpt2 is built.
token_header() {  # some words of 32 bits, the lowest byte first, and zeros up to the 256th word
  local word shift
  for word in "$@"; do
    for shift in 0 8 16 24; do printf "$(printf '\\x%02x' $((word >> shift & 255)))"; done
  done
  head -c $((4 * (256 - $#))) /dev/zero
}
zeros() { head -c $((2 * $1)) /dev/zero; }
if [[ -n "$("$train_gpt" --list-plans --size gpt2)" ]]; then
  { token_header 20240520 1 1025; zeros 1025; } >tokens
  { token_header 20240520 1 1024; zeros 1024; } >few_tokens
  { token_header 20240520 1 1026; zeros 1025; } >cut_tokens
  { token_header 20240520 2 1025; zeros 1025; } >new_tokens
  { token_header 20240520 1 1025; zeros 1024; printf '\x51\xc4'; } >strange_token
  zeros 1025 >bare_tokens
  gpt2=(--size gpt2 --batch 1 --generate 0 --save w --losses l)
  refused "--size gpt2 needs --data FILE, a file of tokens" "${gpt2[@]}"
  gpt2+=(--data)
  refused "token file 'missing' cannot be read" "${gpt2[@]}" missing
  refused "token file 'folder' cannot be read: it is not a regular file" "${gpt2[@]}" folder
  refused "token file 'empty' has 0 bytes, fewer than its header of 1024" "${gpt2[@]}" empty
  refused "token file 'bare_tokens' begins with 0 instead of 20240520" "${gpt2[@]}" bare_tokens
  refused "token file 'new_tokens' has version 2" "${gpt2[@]}" new_tokens
  refused "should have 1026 tokens by its header, but 2050 bytes follow it" "${gpt2[@]}" cut_tokens
  refused "has 1024 tokens; one sequence of 1024 needs at least 1024 + 1" "${gpt2[@]}" few_tokens
  refused "has the token 50257 at place 1024" "${gpt2[@]}" strange_token
  refused "--batch 2 is more than the 1 sequences" "${gpt2[@]}" tokens --batch 2
  refused "plan 'pp2' is not built for size 'gpt2'" "${gpt2[@]}" tokens --plan pp2
  refused "'wte.weight' has the shape (256, 64), but (50257, 768) is needed" "${gpt2[@]}" tokens \
    --init good
  succeeds "${gpt2[@]}" tokens --steps 0
  head -c 20000 w >head_of_w
  grep -qaF '"wte.weight":{"dtype":"F32","shape":[50257,768],' head_of_w ||
    complain "the table is not saved without its padding"
  ! grep -qaF lm_head head_of_w || complain "the tied head is saved"
  rm w
fi

if ((failures > 0)); then
  echo "bad_input.sh: $failures failures" >&2
  exit 1
fi
echo "all refused or done as they should be"
