#!/bin/bash
# linux-backports.sh: puts the newer kernel of Debian's backports, its headers, and those of its modules that mmcq.ko's test needs into
# target/judges/linux-backports, once (122 MB are fetched). Nothing of them is installed, and the system's package lists stay as they are.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "linux-backports.sh: $*" >&2; }
store=$PWD/target/judges/linux-backports
parts=('./boot/vmlinuz*' './lib/modules/*/kernel/fs/*' './lib/modules/*/kernel/lib/*' './lib/modules/*/kernel/crypto/*')
# Where this folder lies is in the headers.
ready="$store ${parts[*]}"
[ "$(cat "$store/ready" 2>/dev/null)" != "$ready" ] || exit 0
for program in apt-get apt-cache dpkg-deb; do
  command -v $program >/dev/null || { say "no $program: this needs Debian"; exit 2; }
done
rm -rf "$store"
mkdir -p "$store"/{apt/lists/partial,apt/cache/archives/partial,debs}
# From where this system gets its own packages.
mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 2>/dev/null | awk '$2 == "bookworm" { print $1; exit }')
[ -n "$mirror" ] || { say "apt has no source for Debian's bookworm"; exit 2; }
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm-backports main" >"$store/apt/list"
cat >"$store/apt/config" <<E2
Dir::Etc::SourceList "$store/apt/list";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$store/apt/lists";
Dir::Cache "$store/apt/cache";
APT::Sandbox::User "$(id -un)";
E2
export APT_CONFIG=$store/apt/config
apt-get update -q >&2 || { say "Debian's backports could not be asked"; exit 2; }
image=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
release=${image#linux-image-}
[ -n "$release" ] || { say "the backports have no linux-image-amd64"; exit 2; }
say "fetching Linux $release and its headers"
(cd "$store/debs" && apt-get download -q "$image" "linux-headers-$release" "linux-headers-${release%-*}-common" "linux-kbuild-${release%-*}" >&2) ||
  { say "Linux $release could not be fetched"; exit 2; }
dpkg-deb --fsys-tarfile "$store/debs/$image"_*.deb | tar -x -C "$store" --wildcards "${parts[@]}"
for package in "$store"/debs/linux-{headers,kbuild}*.deb; do dpkg-deb -x "$package" "$store/unpacked"; done
# The headers name each other by the place where they would be installed.
sed -i "s#include /usr/src/#include $store/unpacked/usr/src/#" "$store/unpacked/usr/src/linux-headers-$release/Makefile"
rm -rf "$store"/{debs,apt}
echo "$ready" >"$store/ready"
