# The published jobs of the HSQ thread, 20 of them in one GiB, a share of each; job file for the laboratory: jobs/hsq.fio.
for what in read randread write randwrite; do
  load $disk $what 4096 1 20 1024 all 1073741824 || wrong "load $what"
done
# One job, one request.
for what in randread randwrite; do
  load $disk $what 4096 1 1 2048 all 1073741824 || wrong "load $what"
done
