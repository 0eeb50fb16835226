#!/bin/bash
# boards.sh: runs the whole stack, bare metal, on QEMU's machines, which others wrote:
# - boards/pc on q35 (x86-64, sdhci-pci by ADMA2, QEMU's SD card). This image also counts
#   instructions; the script fails if a request takes more than the bounds below allow.
# - boards/virt on virt (64-bit Arm, the same controller and card). This image counts them too.
# - boards/soc on machines that have an SDHCI of their own, each with the profile of its name:
#   xilinx-zynq-a9, mcimx6ul-evk (NXP's uSDHC), ast2600-evb, xlnx-zcu102, raspi3b (by the CPU). Also
#   on orangepi-pc, which has Allwinner's SMHC, and on bpim2u, which has a later SMHC. bpim2u needs
#   the newer QEMU (tools/install-qemu11.sh arm), and is left out if that cannot be fetched.
# - boards/arm on vexpress-a9 (Cortex-A9, Arm's PL181, QEMU's SD card). This image also waits in
#   blocking calls by `wfi` (src/waits.rs).
# - boards/lm3s on lm3s6965evb (Cortex-M3, Arm's PL022, QEMU's SD card in SPI mode), by interrupts.
# Each machine runs once with a card that is addressed in bytes and once with a card that is
# addressed in blocks. Of boards/soc, only the machines of NXP and Allwinner have a card addressed
# in blocks. The image reports by its exit status and in its report whether all went well. Then the
# card's file is compared byte for byte with what boards/plan/expect.rs expects in it.
#
# boards/pc also runs
# - with an eMMC: on four lines with its boot areas, and on eight lines. That needs a newer QEMU,
#   since that of Debian 12 has no eMMC: tools/install-qemu11.sh fetches it. If it cannot be
#   fetched, these runs are left out.
# - with a card that is reset without the knowledge of the stack, and a supervisor
#   (`card::supervise`) that brings the card back.
# Each machine also runs without a card: the image must report that, and end.
# As many machines run at a time as there are cores. The script prints their output at its end, in
# order.
#
# boards.sh --short: for `check`, one machine for each driver, with one card each: q35 with all its
# runs but that of the SD card of 4 GiB, boards/soc on raspi3b, mcimx6ul-evk and orangepi-pc,
# vexpress-a9, lm3s6965evb.
# boards.sh --emmc: only the runs with an eMMC. Fails if the newer QEMU cannot be fetched.
# boards.sh --riscv: only the machines of RISC-V (Debian's qemu-system-misc), for `check long`:
# boards/virt, with its path lengths, and boards/sifive on sifive_u (SiFive's SPI, QEMU's SD card in
# SPI mode). boards/sifive also runs with a card that an earlier program left in the middle of a
# block.
# boards.sh --soc MACHINE...: only these machines of boards/soc. Fails for bpim2u if its newer QEMU
# cannot be fetched.
# boards.sh --path: only the path lengths, for docs/path-length.md: on the machines of boards/soc
# and, over SPI, of boards/lm3s and boards/sifive.
#
# Needs qemu-system-x86_64, qemu-system-aarch64 and qemu-system-arm (tools/install-judges.sh). The
# ordinary toolchain builds boards/pc, bare-target.sh builds the others. BOARDS_TIMEOUT: seconds
# that a run may take, 600 if it is not set.
set -euo pipefail
cd "$(dirname "$0")/../boards"
tools=$PWD/../tools
say() { echo "boards.sh: $*" >&2; }
# shellcheck source=bare-target.sh
. "$tools/bare-target.sh"
case ${1:-} in
  '' | --short | --emmc | --riscv | --path | --soc) ;;
  *) say "$1: expected nothing, --short, --emmc, --riscv, --soc or --path"; exit 2 ;;
esac
short=''
[ "${1:-}" != --short ] || short=1
limit_s=${BOARDS_TIMEOUT:-600}
qemu_x86=qemu-system-x86_64
if [ "${1:-}" = --emmc ]; then
  "$tools/install-qemu11.sh"
elif [ "${1:-}" = --riscv ]; then
  command -v qemu-system-riscv64 >/dev/null || { say "no qemu-system-riscv64; tools/install-judges.sh --riscv installs it"; exit 2; }
else
  for qemu in qemu-system-x86_64 qemu-system-aarch64 qemu-system-arm; do
    command -v $qemu >/dev/null || { say "no $qemu; tools/install-judges.sh installs it"; exit 2; }
  done
fi
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
expect=$work/expect
rustc --edition 2024 -O -o "$expect" plan/expect.rs

# A line that the report must have.
must_say() {
  grep -Eqx "$2" "$work/report" || { say "$1: the report has no line '$2'"; bad=1; }
}

bad=0
machines=0
# Lets a command that runs a machine, and judges it by `bad`, begin as soon as a core is free: in a folder of its own.
begin() {
  local n=$machines
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || true; done
  mkdir "$work/$n"
  (
    work=$work/$n
    "$@"
    [ $bad -eq 0 ] && touch "$work/well"
  ) >"$work/$n.said" 2>&1 &
  machines=$((machines + 1))
}
# Waits for all, says what they said, and ends.
judged() {
  local n
  wait
  for ((n = 0; n < machines; n++)); do
    cat "$work/$n.said"
    [ -e "$work/$n/well" ] || bad=1
  done
  exit $bad
}

# Starts a machine and waits for its end, the limit at most; its exit status, 124 where it had no end. Then the log says where it stood, twice, a second
# apart. One run in thirty QEMU's threads wait for each other, with virtual time standing, until something wakes its main loop: an empty line to its
# monitor does, of which the guest sees nothing.
attempt() { # function-that-starts-qemu card
  local tick pid
  rm -f "$work"/monitor.{in,out}
  mkfifo "$work"/monitor.{in,out}
  exec 3<>"$work/monitor.in" 4<>"$work/monitor.out"
  : >"$work/report"
  # An instruction takes a nanosecond and sleep takes no time, so that a slow machine is none to the guest,
  # and each run is the same.
  QEMU_AUDIO_DRV=none "$1" "$2" -icount shift=0,sleep=off -display none -monitor "pipe:$work/monitor" \
    </dev/null >"$work/log" 2>&1 &
  pid=$!
  for ((tick = 0; tick < 4 * limit_s; tick++)); do
    kill -0 $pid 2>/dev/null || { wait $pid; return; }
    [ $((tick % 8)) -ne 7 ] || echo >&3
    sleep 0.25
  done
  { echo "info registers"; sleep 1; echo "info registers"; echo "info lapic"; sleep 1; echo "quit"; } >&3
  timeout 3 cat <&4 | grep -E '^(RAX|RSI|RIP|PC|R00|R12|PSTATE|PSR|LVT|Timer|ISR|IRR|PPR)' >>"$work/log" || true
  # `timeout` ends it where "quit" does not.
  wait $pid || true
  return 124
}

# Runs an image on a fresh card; the report is in $work/report then.
run() { # name good-status blocks how-it-is-addressed function-that-starts-qemu
  local card=$work/card.img status=0 line
  "$expect" make "$card" "$3"
  attempt "$5" "$card" || status=$?
  tr -d '\r' <"$work/report" >"$work/lines" && mv "$work/lines" "$work/report"
  sed "s/^/$1: /" "$work/report"
  if [ "$status" -ne "$2" ]; then
    case $status in 124) say "$1: no end after $limit_s s" ;; *) say "$1: exit status $status, expected $2" ;; esac
    sed 's/^/  /' "$work/log" >&2
    bad=1
  fi
  if line=$("$expect" check "$card"); then
    echo "$1: the file of the card is as expected, all $(stat -c %s "$card") bytes of it"
  else
    bad=1
  fi
  must_say "$1" "card: $3 blocks, addressed in $4, .*"
  must_say "$1" "$line"
  must_say "$1" "read back: 32768 blocks, 0 wrong"
  must_say "$1" "interrupts: [1-9][0-9]* of the controller, [0-9]+ of the alarm, 0 lost"
  must_say "$1" "trouble: ${faults:-0} faults, 0 starts again"
  must_say "$1" "result: all is well"
  rm -f "$card"
}

# The machine that all runs of boards/pc have: its firmware leaves the card alone, and it ends with twice the status and one.
q35() { # options
  timeout $((limit_s + 10)) "$qemu_x86" -M q35 -accel tcg -m 256 -bios qboot.rom -nodefaults -no-reboot \
    -device isa-debug-exit,iobase=0xf4,iosize=1 -chardev "file,id=report,path=$work/report" \
    -device isa-debugcon,iobase=0xe9,chardev=report -kernel "$pc" -append "${command_line:-}" "$@"
}
sdhci_with() { # card device options
  local drive="if=none,id=card,format=raw,file=$1" device=$2
  shift 2
  set -- -drive "$drive" -device "$controller" -device "$device,drive=card" "$@"
  "$machine" "$@"
}
on_sd() { sdhci_with "$1" sd-card "${@:2}"; }
controller=sdhci-pci
machine=q35
# A run that ends badly, soon, and must say so.
run_without() { # name line function-that-starts-qemu options
  local name=$1 line=$2 how=$3 status=0
  shift 3
  : >"$work/report"
  QEMU_AUDIO_DRV=none limit_s=10 "$how" -icount shift=0,sleep=off -display none -monitor none "$@" \
    </dev/null >"$work/log" 2>&1 || status=$?
  tr -d '\r' <"$work/report" >"$work/lines" && mv "$work/lines" "$work/report"
  sed "s/^/$name: /" "$work/report"
  # boards/pc adds 16 to its status, and its machine ends with twice that, and one.
  case $status in 1 | 35) ;; *) say "$name: exit status $status, expected that of a failure"; bad=1 ;; esac
  must_say "$name" "$line"
}
no_card="result: no card has been brought up"
# boards/virt and boards/sifive on machines of RISC-V.
build_riscv() { # board profile option...
  cd "$1"
  bare_target riscv64imac-unknown-none-elf "-T$PWD/../plan/riscv64.x"
  "${build[@]}" --profile "$2" "${@:3}" || exit 2
  cd ..
}
build_sifive() { # profile option...
  build_riscv sifive "$@"
  sifive=$built_in/$1/spi
}
on_riscv() { # machine image options
  timeout $((limit_s + 10)) qemu-system-riscv64 -M "$1" -accel tcg -m 128 -bios none -no-reboot -serial null \
    -chardev "file,id=report,path=$work/report" -semihosting-config enable=on,target=native,chardev=report -kernel "$2" "${@:3}"
}
sifive_u() { on_riscv sifive_u "$sifive" "$@"; }
on_sifive() { sifive_u -drive "if=sd,format=raw,file=$1" -append "${left:-}" "${@:2}"; }
riscv() {
  local virt sifive left
  build_riscv virt release
  virt=$built_in/release/sdhci
  build_sifive release
  on_virt() { on_riscv virt "$virt" -nodefaults "$@"; }
  run_sifive() { # what-was-left name blocks how-it-is-addressed
    left=$1
    run "$2" 0 "$3" "$4" on_sifive
    must_say "$2" "transfers: [0-9]+ of which [1-9][0-9]* went on in one that was open"
    [ -z "$left" ] || must_say "$2" "left: in the middle of a ${left#left }, ready true, answered 0x00"
  }
  # A card that was stopped in the middle of a read sends its next block with a wrong CRC, as QEMU has it: one fault, told once.
  machine=on_virt
  begin run "virt (RISC-V), 64 MiB" 0 131072 bytes on_sd
  begin run "virt (RISC-V), 4 GiB" 0 8388608 blocks on_sd
  begin run_without "virt (RISC-V), no card" "$no_card" on_virt -device sdhci-pci
  begin run_sifive "" "sifive_u, 4 GiB" 8388608 blocks
  faults=1 begin run_sifive "left read" "sifive_u, left in a read, 64 MiB" 131072 bytes
  begin run_sifive "left write" "sifive_u, left in a write, 64 MiB" 131072 bytes
  begin run_without "sifive_u, no card" "$no_card" sifive_u
}
if [ "${1:-}" = --riscv ]; then
  riscv
  judged
fi
# boards/soc: one source, an image for each machine of its table.
run_soc() { # machine controller transfer-mode size blocks how-it-is-addressed
  soc=$1
  run "$1, $4" 0 "$5" "$6" on_soc
  must_say "$1" "controller: $2, registers at 0x[0-9a-f]+, $3"
}
soc() { # options
  timeout $((limit_s + 10)) "${qemu_of[$soc]}" -M "$soc" -serial null -chardev "file,id=report,path=$work/report" \
    -semihosting-config enable=on,target=native,chardev=report -kernel "${image_of[$soc]}" "$@"
}
on_soc() { soc -drive "if=sd,format=raw,file=$1" "${@:2}"; }
declare -A qemu_of image_of
# By this profile, with these features beside the machine's.
build_soc() { # profile feature, target qemu machine...
  local profile=$1 features=$2 target=$3 qemu=$4 machine
  shift 4
  bare_target "$target" "-T$PWD/link.x" || exit 2
  for machine in "$@"; do
    "${build[@]}" --profile "$profile" --features "$features$machine"
    qemu_of[$machine]=$qemu
    image_of[$machine]=$images/$machine
    cp "$built_in/$profile/sdhci" "$images/$machine"
  done
}
# The machines of boards/soc; those of 64 bits, and the one that needs the newer QEMU, by name.
machines_of_soc=(raspi3b xilinx-zynq-a9 mcimx6ul-evk orangepi-pc ast2600-evb xlnx-zcu102)
newer_of_soc=bpim2u
all_soc() { # profile feature, machine...
  local profile=$1 features=$2 arm=() arm64=() machine
  shift 2
  for machine in "$@"; do
    case $machine in raspi3b | xlnx-zcu102) arm64+=("$machine") ;; *) arm+=("$machine") ;; esac
  done
  images=$work/images
  mkdir "$images"
  cd soc
  [ ${#arm[@]} -eq 0 ] || build_soc "$profile" "$features" armv7a-none-eabi qemu-system-arm "${arm[@]}"
  [ ${#arm64[@]} -eq 0 ] || build_soc "$profile" "$features" aarch64-unknown-none qemu-system-aarch64 "${arm64[@]}"
  cd ..
  qemu_of[$newer_of_soc]=$PWD/../target/judges/qemu11-arm/qemu-system-arm
}
# Machines of boards/soc, each with its cards and without one.
soc_machines() { # machine...
  local soc
  all_soc release "" "$@"
  for soc in "$@"; do
    case $soc in
      raspi3b) begin run_soc raspi3b Bcm2835 Pio "64 MiB" 131072 bytes ;;
      xilinx-zynq-a9) begin run_soc xilinx-zynq-a9 Zynq Adma2 "64 MiB" 131072 bytes ;;
      mcimx6ul-evk)
        begin run_soc mcimx6ul-evk Usdhc Adma2 "64 MiB" 131072 bytes
        [ -n "$short" ] || begin run_soc mcimx6ul-evk Usdhc Adma2 "4 GiB" 8388608 blocks ;;
      orangepi-pc | bpim2u)
        begin run_soc "$soc" Smhc Idmac "64 MiB" 131072 bytes
        [ -n "$short" ] || begin run_soc "$soc" Smhc Idmac "4 GiB" 8388608 blocks ;;
      ast2600-evb) begin run_soc ast2600-evb Aspeed Adma2 "64 MiB" 131072 bytes ;;
      xlnx-zcu102) begin run_soc xlnx-zcu102 ZynqMp Adma2 "64 MiB" 131072 bytes ;;
    esac
  done
  for soc in "$@"; do
    begin run_without "$soc, no card" "$no_card" soc
  done
}
if [ "${1:-}" = --soc ]; then
  shift
  for soc in "$@"; do
    case " ${machines_of_soc[*]} $newer_of_soc " in
      *" $soc "*) ;;
      *) say "--soc $soc: expected ${machines_of_soc[*]} or $newer_of_soc"; exit 2 ;;
    esac
    [ "$soc" != $newer_of_soc ] || "$tools/install-qemu11.sh" arm
  done
  [ $# -gt 0 ] || { say "--soc: expected machines of boards/soc"; exit 2; }
  soc_machines "$@"
  judged
fi
# boards/lm3s. The SD card that QEMU has behind SPI works up to 7.2: later ones answer every command but the first few as illegal.
has_lm3s() {
  local version
  version=$(qemu-system-arm --version | sed -nE '1s/.*version ([0-9]+)\..*/\1/p')
  [ "$version" -le 7 ] || { say "boards/lm3s is left out: the card in SPI mode of QEMU $version is broken, 7.2 is needed"; return 1; }
}
build_lm3s() { # profile option...
  cd lm3s
  bare_target thumbv7m-none-eabi "-T$PWD/link.x" || exit 2
  "${build[@]}" --profile "$@"
  cd ..
  lm3s=$built_in/$1/spi
}
lm3s() { # options
  timeout $((limit_s + 10)) qemu-system-arm -M lm3s6965evb -serial "file:$work/report" \
    -semihosting-config enable=on,target=native -kernel "$lm3s" "$@"
}
on_lm3s() { lm3s -drive "if=sd,format=raw,file=$1" "${@:2}"; }
# The counts of a machine's image.
path_of() { # name function-that-starts-qemu
  local card=$work/card.img
  : >"$card" && truncate -s 64M "$card"
  QEMU_AUDIO_DRV=none "$2" "$card" -icount shift=0,sleep=off -display none -monitor none </dev/null >"$work/log" 2>&1 ||
    { say "$1: exit status $?, expected 0"; cat "$work/log" >&2; bad=1; }
  tr -d '\r' <"$work/report" >"$work/lines" && mv "$work/lines" "$work/report"
  sed -n "s/^path: /$1: /p" "$work/report"
  must_say "$1" "result: all is well"
}
if [ "${1:-}" = --path ]; then
  all_soc path path, "${machines_of_soc[@]}"
  for soc in "${!image_of[@]}"; do
    path_of "$soc" on_soc
  done
  if has_lm3s; then
    build_lm3s path --features path
    path_of lm3s6965evb on_lm3s
  fi
  if command -v qemu-system-riscv64 >/dev/null; then
    build_sifive path --features path
    path_of sifive_u on_sifive
  else
    say "boards/sifive is left out: no qemu-system-riscv64 (Debian package qemu-system-misc)"
  fi
  exit $bad
fi
host=$(rustc -vV | sed -n 's/^host: //p')
if [ "$host" = x86_64-unknown-linux-gnu ]; then
  flags="-Crelocation-model=static"
  for flag in -nostartfiles -static -no-pie -Wl,--build-id=none "-T$PWD/pc/link.x"; do
    flags="$flags -Clink-arg=$flag"
  done
  (cd pc && RUSTFLAGS="$flags" cargo build -q --locked --release --target "$host")
  pc=$(cd pc && output_of)/$host/release/sdhci
elif [ "${1:-}" = --emmc ]; then
  say "--emmc: boards/pc is built by the toolchain of x86_64-unknown-linux-gnu, this is $host"
  exit 2
else
  say "boards/pc is left out: it is built by the toolchain of x86_64-unknown-linux-gnu, this is $host"
  pc=
fi

on_emmc() { sdhci_with "$1" emmc "${@:2}"; }
# An eMMC with two boot areas, which lie before the card's own blocks in its file: the image must leave copies of the first and of the last
# window there, as they were before.
on_emmc_with_boot() { # card options
  local card=$1 whole=$work/whole.img status=0
  shift
  { head -c 2M /dev/zero && cat "$card"; } >"$whole"
  { head -c 1M "$card" && tail -c 1M "$card"; } >"$work/areas"
  sdhci_with "$whole" emmc,boot-partition-size=1048576 "$@" || status=$?
  tail -c +2097153 "$whole" >"$card"
  cmp -n 2097152 "$whole" "$work/areas" || { say "the boot areas hold something else"; status=1; }
  rm -f "$whole"
  return $status
}
emmc_of_4_lines() {
  run "eMMC, 64 MiB, 4 lines" 33 131072 bytes on_emmc_with_boot
  must_say "eMMC, 64 MiB, 4 lines" "boot areas: 2, 4096 blocks written and read, 0 wrong"
  must_say "eMMC, 64 MiB, 4 lines" "card: .*, HighSpeed, W4, 52000000 Hz"
}
emmc_of_8_lines() {
  # The controller's capabilities, with 8 lines too.
  controller=sdhci-pci,capareg=0x057c34b4
  run "eMMC, 4 GiB, 8 lines" 33 8388608 blocks on_emmc
  must_say "eMMC, 4 GiB, 8 lines" "card: .*, HighSpeed, W8, 52000000 Hz"
}
kept() { # name function-that-starts-qemu
  # So many commands that a card without a memory cannot answer, that they are not counted here.
  faults='[0-9]+'
  command_line=keep
  run "$1" 33 131072 bytes "$2"
  must_say "$1" "kept: 3 times initialised again, 0 power cycles, given up 0 times"
}
emmc() {
  # Two commands that only SD cards answer, each asked twice: the interface condition, and the prefix of application commands.
  local faults=4 qemu_x86=$PWD/../target/judges/qemu11/qemu-system-x86_64
  begin emmc_of_4_lines
  begin emmc_of_8_lines
  begin kept "eMMC, kept" on_emmc
}
if [ "${1:-}" = --emmc ]; then
  emmc
  judged
fi
# What a request of 4 KiB may take on q35: instructions are counted, so a slow machine makes no difference.
path_at_most() { # name load instructions
  local found
  found=$(sed -nE "s/^path: $2 +([0-9]+) .*/\1/p" "$work/report")
  [ -n "$found" ] && [ "$found" -le "$3" ] || { say "$1: $2: ${found:-no} instructions, at most $3 are allowed"; bad=1; }
}
sd_with_path() {
  local name="sdhci, 64 MiB"
  run "$name" 33 131072 bytes on_sd
  path_at_most "$name" "random     read , depth  1" 639
  path_at_most "$name" "random     read , depth 32" 718
  path_at_most "$name" "random     write, depth  1" 899
  path_at_most "$name" "random     write, depth 32" 785
}
if [ -n "$pc" ]; then
  begin sd_with_path
  [ -n "$short" ] || begin run "sdhci, 4 GiB" 33 8388608 blocks on_sd
  begin kept "sdhci, kept" on_sd
  # What is in a slot may be something else, or nothing.
  begin run_without "no controller" "[0-9]+ PCI devices, none of class 08.05 \(SD host controller\)" q35
  begin run_without "sdhci, no card" "$no_card" q35 -device sdhci-pci
  if "$tools/install-qemu11.sh"; then
    emmc
  else
    say "the runs with an eMMC are left out: they need QEMU 11, which could not be fetched (see above)"
  fi
fi

# boards/virt. Its devices lie below 4 GiB, where a controller with 32 address lines reaches them and we do.
if [ -z "$short" ]; then
  cd virt
  bare_target aarch64-unknown-none "-T$PWD/link.x" || exit 2
  "${build[@]}" --release
  cd ..
  virt=$built_in/release/sdhci
  on_virt() { # options
    timeout $((limit_s + 10)) qemu-system-aarch64 -M virt,highmem=off,gic-version=2 -cpu cortex-a53 -accel tcg -m 128 \
      -nodefaults -no-reboot -serial "file:$work/report" -semihosting-config enable=on,target=native -kernel "$virt" "$@"
  }
  machine=on_virt
  begin run "virt, 64 MiB" 0 131072 bytes on_sd
  begin run "virt, 4 GiB" 0 8388608 blocks on_sd
  begin run_without "virt, no card" "$no_card" on_virt -device sdhci-pci
fi

# boards/soc, whose functions are above.
if [ -n "$short" ]; then
  machines_of_soc=(raspi3b mcimx6ul-evk orangepi-pc)
elif "$tools/install-qemu11.sh" arm; then
  machines_of_soc+=($newer_of_soc)
else
  say "$newer_of_soc is left out: it needs QEMU 11, which could not be fetched (see above)"
fi
soc_machines "${machines_of_soc[@]}"

# boards/arm.
cd arm
bare_target armv7a-none-eabi "-T$PWD/link.x" || exit 2
"${build[@]}" --release
cd ..
arm=$built_in/release/pl181
vexpress() { # options
  timeout $((limit_s + 10)) qemu-system-arm -M vexpress-a9 -serial "file:$work/report" \
    -semihosting-config enable=on,target=native -kernel "$arm" "$@"
}
on_vexpress() { vexpress -drive "if=sd,format=raw,file=$1" "${@:2}"; }
run_arm() { # name blocks how-it-is-addressed
  run "$1" 0 "$2" "$3" on_vexpress
  must_say "$1" "provoked [01]: the controller stayed silent"
  must_say "$1" "provoked: 0 wrong ends, 0 wrong blocks"
}
# Blocking calls that sleep: a wake-up that is lost is a run without an end.
run_waits() {
  local name="pl181, asleep" card=$work/card.img status=0 how
  "$expect" make "$card" 131072
  QEMU_AUDIO_DRV=none arm=$waits on_vexpress "$card" -icount shift=0,sleep=off -display none -monitor none \
    </dev/null >"$work/log" 2>&1 || status=$?
  tr -d '\r' <"$work/report" | sed "s/^/$name: /"
  [ $status -eq 0 ] || { say "$name: exit status $status, expected 0 (124: no end after $limit_s s)"; bad=1; }
  for how in served masked; do
    must_say "$name" "$how: 200 reads in [0-9]+ us, the longest [0-9]+ us; [0-9]+ interrupts, [0-9]+ alarms, [0-9]+ wfi"
  done
  must_say "$name" "result: all is well"
}
waits=$built_in/release/waits
begin run_waits
begin run_arm "pl181, 64 MiB" 131072 bytes
[ -n "$short" ] || begin run_arm "pl181, 4 GiB" 8388608 blocks
begin run_without "pl181, no card" "$no_card" vexpress

has_lm3s || judged
build_lm3s release
run_spi() { # name blocks how-it-is-addressed
  run "$1" 0 "$2" "$3" on_lm3s
  must_say "$1" "transfers: [0-9]+ of which [1-9][0-9]* went on in one that was open"
}
begin run_spi "spi, 64 MiB" 131072 bytes
[ -n "$short" ] || begin run_spi "spi, 4 GiB" 8388608 blocks
begin run_without "spi, no card" "$no_card" lm3s
judged
