#!/bin/bash
# install-judges.sh: installs what the tests are judged by and what is not there yet, from Debian's packages:
# qemu-system-x86 (its controller and card, driven by the test `qemu` of crate mmcq), qemu-system-arm (its PL181, card and machine, under
# the image of boards/arm) and fio (offsets, options and reports of crate mmcq-lab).
set -euo pipefail
missing=()
for pair in qemu-system-x86_64:qemu-system-x86 qemu-system-arm:qemu-system-arm fio:fio; do
  program=${pair%%:*}
  if command -v "$program" >/dev/null; then
    echo "$program is there: $("$program" --version | head -1)"
  else
    missing+=("${pair#*:}")
  fi
done
[ ${#missing[@]} -gt 0 ] || exit 0
command -v apt-get >/dev/null || {
  echo "install-judges.sh: no apt-get here; install ${missing[*]} by the system's own means" >&2
  exit 1
}
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "install-judges.sh: not root, and no sudo; run it as root" >&2; exit 1; }
  as_root=(sudo)
fi
echo "installing ${missing[*]} (about 70 MB to download, no recommended packages)"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -q
"${as_root[@]}" apt-get install -q -y --no-install-recommends "${missing[@]}"
