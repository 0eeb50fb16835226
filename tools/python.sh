#!/bin/bash
# python.sh: builds the wheel of python/ and installs it in a fresh environment, as a user does.
# Then it runs there the tests, a notebook, and a sweep on a Dask cluster of which one worker is
# killed. Needs Python 3.9 or later; maturin, pandas, Dask and Jupyter come from PyPI.
#   python.sh --wheel     only builds the wheel, and prints its path
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
say() { echo "python.sh: $*" >&2; }
target=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
place=$target/python
python=$(command -v python3) || { say "expected python3"; exit 2; }
mkdir -p "$place"
# An environment for what builds; another, made anew each time, for what is built.
[ -x "$place/build/bin/maturin" ] || { "$python" -m venv "$place/build" && "$place/build/bin/pip" install -q 'maturin>=1.9,<2'; }
rm -rf "$place/wheels"
CARGO_TARGET_DIR=$place/target "$place/build/bin/maturin" build --release --locked --quiet --manifest-path python/Cargo.toml --out "$place/wheels"
wheel=$(ls "$place"/wheels/*.whl)
say "$wheel: $(stat -c %s "$wheel") bytes"
if [ "${1:-}" = --wheel ]; then echo "$wheel"; exit; fi
rm -rf "$place/fresh"
"$python" -m venv "$place/fresh"
"$place/fresh/bin/pip" install -q "$wheel[test]"
export PATH=$place/fresh/bin:$PATH
# What the numbers are compared with: the program itself.
cargo build --quiet --release --locked -p mmcq-lab --features full
export MMCQ=$target/release/mmcq
cd "$place"
# Outside of the tree: what is tested is what was installed.
python -m pytest -q -p no:cacheprovider "$root/python/tests"
python "$root/python/examples/dask_sweep.py" --kill --check
python "$root/python/examples/dask_torture.py" --check
jupyter nbconvert --to notebook --execute --ExecutePreprocessor.timeout=600 --log-level WARN \
  --output-dir "$place" "$root/python/examples/wake_ups.ipynb"
say "tests, notebook and cluster: well"
