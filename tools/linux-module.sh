#!/bin/bash
# linux-module.sh [--parts]: builds mmcq.ko (linux/) for Debian's kernel, and boots that kernel once
# in QEMU, with QEMU's own controller and a card. The guest makes a file system, fills it and checks
# it; unbinds the controller from the driver under load, and binds it again; lets the controller
# sleep; and unloads the module. A second controller has no card. The exit status is 2 if a part is
# missing. With --parts the script only gets and checks the parts.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "linux-module.sh: $*" >&2; }
for program in gcc-12 make apt-get dpkg-deb ldd; do
  command -v $program >/dev/null || { say "no $program"; exit 2; }
done
for program in mkfs.ext4 e2fsck; do
  PATH=$PATH:/usr/sbin:/sbin command -v $program >/dev/null || { say "no $program"; exit 2; }
done
tools/install-qemu11.sh 2>/dev/null || tools/install-qemu11.sh || exit 2
tools/debian-kernel.sh || exit 2
linux=$PWD/target/judges/linux
release=$(basename "$linux"/boot/vmlinuz-*)
release=${release#vmlinuz-}
tools/linux-headers.sh "$release" || exit 2
# The Rust part is built for a kernel from its own source of `core`.
[ -d "$(rustc --print sysroot)/lib/rustlib/src/rust/library/core" ] || rustup component add rust-src >&2 || { say "no source of Rust's core"; exit 2; }
[ "${1:-}" != --parts ] || exit 0

make -s -C linux KERNEL="$PWD/target/judges/linux-headers/unpacked/usr/src/linux-headers-$release" >/dev/null

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root"/{bin,modules,lib,lib64,proc,sys,dev,tmp,mnt}
cp "$linux/bin/busybox" "$root/bin/"
cp target/linux-module/mmcq.ko "$root/modules/"
for module in ext4 jbd2 mbcache crc16 crc32c_generic; do
  file=$(find "$linux/lib/modules/$release" -name "$module.ko*" | head -1)
  case $file in
    '') say "the kernel's package has no module $module"; exit 2 ;;
    *.xz) xz -dc "$file" >"$root/modules/$module.ko" ;;
    *) cp "$file" "$root/modules/" ;;
  esac
done
for program in mkfs.ext4 e2fsck; do
  file=$(PATH=$PATH:/usr/sbin:/sbin command -v $program)
  cp -L "$file" "$root/bin/"
  for library in $(ldd "$file" | grep -o '/[^ ]*'); do cp -L "$library" "$root/lib/"; done
done
cp -L /lib64/ld-linux-x86-64.so.2 "$root/lib64/"
install -m 755 linux/init "$root/init"
(cd "$root" && find . | LC_ALL=C sort | "$linux/bin/busybox" cpio -o -H newc 2>/dev/null) | gzip -1n >"$work/initrd"
truncate -s 128M "$work/card"
timeout "${TIMEOUT_S:-300}" target/judges/qemu11/qemu-system-x86_64 -M q35 -accel tcg -m 512 -smp 2 -cpu qemu64 -nodefaults -display none -no-reboot \
  -serial stdio -kernel "$linux"/boot/vmlinuz-* -initrd "$work/initrd" -append "console=ttyS0 panic=-1 loglevel=4 cryptomgr.notests" \
  -device sdhci-pci -device sd-card,drive=card -device sdhci-pci -drive id=card,if=none,format=raw,cache=unsafe,file="$work/card" | tee "$work/said"
grep -q '^module: end' "$work/said" || { say "the module has failed, see above"; exit 1; }
