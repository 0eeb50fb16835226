# What a request of 4 KiB takes, at random and in sequence, alone and 32 at a time, for the table of the stacks side by side.
for what in randread read; do
  for depth in 1 32; do
    load $disk $what 4096 $depth 1 1024 all
  done
done
