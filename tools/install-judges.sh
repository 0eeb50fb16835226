#!/bin/bash
# install-judges.sh [--riscv]: installs the programs that check this project, if they are missing,
# from Debian's packages:
# - qemu-system-x86: its controller and card, which the test `qemu` of crate mmcq drives;
# - qemu-system-arm: its machines with PL181 and SDHCI, for the images of boards/arm and
#   boards/virt;
# - fio: offsets, options and reports of crate mmcq-lab, and a client of `mmcq serve`;
# - blkparse and btt, which read what `--export blktrace` writes;
# - more clients of `mmcq serve`: nbdinfo, nbdcopy, nbdsh, qemu-io and qemu-img;
# - sigrok-cli, which decodes the waveforms of `mmcq trace`;
# - mke2fs, which makes the ext4 that Linux and boards/pc exchange;
# - pkg-config and CMake, which find the C library that tools/install-c.sh installs.
# Into a Python environment of its own, target/judges, it installs crccheck (checksums of the
# waveforms), pylibfst (GTKWave's reader of FST) and perfetto from PyPI. It also unpacks
# fio-examples (5 MB), which the test `corpus` runs. With --riscv it also installs qemu-system-misc
# (46 MB), whose machines `check long` runs.
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin
judges=$(dirname "$0")/../target/judges
# Prints a judge's version. A program that is there and does not run (a module of its own is missing) is not there. The tests look in Debian's own
# directories first: only Debian's Python knows nbdsh's module.
runs() {
  local program=$1 said
  set -- --version
  case $program in mke2fs) set -- -V ;; nbdsh) set -- -c 'import nbd; print(nbd.NBD().get_version())' ;; esac
  said=$(PATH=/usr/bin:/bin:$PATH "$program" "$@" 2>&1) && echo "$program is there: ${said%%$'\n'*}"
}
missing=() lacking=() more=()
case ${1:-} in
  '') ;;
  --riscv) more=(qemu-system-riscv64:qemu-system-misc) ;;
  *) echo "install-judges.sh: $1: expected nothing or --riscv" >&2; exit 2 ;;
esac
for pair in qemu-system-x86_64:qemu-system-x86 qemu-system-arm:qemu-system-arm fio:fio blkparse:blktrace sigrok-cli:sigrok-cli \
  nbdcopy:libnbd-bin nbdsh:python3-libnbd qemu-io:qemu-utils mke2fs:e2fsprogs pkg-config:pkg-config cmake:cmake "${more[@]}"; do
  runs "${pair%%:*}" || { missing+=("${pair#*:}"); lacking+=("${pair%%:*}"); }
done
# The environment must be able to come into being: Debian keeps that in a package of its own.
python3 -c "import ensurepip" 2>/dev/null || missing+=(python3-venv)
install_packages() {
  command -v apt-get >/dev/null || {
    echo "install-judges.sh: no apt-get here; install $* by the system's own means" >&2
    exit 1
  }
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "install-judges.sh: not root, and no sudo; run it as root" >&2; exit 1; }
    as_root=(sudo)
  fi
  echo "installing $* (up to 80 MB to download, no recommended packages)"
  export DEBIAN_FRONTEND=noninteractive
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" apt-get install -q -y --no-install-recommends "$@"
}
[ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}"
for program in "${lacking[@]}"; do
  runs "$program" || { echo "install-judges.sh: $program does not run though its package is installed" >&2; exit 1; }
done
if "$judges/bin/python" -c "import crccheck, perfetto, pylibfst" 2>/dev/null; then
  echo "crccheck, perfetto and pylibfst are there: $judges"
else
  echo "installing crccheck, perfetto and pylibfst into $judges"
  python3 -m venv "$judges"
  "$judges/bin/pip" install -q --disable-pip-version-check "crccheck==1.3.1" "perfetto==0.59.1" "protobuf==7.36.2" \
    "pylibfst==0.2.1"
fi
# fio's own examples, which the test `corpus` runs. Debian's package has them alone; it is unpacked, not installed.
examples=$judges/fio-examples
if [ -d "$examples/usr/share/doc/fio/examples" ] || [ -d /usr/share/doc/fio/examples ]; then
  echo "fio-examples is there"
else
  echo "fetching fio-examples (5 MB) into $examples"
  mkdir -p "$examples"
  (cd "$examples" && apt-get download -q -o APT::Sandbox::User="$(id -un)" fio-examples)
  dpkg-deb -x "$examples"/fio-examples_*.deb "$examples"
  rm "$examples"/fio-examples_*.deb
fi
