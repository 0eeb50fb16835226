#!/bin/bash
# no-panic.sh [target ...]: shows that no panic can be reached from the interface of crate mmcq.
# Without targets: for this machine, and for thumbv7em-none-eabihf and thumbv6m-none-eabi if rustup
# has them.
#
# How it works: boards/size calls the whole interface with values that the compiler cannot know. Its
# panic handler calls a function that is not defined. The linker optimises the program as a whole
# (-Clinker-plugin-lto), and keeps core's panic functions separate. So linking fails exactly if
# reachable code refers to one of these functions, and the linker prints the chain of callers.
#
# One panic is allowed: that of a future that is polled again after it has ended. The compiler puts
# it into every `async fn`, and no code can avoid that; `.await` and `Stack::block_on` never poll a
# future that has ended. Here the linker gives core's function for this panic, and no other, another
# address.
#
# At the end the script tests itself: with a planted panic, linking must fail.
set -euo pipefail
cd "$(dirname "$0")/../boards/size"
say() { echo "no-panic.sh: $*"; }
sysroot=$(rustc --print sysroot)
machine=$(rustc -vV | sed -n 's/^host: //p')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A folder for each target: cargo builds one thing at a time in one.
folder=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')

libcore() { find "$sysroot/lib/rustlib/$1/lib" -name 'libcore-*.rlib' 2>/dev/null | head -1; }

# The mangled name of core's "`async fn` resumed after completion".
resumed_in() { readelf -sW "$1" 2>/dev/null | awk '$4 == "FUNC" && $8 ~ /[0-9]panic_const_async_fn_resumed$/ { print $8 }'; }

link() { # target binary features
  local core resumed flags
  core=$(libcore "$1")
  resumed=$(resumed_in "$core")
  [ "$(wc -w <<<"$resumed")" -eq 1 ] || {
    say "$core: found '$resumed', expected one symbol panic_const_async_fn_resumed" >&2
    return 2
  }
  flags="--lto-O3 --error-limit=0 --why-live=*rust_begin_unwind --defsym=$resumed=main"
  case $1 in
    thumb*) flags="$flags -T$PWD/link.x" ;;
    # No interrupt vectors and no start-up code here; the unwinder's hook in core's tables is never called.
    *) flags="$flags --entry=main --undefined=controller_interrupt --defsym=rust_eh_personality=main" ;;
  esac
  local rust="-Clinker-plugin-lto" flag
  for flag in $flags; do
    case $1 in
      thumb*) rust="$rust -Clink-arg=$flag" ;;
      *) rust="$rust -Clink-arg=-Wl,$flag" ;;
    esac
  done
  case $1 in
    thumb*) ;;
    *)
      for flag in -fuse-ld=lld -nostartfiles -static -lc; do rust="$rust -Clink-arg=$flag"; done
      rust="$rust -Crelocation-model=static"
      ;;
  esac
  RUSTFLAGS="$rust" cargo build -q --locked --profile proof --features "$3" --target "$1" --bin "$2" \
    --target-dir "$folder/no-panic/$1" >"$log" 2>&1
}

# The chain of callers, without the paths of object files.
chain() {
  grep -E 'referenced by: ' "$log" | sed -E 's/.*\.o[^:]*:\((.*)\)( \(.*\))?$/  called from \1/' | c++filt |
    sed -E 's/_?\$LT\$/</g; s/\$GT\$/>/g; s/\$u20\$/ /g; s/\$C\$/,/g; s/\$u7b\$/{/g; s/\$u7d\$/}/g' |
    sed -E 's/\.\./::/g; s/::h[0-9a-f]{16}//g'
}

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  targets=("$machine")
  for target in thumbv7em-none-eabihf thumbv6m-none-eabi; do
    if [ -n "$(libcore "$target")" ]; then
      targets+=("$target")
    else
      say "$target is not installed (rustup target add $target): left out"
    fi
  done
fi
judge() { # target
  local target=$1 bad=0 log=$work/$1.log binaries binary
  [ -n "$(libcore "$target")" ] || { say "$target is not installed (rustup target add $target)" >&2; return 2; }
  # On this machine `everything` says it all but for ports of SPI; on the others readers are linked too, as firmware would have them.
  binaries=(everything)
  [ "$target" = "$machine" ] || binaries=(reader spi_reader direct direct_spi everything)
  for binary in "${binaries[@]}"; do
    if link "$target" "$binary" no-panic; then
      say "$target: $binary: no panic can be reached"
    elif grep -q 'undefined symbol: a_panic_can_be_reached' "$log"; then
      say "$target: $binary: a panic can be reached, expected none:" >&2
      chain >&2
      bad=1
    else
      cat "$log" >&2
      return 2
    fi
  done
  # Linked as the Cortex-M before it: what finds a panic there finds it here.
  case $target in thumbv6m*) [ ${#targets[@]} -eq 1 ] || return $bad ;; esac
  if link "$target" everything no-panic,planted; then
    say "$target: a planted panic was not found, expected linking to fail" >&2
    bad=1
  elif grep -q 'undefined symbol: a_panic_can_be_reached' "$log"; then
    say "$target: a planted panic is found:"
    chain | head -3
  else
    cat "$log" >&2
    return 2
  fi
  return $bad
}

# Side by side: a program that is optimised as one keeps one core busy.
jobs=()
for target in "${targets[@]}"; do
  judge "$target" >"$work/$target.said" 2>&1 &
  jobs+=($!)
done
status=0
for n in "${!targets[@]}"; do
  wait "${jobs[n]}" || { code=$?; [ $code -lt $status ] || status=$code; }
  cat "$work/${targets[n]}.said"
done
exit $status
