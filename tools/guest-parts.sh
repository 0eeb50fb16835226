#!/bin/bash
# guest-parts.sh [--module]: builds the parts of the machines that `mmcq guest` starts, into
# target/judges/guest: QEMU, Linux, the plugin, the laboratory's library, and the guest's initrd.
# With --module also mmcq.ko (linux/), for `mmcq guest --driver mmcq`. The script does nothing for
# parts that are up to date.
#
# QEMU comes from tools/install-qemu11.sh, kernel and busybox from tools/debian-kernel.sh. The
# kernel's headers and its source (150 MB) are fetched once into target/judges/guest-linux. gcc 12
# and make build the modules, and cargo builds the library.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "guest-parts.sh: $*" >&2; }
for program in gcc-12 make apt-get dpkg-deb; do
  command -v $program >/dev/null || { say "no $program"; exit 2; }
done
tools/install-qemu11.sh 2>/dev/null || tools/install-qemu11.sh
tools/debian-kernel.sh
linux=$PWD/target/judges/linux
release=$(basename "$linux"/boot/vmlinuz-*)
release=${release#vmlinuz-}
case $release in
  6.1.*) ;;
  *) say "Linux $release: the modules are made for 6.1 alone"; exit 2 ;;
esac

# The kernel's headers, and of its source drivers/mmc.
store=$PWD/target/judges/guest-linux
if [ "$(cat "$store/ready" 2>/dev/null)" != "$release" ]; then
  rm -rf "$store"
  mkdir -p "$store/debs"
  say "fetching headers and source of Linux $release"
  (cd "$store/debs" && apt-get download -q -o APT::Sandbox::User="$(id -un)" "linux-headers-$release" "linux-headers-${release%-*}-common" linux-kbuild-6.1 linux-source-6.1 >&2)
  for package in "$store"/debs/*.deb; do dpkg-deb -x "$package" "$store/unpacked"; done
  tar -xJf "$store"/unpacked/usr/src/linux-source-6.1.tar.xz -C "$store" linux-source-6.1/drivers/mmc
  # The headers name each other by the place where they would be installed.
  sed -i "s#include /usr/src/#include $store/unpacked/usr/src/#" "$store/unpacked/usr/src/linux-headers-$release/Makefile"
  rm -rf "$store/debs" "$store"/unpacked/usr/src/linux-source-6.1.tar.xz
  echo "$release" >"$store/ready"
fi

# Built by all cores, not as fast as can be.
cargo build -q --locked --release -p mmcq-guest
target=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
parts=$PWD/target/judges/guest
mkdir -p "$parts"
# In one step, and a file of its own: a machine that runs has the one before mapped.
put() { # from to
  cmp -s "$1" "$2" || { cp "$1" "$2.new" && mv "$2.new" "$2"; }
}
put "$target/release/libmmcq_guest.so" "$parts/library.so"
if [ "${1:-}" = --module ]; then
  [ -d "$(rustc --print sysroot)/lib/rustlib/src/rust/library/core" ] || rustup component add rust-src >&2 || { say "no source of Rust's core"; exit 2; }
  make -s -C linux KERNEL="$store/unpacked/usr/src/linux-headers-$release" >"$parts/make" 2>&1 || { tail -30 "$parts/make" >&2; say "mmcq.ko does not build"; exit 1; }
  strip --strip-debug -o "$parts/mmcq.ko.stripped" target/linux-module/mmcq.ko
  put "$parts/mmcq.ko.stripped" "$parts/mmcq.ko"
  rm "$parts/mmcq.ko.stripped" "$parts/make"
fi
sources=tools/guest-time
# What all else is made from.
key=$(cat "$0" $sources/* crates/mmcq-guest/include/*.h "$linux/ready" "$store/ready" | cksum)
[ "$(cat "$parts/ready" 2>/dev/null)" != "$key" ] || exit 0
rm -f "$parts/ready"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
gcc-12 -O2 -Wall -Wextra -Werror -shared -fPIC -Icrates/mmcq-guest/include -o "$work/plugin.so" $sources/plugin.c
put "$work/plugin.so" "$parts/plugin.so"
mmc=$store/linux-source-6.1/drivers/mmc
mkdir "$work/modules"
cp $sources/{wakeup,slot}.c "$mmc"/host/{mmc_hsq.c,mmc_hsq.h,cqhci.h,sdhci.h,dw_mmc.c,dw_mmc.h,dw_mmc-pci.c} "$mmc"/core/{mmc_test.c,*.h} "$work/modules"
echo 'obj-m := wakeup.o mmc_hsq.o slot.o mmc_test.o dw_mmc.o dw_mmc-pci.o' >"$work/modules/Makefile"
make -C "$store/unpacked/usr/src/linux-headers-$release" M="$work/modules" modules >"$work/make" 2>&1 || { tail -30 "$work/make" >&2; say "the modules do not build"; exit 1; }

root=$work/root
mkdir -p "$root"/{bin,modules,proc,sys,dev,tmp}
cp "$linux/bin/busybox" "$root/bin/busybox"
for program in load probe tails files; do
  gcc-12 -O2 -Wall -Wextra -Werror -static -o "$root/bin/$program" $sources/$program.c
done
for module in mmc_core mmc_block cqhci sdhci bfq rtsx_pci rtsx_pci_sdmmc; do
  file=$(find "$linux/lib/modules/$release" -name "$module.ko*" | head -1)
  case $file in
    '') say "the kernel's package has no module $module"; exit 2 ;;
    *.xz) xz -dc "$file" >"$root/modules/$module.ko" ;;
    *) cp "$file" "$root/modules/$module.ko" ;;
  esac
done
cp "$work"/modules/*.ko "$root/modules/"
install -m 755 $sources/init "$root/init"
(cd "$root" && find . | LC_ALL=C sort | "$linux/bin/busybox" cpio -o -H newc 2>/dev/null) | gzip -1n >"$parts/initrd"
ln -sf "$linux"/boot/vmlinuz-* "$parts/kernel"
ln -sf ../qemu11/qemu-system-x86_64 "$parts/qemu"
echo "$key" >"$parts/ready"
