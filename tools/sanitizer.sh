#!/bin/bash
# sanitizer.sh [test ...]: runs the core's tests (all except `qemu`, or the named ones) under the
# address sanitizer. Memory for the controller lies between two pages that may not be accessed
# (crates/mmcq/tests/support/guard.rs). Then the script tests itself: a controller that writes one
# byte behind the memory, or before it, must end the process. If Miri is installed, the script first
# runs soundness.rs and unwinding.rs of crates/mmcq/tests under Miri. All of it takes 12 minutes on
# two shared cores, half of them for compilation. The time limits: 30 minutes for compilation, 20
# for the tests, one for each test of the script itself.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "sanitizer.sh: $*"; }
began=$SECONDS
folder=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/sanitizer
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export CARGO_INCREMENTAL=0 RUSTUP_AUTO_INSTALL=0

miri="Miri is not installed"
if timeout 20 cargo +nightly miri --version >/dev/null 2>&1; then
  MIRIFLAGS=-Zmiri-disable-isolation timeout 1800 cargo +nightly miri test -p mmcq --test soundness --test unwinding --locked \
    --target-dir "$folder/miri"
  miri="Miri has run soundness.rs and unwinding.rs"
fi

tests=("$@")
if [ ${#tests[@]} -eq 0 ]; then
  for test in $(sed -n '/^\[\[test\]\]/{n;s/^name = "\(.*\)"/\1/p}' crates/mmcq/Cargo.toml); do
    [ "$test" = qemu ] || tests+=("$test")
  done
fi
# The sanitizer of the stable compiler is behind a switch.
export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address --cfg guarded"
# Tests keep some of their memory for ever.
export ASAN_OPTIONS=detect_leaks=0
machine=$(rustc -vV | sed -n 's/^host: //p')
under() { # seconds, what cargo test is to run
  timeout --kill-after=10 "$1" cargo test -p mmcq --features rpmb --target "$machine" --target-dir "$folder" --locked "${@:2}"
}
under 1800 --lib "${tests[@]/#/--test=}" --test guard --no-run
say "compiled after $((SECONDS - began)) s"
under 1200 --lib "${tests[@]/#/--test=}" --no-fail-fast

for beside in 1 -1; do
  if MMCQ_BESIDE=$beside under 60 --quiet --test guard >"$log" 2>&1; then
    say "$beside bytes beside: not caught" >&2
    exit 1
  fi
  grep -q 'ERROR: AddressSanitizer' "$log" || { cat "$log" >&2; exit 1; }
  say "$beside bytes beside: caught, $(sed -n 's/.*ERROR: AddressSanitizer: \([a-zA-Z-]*\).*/\1/p' "$log" | head -1)"
done
say "address sanitizer, guard pages round DMA memory; $miri; $((SECONDS - began)) s"
