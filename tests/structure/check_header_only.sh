#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_header_only.sh OBJECT: an object that includes all headers defines nothing that another such object may not
# define, too: every function and variable in it is inline or of the file alone.
set -euo pipefail
# Upper case: seen from other files; V, W and u are those that linkers merge.
strong="$(nm --demangle --defined-only --extern-only "$1" | grep -vE '^[0-9a-f]* [VWu] ' || true)"
if [[ -n $strong ]]; then
  printf 'not inline, so two files of a program could not include it (in an .ipp: PLAIT_DECL):\n%s\n' "$strong"
  exit 1
fi
