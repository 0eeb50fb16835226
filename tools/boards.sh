#!/bin/bash
# boards.sh: runs the whole stack, bare metal, on machines that others wrote: boards/arm on QEMU's
# vexpress-a9 (Cortex-A9, ARM's PL181, QEMU's SD card), once with a card addressed in bytes and once in
# blocks. The image says by its exit status and in its report whether all went well; then the card's file is
# compared byte for byte with what boards/arm/expect.rs expects in it.
#
# Needs qemu-system-arm (tools/install-judges.sh). The target's `core` comes from rustup; where rustup
# cannot get it, Debian's rustc-web and rust-web-src build it from source, and are installed then;
# BOARDS_CORE=debian takes that way in any case. BOARDS_TIMEOUT: seconds that a run may take, 300 without
# it.
set -euo pipefail
cd "$(dirname "$0")/../boards/arm"
say() { echo "boards.sh: $*" >&2; }
target=armv7a-none-eabi
limit_s=${BOARDS_TIMEOUT:-300}
sysroot=$(rustc --print sysroot)
machine=$(rustc -vV | sed -n 's/^host: //p')
output=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
command -v qemu-system-arm >/dev/null || { say "no qemu-system-arm; tools/install-judges.sh installs it"; exit 2; }

has_core() { compgen -G "$sysroot/lib/rustlib/$target/lib/libcore-*.rlib" >/dev/null; }
if [ "${BOARDS_CORE:-}" != debian ] && ! has_core && command -v rustup >/dev/null; then
  say "$target: asking rustup for it"
  rustup target add "$target" >/dev/null 2>&1 || true
fi
flags="-Clink-arg=-T$PWD/link.x"
build=(cargo build -q --locked --release --target "$target")
if [ "${BOARDS_CORE:-}" = debian ] || ! has_core; then
  debian=/usr/bin/rustc
  if ! dpkg -s rust-web-src >/dev/null 2>&1 && command -v apt-get >/dev/null; then
    say "$target: installing Debian's compiler and the source of core"
    as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    export DEBIAN_FRONTEND=noninteractive
    "${as_root[@]}" apt-get update -q >&2
    "${as_root[@]}" apt-get install -q -y --no-install-recommends rustc-web rust-web-src >&2
  fi
  if [ ! -x "$debian" ] || [ ! -d "$("$debian" --print sysroot)/lib/rustlib/src/rust/library/core" ]; then
    say "$target: got neither by 'rustup target add $target' nor from Debian's compiler" \
      "(apt-get install rustc-web rust-web-src)"
    exit 2
  fi
  say "$target: $("$debian" --version) builds core from source"
  flags="$flags -Clinker=$sysroot/lib/rustlib/$machine/bin/rust-lld"
  output=$output/debian
  build=(env "RUSTC=$debian" RUSTC_BOOTSTRAP=1 "${build[@]}" -Zbuild-std=core --target-dir "$output")
fi
RUSTFLAGS="$flags" "${build[@]}"
image=$output/$target/release/pl181

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rustc --edition 2024 -O -o "$work/expect" expect.rs

# A line that the report must have.
must_say() {
  grep -Eqx "$2" "$work/report" || { say "$1: the report has no line '$2'"; bad=1; }
}

bad=0
run() { # name blocks how-it-is-addressed
  local card=$work/card.img status=0 line
  "$work/expect" make "$card" "$2"
  : >"$work/report"
  # An instruction takes a nanosecond and sleep takes no time, so that a slow machine is none to the guest,
  # and each run is the same.
  QEMU_AUDIO_DRV=none timeout "$limit_s" qemu-system-arm -M vexpress-a9 -icount shift=0,sleep=off \
    -display none -monitor none -serial "file:$work/report" \
    -semihosting-config enable=on,target=native -drive "if=sd,format=raw,file=$card" -kernel "$image" \
    </dev/null >"$work/log" 2>&1 || status=$?
  tr -d '\r' <"$work/report" >"$work/lines" && mv "$work/lines" "$work/report"
  sed "s/^/$1: /" "$work/report"
  if [ "$status" -ne 0 ]; then
    case $status in 124) say "$1: no end after $limit_s s" ;; *) say "$1: exit status $status, expected 0" ;; esac
    sed 's/^/  /' "$work/log" >&2
    bad=1
  fi
  if line=$("$work/expect" check "$card"); then
    echo "$1: the file of the card is as expected, all $(stat -c %s "$card") bytes of it"
  else
    bad=1
  fi
  must_say "$1" "card: $2 blocks, addressed in $3, .*"
  must_say "$1" "$line"
  must_say "$1" "read back: 32768 blocks, 0 wrong"
  must_say "$1" "interrupts: [1-9][0-9]* of the controller, [0-9]+ of the alarm, 0 lost"
  must_say "$1" "trouble: 0 faults, 0 starts again"
  must_say "$1" "provoked [01]: the controller stayed silent"
  must_say "$1" "provoked: 0 wrong ends, 0 wrong blocks"
  must_say "$1" "result: all is well"
  rm -f "$card" "$work/report"
}

run "pl181, 64 MiB" 131072 bytes
run "pl181, 4 GiB" 8388608 blocks
exit $bad
