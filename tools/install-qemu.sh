#!/bin/bash
# install-qemu.sh: installs Debian's qemu-system-x86, which the test `qemu` of crate mmcq drives.
# Does nothing if it is there.
set -euo pipefail
program=qemu-system-x86_64
if command -v "$program" >/dev/null; then
  echo "$program is there: $("$program" --version | head -1)"
  exit 0
fi
command -v apt-get >/dev/null || {
  echo "install-qemu.sh: no apt-get here; install $program by the system's own means, or set MMCQ_QEMU" >&2
  exit 1
}
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "install-qemu.sh: not root, and no sudo; run it as root" >&2; exit 1; }
  as_root=(sudo)
fi
echo "installing Debian's qemu-system-x86 (about 60 MB to download, no recommended packages)"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -q
"${as_root[@]}" apt-get install -q -y --no-install-recommends qemu-system-x86
"$program" --version | head -1
