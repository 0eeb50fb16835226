# Writes of 4 KiB that are on the medium when they end, one job and four: by O_DSYNC (fio's sync=dsync), and by fdatasync after each, as a data base does it.
for jobs in 1 4; do
  for what in randwrite:dsync write:dsync randwrite:fdatasync; do
    load $disk $what 4096 1 $jobs 400 all 1073741824 || wrong "load $what"
  done
done
