#!/bin/bash
# linux-debug.sh [--kernel]: builds a small kernel from Debian's source of Linux 6.1 with the checks of tools/linux-debug/config (KASAN, lockdep, DMA_API_DEBUG,
# objects, leaks, failing allocations), into target/judges/linux-debug, once: 139 MB are fetched, and two cores build for ten minutes. Then it boots mmcq.ko on
# it: the test of tools/linux-module.sh, that of tools/linux-module-models.sh, and a test in which each allocation fails in turn. Any complaint of the kernel is
# a failure. With --kernel it only builds the kernel. The exit status is 2 if a part is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "linux-debug.sh: $*" >&2; }
store=$PWD/target/judges/linux-debug
config=$PWD/tools/linux-debug/config
make=(nice -n 5 make -s ARCH=x86_64 CC=gcc-12 HOSTCC=gcc-12)

build() {
  local missing=()
  for program in flex bison bc xz; do command -v $program >/dev/null || missing+=($program); done
  [ -e /usr/include/libelf.h ] || missing+=(libelf-dev)
  for program in gcc-12 make apt-get dpkg-deb; do
    command -v $program >/dev/null || { say "no $program"; exit 2; }
  done
  if [ ${#missing[@]} -gt 0 ]; then
    as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get install -q -y --no-install-recommends "${missing[@]/#xz/xz-utils}" >&2 || { say "missing: ${missing[*]}"; exit 2; }
  fi
  rm -rf "$store"
  mkdir -p "$store/boot" "$store/debs"
  say "fetching the source of Linux 6.1"
  (cd "$store/debs" && apt-get download -q -o APT::Sandbox::User="$(id -un)" linux-source-6.1 >&2) || { say "the kernel's source could not be fetched"; exit 2; }
  dpkg-deb --fsys-tarfile "$store"/debs/linux-source-6.1_*.deb | tar -xO ./usr/src/linux-source-6.1.tar.xz |
    tar -xJ -C "$store" --transform='s/^linux-source-6.1/build/'
  rm -rf "$store/debs"
  say "building it"
  # Without `set -e`, which does not hold before a `||`.
  (
    cd "$store/build" && KCONFIG_ALLCONFIG=$config "${make[@]}" allnoconfig || exit 1
    # What this kernel does not know is not there, without a word.
    ! grep '^CONFIG' "$config" | grep -vxFf .config || { say "options that cannot be had, see above"; exit 1; }
    "${make[@]}" -j2 bzImage modules && "${make[@]}" INSTALL_MOD_PATH="$store" modules_install &&
      cp arch/x86/boot/bzImage "$store/boot/vmlinuz-$("${make[@]}" kernelrelease)" || exit 1
    # The build of a module needs headers, scripts and the table of symbols.
    rm -rf block certs crypto drivers fs init io_uring ipc kernel lib mm net rust samples security sound usr virt vmlinux*
    find . -name '*.o' -delete
  ) >"$store/log" 2>&1 || { tail -30 "$store/log" >&2; say "the kernel does not build"; exit 1; }
  cp "$config" "$store/ready"
}

cmp -s "$config" "$store/ready" || build
[ "${1:-}" != --kernel ] || exit 0

# All of KASAN's reports, and time for a machine that is slow.
export LINUX=debug APPEND='kasan_multi_shot watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=300 sysctl.kernel.hung_task_timeout_secs=600'
tools/linux-module.sh
PART=failing tools/linux-module.sh
tools/linux-module-models.sh
