#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The site has no warning and no dead link, and has the same bytes when it is made again. The test plants faults into a
# copy of the pages and checks that they are found: a dead anchor, a misnamed function, a name without a page.
#   check_site.sh SCRATCH
# SCRATCH/site is the site. Exit code 77 if a program or a package is missing.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
scratch="$1"
most_seconds=90 most_megabytes=40

fail() { echo "$1" >&2; exit 1; }

rm -rf "$scratch"
mkdir -p "$scratch"
"$root/scripts/site" --offline "$scratch/site"
times >"$scratch/times"
seconds="$(awk 'NR == 2 { split($1, user, /[ms]/); print int(60 * user[1] + user[2]) }' "$scratch/times")"
((seconds <= most_seconds)) || fail "the site takes $seconds s of the processor, more than $most_seconds"
megabytes="$(du -sm --apparent-size "$scratch/site" | cut -f 1)"
((megabytes <= most_megabytes)) || fail "the site has $megabytes MB, more than $most_megabytes"
! grep -rlE '(src|href)="(https?:)?//[^"]*\.(js|css|woff2?|svg|png)"' "$scratch/site" --include='*.html' ||
  fail "a page loads something from elsewhere"

# A copy in another folder: the same bytes, then the faults.
copy="$scratch/copy"
mkdir -p "$copy/build"
cp -r "$root"/{README.md,CHANGELOG.md,LICENSE,CMakeLists.txt,CMakePresets.json,include,docs,cmake,scripts,examples,packaging} "$copy"
mkdir -p "$copy/tests" "$copy/benchmarks"
cp -r "$root/tests/." "$copy/tests"
cp -r "$root/benchmarks/." "$copy/benchmarks"
ln -s "$root/build/site_packages" "$copy/build/site_packages"
"$copy/scripts/site" --offline "$scratch/again" >/dev/null
diff -rq "$scratch/site" "$scratch/again" || fail "the site is not the same bytes when it is made again"
rm -rf "$scratch/again"

sed -i '0,/](policies.md)/s//](policies.md#no-such-heading)/' "$copy/docs/getting_started.md"
sed -i '0,/`plait::explain`/s//`plait::explained`/' "$copy/docs/prediction_in_parallel.md"
sed -i '0,/`plait::nn::linear<10, 2, /s//`plait::nn::linears<10, 2, /' "$copy/docs/writing_a_layer.md"
if "$copy/scripts/site" --check "$scratch/again" >"$scratch/said" 2>&1; then fail "planted faults are not found"; fi
for text in "no-such-heading" "the reference has no plait::explained" "the reference has no plait::nn::linears"; do
  grep -qF -- "$text" "$scratch/said" || fail "not found: $text; said: $(cat "$scratch/said")"
done

# A warning of Doxygen: a comment names a parameter that does not exist.
sed -i 's,^/// Returns the placement as text.*,&\n/// @param nothing is there,' "$copy/include/plait/placement/placement.hpp"
if "$copy/scripts/site" --offline "$scratch/again" >"$scratch/said" 2>&1; then fail "a warning of Doxygen is none"; fi
grep -qF "argument 'nothing'" "$scratch/said" || fail "Doxygen said: $(cat "$scratch/said")"
[[ ! -e $scratch/again ]] || fail "a site with faults was put in its place"

# Links of the site itself: a page with a dead link, and a page without a link to it.
mkdir "$scratch/small"
printf '<a href="b.html#c">b</a><a href="/etc">e</a><img src="https://example.org/a.png">' >"$scratch/small/index.html"
printf '<p id="d"></p>' >"$scratch/small/b.html"
printf '<p></p>' >"$scratch/small/alone.html"
python3 "$root/docs/site/check.py" "$scratch/small" >"$scratch/said" && fail "a site with dead links is not found"
for text in "b.html has no anchor c" "/etc is no relative link" "which is not of the site" "alone.html is reached from no page"; do
  grep -qF -- "$text" "$scratch/said" || fail "not found: $text; said: $(cat "$scratch/said")"
done
rm -rf "$copy"
