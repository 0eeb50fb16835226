#!/bin/bash
# package.sh [CRATE...]: packs the crates from a clean clone, unpacks them outside of the tree, and
# builds and tests what would be published. Without arguments: all crates.
# package.sh --dry [CRATE...]: packs the crates and runs `cargo publish --dry-run`, without a build.
# Takes some seconds.
#
# The dry run may warn that tests are not included in a package, because some tests stay in the
# tree. Any other warning is a failure. The clone has only committed files, and an address as for a
# release (address.py): no page of a package may have a relative link. A patch lets the unpacked
# crates find each other, since no registry has this version of them yet. Crates whose tests need
# the tree leave these tests out of the package.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "package.sh: $*" >&2; }
dry=
if [ "${1:-}" = --dry ]; then dry=1; shift; fi
crates=("$@")
[ ${#crates[@]} -gt 0 ] || crates=(mmcq mmcq-sim mmcq-torture mmcq-vfio mmcq-embassy mmcq-c mmcq-lab)
[ -z "$(git status --porcelain --untracked-files=no)" ] || say "changes that are not committed are not packed"
target=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

git clone --quiet --no-local . "$work/clone"
"$work/clone/tools/address.py" https://example.org/mmcq
packed=()
for crate in "${crates[@]}"; do packed+=(-p "$crate"); done
(cd "$work/clone" && cargo package --locked --allow-dirty --no-verify --quiet --target-dir "$work/packed" "${packed[@]}")
(cd "$work/clone" && cargo publish --dry-run --locked --allow-dirty --no-verify --target-dir "$work/dry" "${packed[@]}") >"$work/log" 2>&1 || {
  cat "$work/log" >&2
  exit 1
}
meant='ignoring test `[a-z_]*` as `tests/[a-z_/]*\.rs` is not included in the published package|aborting upload due to dry run'
if grep -E '^(warning|error)' "$work/log" | grep -Ev "^warning: ($meant)\$" >&2; then
  say "warnings of the dry run, expected none"
  exit 1
fi

mkdir "$work/outside"
cd "$work/outside"
members=()
patches=
for file in "$work"/packed/package/*.crate; do
  tar -xzf "$file"
  folder=$(basename "$file" .crate)
  name=$(sed -n '/^\[package\]/,/^\[/s/^name = "\(.*\)"/\1/p' "$folder/Cargo.toml")
  members+=("\"$folder\"")
  patches+="$name = { path = \"$folder\" }"$'\n'
  if [ -n "$(find "$folder" -type l)" ]; then say "$name: a link was packed, expected its content"; exit 1; fi
  for licence in LICENSE-APACHE LICENSE-MIT; do
    cmp "$folder/$licence" "$work/clone/$licence" || { say "$name: expected $licence in the package"; exit 1; }
  done
  if grep -rnE --include='*.md' '\]\([^)#:][^):]*\)' "$folder" >&2; then say "$name: relative links, expected none"; exit 1; fi
done
[ ${#members[@]} -eq ${#crates[@]} ] || { say "${#members[@]} packages, expected ${#crates[@]}"; exit 1; }
if [ -n "$dry" ]; then say "${#crates[@]} crates packed, with their licences; the dry run has no warning of its own"; exit; fi
# The same versions of dependencies, and the same profiles: the simulator's tests are slow without them.
cp "$work/clone/Cargo.lock" .
{
  printf '[workspace]\nresolver = "3"\nmembers = [%s]\n\n[patch.crates-io]\n%s\n' "$(IFS=,; echo "${members[*]}")" "$patches"
  sed -n '/^\[profile\.dev\]/,/^\[profile\.release\]/{/^\[profile\.release\]/!p}' "$work/clone/Cargo.toml"
} >Cargo.toml
# Cargo takes the crates that are not here out of the lock file; all other versions stay.
# The tests in C want every function of the header.
features=()
case " ${crates[*]} " in *" mmcq-c "*) features=(--features mmcq-c/rpmb,mmcq-c/rtsx,mmcq-c/usdhc,mmcq-c/stm32-sdmmc) ;; esac
case " ${crates[*]} " in *" mmcq-lab "*) features+=(--features mmcq-lab/full) ;; esac
export CARGO_TARGET_DIR=$target/package-outside
# What an earlier run has built names the folder of that run (CARGO_MANIFEST_DIR), and Cargo takes it for fresh.
cargo clean --quiet "${packed[@]}"
cargo test --workspace --quiet "${features[@]}"
say "${#crates[@]} crates packed, built and tested outside of the tree"
