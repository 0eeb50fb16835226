#!/bin/bash
# linux-module-models.sh: boots mmcq.ko (linux/) once in QEMU on two of the laboratory's controllers and cards (`mmcq device`), for what QEMU's own cards
# have not: an eMMC with general purpose partitions, RPMB and secure erase; an SD card whose switch says that it is read-only; and faults of the wires
# and a card that is out for a second, while disk, boot area and RPMB are at work; a card that comes after its controller was taken. At the end the
# machine is switched off, which the eMMC must be told. Ends with 2 where something is missing.
#
# LINUX, APPEND: as for tools/linux-module.sh. MMCQ: a built program `mmcq`.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "linux-module-models.sh: $*" >&2; }
if [ -z "${MMCQ:-}" ]; then
  cargo build -q --locked --release -p mmcq-lab --features full
  MMCQ=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/mmcq
fi
work=$(mktemp -d)
servers=()
finish() {
  [ ${#servers[@]} -eq 0 ] || kill "${servers[@]}" 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT
INITRD=$work/initrd tools/linux-module.sh --initrd
linux=$PWD/target/judges/linux${LINUX:+-$LINUX}
memory=512M limit_s=600
[ "${LINUX:-}" != debug ] || memory=1G limit_s=2400
devices=()
serve() { # name arguments
  local name=$1
  shift
  "$MMCQ" device --socket "$work/$name" "$@" >"$work/$name.said" 2>&1 &
  servers+=($!)
  for _ in $(seq 600); do [ ! -S "$work/$name" ] || break; sleep 0.1; done
  [ -S "$work/$name" ] || { say "mmcq device: $(cat "$work/$name.said")"; exit 1; }
  devices+=(-device "{\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":\"$work/$name\"},\"x-msg-timeout\":60000,\"x-no-posted-writes\":true}")
}
head -c 1M /dev/urandom >"$work/image"
truncate -s 16G "$work/image"
sum=$(head -c 1M "$work/image" | md5sum | cut -c1-32)
cat >"$work/faults" <<'LIST'
500  rd_crc
900  cmd_lost
1300 wr_crc
1700 resp_lost
2100 rd_lost
2500 resp_crc
5000 out 1000
LIST
serve emmc --card emmc-51-full --schedule "$work/faults" --hold --log "$work/emmc.bus"
serve protected --card sdhc-16g-hs --read-only "$work/image"
echo "0 out 15000" >"$work/out"
serve late --card sdhc-16g-hs --schedule "$work/out" --hold
timeout "${TIMEOUT_S:-$limit_s}" target/judges/qemu11/qemu-system-x86_64 -M q35,memory-backend=ram -object memory-backend-memfd,id=ram,size=$memory,share=on \
  -accel tcg -smp 2 -cpu qemu64 -nodefaults -display none -no-reboot -serial stdio -kernel "$linux"/boot/vmlinuz-* -initrd "$work/initrd" \
  -append "console=ttyS0 panic=-1 loglevel=4 cryptomgr.notests no_timer_check part=models sum=$sum ${APPEND:-}" "${devices[@]}" </dev/null |
  while IFS= read -r line; do
    echo "$line"
    # The machine says when it is ready for them.
    case $line in
      *'now: faults'*) kill -HUP "${servers[0]}" ;;
      *'now: out'*) kill -HUP "${servers[2]}" ;;
    esac
  done | tee "$work/said"
grep -q '^module: end' "$work/said" || { say "the module has failed, see above"; exit 1; }
for _ in $(seq 100); do kill -0 "${servers[@]}" 2>/dev/null || break; sleep 0.1; done
for name in emmc protected late; do
  sed "s/^/mmcq device, $name: /" "$work/$name.said"
  grep -q '; 0 violations by the driver; 0 accesses to no memory' "$work/$name.said" || { say "the model found something wrong"; exit 1; }
done
# CMD6 that sets POWER_OFF_NOTIFICATION (byte 34) to POWER_OFF_LONG (2), and its CMD13.
tail -n 20 "$work/emmc.bus" | grep -q "Command { index: 6, arg: $((0x03220200))," || { say "the eMMC was switched off without a notification"; exit 1; }
cmp -s <(head -c 1M "$work/image" | md5sum | cut -c1-32) <(echo "$sum") || { say "the read-only card was written"; exit 1; }
