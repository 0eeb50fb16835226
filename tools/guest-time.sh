#!/bin/bash
# guest-time.sh [--twice] [never | hsq | fifo]...: an unmodified Linux 6.1 of Debian's on the laboratory's controller and cards, in virtual time, without a queue and with
# its software queue (mmc_hsq). Its own mmc_core, mmc_block and sdhci drive the model. Prints the report of each machine, a line of JSON; `mmcq reproduce never
# --original FILE`, and the same of hsq and fifo, compare them with the laboratory's stand-ins and with mmcq.
#
# `mmcq guest` runs each machine, tools/guest-parts.sh builds what it is put together from, and jobs/guest has the jobs. --twice: each machine also runs two
# times with one CPU; these must say the same, byte for byte. GUEST_CPUS: CPUs of a machine, 2 without it. GUEST_TIMEOUT: seconds that a machine may run, 2400
# without it. GUEST_LOG: a folder for the logs of the bus.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "guest-time.sh: $*" >&2; }
twice=
[ "${1:-}" != --twice ] || { twice=1; shift; }
tables=("$@")
[ ${#tables[@]} -gt 0 ] || tables=(never)
tools/guest-parts.sh
CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 cargo build -q --locked --release -p mmcq-lab
mmcq=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/mmcq
for table in "${tables[@]}"; do
  case $table in
    # Platform and card; empty: its own.
    never) machines=(generic:sdxc-128g-uhs generic:emmc-hs200) ;;
    hsq) machines=(hsq-sprd:) ;;
    fifo) machines=(fifo-allwinner: fifo-allwinner:fifo-emmc-b) ;;
    *) say "$table: expected never, hsq or fifo"; exit 2 ;;
  esac
  for machine in "${machines[@]}"; do
    for setting in none hsq-tag; do
      platform=${machine%:*} card=${machine#*:}
      name=$table.$platform.$card.$setting
      given=(--platform "$platform" ${card:+--card "$card"} --setting "$setting" --scheduler mq-deadline --limit "${GUEST_TIMEOUT:-2400}")
      [ -z "${GUEST_LOG:-}" ] || { mkdir -p "$GUEST_LOG"; given+=(--log "$GUEST_LOG/$name.bus"); }
      if [ -n "$twice" ]; then
        "$mmcq" guest jobs/guest/short.sh "${given[@]}" --twice >/dev/null
      fi
      say "$name"
      "$mmcq" guest "jobs/guest/$table.sh" "${given[@]}" --cpus "${GUEST_CPUS:-2}" --json
    done
  done
done
