#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/docs must accept a true page, find each kind of stale or wrong page, and mend stale code.
#   check_docs_checker.sh SCRATCH
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
scratch="$1"

fail() {
  echo "$1" >&2
  exit 1
}

# A small project around the script.
rm -rf "$scratch"
mkdir -p "$scratch"/{scripts,docs/design,docs/reference,include,cmake,examples,tests,build/bin}
cd "$scratch"
cp "$root/scripts/docs" scripts/
touch CHANGELOG.md CMakeLists.txt CMakePresets.json docs/a.md docs/design/a.md docs/reference/a.md build/CMakeCache.txt
printf '#pragma once\nnamespace plait { struct big_thing {}; }\n' >include/plait.hpp
printf '// example-begin one\n  int a;\n    int b;\n// example-end\n' >examples/a.cpp
printf '#!/bin/sh\necho zero; echo "one $1"\n' >build/bin/program
chmod +x build/bin/program

page() {
  printf '%s\n' '# A page' '' "$@" >README.md
}
expect() {  # expect CODE TEXT ARGUMENTS: the exit code, and a part of what is said
  local wanted="$1" text="$2" code=0
  shift 2
  scripts/docs "$@" >said 2>&1 || code=$?
  [[ $code == "$wanted" ]] || fail "scripts/docs $*: exit code $code, expected $wanted: $(cat said)"
  [[ -z $text ]] || grep -qF -- "$text" said || fail "scripts/docs $*: expected it to say '$text', got: $(cat said)"
}

true_code=('<!-- code: examples/a.cpp one -->' '```cpp' 'int a;' '  int b;' '```')
page "${true_code[@]}" '`plait::big_thing` [a](docs/a.md#a-page) [b](#a-page)'
cp README.md docs/a.md
sed -i 's#docs/a.md##' docs/a.md
expect 0 '' --check code names links
cp README.md true.md

page '<!-- code: examples/a.cpp one -->' '```cpp' 'int c;' '```'
expect 1 'README.md is stale' --check code
expect 0 'wrote README.md' code
expect 0 '' --check code
page "${true_code[@]}" '`plait::big_thing` [a](docs/a.md#a-page) [b](#a-page)'
cmp -s README.md true.md || fail "the page was not mended"

page '<!-- code: examples/a.cpp two -->' '```cpp' '```'
expect 1 "no region 'two'" --check code
page '<!-- code: examples/a.cpp one -->' 'no fence'
expect 1 'no fence behind the marker' --check code
page '<!-- output: bin/program here | lines 2,2 -->' '```text' 'one there' '```'
expect 1 '> one here' --check output build
page '<!-- output: bin/program here | lines 2,2 -->' '```text' 'one here' '```'
expect 0 '' --check output build
page '<!-- output: bin/other -->' '```text' 'x' '```'
expect 77 'was not built' --check output build
# Pictures.
printf '#!/bin/sh\necho "<svg>$1 $3</svg>" >"$2"\n' >build/bin/draws
chmod +x build/bin/draws
picture=('<!-- picture: bin/draws plan FILE [dark] -->' '![a plan](docs/pictures/a.svg)')
page "${picture[@]}"
expect 1 'README.md:4: docs/pictures/a.svg is stale' --check picture build
expect 0 'wrote docs/pictures/a_dark.svg' picture build
grep -q 'plan dark' docs/pictures/a_dark.svg && ! grep -q dark docs/pictures/a.svg || fail "a picture is not its theme's"
expect 0 '' --check picture links build
echo '<svg>other</svg>' >docs/pictures/a_dark.svg
expect 1 'README.md:4: docs/pictures/a_dark.svg is stale' --check picture build
expect 0 'wrote docs/pictures/a_dark.svg' picture build
page "${picture[0]}" 'a plan'
expect 1 'README.md:4: no picture behind the marker' --check picture build
page '<!-- picture: bin/draws plan FILE -->' "${picture[1]}"
expect 1 'docs/pictures/a_dark.svg: no page has a marker' --check picture build
page '<!-- picture: bin/other plan FILE -->' "${picture[1]}"
rm docs/pictures/a_dark.svg
expect 77 'was not built' --check picture build
page '<!-- picture: bin/program plan FILE -->' "${picture[1]}"
expect 1 'no picture from' --check picture build
page '<!-- picture: bin/lacks_plan FILE -->' "${picture[1]}"
printf '%s\n' '#!/bin/sh' "echo \"plan 'dp2' is not built for size 'tiny'\" >&2; exit 2" >build/bin/lacks_plan
chmod +x build/bin/lacks_plan
expect 77 "plan 'dp2' is not built" --check picture build
rm -r docs/pictures
# Calls of others are in the first cells of tables that compare them with plait's, and only there.
mkdir docs/coming_from
printf '%s\n' '# A page' '' '| theirs | ours |' '|---|---|' '| `their_call()` | `plait::big_thing` |' >docs/coming_from/a.md
page "${true_code[@]}"
expect 0 '' --check names
sed -i 's/| `plait::big_thing` |/| `our_call()` |/' docs/coming_from/a.md
expect 1 "nothing is called 'our_call'" --check names
rm -r docs/coming_from
page '<!-- run -->' '```sh' 'export WORD=here' 'build/dev/bin/program \' '  $WORD | grep -q here  # a comment' '```'
expect 0 '' --check run build
page '<!-- run -->' '```sh' 'build/dev/bin/program' 'build/dev/bin/program | grep there' '```' 'false'
expect 1 'exit code 1 of: build/dev/bin/program | grep there' --check run build
expect 1 'README.md:6: exit code 1 of' --check run build
page '<!-- run -->' '```sh' 'build/dev/bin/other' '```'
expect 77 'build/dev/bin/other is not there' --check run build
page '<!-- run -->' '```sh' 'build/dev/bin/other' 'false' '```'
expect 1 'exit code 1 of: false' --check run build
page '<!-- run -->' '```sh' 'no_such_program' '```'
expect 1 'exit code 127 of: no_such_program' --check run build
page '```sh' 'false' '```'
expect 0 '' --check run build
page '<!-- run -->' 'no fence'
expect 1 'README.md:4: no fence behind the marker run' --check run build
page '<!-- run -->'
expect 1 'README.md:3: no fence behind the marker run' --check run build
page '<!-- run -->' '```sh' 'false \' '```'
expect 1 'exit code 1 of: false' --check run build
# A program that a stand-in looks for, and a plan and a backend that a build may lack.
mkdir -p tests/structure/stand_ins
printf '#!/bin/sh\necho "skipped: there is no Slurm"; exit 77\n' >tests/structure/stand_ins/srun
chmod +x tests/structure/stand_ins/srun
page '<!-- run -->' '```sh' 'srun program' '```'
expect 77 'srun program: skipped: there is no Slurm' --check run build
rm -r tests/structure
for text in "plan 'dp2' is not built for size 'tiny'" '--backend mpi is not built in; configure the build on a machine that has its library'; do
  printf '%s\n' '#!/bin/sh' "echo \"$text\" >&2; exit 2" >build/bin/lacks
  chmod +x build/bin/lacks
  page '<!-- run -->' '```sh' 'build/dev/bin/lacks' '```'
  expect 77 "$text" --check run build
done
page '<!-- run: job.sh -->' '```sh' 'build/dev/bin/other' '```' '<!-- run -->' '```sh' 'sh job.sh' '```'
expect 77 'build/dev/bin/other is not there for: sh job.sh' --check run build
# Files, the folder that all machines see, and what is said up to the end of a page.
page '<!-- run: words.txt -->' '```text' '/shared/a # b \' '  c' '```' '<!-- run -->' '```sh' 'export WORD=here' \
  'test "$(wc -l <words.txt)" = 2 && grep -q "/place/shared/a # b" words.txt' 'touch /shared/$WORD' '```' \
  '<!-- run -->' '```sh' 'test -e shared/here && test $WORD = here' '```'
cp README.md docs/a.md
sed -i 's/export WORD=here/export WORD=there/; s/= here$/= there/' docs/a.md
expect 0 '' --check run build
cp true.md docs/a.md
export RANK=3 SLURM_PROCID=3
page '<!-- run -->' '```sh' 'test -z "$RANK$SLURM_PROCID"' '```'
expect 0 '' --check run build
unset RANK SLURM_PROCID
page '`plait::small_thing`'
expect 1 "include/ has no 'small_thing'" --check names
page '`small_thing<2>`'
expect 1 "nothing is called 'small_thing'" --check names
page '`--small-thing`'
expect 1 'no program has' --check names
page '`examples/b.cpp`'
expect 1 'there is no file' --check names
page '[b](docs/b.md)'
expect 1 'leads nowhere' --check links
page '[a](docs/a.md#b-page)'
expect 1 'no heading' --check links
expect 2 'need the folder of a configured build' --check output
