# Linux's own driver of DesignWare's controller: files go to the card and come back the same, in pieces of many sizes, and its interrupt is counted.
grep -q 'dw-mci' /proc/interrupts || wrong "no interrupt of dw-mci: $(cat /proc/interrupts)"
before=$(sed -n 's/^ *[0-9]*: *\([0-9]*\) .*dw-mci.*/\1/p' /proc/interrupts)
dmesg | grep -E 'dw_?mmc|dwmmc' | sed 's/^\[[^]]*\] //'
dd if=/dev/urandom of=/tmp/file bs=64k count=128 2>/dev/null
for piece in 512 4096 65536 1048576; do
  count=$((8388608 / piece))
  [ $count -le 256 ] || count=256
  dd if=/tmp/file of=$disk bs=$piece count=$count seek=$((16777216 / piece)) oflag=direct 2>/tmp/said || wrong "write by $piece: $(cat /tmp/said)"
  dd if=$disk of=/tmp/back bs=$piece count=$count skip=$((16777216 / piece)) iflag=direct 2>/tmp/said || wrong "read by $piece: $(cat /tmp/said)"
  dd if=/tmp/file of=/tmp/part bs=$piece count=$count 2>/dev/null
  cmp /tmp/part /tmp/back || wrong "by $piece: what was read is not what was written"
  echo "designware: $((count * piece)) bytes by $piece are the same"
done
after=$(sed -n 's/^ *[0-9]*: *\([0-9]*\) .*dw-mci.*/\1/p' /proc/interrupts)
[ "$after" -gt $((before + 500)) ] || wrong "interrupts of dw-mci: $before before, $after after"
echo "designware: interrupts are counted"
dmesg | sed "s/^\[[^]]*\] //" | grep -iE "^(mmc0|dwmmc|mmcblk|blk).*(error|timeout|busy|fail)" >/tmp/said && wrong "Linux complains: $(head -1 /tmp/said)"
load $disk randread 4096 1 20 200 all || wrong "load"
load $disk write 4096 8 1 3072 all || wrong "load"
