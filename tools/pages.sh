#!/bin/bash
# pages.sh [CRATE...]: builds the documentation of the published crates, which must give no warning:
# with no feature, with the defaults, with each feature alone (the laboratory: with all of its
# features), with all features, and as docs.rs builds it, by `[package.metadata.docs.rs]`. For
# docs.rs it uses a nightly compiler if there is one, as docs.rs does: then items show which feature
# they need. Without arguments: all crates.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "pages.sh: $*" >&2; }
nightly=
if cargo +nightly --version >/dev/null 2>&1; then nightly=+nightly; else say "no nightly compiler: the pages of docs.rs by the stable one"; fi
# A line for each page: crate, target or -, options of cargo.
sets=$(cargo metadata --format-version 1 --no-deps --locked | python3 -c '
import json, sys

asked = sys.argv[1:]
for package in json.load(sys.stdin)["packages"]:
    name = package["name"]
    if package["publish"] == [] or asked and name not in asked:
        continue
    features = sorted(set(package["features"]) - {"default"})
    alone = ["full"] if "full" in features else features
    options = ["--no-default-features", "", "--all-features"] if features else [""]
    options += [f"--no-default-features --features {feature}" for feature in alone]
    for option in dict.fromkeys(options):
        print(name, "-", option)
    of_docs_rs = package["metadata"]["docs"]["rs"]
    listed = ",".join(of_docs_rs.get("features", []))
    for target in of_docs_rs["targets"]:
        print(name, target, f"--features {listed}" if listed else "")
' "$@")
[ -n "$sets" ] || { say "$*: no crate that is published"; exit 2; }
target_dir=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/pages
host=$(rustc -vV | sed -n 's/^host: //p')
pages=0
while read -r crate target options; do
  compiler='' flags='-D warnings' to=()
  if [ "$target" != - ]; then
    compiler=$nightly
    [ -z "$nightly" ] || flags+=' --cfg docsrs'
    [ "$target" = "$host" ] || to=(--target "$target")
    # Without the target's core there is no page; on this machine's own there always is one.
    sysroot=$(rustc $compiler --print sysroot)
    if [ ! -d "$sysroot/lib/rustlib/$target" ] && ! rustup target add "$target" ${compiler:+--toolchain nightly} >/dev/null 2>&1; then
      say "left out: $crate for $target, since rustup has no such target here"
      continue
    fi
  fi
  # shellcheck disable=SC2086
  RUSTDOCFLAGS=$flags cargo $compiler doc --locked --quiet --no-deps -p "$crate" $options "${to[@]}" --target-dir "$target_dir${compiler:+-nightly}" || {
    say "$crate${to[*]:+, ${to[*]}}, ${options:-the defaults}: warnings, expected none"
    exit 1
  }
  pages=$((pages + 1))
done <<<"$sets"
[ $pages -gt 0 ]
say "$pages sets of features and targets have pages without a warning"
