#!/bin/bash
# examples.sh [NAME...]: builds the programs of examples/ that are made to be copied (template, rtic) for thumbv7em-none-eabihf,
# each in a folder outside of the tree, as its user does. Only `mmcq` is the one of the tree. Prints the size of each image.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
say() { echo "examples.sh: $*" >&2; }
programs=("$@")
[ ${#programs[@]} -gt 0 ] || programs=(template rtic)
target=thumbv7em-none-eabihf
sysroot=$(rustc --print sysroot)
if [ ! -d "$sysroot/lib/rustlib/$target" ]; then
  rustup target add "$target" >/dev/null 2>&1 || { say "left out: the target $target cannot be installed"; exit 0; }
fi
built_in=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/examples-outside
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for program in "${programs[@]}"; do
  cp -r "examples/$program" "$work/"
  rm -rf "$work/$program/target"
  (cd "$work/$program" &&
    CARGO_TARGET_DIR="$built_in" cargo build --release --locked --config "patch.crates-io.mmcq.path='$root/crates/mmcq'") \
    >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
  if grep -A8 '^warning' "$work/log" >&2; then say "$program: warnings, expected none"; exit 1; fi
  name=$(sed -n 's/^name = "\(.*\)"/\1/p' "examples/$program/Cargo.toml" | head -1)
  image=$built_in/$target/release/$name
  # An image without its vectors would build as well: that of a Cortex-M begins with the stack pointer.
  readelf -SW "$image" | grep -q '\.vector_table' || { say "$program: no vector table was linked"; exit 1; }
  size=$(readelf -SW "$image" | sed 's/^ *\[ *[0-9]*\]//' |
    awk '$1 ~ /^\.(vector_table|text|rodata|data)$/ { printf "%s ", $5 }' | { s=0; for h in $(cat); do s=$((s + 16#$h)); done; echo "$s"; })
  say "$program: built, $size bytes of flash"
done
