#!/bin/bash
# linux-headers.sh RELEASE: puts the headers of Debian's kernel of this release into
# target/judges/linux-headers, once (14 MB to download). It installs nothing into the system.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "linux-headers.sh: $*" >&2; }
release=$1
store=$PWD/target/judges/linux-headers
[ "$(cat "$store/ready" 2>/dev/null)" != "$release" ] || exit 0
for program in apt-get dpkg-deb; do
  command -v $program >/dev/null || { say "no $program: this needs Debian"; exit 2; }
done
rm -rf "$store"
mkdir -p "$store/debs"
say "fetching headers of Linux $release"
(cd "$store/debs" && apt-get download -q -o APT::Sandbox::User="$(id -un)" "linux-headers-$release" "linux-headers-${release%-*}-common" \
  "linux-kbuild-$(cut -d. -f1,2 <<<"$release")" >&2) || { say "the headers of $release could not be fetched"; exit 2; }
for package in "$store"/debs/*.deb; do dpkg-deb -x "$package" "$store/unpacked"; done
# The headers name each other by the place where they would be installed.
sed -i "s#include /usr/src/#include $store/unpacked/usr/src/#" "$store/unpacked/usr/src/linux-headers-$release/Makefile"
rm -rf "$store/debs"
echo "$release" >"$store/ready"
