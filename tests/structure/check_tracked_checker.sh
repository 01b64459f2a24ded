#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_tracked.sh must accept a proper checkout, report each planted file, and skip a folder that is not a checkout.
#   check_tracked_checker.sh SCRATCH
set -euo pipefail
checker="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/check_tracked.sh"
command -v git >/dev/null || { echo "skipped: there is no git"; exit 77; }

rm -rf "$1"
mkdir -p "$1"/{include,tests/fuzz/corpus/options,tests/checkpoint/fixtures}
cd "$1"

expect() {  # expect CODE TEXT: the exit code, and a part of what is said
  local code=0
  [[ ! -d .git ]] || git add --all .
  "$checker" "$PWD" >"$PWD.said" 2>&1 || code=$?
  [[ $code == "$1" ]] || { echo "exit code $code, expected $1: $(cat "$PWD.said")" >&2; exit 1; }
  [[ -z $2 ]] || grep -qF -- "$2" "$PWD.said" || { echo "expected '$2', got: $(cat "$PWD.said")" >&2; exit 1; }
}

echo text | tee README.md include/a.hpp >/dev/null
printf '\0' | tee tests/fuzz/corpus/options/a tests/checkpoint/fixtures/a.safetensors >/dev/null
expect 77 'is not a checkout'
git init --quiet .
expect 0 ''
echo text >notes.txt
expect 1 'notes.txt: may not stand in the root'
rm notes.txt
printf '!<arch>\n\0' >package.deb
expect 1 'package.deb: may not stand in the root'
expect 1 'package.deb: is not text'
rm package.deb
mkdir attic
echo text >attic/a.hpp
expect 1 'attic: may not stand in the root'
rm -r attic
printf '\177ELF\0' >include/a.out
expect 1 'include/a.out: is not text'
rm include/a.out
printf '\0' >tests/checkpoint/fixtures/a.pt
expect 1 'tests/checkpoint/fixtures/a.pt: is not text'
rm tests/checkpoint/fixtures/a.pt
expect 0 ''
