#!/bin/bash
# debian-kernel.sh: puts Debian's kernel, the modules that the tests need, and a static busybox into
# target/judges/linux, once (100 MB to download). It installs nothing into the system.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "debian-kernel.sh: $*" >&2; }
store=$PWD/target/judges/linux
# Scripts that run at the same time take turns.
mkdir -p target/judges
exec 8>"$store.lock"
flock 8
# What is taken from the kernel's package; the folder is made anew when this changes.
parts=('./boot/vmlinuz*' './lib/modules/*/kernel/drivers/mmc/*' './lib/modules/*/kernel/drivers/vfio/*' './lib/modules/*/kernel/virt/*'
  './lib/modules/*/kernel/block/*' './lib/modules/*/kernel/fs/*' './lib/modules/*/kernel/lib/*' './lib/modules/*/kernel/crypto/*'
  './lib/modules/*/kernel/drivers/bluetooth/*' './lib/modules/*/kernel/net/bluetooth/*' './lib/modules/*/kernel/net/rfkill/*'
  './lib/modules/*/kernel/drivers/misc/cardreader/*')
[ "$(cat "$store/ready" 2>/dev/null)" != "${parts[*]}" ] || exit 0
for program in apt-get dpkg-deb; do
  command -v $program >/dev/null || { say "no $program: this needs Debian"; exit 2; }
done
rm -rf "$store"
mkdir -p "$store/debs"
# By the package lists that this system has; they may be none, or older than what the mirror still has.
fetch() {
  image=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image/ { print $2; exit }')
  [ -n "$image" ] || { say "this system's package lists have no linux-image-amd64"; return 1; }
  say "fetching $image and busybox-static"
  (cd "$store/debs" && apt-get download -q -o APT::Sandbox::User="$(id -un)" "$image" busybox-static >&2)
}
if ! fetch; then
  say "asking for new package lists"
  as_root=()
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  "${as_root[@]}" apt-get update -q >&2 && fetch || { say "no kernel could be fetched"; exit 2; }
fi
dpkg-deb --fsys-tarfile "$store"/debs/busybox-static*.deb | tar -x -C "$store" ./bin/busybox
dpkg-deb --fsys-tarfile "$store"/debs/linux-image*.deb | tar -x -C "$store" --wildcards "${parts[@]}"
rm -rf "$store/debs"
echo "${parts[*]}" >"$store/ready"
