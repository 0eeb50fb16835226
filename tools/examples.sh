#!/bin/bash
# examples.sh [NAME...]: builds the programs of examples/ that are made to be copied (template,
# rtic), each in a folder outside of the tree, as a user does. Only `mmcq` and `mmcq-embassy` come
# from the tree. Prints the size of each image.
# examples.sh --boards [NAME...]: builds the programs of examples/boards/ in the same way, each with
# the HAL of its chip from the registry. If a HAL cannot be fetched, or a target cannot be
# installed, the program is left out, and a line says why.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
say() { echo "examples.sh: $*" >&2; }
folder=examples
if [ "${1:-}" = --boards ]; then folder=examples/boards; shift; fi
programs=("$@")
if [ ${#programs[@]} -eq 0 ]; then
  programs=(template rtic)
  [ $folder = examples ] || mapfile -t programs < <(cd $folder && ls -d */ | tr -d /)
fi
sysroot=$(rustc --print sysroot)
built_in=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/examples-outside
export CARGO_TARGET_DIR=$built_in
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for program in "${programs[@]}"; do
  [ -f "$folder/$program/Cargo.toml" ] || { say "$folder/$program: no such program"; exit 2; }
  target=$(sed -n 's/^target = "\(.*\)"/\1/p' "$folder/$program/.cargo/config.toml")
  if [ ! -d "$sysroot/lib/rustlib/$target" ]; then
    rustup target add "$target" >/dev/null 2>&1 || { say "$program: left out: the target $target cannot be installed"; continue; }
  fi
  cp -r "$folder/$program" "$work/"
  rm -rf "$work/$program/target"
  cd "$work/$program"
  # A patch that is not used would change the lock file.
  patch=()
  for crate in mmcq mmcq-embassy; do
    grep -q "^$crate = " Cargo.toml && patch+=(--config "patch.crates-io.$crate.path='$root/crates/$crate'")
  done
  if ! cargo fetch --locked "${patch[@]}" >"$work/log" 2>&1; then
    # A lock file that is out of date is our fault; a registry that does not answer is not.
    if grep -q -e '--locked' "$work/log"; then cat "$work/log" >&2; exit 1; fi
    say "$program: left out: what it needs cannot be fetched: $(grep -m 1 '^error' "$work/log" || tail -1 "$work/log")"
    cd "$root"
    continue
  fi
  cargo build --release --locked "${patch[@]}" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
  cd "$root"
  if grep -A8 '^warning' "$work/log" >&2; then say "$program: warnings, expected none"; exit 1; fi
  name=$(sed -n 's/^name = "\(.*\)"/\1/p' "$folder/$program/Cargo.toml" | head -1)
  image=$built_in/$target/release/$name
  # An image without its beginning would build as well: that of a Cortex-M begins with the stack pointer, that of an ESP32 is looked for by
  # the description of the program.
  case $target in thumb*) begins=.vector_table ;; *) begins=.flash.appdesc ;; esac
  readelf -SW "$image" | grep -q "\\$begins" || { say "$program: no $begins was linked"; exit 1; }
  size=$(readelf -SW "$image" | sed 's/^ *\[ *[0-9]*\]//' |
    awk '$2 == "PROGBITS" && $7 ~ /A/ { printf "%s ", $5 }' | { s=0; for h in $(cat); do s=$((s + 16#$h)); done; echo "$s"; })
  say "$program: built, $size bytes of flash"
done
