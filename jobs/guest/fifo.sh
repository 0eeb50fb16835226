# The published job of the FIFO thread: 8 readers of 64 MiB each. 125 us of f2fs and decryption belong to the latency: the job sleeps 100, and its wake-up
# takes 25.
load $disk randread 4096 1 8 16384 all 1073741824 100000 || wrong "load"
