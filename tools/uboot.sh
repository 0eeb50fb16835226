#!/bin/bash
# uboot.sh: runs U-Boot 2023.01, from Debian's source, on the laboratory's controller with an SD
# card, in virtual time: 1024 reads of 4 KiB, one at a time, at random and in sequence. Prints the
# report of the machine, a line of JSON: `mmcq guest --table` prints it beside those of
# tools/guest-time.sh.
#
# Debian's own images have no driver for cards. So the script builds U-Boot for QEMU's q35 with
# U-Boot's own SDHCI driver and with tools/guest-uboot/load.c, a command that reads and counts. The
# source (16 MB) is fetched once into target/judges/u-boot; the build needs bison, flex, swig, dtc,
# Python's headers and pyelftools. CARD: name of the card, sdhc-16g-hs if it is not set.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "uboot.sh: $*" >&2; }
tools/guest-parts.sh
place=$PWD/target/judges/u-boot
rom=$place/u-boot.rom
key=$(cat "$0" tools/guest-uboot/load.c | cksum)
if [ "$(cat "$place/ready" 2>/dev/null)" != "$key" ]; then
  for program in gcc-12 make bison flex swig dtc apt-get patch; do
    command -v $program >/dev/null || { say "no $program"; exit 2; }
  done
  # Debian's Python, which has Debian's pyelftools.
  whole=$PATH PATH=/usr/bin:/bin:/usr/sbin
  python3 -c 'import elftools, setuptools' 2>/dev/null || { say "no python3-pyelftools, or no python3-setuptools"; exit 2; }
  rm -rf "$place"
  mkdir -p "$place"/apt/{lists,cache/archives}/partial
  mirror=$(cat /etc/apt/sources.list.d/*.sources 2>/dev/null | awk '$1 == "URIs:" { print $2; exit }')
  [ -n "$mirror" ] || mirror=$(awk '$1 == "deb" && $2 ~ /^http/ { print $2; exit }' /etc/apt/sources.list 2>/dev/null || true)
  [ -n "$mirror" ] || { say "no mirror of Debian in the sources of this system's apt"; exit 2; }
  echo "deb-src $mirror bookworm main" >"$place/apt/sources"
  apt=(apt-get -q -o "Dir::Etc::sourcelist=$place/apt/sources" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$place/apt/lists"
    -o "Dir::Cache=$place/apt/cache" -o "APT::Sandbox::User=$(id -un)")
  say "fetching U-Boot's source"
  "${apt[@]}" update >&2
  (cd "$place" && "${apt[@]}" --download-only source u-boot >&2 && mkdir tree && tar -xJf u-boot_*.orig.tar.xz -C tree --strip-components=1)
  cp tools/guest-uboot/load.c "$place/tree/cmd/mmcqload.c"
  echo 'obj-y += mmcqload.o' >>"$place/tree/cmd/Makefile"
  {
    grep -vE '^CONFIG_(SMP|GENERATE_MP_TABLE|USB_KEYBOARD|DEFAULT_DEVICE_TREE|CMD_BOOTEFI_SELFTEST|CMD_NVEDIT_EFI|GENERATE_ACPI_TABLE|NVME_PCI)=' "$place/tree/configs/qemu-x86_defconfig"
    printf 'CONFIG_%s=y\n' MMC MMC_PCI MMC_SDHCI MMC_SDHCI_SDMA MMC_HS200_SUPPORT MMC_UHS_SUPPORT CMD_MMC CMD_QFW
    printf 'CONFIG_%s\n' 'DEFAULT_DEVICE_TREE="qemu-x86_q35"' BOOTDELAY=0 'BOOTCOMMAND="mmcqload"'
    printf '# CONFIG_%s is not set\n' VIDEO BLOCK_CACHE USE_PREBOOT DISPLAY_CPUINFO
  } >"$place/tree/configs/mmcq_defconfig"
  make=(make -s -C "$place/tree" -j"$(nproc)" CC=gcc-12 HOSTCC=gcc-12 KCFLAGS=-w PYTHON3=/usr/bin/python3)
  "${make[@]}" mmcq_defconfig >"$place/log" 2>&1
  "${make[@]}" >>"$place/log" 2>&1 || { say "U-Boot cannot be built: $place/log"; exit 1; }
  cp "$place/tree/u-boot.rom" "$rom"
  rm -rf "$place/tree" "$place/apt"
  for part in kernel initrd plugin.so library.so; do ln -s "../guest/$part" "$place/$part"; done
  # Debian's QEMU, with the image as its firmware.
  cat >"$place/qemu" <<'END'
#!/bin/bash
words=()
while [ $# -gt 0 ]; do
  case $1 in
    -bios | -append) shift ;;
    -kernel) shift; words+=(-serial null -bios "$1") ;;
    *) words+=("$1") ;;
  esac
  shift
done
exec "$(dirname "$0")/../guest/qemu" "${words[@]}"
END
  chmod +x "$place/qemu"
  PATH=$whole
  echo "$key" >"$place/ready"
fi
cargo build -q --locked --release -p mmcq-lab --features full
mmcq=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/mmcq
job=$(mktemp)
trap 'rm -f "$job"' EXIT
echo "reads" >"$job"
"$mmcq" guest "$job" --parts "$place" --image "$rom" --setting u-boot --card "${CARD:-sdhc-16g-hs}" --limit "${GUEST_TIMEOUT:-2400}" --json
