# A disk of mmcq.ko on any controller: a file system is made, filled, looked at and read back; the controller is let go under load, and taken again, three
# times. tools/guest-tools.sh builds what this begins with. `mmcq guest jobs/guest/reader.sh --driver mmcq --platform stream-rtsx --initrd ... --wake-us 0`.
[ $driver = mmcq ] || wrong "unbind under load: for mmcq.ko"
export LD_LIBRARY_PATH=/lib
for module in $(cat /modules/tools/list); do insmod /modules/tools/$module.ko || wrong "no module $module"; done
mkdir -p /mnt
state=/sys/kernel/debug/mmcq/0
/bin/mke2fs -q -t ext4 -E nodiscard $disk 512M >/tmp/said 2>&1 || wrong "mke2fs: $(cat /tmp/said)"
mount -t ext4 $disk /mnt || wrong "mount"
dd if=/dev/urandom of=/tmp/data bs=64k count=64 2>/dev/null
sum=$(md5sum </tmp/data)
for n in 1 2 3 4; do cp /tmp/data /mnt/$n & done
wait
for n in $(seq 50); do echo $n >/mnt/small$n; done
sync
for bytes in 512 4096 1048576; do
  dd if=/tmp/data of=/mnt/direct$bytes bs=$bytes count=100 oflag=direct 2>/tmp/said || wrong "direct writes of $bytes: $(cat /tmp/said)"
done
mount -o remount,sync /mnt
dd if=/tmp/data of=/mnt/durable bs=4k count=16 2>/dev/null || wrong "durable writes"
umount /mnt
echo 3 >/proc/sys/vm/drop_caches
/bin/e2fsck -fn $disk >/tmp/said 2>&1 || { cat /tmp/said; wrong "fsck"; }
mount -t ext4 $disk /mnt || wrong "mount again"
for n in 1 2 3 4; do [ "$(md5sum </mnt/$n)" = "$sum" ] || wrong "file $n is another"; done
for bytes in 512 4096 1048576; do
  size=$(stat -c %s /mnt/direct$bytes)
  [ "$(head -c $size /tmp/data | md5sum)" = "$(md5sum </mnt/direct$bytes)" ] || wrong "direct writes of $bytes left others"
done
[ "$(cat /mnt/small50)" = 50 ] || wrong "a small file is another"
umount /mnt
echo "reader: ext4 is the same, fsck has nothing to say"
device=$(basename $(readlink -f /sys/block/${disk#/dev/}/device))
for round in 1 2 3; do
  dd if=$disk of=/dev/null bs=256k 2>/dev/null & dd if=/tmp/data of=$disk bs=64k seek=20000 conv=notrunc 2>/dev/null &
  usleep 20000
  echo $device >/sys/bus/pci/drivers/mmcq/unbind
  wait
  [ ! -e $disk ] || wrong "a disk without a controller"
  echo $device >/sys/bus/pci/drivers/mmcq/bind || wrong "it is not taken again"
  n=0; while [ ! -e $disk ] && [ $n -lt 100 ]; do n=$((n + 1)); usleep 100000; done
  [ -e $disk ] || wrong "no disk after it was taken again"
done
mount -t ext4 $disk /mnt || wrong "mount after the unbinds"
for n in 1 2 3 4; do [ "$(md5sum </mnt/$n)" = "$sum" ] || wrong "file $n is another after the unbinds"; done
umount /mnt
echo "reader: three times let go under load"
grep -E 'faults|lost_interrupts|recovery_steps' $state
! dmesg | grep -E 'BUG|WARNING|Oops|Call Trace' || wrong "the kernel complains"
