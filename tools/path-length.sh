#!/bin/bash
# path-length.sh: instructions and register accesses of a 4 KiB request through queue and SDHCI driver, counted by callgrind on this machine's
# instruction set. Needs valgrind. `submit` includes mapping, and starting the transfer where the queue was empty; `interrupt` acknowledges, starts the next
# transfer and completes; `take` fetches the completion.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo "path-length.sh: needs valgrind (Debian package valgrind)" >&2; exit 1; }
CARGO_PROFILE_RELEASE_DEBUG=1 cargo build --release --quiet --locked -p mmcq --example path_length
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
