# A file system's load (tools/guest-time/files.c) on ext4 and f2fs of 512 MiB: many small files, made and read again, and a small database. tools/guest-tools.sh
# builds what this begins with.
export LD_LIBRARY_PATH=/lib
for module in $(cat /modules/tools/list); do insmod /modules/tools/$module.ko || wrong "no module $module"; done
mkdir -p /mnt
for system in ext4 f2fs; do
  case $system in
    ext4) /bin/mke2fs -q -F -t ext4 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 $disk 512M >/tmp/said 2>&1 ;;
    f2fs) /bin/mkfs.f2fs -q -f -t 0 $disk $((512 * 2048)) >/tmp/said 2>&1 ;;
  esac || wrong "$system: $(cat /tmp/said)"
  mount -t $system $disk /mnt || wrong "$system: mount"
  { mkdir /mnt/base /mnt/tree && files unpack /mnt/tree 2000; } >/tmp/said || wrong "$system: unpack"
  for jobs in 1 4; do
    umount /mnt && echo 3 >/proc/sys/vm/drop_caches && mount -t $system $disk /mnt || wrong "$system: mount again"
    files read /mnt/tree 2000 $jobs >>/tmp/said || wrong "$system: read"
  done
  files base /mnt/base 500 >>/tmp/said || wrong "$system: base"
  sed "s/^files:/files: $system,/" /tmp/said
  umount /mnt || wrong "$system: umount"
done
