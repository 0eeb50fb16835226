#!/bin/bash
# coverage.sh [file ...]: line coverage of the core (crates/mmcq/src) by its own tests and those of
# the simulator, for each file and each top-level module. With file names it prints the lines of
# these files that no test reaches. PACKAGES=mmcq runs only the core's own tests. AGAIN=1 prints the
# result of the last run, without a new one.
#
# Needs llvm-profdata and llvm-cov of rustc's LLVM. They come from rustup's component llvm-tools,
# which the script installs if rustup is there, or from Debian's llvm-N.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "coverage.sh: $*" >&2; }
sysroot=$(rustc --print sysroot)
major=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
machine=$(rustc -vV | sed -n 's/^host: //p')
# The tool of this LLVM, wherever it is.
tool() {
  local place
  for place in "$sysroot/lib/rustlib/$machine/bin/$1" "$(command -v "$1-$major" || true)" "$(command -v "$1" || true)"; do
    if [ -x "$place" ] && "$place" --version | grep -q "version $major\."; then
      echo "$place"
      return
    fi
  done
  say "no $1 of LLVM $major; expected 'rustup component add llvm-tools' or Debian's llvm-$major to bring it"
  exit 2
}
[ -x "$sysroot/lib/rustlib/$machine/bin/llvm-cov" ] || rustup component add llvm-tools >&2 || true
profdata=$(tool llvm-profdata)
cov=$(tool llvm-cov)
target=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/coverage
if [ -z "${AGAIN:-}" ]; then
  rm -rf "$target/raw"
  mkdir -p "$target/raw"
  export RUSTFLAGS="-C instrument-coverage" LLVM_PROFILE_FILE="$target/raw/%p-%m.profraw" CARGO_INCREMENTAL=0 MMCQ_FUZZ_MS=${MMCQ_FUZZ_MS:-300}
  read -ra packages <<<"${PACKAGES:-mmcq mmcq-sim}"
  # Counters stand in the way of the optimiser: most of its time would be wasted.
  tests=(cargo --config profile.dev.debug=0 --config profile.dev.package.mmcq.opt-level=1 --config profile.dev.package.mmcq-sim.opt-level=1 test
    "${packages[@]/#/-p}" --features mmcq/rpmb --lib --tests --locked --target-dir "$target")
  "${tests[@]}" --no-run 2>&1 | tee /dev/stderr | sed -n 's/^ *Executable .*(\(.*\))$/\1/p' >"$target/binaries"
  [ -s "$target/binaries" ] || { say "no test binary was built"; exit 1; }
  "${tests[@]}" --no-fail-fast --quiet >"$target/tests.log" 2>&1 || { tail -40 "$target/tests.log"; say "a test failed"; exit 1; }
  "$profdata" merge -sparse "$target/raw"/*.profraw -o "$target/all.profdata"
fi
mapfile -t binaries <"$target/binaries"
objects=()
for binary in "${binaries[@]:1}"; do objects+=(-object "$binary"); done
common=("${binaries[0]}" "${objects[@]}" -instr-profile="$target/all.profdata")
if [ $# -gt 0 ]; then
  "$cov" show "${common[@]}" "$@" | grep -E '^ *[0-9]+\| +0\|' || say "every line is reached"
  exit
fi
"$cov" export -summary-only "${common[@]}" | tr '{' '\n' | awk -v root="$PWD/crates/mmcq/src/" '
  # A file comes with its name, then its summaries, of which "lines" is one.
  match($0, /"filename":"[^"]*"/) { file = substr($0, RSTART + 12, RLENGTH - 13) }
  /^"count"/ && want { split($0, part, /[:,}]/); lines[file] = part[2]; covered[file] = part[4]; want = 0 }
  /"lines":$/ { want = (index(file, root) == 1 && !(file in lines)) }
  END {
    for (file in lines) if (file !~ /\/tests(\/|\.rs)|permuted/) {
      name = substr(file, length(root) + 1)
      printf "%6.1f %%  %5d of %5d  %s\n", 100 * covered[file] / (lines[file] ? lines[file] : 1), covered[file], lines[file], name | "sort -k5"
      all += lines[file]; hit += covered[file]
      room = name; sub(/\.rs$/, "", room); sub(/\/.*/, "", room)
      of[room] += lines[file]; hits[room] += covered[file]
    }
    close("sort -k5")
    print ""
    for (room in of) printf "%6.1f %%  %5d of %5d  %s\n", 100 * hits[room] / (of[room] ? of[room] : 1), hits[room], of[room], room | "sort -k5"
    close("sort -k5")
    if (!all) { print "coverage.sh: no file of the core in the report"; exit 1 }
    printf "%6.1f %%  %5d of %5d  all\n", 100 * hit / all, hit, all
  }'
