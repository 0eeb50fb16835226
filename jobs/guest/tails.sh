# A reader beside a writer (tools/guest-time/tails.c), with each of Linux's I/O schedulers: a writer past the page cache, eight writes of 64 KiB under way, and
# one that writes a file of ext4 through the page cache. tools/guest-tools.sh builds what this begins with. mmcq.ms=N on the kernel's command line: N ms of
# each; else eight seconds. mmcq.schedulers=none,bfq: only these.
export LD_LIBRARY_PATH=/lib
for module in $(cat /modules/tools/list); do insmod /modules/tools/$module.ko || wrong "no module $module"; done
insmod /modules/bfq.ko || wrong "no module bfq"
mkdir -p /mnt
queue=/sys/block/${disk#/dev/}/queue
/bin/mke2fs -q -F -t ext4 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 $disk 512M >/tmp/said 2>&1 || wrong "mke2fs: $(cat /tmp/said)"
mount -t ext4 $disk /mnt || wrong "mount"
for scheduler in $(given schedulers none,mq-deadline,bfq | tr , ' '); do
  echo $scheduler >$queue/scheduler || wrong "no scheduler $scheduler"
  for writer in direct /mnt/file; do
    sync
    echo 3 >/proc/sys/vm/drop_caches
    tails $disk $writer "$(given ms 8000)" >/tmp/said || wrong "tails: $scheduler, $writer"
    sed "s/^tails:/tails: scheduler $scheduler,/" /tmp/said
  done
done
