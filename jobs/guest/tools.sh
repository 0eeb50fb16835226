# Linux's own tools on an eMMC with everything: mmc-utils (EXT_CSD, RPMB, boot areas), ext4, f2fs, fstrim, blkdiscard. A line for each; the first
# thing that is not in order ends the machine. tools/guest-tools.sh builds what this begins with.
needs_linux "mmc extcsd and mmc bootpart"
export LD_LIBRARY_PATH=/lib
rpmb=/dev/mmcblk0rpmb
for module in $(cat /modules/tools/list); do insmod /modules/tools/$module.ko || wrong "no module $module"; done
[ -c $rpmb ] || mdev -s
[ -c $rpmb ] || wrong "no RPMB: $rpmb"
random() { dd if=/dev/urandom of=$1 bs=$2 count=$3 2>/dev/null; }
# A file is written to a device from a KiB on, and read back from the card.
there_and_back() { # file device KiB
  dd if=$1 of=$2 bs=1k seek=$3 conv=fsync,notrunc 2>/tmp/said || wrong "write to $2: $(cat /tmp/said)"
  echo 3 >/proc/sys/vm/drop_caches
  is_there $1 $2 $3
}
is_there() {
  dd if=$2 of=/tmp/back bs=1k skip=$3 count=$(($(stat -c %s $1) / 1024)) 2>/tmp/said || wrong "read of $2: $(cat /tmp/said)"
  cmp $1 /tmp/back || wrong "$2 at $3 KiB is not what was written"
}

extcsd=$(mmc extcsd read $disk) || wrong "mmc extcsd read"
echo "$extcsd" | grep -E 'Extended CSD rev|Cache Size|RPMB Size|Boot Size|HS_TIMING' | sed 's/^ */extcsd: /'
echo "$extcsd" | grep -q 'Extended CSD rev 1.8 (MMC 5.1)' || wrong "mmc extcsd: no eMMC 5.1"

# RPMB: the key once, the counter, a block, and nothing by another key.
random /tmp/key 32 1
random /tmp/other 32 1
random /tmp/block 256 1
counter() { mmc rpmb read-counter $rpmb | sed -n 's/^Counter value: //p'; }
mmc rpmb write-key $rpmb /tmp/key >/tmp/said 2>&1 || wrong "RPMB key: $(cat /tmp/said)"
[ "$(counter)" = 0x00000000 ] || wrong "RPMB counter: $(counter), expected 0"
mmc rpmb write-block $rpmb 0x02 /tmp/block /tmp/key >/tmp/said 2>&1 || wrong "RPMB write: $(cat /tmp/said)"
[ "$(counter)" = 0x00000001 ] || wrong "RPMB counter after a write: $(counter), expected 1"
mmc rpmb read-block $rpmb 0x02 1 /tmp/back /tmp/key >/tmp/said 2>&1 || wrong "RPMB read: $(cat /tmp/said)"
cmp /tmp/block /tmp/back || wrong "RPMB: what was read is not what was written"
cp /tmp/block /tmp/forged
! mmc rpmb write-block $rpmb 0x02 /tmp/forged /tmp/other >/tmp/said 2>&1 || wrong "RPMB: a write by another key is taken"
! mmc rpmb write-key $rpmb /tmp/other >/tmp/said 2>&1 || wrong "RPMB: a second key is taken"
[ "$(counter)" = 0x00000001 ] || wrong "RPMB counter after what was refused: $(counter), expected 1"
echo "rpmb: key, counter, write, read; another key and a second one are refused"

# Boot areas: their own contents, and which one boots.
random /tmp/user 64k 1
there_and_back /tmp/user $disk 1024
for area in boot0 boot1; do
  echo 0 >/sys/class/block/mmcblk0$area/force_ro
  random /tmp/$area 64k 1
  there_and_back /tmp/$area /dev/mmcblk0$area 256
done
is_there /tmp/boot0 /dev/mmcblk0boot0 256
is_there /tmp/user $disk 1024
mmc bootpart enable 1 1 $disk >/tmp/said 2>&1 || wrong "mmc bootpart: $(cat /tmp/said)"
mmc extcsd read $disk | grep -q 'PARTITION_CONFIG: 0x48' || wrong "the first boot area does not boot: $(mmc extcsd read $disk | grep PARTITION_CONFIG)"
echo "boot areas: two, written and read; the first is switched on"

# File systems of 512 MiB, with files of 8 MiB.
random /tmp/file 64k 128
files() { # name mount-option
  mount -t $1 -o $2 $disk /mnt || wrong "$1: mount"
  for n in 1 2 3; do cp /tmp/file /mnt/$n || wrong "$1: cp"; done
  sync
  umount /mnt && echo 3 >/proc/sys/vm/drop_caches
  mount -t $1 $disk /mnt || wrong "$1: mount again"
  for n in 1 2 3; do cmp /tmp/file /mnt/$n || wrong "$1: file $n is another"; done
  rm /mnt/2
  sync
  fstrim -v /mnt >/tmp/said 2>&1 || wrong "$1: fstrim: $(cat /tmp/said)"
  echo "$1: three files, $(cat /tmp/said)"
  cmp /tmp/file /mnt/3 || wrong "$1: fstrim took a file"
  umount /mnt || wrong "$1: umount"
}
mkdir -p /mnt
/bin/mke2fs -q -F -t ext4 $disk 512M >/tmp/said 2>&1 || wrong "mke2fs: $(cat /tmp/said)"
files ext4 discard
/bin/e2fsck -fn $disk >/tmp/said 2>&1 || wrong "e2fsck: $(tail -3 /tmp/said)"
/bin/mkfs.f2fs -q -f $disk $((512 * 2048)) >/tmp/said 2>&1 || wrong "mkfs.f2fs: $(cat /tmp/said)"
files f2fs discard
/bin/fsck.f2fs --dry-run $disk >/tmp/said 2>&1 || wrong "fsck.f2fs: $(tail -3 /tmp/said)"

# What is discarded goes, and its neighbours stay.
for place in 1024 1025 1026; do there_and_back /tmp/user $disk $((place * 1024)); done
blkdiscard -o $((1025 << 20)) -l $((1 << 20)) $disk || wrong "blkdiscard"
echo 3 >/proc/sys/vm/drop_caches
for place in 1024 1026; do is_there /tmp/user $disk $((place * 1024)); done
dd if=$disk of=/tmp/back bs=1k skip=$((1025 * 1024)) count=64 2>/dev/null
! cmp -s /tmp/user /tmp/back || wrong "what was discarded is still there"
echo "blkdiscard: a MiB goes, its neighbours stay"

# To idle and back, by the kernel's own test of devices: the card sleeps, and is initialised again.
echo 1 >/sys/module/suspend/parameters/pm_test_delay
echo devices >/sys/power/pm_test
dmesg -c >/dev/null
echo freeze >/sys/power/state || wrong "no suspend: $(dmesg | tail -1)"
dmesg | grep -q 'PM: suspend exit' || wrong "no end of the suspend: $(dmesg | tail -1)"
echo 3 >/proc/sys/vm/drop_caches
is_there /tmp/user $disk $((1026 * 1024))
there_and_back /tmp/file $disk 2048
echo "suspend to idle: the card is there again, with its data"
