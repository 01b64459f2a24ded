#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What train_gpt does with wrong input: one sentence on stderr, exit code 2, nothing written. And what
# its files and its plain output look like.
#   bad_input.sh TRAIN_GPT SCRATCH_DIR TEXT
set -euo pipefail
export LC_ALL=C
train_gpt="$1" scratch="$2" text="$3"
source "$(dirname "${BASH_SOURCE[0]}")/weights_file.sh"
rm -rf "$scratch"
mkdir -p "$scratch/work"
cd "$scratch/work"
failures=0

complain() {
  printf 'bad_input.sh: %s\n' "$*" >&2
  failures=$((failures + 1))
}

# refused WORDS ARGUMENTS...: the run must fail with one sentence that contains WORDS, before anything is printed unless
# is_late is set.
refused() {
  local words="$1" before code=0 lines
  shift
  before="$(find . | sort)"
  timeout 60 "$train_gpt" "$@" >../out 2>../err </dev/null || code=$?
  lines="$(wc -l <../err)"
  [[ $code == 2 ]] || complain "exit code $code instead of 2: $*: $(cat ../err)"
  [[ $lines == 1 && $(cat ../err) == "train_gpt: "* ]] || complain "not one sentence: $*: $(cat ../err)"
  grep -qF -e "$words" ../err || complain "'$words' is not said: $*: $(cat ../err)"
  [[ -n ${is_late:-} || ! -s ../out ]] || complain "there is output before the refusal: $*: $(cat ../out)"
  [[ "$(find . | sort)" == "$before" ]] || complain "a file was written: $*: $(find . | sort)"
}

# keeps FILE: what it holds is the user's.
keeps() {
  [[ $(cat "$1") == "of the user" ]] || complain "'$1' was overwritten"
}

# succeeds ARGUMENTS...: the run must end with exit code 0 and say nothing on stderr.
succeeds() {
  local code=0
  "$train_gpt" "$@" >../out 2>../err || code=$?
  [[ $code == 0 && ! -s ../err ]] || complain "exit code $code: $*: $(cat ../err)"
}

# Waits until a training that logs there has made steps.
until_steps() {
  local tries
  for ((tries = 0; tries < 3000; ++tries)); do
    (($(cat ../steps.csv 2>/dev/null | wc -l) < 4)) || break
    sleep 0.02
  done
  rm -f ../steps.csv
}

: >empty
head -c 64 "$text" >short
head -c 65 "$text" >just_long_enough
mkdir folder
mkfifo pipe
some=(--data "$text" --batch 4 --generate 0)

# The text.
refused "'missing' cannot be read" --data missing
refused "'folder' cannot be read: it is a directory" --data folder
refused "'pipe' cannot be read: it is not a regular file" --data pipe
refused "'/dev/zero' cannot be read: it is not a regular file" --data /dev/zero
long="$(printf 'n%.0s' {1..5000})"
refused "$long' cannot be read: File name too long" --data "$long"
deep="$(printf 'deep/%.0s' {1..30})"
refused "'${deep}the_name' cannot be read" --data "${deep}the_name"
refused "'a\nb\x1b[31m\x7f' cannot be read" --data $'a\nb\e[31m\x7f'
refused "'empty' is empty" --data empty
refused "'short' has 64 bytes; one sequence of 64 needs at least 64 + 1" --data short
refused "--batch 2 is more than the 1 sequences of the text" --data just_long_enough --batch 2
refused "--data needs a value" --data
refused "--data needs a value" --data ""

# Plans, sizes, batches.
refused "unknown plan 'dp3'; --list-plans prints the plans that are built" --plan dp3
refused "is not built for size 'huge' in precision 'float' on backend 'host'; none is; sizes are tiny, small, gpt2" --size huge
refused "none is; configure with -D PLAIT_GPT_MODELS=small.bfloat16.simulated -D PLAIT_GPT_PLANS_small.bfloat16.simulated=dp2 (" \
  --size small --precision bfloat16 --backend simulated --plan dp2
refused "in precision 'half'" --precision half
refused "--attention is own or cudnn, got 'fast'" --attention fast
refused "--attention cudnn needs --backend cuda and --precision bfloat16" --attention cudnn --backend cuda
refused "--attention cudnn needs --backend cuda and --precision bfloat16" --attention cudnn --precision bfloat16
refused "--batch 7 cannot be divided equally over 2 data ranks" --plan dp2 --batch 7
refused "--batch 6 is not a multiple of the sum of the shares (4) times the microbatches (1)" --plan dp2.shares3_1 --batch 6
for plan in dp4.local8 dp4.within2.local8; do
  common="is not a multiple of 8, but plan '$plan' makes a common update every 8 steps"
  refused "--steps 100 $common" --plan "$plan" --steps 100
  refused "same weights; write --steps 96 or 104" --plan "$plan" --steps 100
  refused "same weights; write --steps 8" --plan "$plan" --steps 7
  refused "--every 100 $common" --plan "$plan" --checkpoint new --every 100
done
refused "--outer-rate needs a plan whose replicas make common updates, such as dp4.local8, not 'dp4'" --plan dp4 --outer-rate 1
refused "--outer-momentum needs a plan whose replicas make common updates" --outer-momentum 0
refused "--batch 6 cannot be divided equally over 1 data ranks with 4 microbatches each" --plan pp4 --batch 6
refused "--batch 4 cannot be divided equally" --batch 4 --microbatches 3
refused "--batch 1000000 is more than" --data "$text" --batch 1000000
refused "--batch 1000000 is more than" --data "$text" --batch 1000000 --microbatches 1000000
refused "--batch 16 cannot be divided equally over 4 data ranks with 1000000 microbatches" --plan dp4 \
  --microbatches 1000000
refused "no plan is built for size 'foo' in precision 'float' on backend 'host'" --list-plans --size foo

# Options and numbers.
refused "unknown option '--stepps'; see --help" --stepps 3
refused "unknown option 'stray'" stray
refused "unknown option '\x1b[2J'" $'\e[2J'
for number in abc -1 1e999 nan inf 3x 1.5 1000000000001 99999999999999999999; do
  refused "--steps needs a whole number from 0 to 1000000000000, got '$number'" --steps "$number"
done
for number in abc -1 1e999 nan inf 3x; do
  for option in --learning-rate --weight-decay --clip; do
    refused "$option needs a number from 0 to 1e+300, got '$number'" "$option" "$number"
  done
done
for number in 0 1000001 4611686018427387903; do
  refused "--batch needs a whole number from 1 to 1000000, got '$number'" --explain --batch "$number"
  refused "--microbatches needs a whole number from 1 to 1000000, got '$number'" --plan dp4 \
    --microbatches "$number"
done
refused "--outer-rate needs a number from 1e-06 to 1e+06, got '0'" --plan dp4.local8 --outer-rate 0
for number in -0.1 1 nan; do
  refused "--outer-momentum needs a number from 0 to 0.999999, got '$number'" --plan dp4.local8 --outer-momentum "$number"
done
refused "--seed needs a whole number from 0 to 9223372036854775807, got '-5'" --seed -5
refused "--generate needs a whole number from 0 to 2147483647, got '4294967297'" --generate 4294967297
refused "--generate needs a whole number from 0 to 2147483647, got 'many'" --generate many
refused "--save needs a value" --save
refused "--save needs a value, got '--explain', which looks like an option; a file of this name is './--explain'" \
  --save --explain
refused "--seed is given twice" --learning-rate 1e-400 --seed 1 --seed 2  # 1e-400 is 0
refused "--in-order is given twice" --in-order --in-order
for option in --tf32 --share-gpu --replay; do
  refused "$option needs --backend cuda, not 'host'" "${some[@]}" "$option"
done
refused "--schedule-seed needs --backend simulated, not 'host'" "${some[@]}" --schedule-seed 0
refused "--timeout needs --backend mpi or gloo, not 'host'" "${some[@]}" --timeout 5
refused "--timeout needs a number from 0.001 to 3.1536e+07, got '0'" "${some[@]}" --timeout 0

# Files that cannot be written are found before the training.
refused "'nowhere/w' cannot be written: folder 'nowhere' does not exist; make it first" "${some[@]}" --save nowhere/w
refused "'folder' cannot be written: it exists and is not a regular file" "${some[@]}" --save folder
refused "folder of weights 'nowhere/new' cannot be written: folder 'nowhere' does not exist; make it first" \
  "${some[@]}" --save nowhere/new/
refused "'pipe' cannot be written: it exists and is not a regular file" "${some[@]}" --save pipe
refused "'empty/w' cannot be written: Not a directory" "${some[@]}" --save empty/w
refused "$long' cannot be written: File name too long" "${some[@]}" --save "$long"
refused "file of losses 'nowhere/l' cannot be written" "${some[@]}" --losses nowhere/l --save w
refused "file of losses 'folder' cannot be written" "${some[@]}" --losses folder
refused "$long' cannot be written: File name too long" "${some[@]}" --losses "$long"
refused "--losses needs a value" "${some[@]}" --losses ""
refused "log 'nowhere/l' cannot be written" "${some[@]}" --log nowhere/l
refused "log 'folder' cannot be written: it is not a regular file" "${some[@]}" --log folder

# One file under two options.
echo "of the user" >mine
ln mine hard
ln -s mine soft
for other in mine ./mine folder/../mine hard soft; do
  refused "--save 'mine' and --losses '$other' are the same file" "${some[@]}" --save mine --losses "$other"
done
refused "--save 'new' and --losses './folder/../new' are the same file" "${some[@]}" --save new \
  --losses ./folder/../new
cp "$text" copy
refused "--data 'copy' and --save 'copy' are the same file" --data copy --save copy
refused "--data 'copy' and --losses './copy' are the same file" --data copy --losses ./copy
refused "--init 'mine' and --save 'mine' are the same file" "${some[@]}" --init mine --save mine
keeps mine
rm hard soft

# Other names in the folder of a file are the user's: train_gpt writes no temporary file under them.
echo "of the user" >w.partial
ln -s mine l.partial
refused "--log 'new' and --draw './new' are the same file" --log new --draw ./new
refused "--data 'copy' and --draw 'copy' are the same file" --data copy --draw copy
refused "picture 'nowhere/p' cannot be written" --draw nowhere/p
refused "picture 'folder' cannot be written" --draw folder
refused "--draw-what needs --draw FILE" --draw-what mesh
refused "--draw-what is mesh, plan, memory or timetable, got 'all'" --draw p --draw-what all
refused "--losses 'new' and --log './new' are the same file" "${some[@]}" --losses new --log ./new
succeeds "${some[@]}" --steps 1 --save w --losses l --log rows
[[ $(head -n 1 rows) == step,loss,labels,learning_rate,gradient_norm,waited && $(wc -l <rows) == 2 ]] ||
  complain "--log rows has no row of names and one of the step"
rm rows
keeps w.partial
keeps mine
cp "$text" corpus.partial
succeeds --data corpus.partial --batch 4 --generate 0 --steps 1 --save corpus
cmp -s "$text" corpus.partial || complain "the data was overwritten"
succeeds "${some[@]}" --steps 1 --losses q --save q.partial
head -n 1 q | grep -qx 'step,loss' || complain "--losses q is lost beside --save q.partial"
grep -qa dtype q.partial || complain "--save q.partial is lost beside --losses q"
rm w l w.partial l.partial corpus corpus.partial q q.partial

# A replaced file keeps its access mode; a new file has the usual mode.
: >private && chmod 600 private
(umask 027 && "$train_gpt" "${some[@]}" --steps 0 --save private --losses fresh >/dev/null) ||
  complain "--save private --losses fresh failed"
[[ $(stat -c %a private fresh) == $'600\n640' ]] || complain "modes: $(stat -c '%a %n' private fresh)"
rm private fresh

# Standard output cannot be written.
before="$(find . | sort)"
code=0
"$train_gpt" "${some[@]}" --steps 1 --save w >&- 2>../err || code=$?
[[ $code == 2 && $(cat ../err) == "train_gpt: standard output is closed; open it or redirect it to a file" ]] ||
  complain "closed standard output: exit code $code: $(cat ../err)"
for arguments in "--steps 1 --save w" --list-plans --explain --help; do
  code=0
  "$train_gpt" "${some[@]}" $arguments >/dev/full 2>../err || code=$?
  [[ $code == 2 && $(cat ../err) == "train_gpt: standard output cannot be written"* ]] ||
    complain "full standard output, $arguments: exit code $code: $(cat ../err)"
done
[[ "$(find . | sort)" == "$before" ]] || complain "a file was written: $(find . | sort)"
for option in --save --losses; do
  code=0
  "$train_gpt" "${some[@]}" "$option" printed >printed 2>../err || code=$?
  [[ $code == 2 && $(cat ../err) == *"standard output '/dev/stdout' and $option 'printed' are the same file" ]] ||
    complain "$option on standard output: exit code $code: $(cat ../err)"
  rm printed
done
# A pipe without a reader does not cost the weights.
code=0
{ "$train_gpt" "${some[@]}" --steps 40 --save w 2>../err || echo $? >../code; } | head -n 1 >../out
[[ $(cat ../code) == 2 && -s w && $(cat ../err) == "train_gpt: standard output cannot be written"* ]] ||
  complain "a pipe that nobody reads: exit code $(cat ../code): $(cat ../err)"
rm w
# A disk without room is found before the training.
code=0
(ulimit -f 100 && exec "$train_gpt" "${some[@]}" --save w) >../out 2>../err || code=$?
[[ $code == 2 && $(cat ../err) == "train_gpt: safetensors file 'w' cannot be written: File too large" && ! -s ../out ]] ||
  complain "no room: exit code $code: $(cat ../err)"
# A file that appears under the name during the training is the user's, and the weights are not lost.
"$train_gpt" "${some[@]}" --steps 400 --save w >../out 2>../err &
until [[ -s ../out ]]; do sleep 0.1; done
mkfifo w
code=0
wait $! || code=$?
[[ $code == 2 && -p w ]] || complain "a pipe under the name: exit code $code: $(cat ../err)"
saved="$(sed -n "s/^train_gpt: safetensors file 'w' cannot be written: it exists and is not a regular file; the complete file is in '\(.*\)'$/\1/p" ../err)"
[[ -s $saved ]] || complain "the weights are lost: $(cat ../err)"
rm -f w "$saved"
# No file takes the number of standard input or error when those are closed.
"$train_gpt" "${some[@]}" --steps 0 --save w --losses l <&- 2>&- >../out || complain "closed input and error"
succeeds "${some[@]}" --steps 0 --init w
rm w l

# A training that is broken off leaves the old files, and at most what has the documented name.
echo "of the user" >w
code=0
"$train_gpt" "${some[@]}" --steps 1000000000 --save w --losses l --log ../steps.csv >../out 2>&1 &
until_steps
kill -KILL $!
wait $! 2>/dev/null || code=$?
[[ $code == 137 && -s ../out ]] || complain "the long training ended by itself: $(cat ../out)"
keeps w
[[ ! -e l ]] || complain "losses of half a training"
while read -r file; do
  [[ $file =~ ^\./plait-[0-9a-f]{16}\.partial$ ]] || complain "'$file' is left"
  rm "$file"
done < <(comm -13 <(printf '%s\n' "$before" ./w | sort) <(find . | sort))
rm w

# A signal ends the training after a step; the files are as at the end.
for wait in 0 0.15; do
  "$train_gpt" "${some[@]}" --plan dp2.pp2 --steps 1000000 --save s --losses l --log ../steps.csv >../out 2>../err &
  until_steps
  sleep "$wait"
  kill -TERM $!
  code=0
  wait $! || code=$?
  [[ $code == 143 && ! -s ../err ]] || complain "SIGTERM: exit code $code: $(cat ../err)"
  last="$(tail -n 1 l | cut -d, -f1)"
  grep -q "^stopped by SIGTERM after step $last, loss .*; the weights are saved$" ../out ||
    complain "SIGTERM after step $last: $(tail -n 1 ../out)"
  succeeds "${some[@]}" --init s --steps 0
  rm s l
done

# Weights that are not finite.
echo "of the user" >w
code=0
"$train_gpt" "${some[@]}" --learning-rate 1e300 --steps 1 --save w >../out 2>../err || code=$?
[[ $code == 1 ]] || complain "weights that are not finite: exit code $code: $(cat ../err)"
grep -q "the weights are not saved: tensor 'wte.weight' holds nan at place 0 of 16384;" ../err ||
  complain "the tensor that is not finite is not named: $(cat ../err)"
keeps w
[[ -z "$(find . -name 'plait-*')" ]] || complain "a partial file is left"
rm w

# Weights.
succeeds "${some[@]}" --steps 0 --save good
[[ -s good ]] || complain "--steps 0 --save wrote no weights"
printf 'no weights at all' >noise
head -c 7 good >cut_length
head -c 1000 good >cut_header
head -c 100000 good >cut_data
cp good longer && printf 'x' >>longer
sed 's/ln_f[.]bias/ln_f.byas/' good >other_name
sed 's/"shape":\[256,64\]/"shape":[64,256]/' good >turned
sed 's/{/[/' good >no_json
sed 's/"shape":\[256,64\]/"shape":[1e999 ]/' good >huge_number
# The data ends with floats; the last one becomes a NaN.
{ head -c -4 good; printf '\0\0\xc0\x7f'; } >not_finite
init=("${some[@]}" --steps 1 --save w --losses l --init)
refused "'missing' cannot be read" "${init[@]}" missing
refused "'folder' has no safetensors file" "${init[@]}" folder
refused "'pipe' cannot be read: it is not a regular file" "${init[@]}" pipe
refused "'empty'" "${init[@]}" empty
refused "'noise'" "${init[@]}" noise
refused "'cut_length'" "${init[@]}" cut_length
refused "'cut_header' states that its header has" "${init[@]}" cut_header
refused "'cut_data': tensor" "${init[@]}" cut_data
refused "'longer' has" "${init[@]}" longer
refused "'other_name' has no tensor 'ln_f.bias'" "${init[@]}" other_name
refused "'turned': tensor 'wte.weight' has the shape (64, 256), but (256, 64) is needed" \
  "${init[@]}" turned
refused "'no_json' has a header" "${init[@]}" no_json
refused "'huge_number' has a header that is not JSON" "${init[@]}" huge_number
with_tensor good more_of_it h.0.attn.more
refused "the model of train_gpt has no parameter for 1 tensor of the weights, 'h.0.attn.more': these weights belong to another model" \
  "${init[@]}" more_of_it
mkdir -p of_torch of_others
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1\n' >of_torch/pytorch_model.bin
refused "'of_torch' has no safetensors file; 'pytorch_model.bin' is a pointer of Git LFS" "${init[@]}" of_torch
refused "'of_torch/pytorch_model.bin' is a pointer of Git LFS" "${init[@]}" of_torch/pytorch_model.bin
cp good of_others/model.safetensors
config='"model_type": "gpt2", "vocab_size": 256, "n_embd": 64, "n_layer": 2, "n_positions": 64'
printf '{%s, "n_head": 2, "layer_norm_epsilon": 1e-6}' "$config" >of_others/config.json
refused "'of_others/config.json' does not fit the program's model: n_head is 2 in the file and 4 in the program; " \
  "${init[@]}" of_others
refused "; layer_norm_epsilon is 1e-06 in the file and 1e-05 in the program; " "${init[@]}" of_others
printf '{%s, "n_head": 4, "activation_function": "relu"}' "$config" >of_others/config.json
refused "model: activation_function is 'relu' in the file and 'gelu_new' in the program; correct" "${init[@]}" \
  of_others/model.safetensors
before="$(find . | sort)"
code=0
"$train_gpt" "${init[@]}" not_finite >../out 2>../err || code=$?
[[ $code == 2 && $(wc -l <../err) == 1 ]] || complain "a NaN in --init: exit code $code: $(cat ../err)"
grep -q "import_parameters: tensor '.*' holds nan at place" ../err || complain "no name: $(cat ../err)"
[[ "$(find . | sort)" == "$before" ]] || complain "a file was written: $(find . | sort)"

# The written files: the same first loss from saved weights, losses that round-trip, replaced files.
first() { sed -n 2p "$1"; }
succeeds "${some[@]}" --steps 2 --losses from_seed
succeeds "${some[@]}" --steps 2 --losses from_file --init good --seed 0
[[ "$(first from_seed)" == "$(first from_file)" ]] ||
  complain "the first loss is $(first from_seed), from saved weights $(first from_file)"
# A GPT-2 as transformers writes it: with other names, with a mask, and without a head, as the head is the
# table, the first tensor of this file.
with_header good hf_names 's/"(wte|wpe|h|ln_f)\./"transformer.\1./g' </dev/null
with_tensor hf_names hf_masks transformer.h.0.attn.bias
succeeds "${some[@]}" --steps 2 --losses from_hf --init hf_masks --seed 0
[[ "$(first from_seed)" == "$(first from_hf)" ]] || complain "the first loss of transformers' names is $(first from_hf)"
with_header hf_names hf_tied 's/"lm_head.weight":\{[^}]*\},//; s/,"lm_head.weight":\{[^}]*\}//' </dev/null
head -c -65536 hf_tied >cut && mv cut hf_tied
table_end=$(($(wc -c <good) - $(data_bytes good) + 65536))
{ head -c -65536 good; head -c "$table_end" good | tail -c 65536; } >same_head
succeeds "${some[@]}" --steps 2 --losses from_hf --init hf_tied --seed 0
grep -q "the head starts as a copy of the" ../out || complain "the head is copied without a word: $(cat ../out)"
succeeds "${some[@]}" --steps 2 --losses from_file --init same_head --seed 0
[[ "$(first from_file)" == "$(first from_hf)" ]] ||
  complain "the first loss is $(first from_hf) with a head that is the table, and $(first from_file) with a copy of it"
# Weights in a folder, which an index may spoil.
succeeds "${some[@]}" --steps 0 --save hf/
[[ "$(ls hf)" == model.safetensors ]] || complain "--save hf/ wrote $(ls hf)"
succeeds "${some[@]}" --steps 2 --losses from_folder --init hf --seed 0
[[ "$(first from_seed)" == "$(first from_folder)" ]] || complain "the first loss of a folder is $(first from_folder)"
refused "folder of weights 'hf' cannot be written: it exists and is not empty" "${some[@]}" --save hf/
printf '{' >hf/model.safetensors.index.json
refused "index 'hf/model.safetensors.index.json' is not JSON (at its byte 2)" "${init[@]}" hf
cp from_seed old
succeeds "${some[@]}" --steps 3 --losses from_seed
[[ "$(head -n 3 from_seed)" == "$(cat old)" && $(wc -l <from_seed) == 4 ]] ||
  complain "--losses did not replace the file: $(cat from_seed)"
[[ "$(first from_seed)" =~ ^0,[0-9]\.[0-9]{12,}$ ]] ||
  complain "too few digits of a loss: $(first from_seed)"
[[ -z "$(find . -name '*.partial*')" ]] || complain "partial files are left"

# Output that is not a terminal has plain lines.
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
# A picture is a file of its own, and the program says nothing.
for what in "" mesh plan memory timetable; do
  succeeds --plan dp2.tp2.pp2 --draw drawn ${what:+--draw-what "$what"}
  [[ ! -s ../out ]] || complain "--draw prints: $(cat ../out)"
  [[ $(head -c 5 drawn) == "<svg " && $(tail -n 1 drawn) == "</svg>" ]] || complain "no picture: $what"
  cp drawn "drawn.$what"
done
cmp -s drawn. drawn.plan || complain "--draw draws something else than the plan"
! cmp -s drawn.mesh drawn.memory || complain "--draw-what makes no difference"
rm -f drawn*
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
if [[ -n "$("$train_gpt" --list-plans --size gpt2 2>/dev/null)" ]]; then
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
  refused "folder of token files 'folder' has no file whose name ends with .bin" "${gpt2[@]}" folder
  refused "token file 'pipe' cannot be read: it is not a regular file" "${gpt2[@]}" pipe
  refused "token file '/dev/zero' cannot be read: it is not a regular file" "${gpt2[@]}" /dev/zero
  refused "token file 'empty' has 0 bytes, fewer than its header of 1024" "${gpt2[@]}" empty
  refused "token file 'bare_tokens' begins with 0 instead of 20240520" "${gpt2[@]}" bare_tokens
  refused "token file 'new_tokens' has version 2" "${gpt2[@]}" new_tokens
  refused "should have 1026 tokens of 16 bits according to its header, but 2050 bytes follow it" "${gpt2[@]}" cut_tokens
  refused "has 1024 tokens; one sequence of 1024 needs at least 1024 + 1" "${gpt2[@]}" few_tokens
  # Files of tokens are not read before they are trained on.
  is_late=yes refused "has the token 50257 at place 1024" "${gpt2[@]}" strange_token
  refused "--batch 2 is more than the 1 sequences" --size gpt2 --batch 2 --data tokens
  refused "plan 'pp2' is not built for size 'gpt2'" "${gpt2[@]}" tokens --plan pp2
  refused "gpt2 has no plans with stages, because its head is the table of the embedding" "${gpt2[@]}" tokens --plan pp2
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
