# What a random read of 4 KiB takes, alone, 8 and 32 at a time, for the table of the queues side by side.
for depth in 1 8 32; do
  load $disk randread 4096 $depth 1 1024 all
done
