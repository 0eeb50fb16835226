#!/bin/bash
# mutants.sh [file ...]: changes the core's queue and recovery in one place after the other, and tells which changes no test notices. Hours; for a sample,
# MUTANTS=k/n takes every nth change. Installs cargo-mutants if it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v cargo-mutants >/dev/null || cargo install cargo-mutants --locked
files=("$@")
[ ${#files[@]} -gt 0 ] || files=(order recover stream cancel)
args=()
for file in "${files[@]}"; do args+=(--file "crates/mmcq/src/engine/${file%.rs}.rs"); done
[ -z "${MUTANTS:-}" ] || args+=(--shard "$MUTANTS")
# A mutant that makes a test loop is one that was noticed. The simulator's tests are those that see the whole stack.
MMCQ_FUZZ_MS=${MMCQ_FUZZ_MS:-300} cargo mutants -p mmcq --test-package mmcq,mmcq-sim --timeout 120 --no-shuffle "${args[@]}" -- --lib --tests
