#!/bin/bash
# features.sh: compiles the core with the features that the tests of `check` do not switch on, and
# the C library with each of its controllers alone.
# `defmt` is compiled for a Cortex-M, since only the image of such a target has the place that its
# messages go to.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "features.sh: $*" >&2; }
target=thumbv7em-none-eabihf
if ! compgen -G "$(rustc --print sysroot)/lib/rustlib/$target/lib/libcore-*.rlib" >/dev/null; then
  rustup target add "$target" >/dev/null 2>&1 || {
    say "left out: defmt, since rustup has no $target here"
    exit 0
  }
fi
cargo check --locked --quiet -p mmcq --features defmt,log,rpmb,slots-128 --target "$target"
cargo check --locked --quiet -p mmcq --features slots-64 --target "$target"
say "defmt is well, with log and without"
for feature in rtsx usdhc stm32-sdmmc; do
  RUSTFLAGS="-D warnings" cargo check --locked --quiet -p mmcq-c --features "$feature" --target "$target"
done
say "the C library is well with each controller alone"
