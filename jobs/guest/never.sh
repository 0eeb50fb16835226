# One submitter, depth 1 to 32. Writes: as many as fill the card's cache before a quarter has moved.
for depth in 1 2 4 8 16 32; do
  for what in read write randread randwrite; do
    requests=3072
    [ $what != write ] || requests=12288
    load $disk $what 4096 $depth 1 $requests all || wrong "load $what $depth"
  done
done
