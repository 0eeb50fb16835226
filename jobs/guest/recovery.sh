# What a program feels while the schedule goes on (`mmcq guest --schedule`), and what the kernel says of it, each with the microsecond from the schedule's
# beginning: its log, without the registers, and its counters of errors, which the driver counts where it says nothing. mmcq.probe_ms=N on the kernel's command
# line: for so long, else as jobs/guest/recovery.list needs.
dmesg -c >/dev/null
stats=/sys/kernel/debug/mmc0/err_stats
(
  before=$(cat $stats)
  while sleep 0.05; do
    now=$(cat $stats)
    [ "$now" != "$before" ] || continue
    echo "$now" | while read -r line; do
      case $before in *"$line"*) ;; *) echo "<6>mmc0 counts:" $line >/dev/kmsg ;; esac
    done
    before=$now
  done
) &
probe "$(given probe_ms 36000)" || wrong "probe ended with $?"
kill $!
dmesg | awk -F'[][]' '{ text = $0; sub(/^\[[^]]*\] /, "", text) }
  /probe: begin/ { begin = $2; next }
  /mmc/ && !/mmc0: sdhci: / { printf "kernel: %d %s\n", ($2 - begin) * 1000000, text }'
