#!/bin/bash
# linux-rt.sh: puts Debian's kernel with PREEMPT_RT, its headers, and those of its modules that mmcq.ko's test needs into target/judges/linux-rt, once (90 MB
# are fetched). Nothing of them is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "linux-rt.sh: $*" >&2; }
store=$PWD/target/judges/linux-rt
parts=('./boot/vmlinuz*' './lib/modules/*/kernel/fs/*' './lib/modules/*/kernel/lib/*' './lib/modules/*/kernel/crypto/*')
# Where this folder lies is in the headers.
ready="$store ${parts[*]}"
[ "$(cat "$store/ready" 2>/dev/null)" != "$ready" ] || exit 0
for program in apt-get apt-cache dpkg-deb; do
  command -v $program >/dev/null || { say "no $program: this needs Debian"; exit 2; }
done
rm -rf "$store"
mkdir -p "$store/debs"
# The package without a version needs the one that has the kernel.
image=$(apt-cache depends linux-image-rt-amd64 2>/dev/null | awk '/Depends: linux-image/ { print $2; exit }')
release=${image#linux-image-}
[ -n "$release" ] || { say "this system's package lists have no linux-image-rt-amd64"; exit 2; }
headers=$(apt-cache depends "linux-headers-$release" | awk '/Depends: linux-(headers|kbuild)/ { print $2 }')
say "fetching Linux $release and its headers"
# shellcheck disable=SC2086 # One word each.
(cd "$store/debs" && apt-get download -q -o APT::Sandbox::User="$(id -un)" "$image" "linux-headers-$release" $headers >&2) ||
  { say "Linux $release could not be fetched"; exit 2; }
dpkg-deb --fsys-tarfile "$store/debs/$image"_*.deb | tar -x -C "$store" --wildcards "${parts[@]}"
for package in "$store"/debs/linux-{headers,kbuild}*.deb; do dpkg-deb -x "$package" "$store/unpacked"; done
# The headers name each other by the place where they would be installed.
sed -i "s#include /usr/src/#include $store/unpacked/usr/src/#" "$store/unpacked/usr/src/linux-headers-$release/Makefile"
rm -rf "$store/debs"
echo "$ready" >"$store/ready"
