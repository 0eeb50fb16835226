#!/bin/bash
# oldest-rust.sh: the crates that are published build with the Rust that Cargo.toml declares (`rust-version`). Installs it by
# rustup, without its documentation, if it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "oldest-rust.sh: $*" >&2; }
declared=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
[ -n "$declared" ] || { say "Cargo.toml declares no rust-version"; exit 1; }
# Rustup takes 1.88 for a channel of its own beside 1.88.0.
case $declared in *.*.*) ;; *) declared=$declared.0 ;; esac
if ! cargo "+$declared" --version >/dev/null 2>&1; then
  rustup toolchain install "$declared" --profile minimal >/dev/null 2>&1 || {
    say "left out: Rust $declared cannot be installed here"
    exit 0
  }
fi
target=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
CARGO_TARGET_DIR="$target/oldest-rust" cargo "+$declared" check --locked --quiet \
  -p mmcq -p mmcq-sim -p mmcq-lab -p mmcq-embassy -p mmcq-c -p mmcq-vfio --features mmcq/rpmb,mmcq-c/rpmb "$@"
say "Rust $declared builds the crates"
