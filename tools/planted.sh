#!/bin/bash
# planted.sh ARGUMENT...: runs the laboratory, `mmcq ARGUMENT...`, with the bugs of
# tools/mutants/bugs.toml in its core, all of them switched off. `mmcq torture --plants` switches
# them on, one after the other.
#
# The bugs are put into a copy of the tree, below cargo's target folder; the sources themselves stay
# unchanged. All cores compile the copy in parallel, so the program is slower than it could be.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
work=$target/planted
mkdir -p "$work/tree"
cargo build --quiet --locked --manifest-path tools/mutants/Cargo.toml --target-dir "$work/tools"
# Files that are new and not yet committed are in too; what is deleted is not.
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  [ ! -f "$file" ] || printf '%s\0' "$file"
done | "$work/tools/debug/plant" tools/mutants/bugs.toml "$work/tree" 2>"$work/plant.log" || { cat "$work/plant.log" >&2; exit 2; }
# What is woven in is not written to be read: no warnings of it.
export RUSTFLAGS="--cfg planted -Awarnings" CARGO_TARGET_DIR=$work/built
cargo build --release --locked --quiet --manifest-path "$work/tree/Cargo.toml" -p mmcq-lab --features torture,outside
exec "$work/built/release/mmcq" "$@"
