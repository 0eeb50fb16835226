#!/bin/bash
# guest-tools.sh: builds the guest's initrd for the tables tools, blktrace, sdio, tails and files of
# tools/guest-time.sh: target/judges/guest/tools.initrd. It contains the initrd of
# tools/guest-parts.sh; Debian's mmc-utils, blktrace, mkfs and fsck of ext4 and f2fs, with the
# libraries and kernel modules that they need; Linux's driver of a Bluetooth card; and a program
# that reads the card's packets. 6 MB are fetched once. The script installs nothing into the system,
# and does nothing if the file is up to date.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "guest-tools.sh: $*" >&2; }
linux=$PWD/target/judges/linux parts=$PWD/target/judges/guest store=$PWD/target/judges/guest-tools
packages=(mmc-utils e2fsprogs f2fs-tools blktrace libaio1 libblkid1 libc6 libcom-err2 libext2fs2 libpcre2-8-0 libselinux1 libuuid1)
programs=(usr/bin/mmc usr/sbin/blktrace sbin/mke2fs sbin/e2fsck sbin/mkfs.f2fs sbin/fsck.f2fs)
if [ "$(cat "$store/ready" 2>/dev/null)" != "${packages[*]}" ]; then
  rm -rf "$store"
  mkdir -p "$store/debs"
  say "fetching ${packages[*]}"
  (cd "$store/debs" && apt-get download -q -o APT::Sandbox::User="$(id -un)" "${packages[@]}" >&2) || { say "they could not be fetched"; exit 2; }
  for package in "$store"/debs/*.deb; do dpkg-deb -x "$package" "$store/unpacked"; done
  rm -rf "$store/debs"
  echo "${packages[*]}" >"$store/ready"
fi
source=tools/guest-time/packets.c
key=$(cat "$0" $source "$parts/ready" "$store/ready" | cksum)
[ "$(cat "$parts/tools.ready" 2>/dev/null)" != "$key" ] || exit 0
rm -f "$parts/tools.ready"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root"/{bin,lib,lib64,modules/tools}
# A program with its libraries, and theirs.
bring() { # file where
  local name library
  name=$(basename "$1")
  [ ! -e "$root/$2/$name" ] || return 0
  install -m 755 "$1" "$root/$2/$name"
  for library in $(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    file=$(find -L "$store/unpacked" -path '*lib*' -name "$library" | head -1)
    [ -n "$file" ] || { say "$name: no package has its library $library"; exit 2; }
    bring "$file" lib
  done
}
for program in "${programs[@]}"; do bring "$store/unpacked/$program" bin; done
loader=$(find -L "$store/unpacked" -name 'ld-linux-x86-64.so.2' | head -1)
install -m 755 "$loader" "$root/lib64/ld-linux-x86-64.so.2"
gcc-12 -O2 -Wall -Wextra -Werror -static -o "$root/bin/packets" $source
# A module after those that it depends on; the list has their order.
take() { # module list
  local file on
  ! grep -qx "$1" "$root/modules/tools/$2" 2>/dev/null || return 0
  file=$(find "$linux/lib/modules" -name "$1.ko*" | head -1)
  case $file in
    '') say "the kernel's package has no module $1"; exit 2 ;;
    *.xz) xz -dc "$file" >"$root/modules/tools/$1.ko" ;;
    *) cp "$file" "$root/modules/tools/$1.ko" ;;
  esac
  for on in $(tr '\0' '\n' <"$root/modules/tools/$1.ko" | sed -n 's/^depends=//p' | tr , ' '); do take "$on" "$2"; done
  echo "$1" >>"$root/modules/tools/$2"
}
# The kernel would ask a program of the system's for those that it needs by an algorithm's name.
for module in crc32c_generic crc32_generic ext4 f2fs; do take $module list; done
take btsdio sdio
# mmc_core is there already.
sed -i /mmc_core/d "$root/modules/tools/sdio"
(cd "$root" && find . | LC_ALL=C sort | "$linux/bin/busybox" cpio -o -H newc 2>/dev/null) >"$work/archive"
# An archive begins at a multiple of four.
{ cat "$parts/initrd"; head -c $((-$(stat -c %s "$parts/initrd") & 3)) /dev/zero; gzip -1n <"$work/archive"; } >"$parts/tools.initrd.new"
mv "$parts/tools.initrd.new" "$parts/tools.initrd"
echo "$key" >"$parts/tools.ready"
