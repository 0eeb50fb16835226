#!/bin/bash
# linux-queue.sh [--short] [CARD@PLATFORM@PCI-ID]...: an unmodified Linux of Debian, in a virtual
# machine, drives the command queue engine (CQHCI) of the controller model, with a card that has a
# command queue (`mmcq device`). The script checks for each card:
# - The kernel finds "CQHCI version 5.10", switches the card's queue on, and reports no problem.
# - Up to 32 reads and writes at a time, of 4 to 64 KiB, end out of order, and each read gives what
#   was written last. Meanwhile the card's cache is flushed, by the engine's slot 31 if the driver
#   uses that slot.
# - Meanwhile mmc-utils use RPMB, for which Linux halts the engine and switches the card's queue off
#   and on.
# - Linux suspends the controller and the card, and continues.
# - Faults strike the wires, the controller, the engine and the card (list below). No request fails,
#   each read is right, and Linux reports that it recovered the engine.
# - The card's supply is cut. The flushed data are there afterwards.
# The model counts what the driver does against the standard: that number must be 0. --short leaves
# out RPMB, suspend, faults and the cut.
#
# The newer QEMU comes from tools/install-qemu11.sh, kernel and busybox from tools/debian-kernel.sh,
# mmc-utils from tools/guest-tools.sh; cc builds tools/guest-queue/verify.c. LINUX_TIMEOUT: seconds
# that a machine may run, 600 if it is not set. MMCQ: path of a built program. KEEP: folder for
# consoles and bus logs.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "linux-queue.sh: $*" >&2; }
short=
[ "${1:-}" != --short ] || { short=1; shift; }
limit_s=${LINUX_TIMEOUT:-600}
store=$PWD/target/judges/linux tools=$PWD/target/judges/guest-tools/unpacked
what=("$@")
# With and without direct command; both sizes of descriptors; units, orders and times of the card; a slow timer. A short run boots the one with most of it.
if [ ${#what[@]} -eq 0 ]; then
  what=(emmc-queue@intel-jsl@8086:4dc4)
  [ -n "$short" ] || what+=(emmc-queue-slow@intel-glk@8086:31cc emmc-queue-fast@intel-jsl-32@8086:4dc4 emmc-queue-one@queue-24mhz@8086:4dc4)
fi
command -v cc >/dev/null || { say "no C compiler (cc)"; exit 2; }
tools/install-qemu11.sh
qemu=$PWD/target/judges/qemu11/qemu-system-x86_64
tools/debian-kernel.sh
[ -n "$short" ] || { tools/guest-parts.sh && tools/guest-tools.sh; }
if [ -z "${MMCQ:-}" ]; then
  cargo build -q --locked --release -p mmcq-lab --features full
  MMCQ=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/mmcq
fi

work=$(mktemp -d)
server= machine=
finish() {
  [ -z "$machine" ] || kill "$machine" 2>/dev/null || true
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT

root=$work/root
mkdir -p "$root"/{bin,lib,lib64,modules,proc,sys,dev,tmp}
cp "$store/bin/busybox" "$root/bin/busybox"
cc -O2 -Wall -Wextra -Werror -static -o "$root/bin/verify" tools/guest-queue/verify.c
if [ -z "$short" ]; then
  cp "$tools/usr/bin/mmc" "$root/bin/"
  cp -L "$(find -L "$tools" -name libc.so.6 | head -1)" "$root/lib/"
  cp -L "$(find -L "$tools" -name ld-linux-x86-64.so.2 | head -1)" "$root/lib64/"
fi
modules=(mmc_core mmc_block cqhci sdhci sdhci-pci)
for module in "${modules[@]}"; do
  file=$(find "$store/lib/modules" -name "$module.ko*" | head -1)
  case $file in
    '') say "the kernel's package has no module $module"; exit 1 ;;
    *.xz) xz -dc "$file" >"$root/modules/$module.ko" ;;
    *.zst) zstd -dcq "$file" >"$root/modules/$module.ko" ;;
    *) cp "$file" "$root/modules/$module.ko" ;;
  esac
done
cat >"$root/init" <<INIT
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t debugfs debug /sys/kernel/debug; mount -t tmpfs tmp /tmp
for module in ${modules[*]}; do insmod /modules/\$module.ko; done
n=0; while [ ! -e /dev/mmcblk0 ] && [ \$n -lt 60 ]; do n=\$((n + 1)); sleep 1; done
short=$short
. /job
poweroff -f
INIT
chmod +x "$root/init"
# What is not in order is a line that begins with "wrong:"; "now: WORD" asks the machine outside for something.
cat >"$root/job" <<'JOB'
export LD_LIBRARY_PATH=/lib
disk=/dev/mmcblk0 rpmb=/dev/mmcblk0rpmb
uname -sr | sed 's/^/kernel: /'
# What the kernel says, and its complaints (levels 0 to 4) if there should be none.
told() { # name quiet|loud
  dmesg -r -c | grep -E '^<[0-9]+>.*(mmc|cqhci|sdhci)' >/tmp/kernel
  # Without what the registers hold.
  grep -vE ': +0x| =====' /tmp/kernel | sed "s/^/$1: /"
  [ "$2" = loud ] || grep -E '^<[0-4]>' /tmp/kernel | sed "s/^/wrong: kernel, $1: /"
}
verify() { # name depth requests mode
  /bin/verify $disk $2 $3 /tmp/state $4 >/tmp/$1 2>&1 || echo "wrong: $1: verify ended with $?"
  sed "s/^/$1: /" /tmp/$1
}
sed 's/^/ios /' /sys/kernel/debug/mmc0/ios | grep -E 'clock|width|timing'
[ "$(cat /sys/class/mmc_host/mmc0/mmc0:0001/cmdq_en)" = 1 ] || echo "wrong: the card's queue is off"
verify depth-1 1 300 mixed
verify depth-32 32 3000 mixed
told start quiet
if [ -z "$short" ]; then
  mdev -s
  dd if=/dev/urandom of=/tmp/key bs=32 count=1 2>/dev/null
  dd if=/dev/urandom of=/tmp/block bs=256 count=1 2>/dev/null
  verify rpmb-beside 32 100000000 mixed &
  mmc rpmb write-key $rpmb /tmp/key >/tmp/said 2>&1 || echo "wrong: RPMB key: $(cat /tmp/said)"
  for n in 1 2 3; do
    mmc rpmb write-block $rpmb 0x0$n /tmp/block /tmp/key >/tmp/said 2>&1 || echo "wrong: RPMB write: $(cat /tmp/said)"
    mmc rpmb read-block $rpmb 0x0$n 1 /tmp/back$n /tmp/key >/tmp/said 2>&1 || echo "wrong: RPMB read: $(cat /tmp/said)"
    cmp /tmp/block /tmp/back$n || echo "wrong: RPMB block $n"
    sleep 0.3
  done
  touch /tmp/stop; wait; rm /tmp/stop
  echo "RPMB counter: $(mmc rpmb read-counter $rpmb | sed -n 's/^Counter value: //p')"
  told rpmb quiet

  # Suspend to idle, with the kernel's own test: all devices sleep for five seconds.
  echo devices >/sys/power/pm_test
  echo freeze >/sys/power/state || echo "wrong: no suspend"
  dmesg | grep -q 'PM: suspend exit' || echo "wrong: no end of the suspend"
  verify after-suspend 32 1000 mixed
  [ "$(cat /sys/class/mmc_host/mmc0/mmc0:0001/cmdq_en)" = 1 ] || echo "wrong: the card's queue is off after the suspend"
  told suspend quiet

  # Seconds until Linux gives up a task, a minute otherwise.
  echo 3000 >/sys/block/mmcblk0/queue/io_timeout
  verify faults 32 100000000 mixed &
  sleep 1
  echo "now: faults"
  sleep 32
  touch /tmp/stop; wait; rm /tmp/stop
  told faults loud
  verify after-faults 32 1000 read
  told after-faults quiet
  verify cut 32 100000000 read &
  sleep 1
  echo "now: cut"
  sleep 8
  touch /tmp/stop; wait; rm /tmp/stop
  told cut loud
  verify after-cut 32 2000 mixed
  told after-cut quiet
fi
echo "end of job"
JOB
(cd "$root" && find . | "$store/bin/busybox" cpio -o -H newc 2>/dev/null) | gzip -1 >"$work/initrd"

# In milliseconds from the kernel's word on.
cat >"$work/faults" <<'LIST'
500   rd_crc       # a wrong checksum of a block that is read
1500  wr_crc       # of one that is written
2500  resp_crc     # of a response: CMD13, 44, 45, 46 or 47
3500  cmd_lost     # a command that the card never sees
4500  resp_lost    # a response that never comes
5500  rd_end       # an end bit
7000  rd_lost      # a block that never comes
11000 adma_err     # a descriptor that cannot be fetched
12500 task_unanswered  # CMD44 without an answer
13500 task_ready_falls # a task that is shown as ready, and is not
14500 discard_refused  # CMD48 is refused in the recovery from the next
14600 resp_crc
15500 queue_stale      # completions of tasks that were cleared in the recovery from the next
15600 resp_crc
16500 blame_missing    # the next error names no task
16600 resp_crc
17500 halt_late        # the halt of the next recovery takes 400 ms
17600 resp_crc
19000 red_late         # an error of a task that is complete
20000 task_never_ready
25000 doorbell_lost
LIST
failed=0
wrong() { say "$item: $*"; failed=1; }
waits_for() { # line: until the console has it, or the machine has ended
  while kill -0 "$machine" 2>/dev/null; do
    ! tr -d '\r' <"$work/console" 2>/dev/null | grep -qx "$1" || return 0
    sleep 0.2
  done
  return 1
}

for item in "${what[@]}"; do
  echo "== $item"
  IFS=@ read -r card platform id <<<"$item"
  socket=$work/socket held=() faults=$work/faults
  # Without the direct command a flush of Linux 6.1 waits, in the block layer's own call, for all tasks; until it returns the block layer gives up none of them.
  # So what only that time limit ends is not for this driver. Nor is a late halt: it halts the engine for each flush, and waits 100 us for that.
  if [ "$id" = 8086:31cc ]; then
    faults=$work/faults-of-glk
    grep -vE ' (rd_lost|task_never_ready|doorbell_lost|halt_late) ?' "$work/faults" >"$faults"
  fi
  [ -n "$short" ] || held=(--schedule "$faults" --hold)
  : >"$work/console"
  "$MMCQ" device --card "$card" --platform "$platform" --pci-id "$id" "${held[@]}" --socket "$socket" --log "$work/bus.log" >"$work/device" 2>&1 &
  server=$!
  # A program that is built first may take its time.
  for _ in $(seq 3000); do
    { [ ! -S "$socket" ] && kill -0 "$server" 2>/dev/null; } || break
    sleep 0.1
  done
  [ -S "$socket" ] || { wrong "mmcq device: $(cat "$work/device")"; continue; }
  timeout "$limit_s" "$qemu" -M q35,memory-backend=ram -object memory-backend-memfd,id=ram,size=384M,share=on -accel tcg -nodefaults -display none \
    -no-reboot -serial "file:$work/console" -kernel "$store"/boot/vmlinuz* -initrd "$work/initrd" -append "console=ttyS0 quiet panic=-1 no_timer_check" \
    -device '{"driver":"vfio-user-pci","socket":{"type":"unix","path":"'"$socket"'"},"x-msg-timeout":60000,"x-no-posted-writes":true}' </dev/null &
  machine=$!
  if [ -z "$short" ]; then
    ! waits_for 'now: faults' || kill -HUP "$server"
    ! waits_for 'now: cut' || kill -USR1 "$server"
  fi
  status=0
  wait "$machine" || status=$?
  machine=
  [ $status -eq 0 ] || wrong "QEMU ended with $status"
  timeout 20 tail --pid="$server" -f /dev/null || kill "$server"
  wait "$server" || wrong "mmcq device ended with $?"
  server=
  tr -d '\r' <"$work/console" >"$work/said"
  if [ -n "${KEEP:-}" ]; then
    mkdir -p "$KEEP"
    cp "$work/console" "$KEEP/${item//\//-}.console"
    cp "$work/bus.log" "$KEEP/${item//\//-}.bus"
  fi
  grep -v '^\[' "$work/said" | sed 's/^/  /'
  sed 's/^/  mmcq device: /' "$work/device"
  grep -qx 'end of job' "$work/said" || wrong "the job did not come to its end"
  ! grep -qE '^wrong:' "$work/said" || wrong "Linux found something wrong"
  grep -q '; 0 violations by the driver; 0 accesses to no memory' "$work/device" || wrong "the model found something wrong"
  for line in 'CQHCI version 5.10' 'Command Queue Engine enabled'; do
    grep -q "^start: .*$line" "$work/said" || wrong "the kernel does not say: $line"
  done
  # A card that has one task ready at a time ends them in order.
  [ "$card" = emmc-queue-one ] || grep -qE '^depth-32: .* [1-9][0-9]* ended out of order' "$work/said" || wrong "all ended in order"
  # FLUSH_CACHE is written by a CMD6. The driver's own ends with Command Complete, the engine's with bit 14 of the status.
  read -r by_slot by_driver < <(awk '/^Command \{ index: 6, arg: 52429057,/ { flush = 1 }
    flush && /^Interrupt/ { slot += $6 == 16384; own += $6 % 4 == 1; flush = 0 } END { print slot + 0, own + 0 }' "$work/bus.log")
  echo "  flushes: $by_slot by the engine's slot 31, $by_driver by the driver's own command"
  case $id in
    8086:31cc) [ "$by_slot" -eq 0 ] && [ "$by_driver" -gt 0 ] || wrong "flushes by slot 31, or none" ;;
    *) [ "$by_slot" -gt 0 ] || wrong "no flush by slot 31" ;;
  esac
  if [ -z "$short" ]; then
    # Each takes one. Four lines of the list are of the recovery from the next; and a ready bit that falls is not seen where it has fallen before the lines are free.
    recovered=$(grep -c '^faults: .*running CQE recovery' "$work/said" || true) wanted=$(($(wc -l <"$faults") - 5))
    [ "$recovered" -ge "$wanted" ] || wrong "$recovered recoveries, expected $wanted"
    [ "$id" = 8086:31cc ] || grep -q '^faults: .*cqhci: timeout for tag' "$work/said" || wrong "no task has timed out"
    grep -q '^cut: .*running CQE recovery' "$work/said" || wrong "the cut was not noticed"
    grep -qx 'RPMB counter: 0x00000003' "$work/said" || wrong "RPMB"
  fi
done
[ $failed -eq 0 ] && echo "Linux drives the queue engine"
exit $failed
