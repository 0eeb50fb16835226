# What a program feels while the schedule goes on (`mmcq guest --schedule`), and what the kernel says of it, each with the microsecond from the schedule's
# beginning: its log, without the registers, and its counters of errors, which the driver counts where it says nothing. mmcq.probe_ms=N on the kernel's command
# line: for so long, else as jobs/guest/recovery.list needs.
dmesg -c >/dev/null
stats=/sys/kernel/debug/mmc0/err_stats name=mmc0
[ $driver = linux ] || stats=/sys/kernel/debug/mmcq/0 name=mmcq
counts() { # of requests and commands that went well nothing is said
  grep -vE '^(requests|transfers|merged|commands|interrupts) ' $stats
}
(
  before=$(counts)
  while sleep 0.05; do
    now=$(counts)
    [ "$now" != "$before" ] || continue
    echo "$now" | while read -r line; do
      case $before in *"$line"*) ;; *) echo "<6>$name counts:" $line >/dev/kmsg ;; esac
    done
    before=$now
  done
) &
disks=${disk#/dev/}
probe "$(given probe_ms 36000)" ${disks%0} || wrong "probe ended with $?"
kill $!
dmesg | awk -F'[][]' '{ text = $0; sub(/^\[[^]]*\] /, "", text) }
  /probe: begin/ { begin = $2; next }
  /mmc/ && !/mmc0: sdhci: / { printf "kernel: %d %s\n", ($2 - begin) * 1000000, text }'
