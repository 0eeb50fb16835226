# What a program feels while the schedule goes on (`mmcq guest --schedule`), and what the kernel says of it, each with the microsecond from the schedule's
# beginning. mmcq.probe_ms=N on the kernel's command line: for so long, else 6000 ms.
dmesg -c >/dev/null
probe "$(given probe_ms 6000)" || wrong "probe ended with $?"
dmesg | awk -F'[][]' '{ text = $0; sub(/^\[[^]]*\] /, "", text) }
  /probe: begin/ { begin = $2; next }
  { printf "kernel: %d %s\n", ($2 - begin) * 1000000, text }'
