#!/bin/bash
# linux.sh: checks that Linux reads what mmcq writes, and mmcq what Linux writes. On QEMU's q35,
# with its sdhci-pci and SD card, an unmodified kernel of Debian and boards/pc take turns on the
# same card:
# - boards/pc executes its plan on a card. Linux compares (cmp) the card with the file that
#   boards/plan/expect.rs makes independently.
# - mke2fs makes an ext4 on the first half of a card. boards/pc copies it to the second half. Linux
#   checks the copy (mount, sha256sum) and changes it. Then e2fsck finds no error in it, and
#   boards/pc and this computer compute the same checksum over all blocks of the card.
#
# Needs qemu-system-x86_64 and e2fsprogs, which tools/install-judges.sh installs, and the kernel,
# which tools/debian-kernel.sh fetches. LINUX_TIMEOUT: seconds that a boot may take, 300 if it is
# not set.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "linux.sh: $*" >&2; }
limit_s=${LINUX_TIMEOUT:-300}
store=$PWD/target/judges/linux
for program in qemu-system-x86_64 mke2fs e2fsck; do
  PATH=$PATH:/usr/sbin:/sbin command -v $program >/dev/null || { say "no $program; tools/install-judges.sh installs it"; exit 2; }
done
export PATH=$PATH:/usr/sbin:/sbin
host=$(rustc -vV | sed -n 's/^host: //p')
[ "$host" = x86_64-unknown-linux-gnu ] || { say "boards/pc is built by the toolchain of x86_64-unknown-linux-gnu, this is $host"; exit 2; }

tools/debian-kernel.sh
kernel=$(echo "$store"/boot/vmlinuz*)
busybox=$store/bin/busybox

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# What the guest begins with: busybox, and the modules in an order that satisfies them.
root=$work/root
mkdir -p "$root"/{bin,modules,proc,sys,dev,mnt}
cp "$busybox" "$root/bin/busybox"
modules=(crc32c_generic crc16 mbcache jbd2 ext4 mmc_core mmc_block cqhci sdhci sdhci-pci)
for module in "${modules[@]}"; do
  file=$(find "$store/lib/modules" -name "$module.ko*" | head -1)
  [ -n "$file" ] || { say "the kernel's package has no module $module"; exit 2; }
  case $file in
    *.xz) xz -dc "$file" >"$root/modules/$module.ko" ;;
    *) cp "$file" "$root/modules/$module.ko" ;;
  esac
done
cat >"$root/init" <<INIT
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for module in ${modules[*]}; do insmod /modules/\$module.ko; done
for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do [ -e /dev/mmcblk0 ] && break; sleep 1; done
echo "kernel: \$(uname -sr), card: \$(cat /sys/class/block/mmcblk0/device/name) \$(cat /sys/class/block/mmcblk0/device/cid)"
. /job && echo "linux: all is well"
sync
poweroff -f
INIT
chmod +x "$root/init"

# Runs a job in Linux, in the folder that `here` names; what it prints comes out. Cards are files.
linux() { # job cards...
  local job=$1 cards=() card
  shift
  for card in "$@"; do
    cards+=(-device sdhci-pci -drive "if=none,id=${card##*/},format=raw,file=$card" -device "sd-card,drive=${card##*/}")
  done
  cp -r "$root" "$here/root"
  printf '%s\n' "$job" >"$here/root/job"
  (cd "$here/root" && find . | "$busybox" cpio -o -H newc 2>/dev/null) | gzip -1 >"$here/initrd"
  timeout "$limit_s" qemu-system-x86_64 -M q35 -accel tcg -m 512 -nodefaults -display none -no-reboot \
    -serial "file:$here/console" -kernel "$kernel" -initrd "$here/initrd" "${cards[@]}" \
    -append "console=ttyS0 quiet panic=-1 no_timer_check" </dev/null || { say "QEMU ended with $?"; cat "$here/console" >&2; return 1; }
  tr -d '\r' <"$here/console" | grep -v '^\[' | tee "$here/said"
  grep -qx 'linux: all is well' "$here/said" || { say "Linux found something wrong"; return 1; }
}

# Runs boards/pc on a card; what it prints comes out.
flags="-Crelocation-model=static"
for flag in -nostartfiles -static -no-pie -Wl,--build-id=none "-T$PWD/boards/pc/link.x"; do
  flags="$flags -Clink-arg=$flag"
done
(cd boards/pc && RUSTFLAGS="$flags" cargo build -q --locked --release --target "$host")
pc=$(cd boards/pc && cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/$host/release/sdhci
mmcq() { # command-line card
  local status=0
  timeout "$limit_s" qemu-system-x86_64 -M q35 -accel tcg -icount shift=0,sleep=off -m 256 -bios qboot.rom -nodefaults \
    -no-reboot -display none -device isa-debug-exit,iobase=0xf4,iosize=1 -chardev "file,id=report,path=$here/report" \
    -device isa-debugcon,iobase=0xe9,chardev=report -drive "if=none,id=card,format=raw,file=$2" -device sdhci-pci \
    -device sd-card,drive=card -kernel "$pc" -append "$1" </dev/null || status=$?
  sed 's/^/mmcq: /' "$here/report"
  [ "$status" -eq 33 ] || { say "boards/pc ended with $status"; return 1; }
}

rustc --edition 2024 -O -o "$work/expect" boards/plan/expect.rs

mmcq_writes() {
  echo "== mmcq writes, Linux compares"
  "$work/expect" make "$here/a.img" 131072
  mmcq "" "$here/a.img" | grep -E "steps|result"
  "$work/expect" check "$here/a.img" >/dev/null
  "$work/expect" left "$here/b.img" 131072
  # Which of the two is first is Linux's choice; they must be the same anyway.
  linux 'cmp /dev/mmcblk0 /dev/mmcblk1 && echo "cmp: $(blockdev --getsize64 /dev/mmcblk0) bytes are the same"' \
    "$here/a.img" "$here/b.img"
}

both_write() {
  echo "== mke2fs and Linux write, mmcq copies, Linux reads"
  local half_kib=32768 n ours theirs
  mkdir "$here/files"
  "$work/expect" left "$here/one" 32768
  for n in 1 2 3 4 5 6 7 8; do
    tail -c +$((n * 1000)) "$here/one" | head -c $((n * 300000)) >"$here/files/file$n" || true
  done
  (cd "$here/files" && sha256sum file* >SUMS)
  truncate -s $((2 * half_kib))K "$here/card.img"
  mke2fs -q -t ext4 -d "$here/files" "$here/card.img" ${half_kib}k
  word() { printf "\\x$(printf %x $(($1 & 255)))\\x$(printf %x $(($1 >> 8 & 255)))\\x$(printf %x $(($1 >> 16 & 255)))\\x$(printf %x $(($1 >> 24 & 255)))"; }
  { printf '\0\0\0\0\x83\0\0\0'; word $((2 * half_kib)); word $((2 * half_kib)); } |
    dd of="$here/card.img" bs=1 seek=446 conv=notrunc status=none
  printf '\x55\xaa' | dd of="$here/card.img" bs=1 seek=510 conv=notrunc status=none
  mmcq copy "$here/card.img"
  # The second half is a partition of its own: a table of partitions fits before the ext4.
  linux 'for n in 1 2 3 4 5; do [ -e /dev/mmcblk0p1 ] && break; sleep 1; done
    mount -t ext4 /dev/mmcblk0p1 /mnt && (cd /mnt && sha256sum -c SUMS) && cp /mnt/file8 /mnt/more && rm /mnt/file1 && sync &&
    echo 3 >/proc/sys/vm/drop_caches && cmp /mnt/file8 /mnt/more && umount /mnt' "$here/card.img"
  tail -c $((half_kib * 1024)) "$here/card.img" >"$here/second.img"
  e2fsck -fn "$here/second.img"
  mmcq sum "$here/card.img"
  ours=$(sed -n 's/^sum: \([0-9a-f]*\) .*/\1/p' "$here/report")
  theirs=$("$work/expect" sum "$here/card.img")
  [ "$ours" = "$theirs" ] || { say "checksum of the card: boards/pc says $ours, this machine $theirs"; exit 1; }
  echo "every block that Linux left reads the same by mmcq: $ours"
}

# Side by side: each takes little more than one core.
for part in mmcq_writes both_write; do
  here=$work/$part
  mkdir "$here"
  (set -e; $part; touch "$here/well") >"$here/out" 2>&1 &
done
wait
bad=0
for part in mmcq_writes both_write; do
  cat "$work/$part/out"
  [ -e "$work/$part/well" ] || bad=1
done
exit $bad
