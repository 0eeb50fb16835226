#!/bin/bash
# mutants.sh [file ...]: changes the core's queue and recovery in one place after the other, and
# lists the changes that no test notices. File names are relative to crates/mmcq/src/engine/,
# without .rs.
#
# MUTANTS=k/n tries every nth change, beginning with number k (the first is 0); without it all are
# tried. ONLY="number ..." tries only the changes with these numbers of an earlier run. AGAIN=1 uses
# the programs that the earlier run has built.
#
# The changes are those of cargo-mutants, which builds the tree again for each of them. Here all
# changes are in one copy of the tree (tools/mutants), each behind a switch, so one build is enough.
# Each change is tested by the tests of mmcq and, if it survives, by those of mmcq-sim: one test
# program after the other, the quickest first, until one fails or hangs. Programs that take longer
# than half a minute are left out.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "mutants.sh: $*" >&2; }
files=("$@")
[ ${#files[@]} -gt 0 ] || files=(order recover/{mod,classify,ladder,help,salvage} stream cancel ends deadline extras limits beside)
part=${MUTANTS:-0/1}
work=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/mutants
tree=$work/tree
mkdir -p "$work"
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR=$work MMCQ_FUZZ_MS=${MMCQ_FUZZ_MS:-300}

paths=()
for file in "${files[@]}"; do
  path=crates/mmcq/src/engine/${file%.rs}.rs
  [ -f "$path" ] || { say "$file: expected a file of crates/mmcq/src/engine"; exit 2; }
  paths+=("$path")
done
cargo build --quiet --manifest-path tools/mutants/Cargo.toml

# The tree with the changes in, without those that do not compile.
plant() {
  rm -rf "$tree"
  mkdir -p "$tree"
  git ls-files -z | xargs -0 cp --parents -t "$tree"
  # Less to optimise, and little slower to run; and what is woven is not pretty.
  sed -i 's/opt-level = 2/opt-level = 1/' "$tree/Cargo.toml"
  sed -i 's/^#!\[no_std\]/#![no_std]\n#![allow(warnings)]/' "$tree/crates/mmcq/src/lib.rs"
  "$work/debug/weave" "$tree" "$part" "${paths[@]}" -- ${unviable[@]+"${unviable[@]}"} >"$work/woven"
  cat >>"$tree/crates/mmcq/src/lib.rs" <<'RUST'

#[doc(hidden)]
#[allow(missing_docs)]
pub mod mutant {
    extern crate std;
    static ACTIVE: std::sync::OnceLock<u32> = std::sync::OnceLock::new();

    #[inline]
    pub fn on(number: u32) -> bool {
        *ACTIVE.get_or_init(|| std::env::var("MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(u32::MAX)) == number
    }
}
RUST
}
if [ -z "${AGAIN:-}" ]; then
  unviable=()
  for round in {1..20}; do
    plant
    if (cd "$tree" && cargo check -p mmcq --locked --message-format short) >"$work/check.log" 2>&1; then break; fi
    # The switch in the line of the error, or else the last one before it.
    mapfile -t found < <(sed -n 's/^\([^ :]*\.rs\):\([0-9]*\):[0-9]*: error.*/\1 \2/p' "$work/check.log" | sort -u | while read -r file line; do
      head -n "$line" "$tree/$file" | grep 'mutant::on(' | tail -1 | grep -o 'mutant::on([0-9]*' | grep -o '[0-9]*$'
    done | sort -un)
    [ ${#found[@]} -gt 0 ] || { cat "$work/check.log" >&2; say "the changed tree does not compile"; exit 1; }
    unviable+=("${found[@]}")
  done
  say "$(wc -l <"$work/woven") changes in, ${#unviable[@]} do not compile"
fi

# A test program, quietly: package, program, seconds.
one() {
  (cd "$tree/crates/$1" && timeout --kill-after 5 "$3" "$2" --quiet >"$work/last.log" 2>&1)
}

left=$work/left survivors=$work/survivors
awk -F'\t' -v only="${ONLY:-}" '
  BEGIN { n = split(only, numbers, " "); for (i = 1; i <= n; i++) wanted[numbers[i]] = 1 }
  !n || $1 in wanted' "$work/woven" >"$left"
tried=$(wc -l <"$left") caught=0 hung=0
# The simulator's tests are built for those that mmcq's own let pass.
for package in mmcq mmcq-sim; do
  [ -s "$left" ] || break
  programs=$work/$package.programs
  if [ -z "${AGAIN:-}" ] || [ ! -s "$programs" ]; then
    mapfile -t built < <(cd "$tree" && cargo test -p $package --lib --tests --locked --no-run 2>&1 | tee >(cat >&2) |
      sed -n 's/^ *Executable .*(\(.*\))$/\1/p')
    [ ${#built[@]} -gt 0 ] || { say "no test program of $package was built"; exit 1; }
    for program in "${built[@]}"; do
      began=$(date +%s%N)
      one $package "$program" 600 || { cat "$work/last.log" >&2; say "$program fails without any change"; exit 1; }
      echo "$((($(date +%s%N) - began) / 1000000)) $program"
    done | sort -n >"$work/times"
    awk '$1 > 30000 { print "mutants.sh: left out for its time: " $2 | "cat >&2" } $1 <= 30000' "$work/times" >"$programs"
  fi
  say "$package: $(awk '{ ms += $1 } END { printf "%.1f s", ms / 1000 }' "$programs") of tests, for $(wc -l <"$left") changes"
  : >"$survivors"
  while IFS=$'\t' read -r number name; do
    verdict=
    while read -r ms program; do
      result=0
      MUTANT=$number one $package "$program" $((30 + ms / 100)) || result=$?
      program=${program##*/}
      case $result in
        0) continue ;;
        124 | 137) verdict="hangs ${program%-*}" hung=$((hung + 1)) ;;
        *) verdict="caught by $package ${program%-*}" caught=$((caught + 1)) ;;
      esac
      break
    done <"$programs"
    if [ -n "$verdict" ]; then echo "$verdict: $number: $name"; else printf '%s\t%s\n' "$number" "$name" >>"$survivors"; fi
  done <"$left"
  cp "$survivors" "$left"
done
sed 's/\(.*\)\t/SURVIVED: \1: /' "$left"
echo "tried $tried: caught $caught, hung $hung, survived $(wc -l <"$left")"
