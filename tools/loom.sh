#!/bin/bash
# loom.sh [test ...]: runs the tests of the stack's shared state (task.rs) under loom: every
# interleaving of threads and interrupts with at most three preemptions (LOOM_MAX_PREEMPTIONS sets
# another number). Each test runs in a process of its own. Prints the number of interleavings of
# each test.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/loom
export RUSTFLAGS="--cfg loom"
# Release: loom looks at tens of thousands of interleavings. With two preemptions these take seconds, and level 3 takes longer to build than it saves.
level=3
[ "${LOOM_MAX_PREEMPTIONS:-3}" -gt 2 ] || level=1
binary=$(cargo test -p mmcq --lib --release --config "profile.release.package.mmcq.opt-level=$level" --locked --target-dir "$target" --no-run 2>&1 |
  tee >(cat >&2) | sed -n 's/^ *Executable .*(\(.*\))$/\1/p')
[ -x "$binary" ] || { echo "loom.sh: no test binary was built" >&2; exit 1; }
tests=("$@")
[ ${#tests[@]} -gt 0 ] || mapfile -t tests < <("$binary" --list loom_ 2>/dev/null | sed -n 's/: test$//p')
[ ${#tests[@]} -gt 0 ] || { echo "loom.sh: no tests found, expected those of task/permuted" >&2; exit 1; }
bad=0
for test in "${tests[@]}"; do
  # A failed model may end the process in the middle: so each has its own.
  if ! out=$("$binary" --exact "$test" --nocapture 2>&1); then
    printf '%s\n' "$out" | grep -v '^ *[0-9]*: \|^ *at ' | head -40
    echo "loom.sh: $test failed" >&2
    bad=1
  fi
  printf '%s\n' "$out" | grep ' interleavings$' || true
done
exit $bad
