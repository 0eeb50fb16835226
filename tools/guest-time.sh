#!/bin/bash
# guest-time.sh [--twice] [TABLE]...: TABLE is never (the default), hsq, fifo, durable, tails,
# files, instructions, stacks, queues, recovery, mmc-test, designware, tools, blktrace or sdio.
#
# Runs an unmodified Linux 6.1 of Debian on the laboratory's controller and cards, in virtual time.
# Linux's own mmc_core, mmc_block and sdhci drive the model, without a queue and with Linux's
# software queue (mmc_hsq). Prints the report of each machine, a line of JSON. `mmcq reproduce never
# --original FILE`, and the same with hsq and fifo, compare the reports with the laboratory's
# stand-ins and with mmcq.
#
# - never, hsq, fifo, durable, tails, files and instructions also run mmcq.ko in place of Linux's
#   driver.
# - durable: writes that are on the medium when they end.
# - tails: how long a reader waits beside a writer, with each I/O scheduler of Linux. Prints a row
#   of text for each scheduler and writer.
# - files: a small database, and many small files, on ext4 and f2fs. Prints rows of text.
# - instructions: how many instructions a request of 4 KiB takes, on one CPU, without the price of
#   waking a thread.
# - stacks, queues and recovery also run boards/pc, which is mmcq on bare metal, in the same
#   machine: `mmcq guest --table FILE` prints their reports side by side.
# - queues also runs with the card's own queue (cqhci).
# - mmc-test: Linux's own tests of host and card on four cards, except cases 33 and 34, which last
#   minutes for each transfer size. The script fails if a case fails.
# - designware: Linux's own dw_mmc-pci on the model of DesignWare's controller: writes files and
#   reads them back, and runs those cases of mmc_test that measure nothing.
# - tools: mmc-utils with RPMB, boot areas, ext4, f2fs and discard, on an eMMC that has all of these
#   (tools/guest-tools.sh).
# - blktrace: records by blktrace what Linux's block layer requests of an eMMC under ext4, into
#   target/linux-ext4.blktrace (jobs/traces has one such record).
# - sdio: Linux's SDIO core and its driver of Bluetooth cards, on the laboratory's card.
#
# `mmcq guest` runs each machine, tools/guest-parts.sh builds its parts, and jobs/guest has the
# jobs. --twice: for never, hsq and fifo, each machine also runs two times with one CPU; both
# outputs must be the same, byte for byte. GUEST_CPUS: number of CPUs of a machine; if it is not
# set, 2, and 1 for tails and files, whose rows then are the same in each run. GUEST_SCHEDULER:
# scheduler of the block layer; mq-deadline if it is not set, for instructions none; tails runs all
# three. GUEST_TIMEOUT: seconds that a machine may run, 2400 if it is not set. GUEST_LOG: folder for
# the logs of the bus.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "guest-time.sh: $*" >&2; }
twice=
[ "${1:-}" != --twice ] || { twice=1; shift; }
tables=("$@")
[ ${#tables[@]} -gt 0 ] || tables=(never)
tools/guest-parts.sh
cargo build -q --locked --release -p mmcq-lab --features full
mmcq=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/mmcq
# boards/pc, built as tools/boards.sh does. With "queue": with the card's queue, by the controller's queue engine.
pc() {
  local flags="-Crelocation-model=static" flag
  for flag in -nostartfiles -static -no-pie -Wl,--build-id=none "-T$PWD/boards/pc/link.x"; do flags="$flags -Clink-arg=$flag"; done
  (cd boards/pc && RUSTFLAGS="$flags" cargo build -q --locked --release --target x86_64-unknown-linux-gnu ${1:+--features "$1"})
  image=$(cd boards/pc && cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/x86_64-unknown-linux-gnu/release/sdhci
}
name=mmcq
ours() { # what-the-image-does options...
  echo "$1" >"$job"
  shift
  "$mmcq" guest "$job" --image "$image" --setting "$name" --limit "${GUEST_TIMEOUT:-2400}" --json "$@"
}
job=$(mktemp)
trap 'rm -f "$job"' EXIT
linux() { # job options...
  "$mmcq" guest "jobs/guest/$1.sh" --limit "${GUEST_TIMEOUT:-2400}" "${@:2}"
}
for table in "${tables[@]}"; do
  case $table in
    recovery)
      given=(--card emmc-hs200 --schedule jobs/guest/recovery.list)
      pc
      linux recovery "${given[@]}" --json
      ours "probe 36000" "${given[@]}"
      continue ;;
    stacks)
      pc
      for setting in none hsq-tag; do linux table --card emmc-hs200 --setting $setting --scheduler none --json; done
      for load in "randread 1" "randread 32" "read 1" "read 32"; do ours "load $load 1024" --card emmc-hs200; done
      continue ;;
    tails | files)
      tools/guest-parts.sh --module
      tools/guest-tools.sh
      given=(--platform hsq-sprd --initrd target/judges/guest/tools.initrd --cpus "${GUEST_CPUS:-1}")
      [ $table = tails ] || given+=(--scheduler "${GUEST_SCHEDULER:-mq-deadline}")
      for driver in linux hsq mmcq; do
        say "$table.$driver"
        linux $table "${given[@]}" --driver $driver >"$job"
        sed -n "s/^$table: /$table: $driver, /p" "$job"
      done
      continue ;;
    durable | instructions)
      tools/guest-parts.sh --module
      for driver in linux hsq mmcq; do
        case $table in
          durable) given=(durable --platform hsq-sprd --scheduler "${GUEST_SCHEDULER:-mq-deadline}" --cpus "${GUEST_CPUS:-2}") ;;
          instructions) given=(table --card emmc-hs200 --scheduler "${GUEST_SCHEDULER:-none}" --wake-us 0) ;;
        esac
        say "$table.$driver"
        linux "${given[@]}" --driver $driver --json
      done
      continue ;;
    queues)
      pc
      given=(--platform intel-jsl --card emmc-queue)
      for setting in none hsq-tag cqe; do linux queues "${given[@]}" --setting $setting --scheduler none --json; done
      for load in "randread 1" "randread 8" "randread 32"; do ours "load $load 1024" "${given[@]}"; done
      pc queue
      name=mmcq-cqe
      for load in "randread 1" "randread 8" "randread 32"; do ours "load $load 1024" "${given[@]}"; done
      name=mmcq
      continue ;;
    mmc-test)
      for machine in generic:sdsc-1g generic:sdhc-16g-hs generic:sdxc-128g-uhs intel-emmc:hbg4a2; do
        say "$table.$machine"
        linux mmc-test --platform "${machine%:*}" --card "${machine#*:}" --wake-us 0 --append "mmcq.cases=$(seq -s, 1 32),$(seq -s, 35 51)" | tee "$job"
        grep -qx 'mmc_test: 0 failed' "$job" || { say "$machine: mmc_test has failed"; exit 1; }
      done
      continue ;;
    designware)
      for card in sdhc-16g-hs emmc-hs200; do
        say "$table.$card"
        given=(--platform mshc-pci --card $card)
        linux designware "${given[@]}" | tee "$job"
        grep -q ', 0 violations$' "$job" || { say "$card: Linux breaks a rule of the model"; exit 1; }
        linux mmc-test "${given[@]}" --wake-us 0 --append "mmcq.cases=$(seq -s, 1 24),$(seq -s, 45 51)" | tee "$job"
        grep -qx 'mmc_test: 0 failed' "$job" || { say "$card: mmc_test has failed"; exit 1; }
      done
      continue ;;
    tools)
      tools/guest-tools.sh
      linux tools --card emmc-51-full --initrd target/judges/guest/tools.initrd --wake-us 0
      continue ;;
    blktrace)
      tools/guest-tools.sh
      linux blktrace --card emmc-51-full --initrd target/judges/guest/tools.initrd >"$job"
      sed '/^trace: begin/,/^trace: end/!d;/^trace:/d' "$job" | base64 -d | gzip -d >target/linux-ext4.blktrace
      say "target/linux-ext4.blktrace: $(stat -c %s target/linux-ext4.blktrace) bytes"
      continue ;;
    sdio)
      tools/guest-tools.sh
      linux sdio --card bt-type-a --initrd target/judges/guest/tools.initrd --wake-us 0 --append mmcq.quirks=96
      continue ;;
    # Platform and card; empty: its own.
    never) machines=(generic:sdxc-128g-uhs generic:emmc-hs200) ;;
    hsq) machines=(hsq-sprd:) ;;
    fifo) machines=(fifo-sdhci: fifo-sdhci:fifo-emmc-b) ;;
    *) say "$table: expected never, hsq, fifo, durable, tails, files, instructions, stacks, queues, recovery, mmc-test, designware, tools, blktrace or sdio"; exit 2 ;;
  esac
  tools/guest-parts.sh --module
  for machine in "${machines[@]}"; do
    for driver in linux hsq mmcq; do
      platform=${machine%:*} card=${machine#*:}
      name=$table.$platform.$card.$driver
      given=(--platform "$platform" ${card:+--card "$card"} --driver "$driver" --scheduler "${GUEST_SCHEDULER:-mq-deadline}" --limit "${GUEST_TIMEOUT:-2400}")
      [ -z "${GUEST_LOG:-}" ] || { mkdir -p "$GUEST_LOG"; given+=(--log "$GUEST_LOG/$name.bus"); }
      if [ -n "$twice" ]; then
        "$mmcq" guest jobs/guest/short.sh "${given[@]}" --twice >/dev/null
      fi
      say "$name"
      "$mmcq" guest "jobs/guest/$table.sh" "${given[@]}" --cpus "${GUEST_CPUS:-2}" --json
    done
  done
done
