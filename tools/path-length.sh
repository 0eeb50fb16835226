#!/bin/bash
# path-length.sh [--lanes]: counts the instructions and register accesses of a 4 KiB request through
# queue and SDHCI driver. Callgrind counts on this machine's instruction set, without the
# instructions of the controller model. Needs valgrind. The columns: `submit` includes mapping, and
# the start of the transfer if the queue was empty; `interrupt` acknowledges, starts the next
# transfer and completes; `alarm` is a poll at a deadline; `take` fetches the completion. The lanes:
# one transfer at a time (single), the card's queue driven by software (tasks), and by the
# controller's queue engine (cqe).
# With --lanes that is all, and the script fails if a bound is broken: of the register accesses of
# the queue engine, of the growth of instructions with the number of announced tasks, or of the
# instructions of a request that continues an open transfer.
#
# Without --lanes the script then counts the instructions of a received Bluetooth Type-A packet,
# interrupt by interrupt: with the crate's driver (`async fn`), with a driver of callbacks, and with
# the engine alone. It also shows how many of them each group of source files takes. The lock of
# these programs does nothing, but its uses are counted. Finally the script counts the same packet
# in the laboratory, on the controller of the SDIO board, for step_instructions and
# fifo_instructions in crates/mmcq-lab/platforms/sdio-*.toml; the instructions of the models and of
# the laboratory are left out.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo "path-length.sh: needs valgrind (Debian package valgrind)" >&2; exit 1; }
cargo build --profile fat --quiet --locked -p mmcq --example path_length
program=${CARGO_TARGET_DIR:-target}/fat/examples/path_length
counts=$(mktemp)
trap 'rm -f "$counts"' EXIT
few=1000 many=3000
wanted=${1:-}
# counted FUNCTION ARGS...: what was collected inside of that function, without the registers of the controller
counted() {
  valgrind --tool=callgrind --callgrind-out-file="$counts" --toggle-collect="path_length::$1*" "$program" "${@:2}" >/dev/null 2>&1
  awk '
    /^c?fn=/ {
      id = $0; sub(/^c?fn=/, "", id); name = id; sub(/\).*/, ")", id)
      if (sub(/^\([0-9]+\) /, "", name)) called[id] = name
      if ($0 !~ /^c/) at = called[id]
      next
    }
    /^calls=/ { skip = 1; next }
    /^[0-9+*-]/ { if (skip) { skip = 0; next } if (at !~ /Cells::/) sum += $2 }
    END { print sum + 0 }' "$counts"
}
# instructions FUNCTION ARGS...: of a request; by the difference of two runs, so that bring-up does not count
instructions() { echo "$(($(counted "$@" $many) - $(counted "$@" $few)))"; }
printf '%-30s %8s %10s %6s %6s %8s %10s %11s\n' '4 KiB' submit interrupt alarm take total accesses interrupts
bad=0
declare -A totals
for load in "single read random 1" "single write random 1" "single read random 32" "single write random 32" "single read sequential 32" \
  "single write sequential 32" "open read sequential 1" "open write sequential 1" "open read random 1" "open write random 1" "open read random 32" "tasks read random 1" "tasks read random 8" "tasks read random 16" "tasks read random 32" "cqe read random 1" \
  "cqe read random 8" "cqe read random 16" "cqe read random 32" "cqe write random 8" "cqe write random 16"; do
  # shellcheck disable=SC2086
  set -- $load
  s=$(instructions submit "$@") i=$(instructions interrupt "$@") l=$(instructions alarm "$@") t=$(instructions take "$@")
  read -r _ requests _ accesses _ interrupts _ < <("$program" "$@" $many)
  awk -v load="$1: $2 $3, depth $4" -v s="$s" -v i="$i" -v l="$l" -v t="$t" -v n="$((many - few))" -v a="$accesses" -v q="$interrupts" 'BEGIN {
    printf "%-30s %8.0f %10.0f %6.0f %6.0f %8.0f %10.2f %11.2f\n", load, s/n, i/n, l/n, t/n, (s+i+l+t)/n, a, q }'
  totals["$1 $2 $4"]=$((s + i + l + t))
  [ "$1 $3" != "open sequential" ] || [ $((s + i + l + t)) -le $((900 * (many - few))) ] || { echo "path-length.sh: $load: more than 900 instructions" >&2; bad=1; }
  [ "$1 $2" != "cqe read" ] || awk -v a="$accesses" 'BEGIN { exit a > 5.05 }' || { echo "path-length.sh: $load: $accesses accesses, more than 5.05" >&2; bad=1; }
done
# A task through the driver of the queue engine, without the engine of the stack: mapped, described and rung; acknowledged and unmapped.
r=$(instructions announce tasks) e=$(instructions end tasks)
read -r _ _ _ accesses _ < <("$program" tasks $many)
awk -v s="$r" -v i="$e" -v n="$((many - few))" -v a="$accesses" 'BEGIN {
  printf "%-30s %8.0f %10.0f %6s %6s %8.0f %10.2f %11.2f\n", "task, driver alone", s/n, i/n, "-", "-", (s+i)/n, a, 1 }'
# What is announced costs a request the same, however much it is: 1, 8 and 16, the most that are announced at a time.
for lane in cqe tasks; do
  for depth in 8 16; do
    awk -v lane=$lane -v depth=$depth -v one="${totals[$lane read 1]}" -v more="${totals[$lane read $depth]}" 'BEGIN {
      printf "%s, %d announced: %.3f of the instructions of one\n", lane, depth, more / one
      exit more / one > 1.05 }' || { echo "path-length.sh: $lane: more than 5 % above one task" >&2; bad=1; }
  done
done
[ "$wanted" != --lanes ] || exit $bad

cargo build --profile fat --quiet --locked -p mmcq --example type_a_length
cargo build --profile fat --quiet --locked -p mmcq-lab --example packet_length
program=${CARGO_TARGET_DIR:-target}/fat/examples/type_a_length
count=200
# chain WHO FUNCTIONS INTERRUPT: instructions a packet; where they are spent is left in $counts
chain() {
  valgrind --tool=callgrind --callgrind-out-file="$counts" --toggle-collect=type_a_length::counted "$program" "$@" $count 2>&1 |
    awk -v n=$count '/Collected/ { print $4 / n }'
}
# row LABEL ASYNC CALLBACKS ENGINE DIVISOR
row() {
  awk -v l="$1" -v a="$2" -v c="$3" -v e="$4" -v n="$5" 'BEGIN {
    printf "%-34s %8.0f %10.0f %8.0f %17.2f %14.2f\n", l, a/n, c/n, e/n, a/c, (a-e)/n }'
}
# parts N: instructions in $counts by source file, inlined code where it was written, divided by N
parts() {
  awk -v n="$1" '
    /^c?f[lie]=/ {
      id = $0; sub(/^c?f[lie]=/, "", id); name = id; sub(/\).*/, ")", id)
      if (sub(/^\([0-9]+\) /, "", name)) file[id] = name
      if ($0 !~ /^c/) at = file[id]
      next
    }
    /^calls=/ { skip = 1; next }
    /^[0-9+*-]/ {
      if (skip) { skip = 0; next }
      if (at ~ /mmcq-lab\/|mmcq-sim\//) part = "laboratory"
      else if (at ~ /mmcq\/src\/engine/) part = "engine"
      else if (at ~ /mmcq\/src\/task/) part = "task"
      else if (at ~ /mmcq\/src\/sdio/) part = "sdio"
      else if (at ~ /mmcq\/src/) part = "host+spec"
      else if (at ~ /examples/) part = "example"
      else if (at ~ /memcpy|memmove|memset|multiarch|\?\?\?/) part = "memcpy"
      else part = "core"
      sum[part] += $2
    }
    END { printf "%d %d %d %d %d %d %d", sum["engine"]/n, sum["task"]/n, sum["sdio"]/n, sum["host+spec"]/n, sum["example"]/n, sum["memcpy"]/n, sum["core"]/n }
  ' "$counts"
}
# sources WHO FUNCTIONS: the same of a packet
sources() {
  chain "$@" all >/dev/null
  parts $count
}
printf '\n%-34s %8s %10s %8s %17s %14s\n' 'Type-A packet' async callbacks engine async/callbacks async-engine
steps=("card interrupt" "INTx read" "interrupt register read" "cleared" "header" "payload" "acknowledged")
for at in "${!steps[@]}"; do
  row "${steps[at]}" "$(chain async 2 "$at")" "$(chain callbacks 2 "$at")" "$(chain engine 2 "$at")" 1
done
for functions in 2 1; do
  a=$(chain async $functions all) c=$(chain callbacks $functions all) e=$(chain engine $functions all)
  phases=$((functions + 4))
  row "packet, $phases steps" "$a" "$c" "$e" 1
  row "... a step" "$a" "$c" "$e" $phases
done
printf '\n%-34s %8s %8s %8s %10s %8s %8s %8s\n' 'by source, packet of 6 steps' engine task sdio host+spec example memcpy core
for who in async callbacks engine; do
  # shellcheck disable=SC2046
  printf '%-34s %8d %8d %8d %10d %8d %8d %8d\n' "$who" $(sources $who 2)
done
# What a real lock costs comes on top; a driver of callbacks takes it once in an interrupt.
read -r locks interrupts < <("$program" locks 2 all $count | awk '{ print $6, $4 }')
awk -v l="$locks" -v i="$interrupts" -v a="$(chain async 2 all)" -v c="$(chain callbacks 2 all)" 'BEGIN {
  printf "async takes the lock %.0f times a packet, callbacks %d times: 2.00 is reached where a lock costs %.1f instructions\n",
    l, i, (2*c - a) / (l - 2*i) }'

program=${CARGO_TARGET_DIR:-target}/fat/examples/packet_length
# The interrupt's work, without what the controller's model, the memory's shadows and the laboratory around them do.
collect=(--toggle-collect='mmcq_lab::sdio::ours::advance')
for function in 'mmcq_lab::sdio::host::Port::read' 'mmcq_lab::sdio::host::Port::write' \
  '<mmcq_sim::memory::ShadowMemory as mmcq::host::dma::Dma>::map' '<mmcq_sim::memory::ShadowMemory as mmcq::host::dma::Dma>::unmap'; do
  collect+=("--toggle-collect=$function")
done
# words: instructions in $counts of the loop that moves the words through the FIFO, which the boards' files count by the word
words() {
  awk '
    /^cfn=/ {
      id = $0; sub(/^cfn=/, "", id); name = id; sub(/\).*/, ")", id)
      if (sub(/^\([0-9]+\) /, "", name)) called[id] = name
      to = called[id]
      next
    }
    /^fn=/ {
      id = $0; sub(/^fn=/, "", id); name = id; sub(/\).*/, ")", id)
      if (sub(/^\([0-9]+\) /, "", name)) called[id] = name
      next
    }
    /^calls=/ { getline; if (to ~ /s3c_sdi::fifo::.*drain/) sum += $2 }
    END { print sum + 0 }
  ' "$counts"
}
# packet dma|cpu: instructions a packet by source, and of the words: the difference of two runs, so that bring-up does not count
packet() {
  local few many
  valgrind --tool=callgrind --callgrind-out-file="$counts" "${collect[@]}" "$program" "$1" 50 >/dev/null 2>&1
  few="$(parts 1) $(words)"
  valgrind --tool=callgrind --callgrind-out-file="$counts" "${collect[@]}" "$program" "$1" 150 >/dev/null 2>&1
  many="$(parts 1) $(words)"
  echo "$many $few" | awk '{
    for (i = 1; i <= 7; i++) { part[i] = ($i - $(i + 8)) / 100; total += part[i] }
    printf "%d", total
    for (i = 1; i <= 7; i++) printf " %d", part[i]
    printf " %d\n", ($8 - $16) / 100 }'
}
printf '\n%-34s %8s %8s %8s %8s %10s %8s %8s %8s %8s\n' 'packet on sdio-s3c24a0' total engine task sdio host+spec example memcpy core 'words'
read -ra dma < <(packet dma)
read -ra cpu < <(packet cpu)
printf '%-34s %8d %8d %8d %8d %10d %8d %8d %8d %8d\n' 'by DMA' "${dma[@]}" 'by the CPU' "${cpu[@]}"
# Six interrupts and five commands: half of a step is counted at each end, half at each start. The payload has 64 turns of the FIFO.
awk -v d="${dma[0]}" -v c="$((cpu[0] - cpu[8]))" 'BEGIN {
  printf "step_instructions %.0f (%.0f a packet by DMA: 6 ends, 5 starts), fifo_instructions %.0f (%.0f more by the CPU without the words, 64 turns)\n",
    d / 5.5, d, (c - d) / 64, c - d }'
exit $bad
