#!/bin/bash
# linux-on-model.sh [CARD[@PLATFORM@PCI-ID]...]: an unmodified Linux of Debian, in a virtual
# machine, drives the controller model with a card in it (`mmcq device`). The script checks for each
# card:
# - Linux detects the card, and shows in sysfs and debugfs the same registers as `mmcq card`.
# - Linux reads what this computer put into the image.
# - Linux writes data and reads them back, through its page cache and directly. Then the image holds
#   what Linux wrote, and nothing else.
# - Linux's driver does nothing that the model counts as a violation, and the kernel reports no
#   problem with the card.
#
# The newer QEMU comes from tools/install-qemu11.sh, kernel and busybox from tools/debian-kernel.sh.
# LINUX_TIMEOUT: seconds that a machine may run, 300 if it is not set. KEEP: folder for the consoles
# and bus logs.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "linux-on-model.sh: $*" >&2; }
limit_s=${LINUX_TIMEOUT:-300}
store=$PWD/target/judges/linux
what=("$@")
# Slow and fast SD cards, one with a cache; eMMC old and new; and one on a controller with eight lines and HS400.
[ ${#what[@]} -gt 0 ] || what=(sdxc-128g-uhs sdhc-16g-hs sdsc-1g sdxc-64g-a2 emmc-4g-old emmc-hs200 emmc-51-full
  hbg4a2@intel-emmc@8086:5acc)
tools/install-qemu11.sh
qemu=$PWD/target/judges/qemu11/qemu-system-x86_64

tools/debian-kernel.sh
if [ -z "${MMCQ:-}" ]; then
  cargo build -q --locked --release -p mmcq-lab --features full
  MMCQ=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/mmcq
fi

work=$(mktemp -d)
server=
finish() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT

# What the guest begins with: busybox, and the modules in an order that satisfies them.
root=$work/root
mkdir -p "$root"/{bin,modules,proc,sys,dev,tmp}
cp "$store/bin/busybox" "$root/bin/busybox"
modules=(mmc_core mmc_block cqhci sdhci sdhci-pci)
for module in "${modules[@]}"; do
  file=$(find "$store/lib/modules" -name "$module.ko*" | head -1)
  case $file in
    '') say "the kernel's package has no module $module"; exit 1 ;;
    *.xz) xz -dc "$file" >"$root/modules/$module.ko" ;;
    *.zst) zstd -dcq "$file" >"$root/modules/$module.ko" ;;
    *) cp "$file" "$root/modules/$module.ko" ;;
  esac
done
cat >"$root/init" <<INIT
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t debugfs debug /sys/kernel/debug; mount -t tmpfs tmp /tmp
for module in ${modules[*]}; do insmod /modules/\$module.ko; done
n=0; while [ ! -e /dev/mmcblk0 ] && [ \$n -lt 60 ]; do n=\$((n + 1)); sleep 1; done
. /job
poweroff -f
INIT
chmod +x "$root/init"
# MiB: this machine's data at 16, Linux's from 32 on. What is not in order is a line that begins with "wrong:".
cat >"$root/job" <<'JOB'
card=$(echo /sys/class/mmc_host/mmc0/mmc0:*)
disk=/dev/mmcblk0
uname -sr | sed 's/^/kernel: /'
for name in type name cid csd scr ssr ocr rca manfid oemid serial date hwrev fwrev rev prv cache_size cmdq_en life_time rel_sectors; do
  [ ! -r $card/$name ] || echo "sysfs $name: $(cat $card/$name)"
done
echo "sysfs size: $(cat /sys/class/block/mmcblk0/size)"
sed 's/^/ios /' /sys/kernel/debug/mmc0/ios
[ ! -e /sys/kernel/debug/mmc0/mmc0:*/ext_csd ] || echo "debugfs ext_csd: $(cat /sys/kernel/debug/mmc0/mmc0:*/ext_csd)"
for node in /dev/mmcblk0*; do echo "node $node $(cat /sys/class/block/${node#/dev/}/size)"; done

forget() { sync; echo 3 >/proc/sys/vm/drop_caches; }
sum() { sha256sum | cut -d' ' -f1; }
now_cs() { cut -d' ' -f1 /proc/uptime | tr -d .; }
rate() { # name KiB dd-arguments...
  local name=$1 kib=$2 begin=$(now_cs)
  shift 2
  dd "$@" 2>/tmp/said || echo "wrong: $name: $(cat /tmp/said)"
  local cs=$(($(now_cs) - begin))
  echo "speed $name: $((kib * 100 / (cs + 1))) KiB/s ($kib KiB in $((cs / 100)).$((cs / 10 % 10)) s)"
}
rate "read, cached" 8192 if=$disk of=/tmp/in bs=1M skip=16 count=8
echo "read sum: $(sum </tmp/in)"
forget
rate "read, direct 512K" 8192 if=$disk of=/tmp/in iflag=direct bs=512k skip=32 count=16
echo "read sum: $(sum </tmp/in)"
rate "read, direct 4K" 8192 if=$disk of=/tmp/in iflag=direct bs=4k skip=4096 count=2048
echo "read sum: $(sum </tmp/in)"

dd if=/dev/urandom of=/tmp/data bs=1M count=8 2>/dev/null
rate "write, cached" 8192 if=/tmp/data of=$disk bs=1M seek=32 count=8 conv=fsync
rate "write, direct 512K" 8192 if=/tmp/data of=$disk oflag=direct bs=512k seek=80 count=16
rate "write, direct 4K" 2048 if=/tmp/data of=$disk oflag=direct bs=4k seek=12288 count=512
# Single blocks, the last ones first.
for n in 63 5 62 4 61 3 60 2; do
  dd if=/tmp/data of=$disk oflag=direct bs=512 skip=$n seek=$((56 * 2048 + n)) count=1 conv=notrunc 2>/dev/null || echo "wrong: write of block $n"
done
forget
for place in 32 40; do
  dd if=$disk of=/tmp/back bs=1M skip=$place count=8 2>/dev/null
  cmp /tmp/data /tmp/back || echo "wrong: what was written at $place MiB"
done
dd if=$disk of=/tmp/back iflag=direct bs=64k skip=768 count=32 2>/dev/null
dd if=/tmp/data bs=1M count=2 2>/dev/null | cmp - /tmp/back || echo "wrong: what was written at 48 MiB"
for n in 63 5 62 4 61 3 60 2; do
  [ "$(dd if=$disk iflag=direct bs=512 skip=$((56 * 2048 + n)) count=1 2>/dev/null | sum)" = \
    "$(dd if=/tmp/data bs=512 skip=$n count=1 2>/dev/null | sum)" ] || echo "wrong: block $n"
done
echo "written sum: $(sum </tmp/data)"
# A megabyte is discarded; its neighbours are not.
dd if=/tmp/data of=$disk bs=1M seek=57 count=3 conv=fsync 2>/dev/null
if [ "$(cat /sys/class/block/mmcblk0/queue/discard_max_bytes)" != 0 ]; then
  blkdiscard -o $((58 << 20)) -l $((1 << 20)) $disk && echo "discard: done" || echo "wrong: blkdiscard"
  forget
  for place in 0 2; do
    dd if=$disk of=/tmp/back bs=1M skip=$((57 + place)) count=1 2>/dev/null
    dd if=/tmp/data bs=1M skip=$place count=1 2>/dev/null | cmp - /tmp/back || echo "wrong: beside what was discarded"
  done
fi
# Other partitions of an eMMC have other contents, and the user's area stays as it is.
for node in mmcblk0boot0 mmcblk0boot1 mmcblk0gp0; do
  [ -e /dev/$node ] || continue
  [ ! -e /sys/class/block/$node/force_ro ] || echo 0 >/sys/class/block/$node/force_ro
  dd if=/tmp/data of=/dev/$node bs=64k skip=${#node} count=8 oflag=direct 2>/dev/null || echo "wrong: write to $node"
  dd if=$disk of=/tmp/back bs=64k skip=512 count=8 iflag=direct 2>/dev/null
  dd if=/tmp/data bs=64k count=8 2>/dev/null | cmp - /tmp/back || echo "wrong: the user's area after $node"
  dd if=/dev/$node of=/tmp/back bs=64k count=8 iflag=direct 2>/dev/null
  dd if=/tmp/data bs=64k skip=${#node} count=8 2>/dev/null | cmp - /tmp/back || echo "wrong: what was written to $node"
  echo "partition: $node"
done
# The end of the card, as one block, as one transfer, and by reading ahead: an SD card that fetches blocks before they are asked for finds none there, and says
# OUT_OF_RANGE though nothing is wrong [SD 4.10.1].
end=$(cat /sys/class/block/mmcblk0/size)
dd if=$disk of=/tmp/last iflag=direct bs=512 skip=$((end - 1)) count=1 2>/dev/null && [ $(wc -c </tmp/last) = 512 ] || echo "wrong: the last block"
dd if=$disk iflag=direct bs=64k skip=$((end / 128 - 1)) count=1 2>/tmp/said | sum | sed 's/^/end sum: /'
forget
dd if=$disk bs=64k skip=$((end / 128 - 1)) count=1 2>/tmp/said | sum | sed 's/^/end sum: /'
forget
dmesg -r | grep -E '^<[0-9]+>.*(mmc|sdhci)' >/tmp/kernel
sed 's/^/dmesg /' /tmp/kernel
# Levels 0 to 4 are emergency to warning.
grep -E '^<[0-4]>' /tmp/kernel | sed 's/^/wrong: kernel: /'
echo "end of job"
JOB
(cd "$root" && find . | "$store/bin/busybox" cpio -o -H newc 2>/dev/null) | gzip -1 >"$work/initrd"

failed=0
wrong() { say "$item: $*"; failed=1; }

# One card in one machine; $work/said is what its job said.
run() {
  local image=$1 socket=$work/socket status=0
  "$MMCQ" device "$image" --card "$card" "${board[@]}" --socket "$socket" --log "$work/bus.log" >"$work/device" 2>&1 &
  server=$!
  for _ in $(seq 100); do
    [ ! -S "$socket" ] || break
    sleep 0.1
  done
  [ -S "$socket" ] || { wrong "mmcq device: $(cat "$work/device")"; return; }
  # Writes that wait for their answer: a pause that the driver makes after one must not begin before the model has it.
  timeout "$limit_s" "$qemu" -M q35,memory-backend=ram -object memory-backend-memfd,id=ram,size=384M,share=on -accel tcg -nodefaults -display none \
    -no-reboot -serial "file:$work/console" -kernel "$store"/boot/vmlinuz* -initrd "$work/initrd" -append "console=ttyS0 quiet panic=-1 no_timer_check" \
    -device '{"driver":"vfio-user-pci","socket":{"type":"unix","path":"'"$socket"'"},"x-msg-timeout":60000,"x-no-posted-writes":true}' </dev/null || status=$?
  [ $status -eq 0 ] || wrong "QEMU ended with $status"
  # It ends with its client; if none came, it waits for one.
  timeout 20 tail --pid="$server" -f /dev/null || kill "$server"
  wait "$server" || wrong "mmcq device ended with $?"
  server=
  tr -d '\r' <"$work/console" >"$work/said"
  if [ -n "${KEEP:-}" ]; then
    mkdir -p "$KEEP"
    cp "$work/console" "$KEEP/${item//\//-}.console"
    cp "$work/bus.log" "$KEEP/${item//\//-}.bus"
  fi
  grep -qx 'end of job' "$work/said" || { wrong "the job did not come to its end"; tail -50 "$work/console" >&2; }
  ! grep -E '^wrong:' "$work/said" >&2 || wrong "Linux found something wrong"
  sed 's/^/mmcq device: /' "$work/device"
  grep -q '; 0 violations by the driver; 0 accesses to no memory' "$work/device" || wrong "the model found something wrong"
  # Blocks are bad at some sampling points: that is what tuning (CMD19, CMD21) is for.
  local bad
  bad=$(awk '/^Command/ { split($4, index_, ","); last = index_[1] } /^Block/ && /good: false/ && last != 19 && last != 21 { n++ } END { print n + 0 }' "$work/bus.log")
  [ "$bad" -eq 0 ] || wrong "$bad blocks were bad, of other commands than tuning"
  # That the card which says OUT_OF_RANGE at its end has said it: the highest bit of the answer to CMD12.
  local beyond
  beyond=$(awk '/^Response \{ index: 12,/ { split($6, content, ","); n += content[1] >= 2147483648 } END { print n + 0 }' "$work/bus.log")
  [ "$card" != sdsc-1g ] || [ "$beyond" -gt 0 ] || wrong "the card never said OUT_OF_RANGE when a read came to its end"
}

# What `mmcq card` says of a field, and what Linux says.
ours() { sed -n "s/^{\"register\":\"$1\",\"field\":\"$2\",\"value\":\"\(.*\)\"}\$/\1/p" "$work/card"; }
theirs() { sed -n "s/^$1: *//p" "$work/said" | head -1; }
agree() { # name ours theirs
  if [ -n "$2" ] && [ "$2" = "$3" ]; then echo "  $1: $2"; else wrong "$1: mmcq card says '$2', Linux '$3'"; fi
}
# The last byte of CID and CSD is a checksum, which a controller does not pass on.
without_crc() { local raw=${1// /}; echo "${raw%??}"; }

for item in "${what[@]}"; do
  echo "== $item"
  IFS=@ read -r card platform id <<<"$item"
  board=()
  [ -z "$id" ] || board=(--platform "$platform" --pci-id "$id")
  image=$work/card.img
  "$MMCQ" card --card "$card" --json >"$work/card"
  blocks=$(ours card size | sed 's/.*(\([0-9]*\) blocks.*/\1/')
  rm -f "$image"
  truncate -s $((blocks * 512)) "$image"
  head -c 8M /dev/urandom >"$work/data"
  dd if="$work/data" of="$image" bs=1M seek=16 conv=notrunc status=none
  # All cards have a multiple of 64 KiB.
  head -c 64K "$work/data" | dd of="$image" bs=64K seek=$((blocks / 128 - 1)) conv=notrunc status=none
  run "$image"
  grep -E '^(partition|kernel|ios (clock|timing|bus width|signal)|speed)' "$work/said" | sed 's/^/  /' || true
  grep -E '^dmesg' "$work/said" | sed 's/^/  /' || true

  agree CID "$(without_crc "$(ours CID raw)")" "$(without_crc "$(theirs 'sysfs cid')")"
  agree CSD "$(without_crc "$(ours CSD raw)")" "$(without_crc "$(theirs 'sysfs csd')")"
  agree "product name" "$(ours CID name)" "$(theirs 'sysfs name')"
  agree "manufacturer" "$(ours CID manufacturer)" "$(theirs 'sysfs manfid' | sed 's/0x0000/0x/')"
  agree "serial number" "0x$(ours CID serial)" "$(theirs 'sysfs serial')"
  agree "date" "$(ours CID made | sed 's/\(.*\)-\(.*\)/\2\/\1/')" "$(theirs 'sysfs date')"
  agree "blocks" "$blocks" "$(theirs 'sysfs size')"
  if [ "$(theirs 'sysfs type')" = SD ]; then
    agree SCR "$(ours SCR raw)" "$(theirs 'sysfs scr')"
    # Its first two bits are the width of the bus when it was read.
    agree "SSR after its first byte" "$(ours SSR raw | cut -c3-)" "$(theirs 'sysfs ssr' | cut -c3-)"
  else
    ext_csd=$(theirs 'debugfs ext_csd')
    byte() { local digits=${ext_csd:$(($1 * 2)):2}; echo $((16#${digits:-0})); }
    agree "EXT_CSD revision" "$(ours EXT_CSD 'revision .192.')" "$(byte 192)"
    agree "EXT_CSD SEC_COUNT" "$blocks" $(($(byte 212) + ($(byte 213) << 8) + ($(byte 214) << 16) + ($(byte 215) << 24)))
    agree "EXT_CSD boot areas" "$(ours EXT_CSD 'boot areas .226.')" "2 x $(($(byte 226) / 8)) MiB"
  fi
  sum=$(sha256sum <"$work/data" | cut -d' ' -f1)
  [ "$(grep -c "^read sum: $sum\$" "$work/said")" = 3 ] || wrong "Linux did not read what is in the image"
  sum=$(head -c 64K "$work/data" | sha256sum | cut -d' ' -f1)
  [ "$(grep -c "^end sum: $sum\$" "$work/said")" = 2 ] || wrong "Linux did not read what is at the end of the card"
  # What Linux wrote is in the image, byte for byte, and nothing else.
  written=$(theirs 'written sum')
  for place in 32 40; do
    [ "$(dd if="$image" bs=1M skip=$place count=8 status=none | tee "$work/written" | sha256sum | cut -d' ' -f1)" = "$written" ] ||
      wrong "the image at $place MiB is not what Linux wrote"
  done
  truncate -s 64M "$work/expected"
  dd if="$work/data" of="$work/expected" bs=1M seek=16 conv=notrunc status=none
  for place in 32 40; do dd if="$work/written" of="$work/expected" bs=1M seek=$place conv=notrunc status=none; done
  dd if="$work/written" of="$work/expected" bs=1M seek=48 count=2 conv=notrunc status=none
  for n in 63 5 62 4 61 3 60 2; do
    dd if="$work/written" of="$work/expected" bs=512 skip=$n seek=$((56 * 2048 + n)) count=1 conv=notrunc status=none
  done
  dd if="$work/written" of="$work/expected" bs=1M seek=57 count=3 conv=notrunc status=none
  # What was discarded is erased, or is as it was, and not a mixture.
  dd if="$image" of="$work/discarded" bs=1M skip=58 count=1 status=none
  if grep -qx 'discard: done' "$work/said"; then
    case $(sha256sum <"$work/discarded") in
      "$(head -c 1M /dev/zero | sha256sum)") echo "  discarded: zeros" ;;
      "$(head -c 1M /dev/zero | tr '\0' '\377' | sha256sum)") echo "  discarded: ones" ;;
      "$(dd if="$work/written" bs=1M skip=1 count=1 status=none | sha256sum)") echo "  discarded: as it was" ;;
      *) wrong "what was discarded is neither erased nor as it was" ;;
    esac
    dd if="$work/discarded" of="$work/expected" bs=1M seek=58 conv=notrunc status=none
  fi
  if cmp -n 64M "$image" "$work/expected" >&2; then echo "  image: the first 64 MiB are as Linux left them, byte for byte"; else wrong "image"; fi
  # Beyond them the image has no blocks of its own: nothing was written there.
  used=$(du -k "$image" | cut -f1)
  [ "$used" -le 66560 ] || wrong "the image uses $used KiB: something was written beyond 64 MiB"
  rm -f "$work/expected"
done
[ $failed -eq 0 ] && echo "Linux and the model agree"
exit $failed
