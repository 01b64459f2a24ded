#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bare.sh <folder> demo|configure: what README.md promises of a machine that has nothing, which is made in the folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export PLAIT_BARE_COPY="$1"

case "$2" in
  demo)
    rm -rf "$1"
    export PLAIT_CMAKE_OPTIONS="-D PLAIT_GPT_PLANS=serial"
    scripts/bare scripts/demo --steps 40 2>&1 | tee "$1.$2.log"
    grep -q '^step 40/40  loss ' "$1.$2.log"
    ;;
  configure)
    trap 'rm -rf "$1"' EXIT
    scripts/bare bash -c '
      source scripts/setup
      wishes_of_test=()
      set_up test
      configure dev
      cat build/configure.log' | tee "$1.$2.log"
    for component in images tensorboard mpi gloo elastic cuda cudnn thrust; do
      grep -q "^-- plait::$component: not available, it needs " "$1.$2.log"
    done
    for engine in mpi gloo; do
      grep -q "^-- examples: train_gpt is built without --backend $engine, it needs plait::$engine" "$1.$2.log"
    done
    ;;
esac
