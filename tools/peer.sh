#!/bin/bash
# peer.sh: counts the instructions, register accesses and interrupts of a random 4 KiB request at
# depth 1 on QEMU's q35, with another stack that can be built from the registry: sdhci-host and
# sdmmc-protocol (rcore-os). boards/peer uses them to bring the card up, to write and to read back,
# and counts as boards/pc does for mmcq (tools/boards.sh). QEMU's log of the controller's registers
# gives the accesses: those of a run with twice as many requests, minus those of a run with the
# single number.
#
# Needs qemu-system-x86_64 (tools/install-judges.sh), and rustup for the target x86_64-unknown-none.
set -euo pipefail
cd "$(dirname "$0")/../boards/peer"
say() { echo "peer.sh: $*" >&2; }
command -v qemu-system-x86_64 >/dev/null || { say "no qemu-system-x86_64; tools/install-judges.sh installs it"; exit 2; }
target=x86_64-unknown-none
rustup target add "$target" >/dev/null 2>&1 || { say "rustup cannot add $target"; exit 2; }
RUSTFLAGS="-Crelocation-model=static -Clink-arg=-T$PWD/../pc/link.x -Clink-arg=--build-id=none" \
  cargo build -q --locked --release --target "$target"
image=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/$target/release/peer
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run() { # read|write count
  local status=0
  rm -f "$work/card"
  truncate -s 4G "$work/card"
  timeout 300 qemu-system-x86_64 -M q35 -accel tcg -icount shift=0,sleep=off -m 256 -bios qboot.rom -nodefaults -no-reboot \
    -display none -monitor none -device isa-debug-exit,iobase=0xf4,iosize=1 -chardev "file,id=report,path=$work/report" \
    -device isa-debugcon,iobase=0xe9,chardev=report -drive "if=none,id=card,format=raw,file=$work/card" \
    -device sdhci-pci -device sd-card,drive=card -kernel "$image" -append "$1 $2" \
    -trace sdhci_access -D "$work/accesses" </dev/null >"$work/log" 2>&1 || status=$?
  # QEMU's exit status is twice the image's 16, and one.
  if [ $status -ne 33 ] || ! grep -q '^peer: ' "$work/report"; then
    say "$1 $2: exit status $status, expected 33"
    cat "$work/report" "$work/log" >&2
    exit 1
  fi
  accesses=$(wc -l <"$work/accesses")
  read -r _ _ instructions _ _ interrupts < <(grep '^peer: ' "$work/report")
}
count=64
printf '%-32s %12s %10s %11s\n' 'sdhci-host 0.5.2, 4 KiB, depth 1' instructions accesses interrupts
for what in read write; do
  run $what $count
  once=$accesses
  run $what $((2 * count))
  # Twice: once to learn, once to count.
  awk -v w="random $what" -v i="$instructions" -v a=$((accesses - once)) -v n=$((2 * count)) -v q="$interrupts" \
    'BEGIN { printf "%-32s %12d %10.1f %11s\n", w, i, a / n, q }'
done
