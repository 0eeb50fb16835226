#!/bin/bash
# oldest-rust.sh: checks that each published crate compiles with the Rust version that its
# Cargo.toml declares (`rust-version`). Missing versions are installed by rustup, without
# documentation.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "oldest-rust.sh: $*" >&2; }
target=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
of_workspace=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
declare -A crates features
for crate in mmcq mmcq-sim mmcq-torture mmcq-lab mmcq-embassy mmcq-c mmcq-vfio; do
  declared=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "crates/$crate/Cargo.toml")
  declared=${declared:-$of_workspace}
  [ -n "$declared" ] || { say "$crate declares no rust-version"; exit 1; }
  crates[$declared]+=" -p $crate"
  [ "$crate" != mmcq-lab ] || features[$declared]="--features mmcq-lab/full"
done
for declared in "${!crates[@]}"; do
  # Rustup takes 1.88 for a channel of its own beside 1.88.0.
  rust=$declared
  case $rust in *.*.*) ;; *) rust=$rust.0 ;; esac
  if ! cargo "+$rust" --version >/dev/null 2>&1; then
    rustup toolchain install "$rust" --profile minimal >/dev/null 2>&1 || {
      say "left out: Rust $rust cannot be installed here"
      continue
    }
  fi
  # shellcheck disable=SC2086
  CARGO_TARGET_DIR="$target/oldest-rust" cargo "+$rust" check --locked --quiet ${crates[$declared]} ${features[$declared]:-}
  say "Rust $rust builds${crates[$declared]//-p /}"
done
