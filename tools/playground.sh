#!/bin/bash
# playground.sh: builds the laboratory for browsers, and puts the page into target/playground/.
#   playground.sh --serve [PORT]   also serves it on this machine, on port 8000 without PORT
#   playground.sh --check          also compares its numbers with those of `mmcq`, in Node
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "playground.sh: $*" >&2; }
case "${1:-}" in "" | --serve | --check) ;; *) say "$1: expected --serve or --check"; exit 2 ;; esac
target=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
place=$target/playground
largest=1000000
if command -v rustup >/dev/null && ! rustup target list --installed | grep -qx wasm32-unknown-unknown; then
  say "installs Rust's target wasm32-unknown-unknown"
  rustup target add wasm32-unknown-unknown
fi
[ "${1:-}" != --check ] || CARGO_TARGET_DIR=$target cargo clippy --quiet --release --locked --target wasm32-unknown-unknown --manifest-path playground/Cargo.toml -- -D warnings
CARGO_TARGET_DIR=$target cargo build --quiet --release --locked --target wasm32-unknown-unknown --manifest-path playground/Cargo.toml
wasm=$target/wasm32-unknown-unknown/release/mmcq_playground.wasm
mkdir -p "$place"
cp playground/page/* "$wasm" "$place"
# `mmcq report --live` puts this one into a file.
gzip -9nc "$wasm" >"$place/mmcq_playground.wasm.gz"
sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1 >"$place/version"
bytes=$(stat -c %s "$wasm")
packed=$(stat -c %s "$place/mmcq_playground.wasm.gz")
say "$place: $bytes bytes of WebAssembly, $packed with gzip -9"
[ "$packed" -lt "$largest" ] || { say "expected fewer than $largest bytes with gzip -9"; exit 1; }
case "${1:-}" in
--serve)
  exec python3 -m http.server --bind 127.0.0.1 --directory "$place" "${2:-8000}"
  ;;
--check)
  command -v node >/dev/null || { say "left out: no node (Debian: nodejs)"; exit; }
  if [ -z "${MMCQ:-}" ]; then
    cargo build --quiet --release --locked -p mmcq-lab --features full
    MMCQ=$target/release/mmcq
  fi
  node playground/check.mjs "$MMCQ" "$wasm"
  ;;
esac
