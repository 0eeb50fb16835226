# A trace of Linux's own block layer: ext4 is made, filled, synchronised, read and trimmed by Linux itself, and Debian's blktrace records what is
# queued and completed. The trace comes out as base64 between two marks, packed by gzip; tools/guest-time.sh blktrace writes it to a file.
export LD_LIBRARY_PATH=/lib
for module in $(cat /modules/tools/list); do insmod /modules/tools/$module.ko || wrong "no module $module"; done
mkdir -p /mnt
/bin/mke2fs -q -F -t ext4 $disk 256M >/tmp/said 2>&1 || wrong "mke2fs: $(cat /tmp/said)"
sync
blktrace -d $disk -a queue -a complete -o - >/tmp/trace 2>/tmp/said &
tracer=$!
sleep 1
mount -t ext4 -o discard $disk /mnt || wrong "mount"
# Files of a camera: a MiB each, one after the other.
for n in 1 2 3 4; do dd if=/dev/urandom of=/mnt/photo$n bs=64k count=16 2>/dev/null; done
sync
# A data base: small records, each on the card before the next.
for n in $(seq 1 60); do
  dd if=/dev/urandom of=/mnt/records bs=4k count=1 seek=$((n * 7 % 64)) conv=notrunc,fsync 2>/dev/null
done
# Small files, unpacked and gone again.
mkdir /mnt/many
for n in $(seq 1 120); do head -c $((n % 9 * 1500 + 100)) /dev/urandom >/mnt/many/$n; done
sync
echo 3 >/proc/sys/vm/drop_caches
for n in 4 2 1 3; do cat /mnt/photo$n; done >/dev/null
cat /mnt/many/* >/dev/null
rm -r /mnt/many /mnt/photo2
sync
umount /mnt
sleep 1
kill -INT $tracer
wait $tracer
[ -s /tmp/trace ] || wrong "no trace: $(cat /tmp/said)"
echo "trace: $(stat -c %s /tmp/trace) bytes"
echo "trace: begin"
gzip -9 -c /tmp/trace | base64
echo "trace: end"
