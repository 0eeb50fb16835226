#!/bin/bash
# path-length.sh: instructions and register accesses of a 4 KiB request through queue and SDHCI driver, counted by callgrind on this machine's
# instruction set. Needs valgrind. `submit` includes mapping, and starting the transfer where the queue was empty; `interrupt` acknowledges, starts the next
# transfer and completes; `take` fetches the completion.
# Then instructions of a received Bluetooth Type-A packet, interrupt by interrupt: the crate's driver (`async fn`), the same by callbacks, the engine alone; and
# where they are spent, by source. The lock there costs nothing, but is counted.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo "path-length.sh: needs valgrind (Debian package valgrind)" >&2; exit 1; }
CARGO_PROFILE_RELEASE_DEBUG=1 cargo build --release --quiet --locked -p mmcq --example path_length --example type_a_length
program=${CARGO_TARGET_DIR:-target}/release/examples/path_length
count=2000
# instructions FUNCTION ARGS...: collected inside that function only
instructions() {
  local function=$1
  shift
  valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect="path_length::$function" "$program" "$@" $count 2>&1 |
    awk '/Collected/ { print $4 }'
}
printf '%-22s %8s %10s %6s %8s %10s %11s\n' '4 KiB' submit interrupt take total accesses interrupts
for load in "read random 1" "write random 1" "read random 32" "write random 32" "read sequential 32" "write sequential 32"; do
  # shellcheck disable=SC2086
  set -- $load
  s=$(instructions submit "$@") i=$(instructions interrupt "$@") t=$(instructions take "$@")
  read -r _ requests _ accesses _ interrupts < <("$program" "$@" $count)
  awk -v load="$1 $2, depth $3" -v s="$s" -v i="$i" -v t="$t" -v n="$requests" -v a="$accesses" -v q="$interrupts" 'BEGIN {
    printf "%-22s %8.0f %10.0f %6.0f %8.0f %10.2f %11.2f\n", load, s/n, i/n, t/n, (s+i+t)/n, a, q }'
done

program=${CARGO_TARGET_DIR:-target}/release/examples/type_a_length
count=200
counts=$(mktemp)
trap 'rm -f "$counts"' EXIT
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
# sources WHO FUNCTIONS: instructions a packet by source file, inlined code where it was written
sources() {
  chain "$@" all >/dev/null
  awk -v n=$count '
    /^c?f[lie]=/ {
      id = $0; sub(/^c?f[lie]=/, "", id); name = id; sub(/\).*/, ")", id)
      if (sub(/^\([0-9]+\) /, "", name)) file[id] = name
      if ($0 !~ /^c/) at = file[id]
      next
    }
    /^calls=/ { skip = 1; next }
    /^[0-9+*-]/ {
      if (skip) { skip = 0; next }
      if (at ~ /mmcq\/src\/engine/) part = "engine"
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
