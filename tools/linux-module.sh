#!/bin/bash
# linux-module.sh [--parts | --initrd]: builds mmcq.ko (linux/) for Debian's kernel, and boots
# that kernel once in QEMU, with QEMU's own controllers: one with an SD card, one with an eMMC, one
# without a card. The guest makes a file system, fills it and checks it; uses the eMMC's boot areas
# and RPMB (mmc-utils); unbinds the controllers from the driver under load, and binds them again;
# lets them sleep; and unloads the module. The exit status is 2 if a part is missing. With --parts
# the script only gets and checks the parts; with --initrd it only builds the file INITRD, the first
# file system of the machine.
#
# LINUX=backports: the newer kernel of Debian's backports (tools/linux-backports.sh). LINUX=rt: Debian's
# kernel with PREEMPT_RT (tools/linux-rt.sh). LINUX=debug: a kernel that looks at the driver's mistakes (tools/linux-debug.sh). PART=failing: instead of all that,
# each allocation fails in turn while the module is loaded and takes a controller (LINUX=debug only).
# APPEND: more options of the kernel.
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
busybox=$PWD/target/judges/linux/bin/busybox
linux=$PWD/target/judges/linux${LINUX:+-$LINUX}
headers=$linux/unpacked
out=$PWD/target/linux-module${LINUX:+-$LINUX}
# What the machine has more, the kernel's options for it, and most seconds that it may take.
memory=512 devices=() more='' limit_s=600
case ${LINUX:-} in
  '') headers=$PWD/target/judges/linux-headers/unpacked ;;
  backports | rt) tools/linux-$LINUX.sh || exit 2 ;;
  debug)
    tools/linux-debug.sh --kernel || exit 2
    # The controllers get at no memory but what is mapped for them now.
    memory=1024 devices=(-device intel-iommu) more='intel_iommu=on iommu.strict=1' limit_s=3600
    ;;
  *) say "LINUX=$LINUX: expected backports, rt or debug"; exit 2 ;;
esac
release=$(basename "$linux"/boot/vmlinuz-*)
release=${release#vmlinuz-}
[ -n "${LINUX:-}" ] || tools/linux-headers.sh "$release" || exit 2
kernel=$headers/usr/src/linux-headers-$release
[ "${LINUX:-}" != debug ] || kernel=$linux/build
mmc=$PWD/target/judges/mmc-utils
if [ ! -x "$mmc/usr/bin/mmc" ]; then
  rm -rf "$mmc"
  mkdir -p "$mmc"
  (cd "$mmc" && apt-get download -q -o APT::Sandbox::User="$(id -un)" mmc-utils >&2 && dpkg-deb -x mmc-utils*.deb .) || { say "mmc-utils could not be fetched"; exit 2; }
fi
# The Rust part is built for a kernel from its own source of `core`.
[ -d "$(rustc --print sysroot)/lib/rustlib/src/rust/library/core" ] || rustup component add rust-src >&2 || { say "no source of Rust's core"; exit 2; }
[ "${1:-}" != --parts ] || exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
make -s -C linux OUT="$out" KERNEL="$kernel" >/dev/null 2>"$work/make" || { cat "$work/make" >&2; exit 1; }
# A newer kernel's own tool, objtool, looks at all code, the Rust part as well.
! grep -E '\.[ch]:.*warning|objtool:|ENDBR' "$work/make" || { say "the kernel's build warns"; exit 1; }
root=$work/root
mkdir -p "$root"/{bin,modules,lib,lib64,proc,sys,dev,tmp,mnt}
cp "$busybox" "$root/bin/"
cp "$out/mmcq.ko" "$root/modules/"
for module in ext4 jbd2 mbcache crc16 crc32c_generic crypto_algapi crypto_hash; do
  file=$(find "$linux/lib/modules/$release" -name "$module.ko*" | head -1)
  case $module:$file in
    # Debian's kernel has them in it.
    crypto_*:) ;;
    *:) say "the kernel's package has no module $module"; exit 2 ;;
    *.xz) xz -dc "$file" >"$root/modules/$module.ko" ;;
    *) cp "$file" "$root/modules/" ;;
  esac
done
for program in mkfs.ext4 e2fsck "$mmc/usr/bin/mmc"; do
  file=$(PATH=$PATH:/usr/sbin:/sbin command -v "$program")
  cp -L "$file" "$root/bin/"
  for library in $(ldd "$file" | grep -o '/[^ ]*'); do cp -L "$library" "$root/lib/"; done
done
cp -L /lib64/ld-linux-x86-64.so.2 "$root/lib64/"
install -m 755 linux/init "$root/init"
cp -r linux/tests "$root/"
for program in ask failing polled; do gcc-12 -O2 -Wall -Wextra -Werror -static -o "$root/bin/$program" linux/tests/$program.c; done
(cd "$root" && find . | LC_ALL=C sort | "$busybox" cpio -o -H newc 2>/dev/null) | gzip -1n >"$work/initrd"
if [ "${1:-}" = --initrd ]; then
  cp "$work/initrd" "$INITRD"
  exit 0
fi
truncate -s 128M "$work/card"
# Boot areas of 1 MiB, RPMB of 128 KiB, and a user area of 64 MiB: so they lie in the image.
truncate -s $((2 * 1024 + 128 + 64 * 1024))K "$work/emmc"
drive() { echo "-drive id=$1,if=none,format=raw,cache=unsafe,file=$work/$1"; }
# A card goes to the first controller that has none.
# shellcheck disable=SC2046 # Several words.
timeout "${TIMEOUT_S:-$limit_s}" target/judges/qemu11/qemu-system-x86_64 -M q35 -accel tcg -m $memory -smp 2 -cpu qemu64 -nodefaults -display none -no-reboot \
  -serial stdio -kernel "$linux"/boot/vmlinuz-* -initrd "$work/initrd" -append "console=ttyS0 panic=-1 loglevel=4 cryptomgr.notests part=${PART:-all} $more ${APPEND:-}" \
  "${devices[@]}" $(drive card) $(drive emmc) -device sdhci-pci -device sd-card,drive=card \
  -device sdhci-pci -device emmc,drive=emmc,boot-partition-size=1048576,rpmb-partition-size=131072 \
  -device sdhci-pci | tee "$work/said"
grep -q '^module: end' "$work/said" || { say "the module has failed, see above"; exit 1; }
[ -z "${PART:-}" ] || exit 0
# What the guest says that it wrote to the boot areas lies in the image, at 100 KiB of the first and 64 KiB of the second.
for area in boot0:100 boot1:$((1024 + 64)); do
  sum=$(dd if="$work/emmc" bs=1K skip=${area#*:} count=256 2>/dev/null | md5sum | cut -c1-32)
  tr -d '\r' <"$work/said" | grep -x "area: ${area%:*} $sum" >/dev/null || { say "${area%:*} of the image is not what was written"; exit 1; }
done
# The registers that the module prints are those that the laboratory's test reads; comments have what may differ.
for card in 0:sd 1:emmc; do
  tr -d '\r' <"$work/said" | sed -n "s/^report ${card%:*}: //p" | grep -v '^#' >"$work/report"
  grep -v '^#' crates/mmcq-lab/tests/data/qemu-"${card#*:}".card | cmp - "$work/report" || { say "the registers of the ${card#*:} card are not printed as before"; exit 1; }
done
