#!/bin/bash
# install-qemu11.sh [arm]: unpacks QEMU 11 of Debian's backports into target/judges/qemu11; the
# system itself does not change. With arm: unpacks the QEMU for 32-bit Arm into
# target/judges/qemu11-arm.
# Debian 12's own QEMU lacks a client of vfio-user, which tools/linux-on-model.sh needs; a virtual
# clock for qtest; an eMMC, which tools/boards.sh --emmc needs; and some machines of Arm (bpim2u).
# Needs about 60 MB to download and 250 MB of disk, once. The programs are then
# target/judges/qemu11/qemu-system-x86_64 and target/judges/qemu11-arm/qemu-system-arm.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "install-qemu11.sh: $*" >&2; }
case ${1:-} in
  '') store=$PWD/target/judges/qemu11 package=qemu-system-x86 name=qemu-system-x86_64 ;;
  arm) store=$PWD/target/judges/qemu11-arm package=qemu-system-arm name=qemu-system-arm ;;
  *) say "$1: expected nothing or arm"; exit 2 ;;
esac
# Scripts that run at the same time take turns.
mkdir -p target/judges
exec 8>"$store.lock"
flock 8
program=$store/$name
if [ -x "$program" ] && "$program" --version >/dev/null 2>&1; then
  say "is there: $("$program" --version | head -1)"
  exit 0
fi
[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || { say "this needs Debian (apt-get, dpkg-deb) on amd64"; exit 1; }
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e "$keys" ] || { say "no $keys; the package debian-archive-keyring has it"; exit 1; }
# The mirror that this system uses already.
mirror=$(cat /etc/apt/sources.list.d/*.sources 2>/dev/null | awk '$1 == "URIs:" { print $2; exit }')
[ -n "$mirror" ] || mirror=$(awk '$1 == "deb" && $2 ~ /^http/ { print $2; exit }' /etc/apt/sources.list 2>/dev/null || true)
[ -n "$mirror" ] || { say "no mirror of Debian in the sources of this system's apt"; exit 1; }

# An apt of its own: with an empty list of what is installed it fetches everything that the program needs, down to the C library, which the
# system's own may be too old for.
rm -rf "$store"
apt=$store/apt
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/state"
: >"$apt/status"
printf "deb [signed-by=$keys] $mirror %s main\n" trixie trixie-backports >"$apt/sources.list"
own_apt() {
  apt-get -q -y -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::Preferences=/dev/null \
    -o Dir::Etc::PreferencesParts=/dev/null -o Dir::State="$apt/state" -o Dir::State::Lists="$apt/lists" \
    -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" -o Debug::NoLocking=1 -o APT::Sandbox::User="$(id -un)" \
    -o APT::Install-Recommends=0 -o Acquire::Languages=none -o Acquire::Retries=3 "$@"
}
say "fetching QEMU of trixie-backports"
own_apt update >/dev/null
own_apt -t trixie-backports --download-only install $package >/dev/null
for package in "$apt"/cache/archives/*.deb; do dpkg-deb -x "$package" "$store/root"; done
rm -rf "$apt"

# By its own loader and libraries.
cat >"$program" <<PROGRAM
#!/bin/sh
root=$store/root
libraries=\$root/usr/lib/x86_64-linux-gnu
export QEMU_MODULE_DIR=\$libraries/qemu
exec "\$libraries/ld-linux-x86-64.so.2" --library-path "\$libraries:\$QEMU_MODULE_DIR" "\$root/usr/bin/$name" \\
  -L "\$root/usr/share/qemu" -L "\$root/usr/share/seabios" -L "\$root/usr/lib/ipxe/qemu" "\$@"
PROGRAM
chmod +x "$program"
say "unpacked: $("$program" --version | head -1)"
