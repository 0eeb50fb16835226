#!/bin/bash
# vfio.sh: tests `mmcq vfio`, which drives a PCI reader from Linux user space. In QEMU (q35, Intel's
# IOMMU) an unmodified kernel of Debian gives QEMU's sdhci-pci to vfio-pci. mmcq finds the card,
# writes and reads it, and serves it to NBD clients. Then this computer compares the card's image
# byte for byte. Every failure (no reader, a dead one, no card, the wrong driver, no permission and
# others) must give one line that names it. After a program is killed in the middle of a read, the
# reader must still work. A server whose card is removed must end. The test of open transfers must find
# that QEMU's SDHCI can keep none open.
#
# Needs qemu-system-x86_64, nbdcopy and nbdinfo, which tools/install-judges.sh installs, and the
# kernel, which tools/debian-kernel.sh fetches. MMCQ: path of the program; if it is not set, the
# script builds it. LINUX_TIMEOUT: seconds that the machine may run, 300 if it is not set.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "vfio.sh: $*" >&2; }
limit_s=${LINUX_TIMEOUT:-300}
for program in qemu-system-x86_64 nbdcopy nbdinfo; do
  command -v $program >/dev/null || { say "no $program; tools/install-judges.sh installs it"; exit 2; }
done
tools/debian-kernel.sh
store=$PWD/target/judges/linux
kernel=$(echo "$store"/boot/vmlinuz*)
busybox=$store/bin/busybox
if [ -z "${MMCQ:-}" ]; then
  cargo build -q --locked --release -p mmcq-lab --features full
  MMCQ=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/mmcq
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# What the guest begins with: busybox, programs with their libraries, and the modules in an order that satisfies them.
root=$work/root
mkdir -p "$root"/{bin,etc,modules,proc,sys,dev,tmp}
cp "$busybox" "$root/bin/busybox"
cp "$MMCQ" "$root/bin/mmcq"
cp "$(command -v nbdcopy)" "$(command -v nbdinfo)" "$root/bin/"
for program in "$MMCQ" nbdcopy nbdinfo; do
  for library in $(ldd "$(command -v "$program")" | grep -o '/[^ ]*'); do
    mkdir -p "$root${library%/*}"
    cp -Ln "$library" "$root$library"
  done
done
strip "$root/bin/mmcq" 2>/dev/null || true
for module in irqbypass vfio_virqfd vfio vfio_iommu_type1 vfio-pci-core vfio-pci; do
  file=$(find "$store/lib/modules" -name "$module.ko*" | head -1)
  case $file in
    # Newer kernels have it inside vfio.
    '') [ $module = vfio_virqfd ] || { say "the kernel's package has no module $module"; exit 2; } ;;
    *.xz) xz -dc "$file" >"$root/modules/$module.ko" ;;
    *) cp "$file" "$root/modules/$module.ko" ;;
  esac
  [ -z "$file" ] || echo $module >>"$root/modules/order"
done
echo 'root:x:0:0::/:/bin/sh' >"$root/etc/passwd"
echo 'nobody:x:65534:65534::/:/bin/sh' >>"$root/etc/passwd"
cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
for module in $(cat /modules/order); do insmod /modules/$module.ko; done
echo "kernel: $(uname -sr), IOMMU groups: $(ls /sys/kernel/iommu_groups | wc -l)"
. /job
echo "guest: the end"
poweroff -f
INIT
chmod +x "$root/init"

# The job: a line a step; what is not in order is a line that begins with "wrong:".
cat >"$root/job" <<'JOB'
reader=0000:00:04.0 empty=0000:00:05.0 sata=0000:00:1f.2 dead=0000:00:06.0
wrong() { echo "wrong: $*"; }
# does STEP COMMAND...: must succeed; what it prints comes out.
does() {
  step=$1; shift
  if "$@" >/tmp/out 2>&1; then sed "s/^/$step: /" /tmp/out; else wrong "$step: ended with $?: $(cat /tmp/out)"; fi
}
# refuses TEXT COMMAND...: must fail with one line that has the text in it.
refuses() {
  text=$1; shift
  "$@" >/tmp/out 2>&1; code=$?
  [ $code = 2 ] && [ $(wc -l </tmp/out) = 1 ] && grep -qF -- "$text" /tmp/out || wrong "expected code 2 and \"$text\", got $code: $(cat /tmp/out)"
  sed 's/^/refused: /' /tmp/out
}
# Binds a reader as the error says.
bind() {
  refuses "expected vfio-pci" mmcq vfio $1 info
  sed 's/.*as root: //' /tmp/out >/tmp/command
  (. /tmp/command) || wrong "the command of the error does not bind: $(cat /tmp/command)"
  echo "bound: $1 to $(basename $(readlink /sys/bus/pci/devices/$1/driver))"
}

refuses "not a PCI address" mmcq vfio 00:04 info
refuses "no such PCI device; SD host controllers: $reader, $empty" mmcq vfio 0000:00:09.0 info
refuses "class 0x010601, expected 0x0805xx" mmcq vfio $sata info
refuses "class 0x038000, expected 0x0805xx" mmcq vfio $dead info
# A controller that is dead reads all ones. QEMU has none, but a display adapter whose memory, where the registers would be, is filled with ones; and
# its class is covered by another.
echo 1 >/sys/bus/pci/devices/$dead/enable
base=$(($(head -n 1 /sys/bus/pci/devices/$dead/resource | cut -d' ' -f1)))
for at in $(seq 0 4 252); do devmem $((base + at)) 32 0xffffffff || wrong "devmem"; done
echo 0x080501 >/tmp/class
mount -o bind /tmp/class /sys/bus/pci/devices/$dead/class
bind $reader
bind $empty
bind $dead
refuses "all ones, expected a controller" mmcq vfio $dead info
refuses "all ones, expected a controller" mmcq vfio $dead --by-calls info
refuses "permission denied; as root: chown" su nobody -c "mmcq vfio $reader info"
refuses "no card in the slot" mmcq vfio $empty info
refuses "slot 3, expected 0 to 0" mmcq vfio $reader --slot 3 info
refuses "--quirk nosuch: unknown" mmcq vfio $reader --quirk nosuch info
does info mmcq vfio $reader info
refuses "give --write" mmcq vfio $reader write --lba 4096 /data
refuses "not all on the card, which has 131072" mmcq vfio $reader read --lba 131072 --blocks 1 /tmp/no
refuses "not all on the card, which has 131072" mmcq vfio $reader write --lba 131071 /data --write
refuses "blocks of 512 bytes at least" mmcq vfio $reader write --blocks 1000000 /data --write
refuses "expected whole blocks of 512 bytes" mmcq vfio $reader write /job --write
does write mmcq vfio $reader write --lba 4096 /data --write
blocks=$(($(wc -c </data) / 512))
for by in "" --by-calls; do
  does read mmcq vfio $reader $by read --lba 4096 --blocks $blocks /tmp/back
  cmp /data /tmp/back && echo "compared: what was read is what was written" || wrong "what was read is not what was written"
done
# QEMU's SDHCI can keep no transfer open. The test must find that in each way, also where the data are lost without an error.
mmcq --quiet vfio $reader stream-test --write --lba 4096 --blocks 2100 >/tmp/report 2>&1; code=$?
[ $code = 1 ] && [ $(grep -c "do not switch on" /tmp/report) = 3 ] || wrong "the test of open transfers ended with $code: $(cat /tmp/report)"
sed -n '/^stream-test/,$p' /tmp/report | sed 's/^/tested: /'
# Kills a program that reads the whole card, in the middle of it.
mmcq vfio $reader read /tmp/all >/tmp/victim 2>&1 &
victim=$!
n=0; while [ ! -s /tmp/all ] && [ ! -s /tmp/victim ] && [ $n -lt 200 ]; do n=$((n + 1)); usleep 100000; done
kill -9 $victim
wait $victim
[ $? = 137 ] && [ ! -s /tmp/victim ] && echo "killed: a program that was reading" || wrong "it was not killed while it read: $(cat /tmp/victim)"
rm /tmp/all
does again mmcq vfio $reader write --lba 4096 /data --write
mmcq vfio $reader serve --write --socket /tmp/card.sock >/tmp/served 2>&1 &
server=$!
n=0; while [ ! -s /tmp/served ] && [ $n -lt 60 ]; do n=$((n + 1)); sleep 1; done
sed 's/^/served: /' /tmp/served
refuses "another program has it" mmcq vfio $reader info
does nbdinfo nbdinfo --size 'nbd+unix:///card?socket=/tmp/card.sock'
does nbdcopy nbdcopy --flush /more 'nbd+unix:///card?socket=/tmp/card.sock'
nbdcopy 'nbd+unix:///card?socket=/tmp/card.sock' /tmp/card || wrong "nbdcopy cannot read the card"
echo "sum: $(sha256sum </tmp/card | cut -d' ' -f1)"
ticks() { cut -d' ' -f14,15 /proc/$server/stat | tr ' ' +; }
before=$(($(ticks))); sleep 4; spent=$(($(ticks) - before))
[ $spent -le 4 ] && echo "idle: $spent hundredths of a second of CPU in 4 seconds" || wrong "the idle server took $spent hundredths of a second of CPU in 4 seconds"
kill $server
wait $server && echo "served: to its end" || wrong "the server ended with $?: $(cat /tmp/served)"
rm /tmp/served
mmcq vfio $reader serve --socket /tmp/card.sock >/tmp/served 2>&1 &
server=$!
n=0; while [ ! -s /tmp/served ] && [ $n -lt 60 ]; do n=$((n + 1)); sleep 1; done
echo "host: take the card out"
wait $server; code=$?
[ $code = 1 ] && grep -q 'the card was taken out' /tmp/served || wrong "without its card the server ended with $code: $(cat /tmp/served)"
sed 's/^/taken out: /' /tmp/served
refuses "no card in the slot" mmcq vfio $reader info
JOB

# The card, of zeros at first, and what must be on it in the end: one file at block 4096 by `write`, another at 0 through NBD.
bytes() { # number of bytes
  head -c "$1" /dev/urandom
}
bytes 3000320 >"$root/data"
bytes 1048576 >"$root/more"
truncate -s 64M "$work/card.img" "$work/expected.img"
dd if="$root/more" of="$work/expected.img" conv=notrunc status=none
dd if="$root/data" of="$work/expected.img" bs=512 seek=4096 conv=notrunc status=none
(cd "$root" && find . | "$busybox" cpio -o -H newc 2>/dev/null) | gzip -1 >"$work/initrd"

# Takes the card out when the guest asks for it.
mkfifo "$work/monitor"
: >"$work/console"
(
  exec >"$work/monitor"
  until grep -q '^host: take' "$work/console"; do sleep 0.2; done
  echo "eject -f card"
  until grep -q '^guest:' "$work/console"; do sleep 0.2; done
) &
monitor=$!
trap 'kill $monitor 2>/dev/null || true; rm -rf "$work"' EXIT
# Without the check of the timer: on a busy machine it comes too late, and Linux gives up.
timeout "$limit_s" qemu-system-x86_64 -M q35 -accel tcg -m 768 -nodefaults -display none -no-reboot -device intel-iommu \
  -serial "file:$work/console" -kernel "$kernel" -initrd "$work/initrd" \
  -drive "if=none,id=card,format=raw,file=$work/card.img" -device sdhci-pci,addr=4.0 -device sd-card,drive=card \
  -device sdhci-pci,addr=5.0 -device bochs-display,addr=6.0 -append "console=ttyS0 quiet panic=-1 intel_iommu=on no_timer_check" -monitor stdio <"$work/monitor" >/dev/null ||
  { say "QEMU ended with $?"; cat "$work/console" >&2; exit 1; }
tr -d '\r' <"$work/console" | sed '/^\[/d' | tee "$work/said"
grep -qx 'guest: the end' "$work/said" || { say "the guest did not come to its end"; cat "$work/console" >&2; exit 1; }
! grep -q '^wrong:' "$work/said" || { say "something is wrong, see above"; exit 1; }
[ "$(sed -n 's/^sum: //p' "$work/said")" = "$(sha256sum <"$work/expected.img" | cut -d' ' -f1)" ] ||
  { say "the card that NBD clients saw is another"; exit 1; }
cmp "$work/card.img" "$work/expected.img" || { say "the card holds something else"; exit 1; }
echo "the card's image is what was written, byte for byte"
