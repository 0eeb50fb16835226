#!/bin/bash
# boards.sh: runs the whole stack, bare metal, on machines that others wrote:
# - boards/pc on QEMU's q35 (x86-64, sdhci-pci by ADMA2, QEMU's SD card), which also counts instructions;
# - boards/arm on QEMU's vexpress-a9 (Cortex-A9, ARM's PL181, QEMU's SD card);
# each once with a card addressed in bytes and once in blocks. The image says by its exit status and in its
# report whether all went well; then the card's file is compared byte for byte with what
# boards/plan/expect.rs expects in it.
#
# Needs qemu-system-x86_64 and qemu-system-arm (tools/install-judges.sh). boards/pc is built by the ordinary
# toolchain; the `core` of boards/arm's target comes from rustup, and where rustup cannot get it, Debian's
# rustc-web and rust-web-src build it from source, and are installed then; BOARDS_CORE=debian takes that way
# in any case. BOARDS_TIMEOUT: seconds that a run may take, 300 without it.
set -euo pipefail
cd "$(dirname "$0")/../boards"
say() { echo "boards.sh: $*" >&2; }
limit_s=${BOARDS_TIMEOUT:-300}
for qemu in qemu-system-x86_64 qemu-system-arm; do
  command -v $qemu >/dev/null || { say "no $qemu; tools/install-judges.sh installs it"; exit 2; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rustc --edition 2024 -O -o "$work/expect" plan/expect.rs

# The directory that cargo builds a board in.
output_of() { # board
  (cd "$1" && cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
}

# A line that the report must have.
must_say() {
  grep -Eqx "$2" "$work/report" || { say "$1: the report has no line '$2'"; bad=1; }
}

bad=0
# Runs an image on a fresh card; the report is in $work/report then.
run() { # name good-status blocks how-it-is-addressed function-that-starts-qemu
  local card=$work/card.img status=0 line
  "$work/expect" make "$card" "$3"
  : >"$work/report"
  # An instruction takes a nanosecond and sleep takes no time, so that a slow machine is none to the guest,
  # and each run is the same.
  QEMU_AUDIO_DRV=none "$5" "$card" -icount shift=0,sleep=off -display none -monitor none \
    </dev/null >"$work/log" 2>&1 || status=$?
  tr -d '\r' <"$work/report" >"$work/lines" && mv "$work/lines" "$work/report"
  sed "s/^/$1: /" "$work/report"
  if [ "$status" -ne "$2" ]; then
    case $status in 124) say "$1: no end after $limit_s s" ;; *) say "$1: exit status $status, expected $2" ;; esac
    sed 's/^/  /' "$work/log" >&2
    bad=1
  fi
  if line=$("$work/expect" check "$card"); then
    echo "$1: the file of the card is as expected, all $(stat -c %s "$card") bytes of it"
  else
    bad=1
  fi
  must_say "$1" "card: $3 blocks, addressed in $4, .*"
  must_say "$1" "$line"
  must_say "$1" "read back: 32768 blocks, 0 wrong"
  must_say "$1" "interrupts: [1-9][0-9]* of the controller, [0-9]+ of the alarm, 0 lost"
  must_say "$1" "trouble: 0 faults, 0 starts again"
  must_say "$1" "result: all is well"
  rm -f "$card"
}

# boards/pc: Debian's QEMU comes with a firmware that leaves the card alone, and ends with twice the status
# and one.
host=$(rustc -vV | sed -n 's/^host: //p')
if [ "$host" = x86_64-unknown-linux-gnu ]; then
  flags="-Crelocation-model=static"
  for flag in -nostartfiles -static -no-pie -Wl,--build-id=none "-T$PWD/pc/link.x"; do
    flags="$flags -Clink-arg=$flag"
  done
  (cd pc && RUSTFLAGS="$flags" cargo build -q --locked --release --target "$host")
  pc=$(output_of pc)/$host/release/sdhci
  on_q35() { # card options
    local card=$1
    shift
    timeout "$limit_s" qemu-system-x86_64 -M q35 -accel tcg -m 256 -bios qboot.rom -nodefaults -no-reboot \
      -device isa-debug-exit,iobase=0xf4,iosize=1 -chardev "file,id=report,path=$work/report" \
      -device isa-debugcon,iobase=0xe9,chardev=report -drive "if=none,id=card,format=raw,file=$card" \
      -device sdhci-pci -device sd-card,drive=card -kernel "$pc" "$@"
  }
  run "sdhci, 64 MiB" 33 131072 bytes on_q35
  run "sdhci, 4 GiB" 33 8388608 blocks on_q35
  # What is in a slot may be something else, or nothing.
  : >"$work/report"
  timeout "$limit_s" qemu-system-x86_64 -M q35 -accel tcg -icount shift=0,sleep=off -display none -monitor none \
    -bios qboot.rom -nodefaults -device isa-debug-exit,iobase=0xf4,iosize=1 \
    -chardev "file,id=report,path=$work/report" -device isa-debugcon,iobase=0xe9,chardev=report \
    -kernel "$pc" </dev/null || true
  must_say "no controller" "[0-9]+ PCI devices, none of class 08.05 \(SD host controller\)"
  : >"$work/report"
  timeout "$limit_s" qemu-system-x86_64 -M q35 -accel tcg -icount shift=0,sleep=off -display none -monitor none \
    -bios qboot.rom -nodefaults -device isa-debug-exit,iobase=0xf4,iosize=1 \
    -chardev "file,id=report,path=$work/report" -device isa-debugcon,iobase=0xe9,chardev=report \
    -device sdhci-pci -kernel "$pc" </dev/null || true
  must_say "no card" "result: .*"
  sed 's/^/no card: /' "$work/report"
else
  say "boards/pc is left out: it is built by the toolchain of x86_64-unknown-linux-gnu, this is $host"
fi

# boards/arm.
target=armv7a-none-eabi
sysroot=$(rustc --print sysroot)
output=$(output_of arm)

has_core() { compgen -G "$sysroot/lib/rustlib/$target/lib/libcore-*.rlib" >/dev/null; }
if [ "${BOARDS_CORE:-}" != debian ] && ! has_core && command -v rustup >/dev/null; then
  say "$target: asking rustup for it"
  rustup target add "$target" >/dev/null 2>&1 || true
fi
flags="-Clink-arg=-T$PWD/arm/link.x"
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
  flags="$flags -Clinker=$sysroot/lib/rustlib/$host/bin/rust-lld"
  output=$output/debian
  build=(env "RUSTC=$debian" RUSTC_BOOTSTRAP=1 "${build[@]}" -Zbuild-std=core --target-dir "$output")
fi
(cd arm && RUSTFLAGS="$flags" "${build[@]}")
arm=$output/$target/release/pl181
on_vexpress() { # card options
  local card=$1
  shift
  timeout "$limit_s" qemu-system-arm -M vexpress-a9 -serial "file:$work/report" \
    -semihosting-config enable=on,target=native -drive "if=sd,format=raw,file=$card" -kernel "$arm" "$@"
}
run_arm() { # name blocks how-it-is-addressed
  run "$1" 0 "$2" "$3" on_vexpress
  must_say "$1" "provoked [01]: the controller stayed silent"
  must_say "$1" "provoked: 0 wrong ends, 0 wrong blocks"
}
run_arm "pl181, 64 MiB" 131072 bytes
run_arm "pl181, 4 GiB" 8388608 blocks
exit $bad
