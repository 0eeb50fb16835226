# Writes of 4 KiB, each with fdatasync, by one job, eight and 32; and plain ones, alone, 8 and 32 at a time: what a queue brings them.
for jobs in 1 8 32; do
  load $disk randwrite:fdatasync 4096 1 $jobs 100 all 1073741824
done
for depth in 1 8 32; do
  load $disk randwrite 4096 $depth 1 1024 all
done
