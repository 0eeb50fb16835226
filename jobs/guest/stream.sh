# The load of the STREAM thread: one thread, requests of 4 KiB one after the other, in sequence; and at random, for comparison. The places read are those that
# were written.
for what in write read randread randwrite; do
  load $disk $what 4096 1 1 2048 all 1073741824 || wrong "load"
done
[ $driver = mmcq ] && dmesg | grep -E 'mmcq 0000.*lines' | sed 's/^\[[^]]*\] //' || grep -E 'clock|timing' /sys/kernel/debug/mmc0/ios
