#!/bin/bash
# littlefs.sh: compiles and runs examples/littlefs. The bindings of littlefs need libclang: that of
# LIBCLANG_PATH, that of the system, or that of PyPI in the Python environment target/judges.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
judges=$root/target/judges
if [ -z "${LIBCLANG_PATH:-}" ] && ! ldconfig -p 2>/dev/null | grep -q 'libclang[-.0-9]*\.so'; then
  if ! "$judges/bin/python" -c "import clang" 2>/dev/null; then
    echo "littlefs.sh: installing libclang into $judges" >&2
    [ -x "$judges/bin/pip" ] || python3 -m venv "$judges"
    "$judges/bin/pip" install -q --disable-pip-version-check "libclang==18.1.1"
  fi
  LIBCLANG_PATH=$("$judges/bin/python" -c "import clang, os; print(os.path.join(os.path.dirname(clang.__file__), 'native'))")
  export LIBCLANG_PATH
fi
# A library of clang alone has no headers of its own; the C compiler's do.
include=$("${CC:-cc}" -print-file-name=include)
export BINDGEN_EXTRA_CLANG_ARGS="${BINDGEN_EXTRA_CLANG_ARGS:-} -I$include"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target/littlefs}
cd "$root/examples/littlefs"
cargo fmt --check
cargo clippy --quiet --all-targets -- -D warnings
cargo run --quiet
