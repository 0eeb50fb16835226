# Whether two runs are the same: some of each kind.
load $disk randread 4096 1 20 200 all || wrong "load"
load $disk write 4096 8 1 3072 all || wrong "load"
