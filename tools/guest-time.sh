#!/bin/bash
# guest-time.sh [--twice] [CARD...]: an unmodified Linux 6.1 of Debian's on the laboratory's controller and cards, in virtual time. Its own mmc_core, mmc_block and sdhci
# drive the model, without a queue and with its software queue (mmc_hsq). Prints a line of JSON for each cell; `mmcq reproduce never --original FILE`
# compares them with the laboratory's stand-ins and with mmcq.
#
# tools/guest-time/plugin.c puts the model (crates/mmcq-guest) into QEMU, in the place of its sdhci-pci, and moves it by the guest's clock (-icount: an instruction
# takes a nanosecond). A register read takes 150 ns, a write 40, an interrupt's way to the CPU 1500; waking a thread 20 us (wakeup.c): the laboratory's own
# priors, and nothing is fitted to these cells. load.c is the load. slot.c is the PCI driver: Debian's has four data lines there, and no software queue.
#
# The QEMU comes from tools/install-qemu11.sh, kernel and busybox from tools/debian-kernel.sh; the kernel's headers and its source (150 MB) are fetched once into
# target/judges/guest; gcc 12 and make build the modules. --twice: runs each machine two times; they must say the same, byte for byte. GUEST_TIMEOUT: seconds
# that a machine may run, 1200 without it. GUEST_LOG: a folder for the log of the bus of each machine.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "guest-time.sh: $*" >&2; }
twice=
[ "${1:-}" != --twice ] || { twice=1; shift; }
cards=("$@")
[ ${#cards[@]} -gt 0 ] || cards=(sdxc-128g-uhs emmc-hs200)
platform=generic
limit_s=${GUEST_TIMEOUT:-1200}
for program in gcc-12 make apt-get dpkg-deb taskset; do
  command -v $program >/dev/null || { say "no $program"; exit 2; }
done
tools/install-qemu11.sh
qemu=$PWD/target/judges/qemu11/qemu-system-x86_64
# The plugin knows the inside of one version.
made_for="QEMU emulator version 11.1.3 "
case "$("$qemu" --version | head -1) " in
  "$made_for"*) ;;
  *) say "$("$qemu" --version | head -1): the plugin is made for ${made_for#QEMU emulator }alone"; exit 2 ;;
esac
tools/debian-kernel.sh
linux=$PWD/target/judges/linux
release=$(basename "$linux"/boot/vmlinuz-*)
release=${release#vmlinuz-}
case $release in
  6.1.*) ;;
  *) say "Linux $release: the modules are made for 6.1 alone"; exit 2 ;;
esac

# The kernel's headers, and of its source drivers/mmc.
store=$PWD/target/judges/guest-linux
if [ "$(cat "$store/ready" 2>/dev/null)" != "$release" ]; then
  rm -rf "$store"
  mkdir -p "$store/debs"
  say "fetching headers and source of Linux $release"
  (cd "$store/debs" && apt-get download -q -o APT::Sandbox::User="$(id -un)" "linux-headers-$release" "linux-headers-${release%-*}-common" linux-kbuild-6.1 linux-source-6.1 >&2)
  for package in "$store"/debs/*.deb; do dpkg-deb -x "$package" "$store/unpacked"; done
  tar -xJf "$store"/unpacked/usr/src/linux-source-6.1.tar.xz -C "$store" linux-source-6.1/drivers/mmc
  # The headers name each other by the place where they would be installed.
  sed -i "s#include /usr/src/#include $store/unpacked/usr/src/#" "$store/unpacked/usr/src/linux-headers-$release/Makefile"
  rm -rf "$store/debs" "$store"/unpacked/usr/src/linux-source-6.1.tar.xz
  echo "$release" >"$store/ready"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Built by all cores, not as fast as can be.
CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 cargo build -q --locked --release -p mmcq-guest
library=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/libmmcq_guest.so
sources=tools/guest-time
gcc-12 -O2 -Wall -Wextra -Werror -shared -fPIC -Icrates/mmcq-guest/include -o "$work/plugin.so" $sources/plugin.c
mkdir "$work/modules"
cp $sources/{wakeup,slot}.c "$store"/linux-source-6.1/drivers/mmc/host/{mmc_hsq.c,mmc_hsq.h,sdhci.h} "$work/modules"
echo 'obj-m := wakeup.o mmc_hsq.o slot.o' >"$work/modules/Makefile"
make -C "$store/unpacked/usr/src/linux-headers-$release" M="$work/modules" modules >"$work/make" 2>&1 || { tail -30 "$work/make" >&2; say "the modules do not build"; exit 1; }

root=$work/root
mkdir -p "$root"/{bin,modules,proc,sys,dev}
cp "$linux/bin/busybox" "$root/bin/busybox"
gcc-12 -O2 -Wall -Wextra -Werror -static -o "$root/bin/load" $sources/load.c
for module in mmc_core mmc_block sdhci; do
  file=$(find "$linux/lib/modules/$release" -name "$module.ko*" | head -1)
  case $file in
    '') say "the kernel's package has no module $module"; exit 2 ;;
    *.xz) xz -dc "$file" >"$root/modules/$module.ko" ;;
    *) cp "$file" "$root/modules/$module.ko" ;;
  esac
done
cp "$work"/modules/*.ko "$root/modules/"
cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t debugfs debug /sys/kernel/debug
queue=0
case $(cat /proc/cmdline) in *setting=hsq-tag*) queue=1 ;; esac
for module in mmc_core mmc_block sdhci mmc_hsq; do insmod /modules/$module.ko; done
insmod /modules/slot.ko queue=$queue
n=0; while [ ! -e /dev/mmcblk0 ] && [ $n -lt 60 ]; do n=$((n + 1)); sleep 1; done
dmesg | grep -E 'new .* card at|Host Software Queue'; grep -E 'bus width|timing' /sys/kernel/debug/mmc0/ios
echo "$(uname -sr), scheduler $(cat /sys/block/mmcblk0/queue/scheduler)"
insmod /modules/wakeup.ko address=0x$(grep -i ' t try_to_wake_up$' /proc/kallsyms | cut -d' ' -f1) worker_ns=20000 job_ns=20000
for depth in 2 8 32; do
  for what in read write randread randwrite; do
    # As many as fill the card's cache before a quarter has moved.
    requests=3072
    [ $what != write ] || requests=12288
    load /dev/mmcblk0 $what 4096 $depth 1 $requests all || echo "load failed"
  done
done
[ "$(cat /sys/module/wakeup/parameters/missed)" = 0 ] || echo "load failed: wake-ups were not put off"
echo "end of job"
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | "$linux/bin/busybox" cpio -o -H newc 2>/dev/null) | gzip -1 >"$work/initrd"

# One machine, on one core, for the runs to be the same; what it says is in $work/NAME.
machine() { # name core card setting
  local name=$1 log= status=0
  [ -z "${GUEST_LOG:-}" ] || { mkdir -p "$GUEST_LOG"; log=,log=$(realpath "$GUEST_LOG")/$name.bus; }
  taskset -c "$2" timeout "$limit_s" "$qemu" -M q35 -accel tcg -icount shift=0,sleep=off,align=off -rtc clock=vm -smp 1 -m 384 -nodefaults -display none -no-reboot -S \
    -plugin "$work/plugin.so,lib=$library,platform=$platform,card=$3,read=150,write=40,irq=1500$log" -device sdhci-pci,id=slot \
    -serial "file:$work/$name.console" -kernel "$linux"/boot/vmlinuz* -initrd "$work/initrd" \
    -append "console=ttyS0 quiet panic=-1 no_timer_check mitigations=off cryptomgr.notests nokaslr setting=$4" </dev/null >"$work/$name.end" 2>&1 || status=$?
  tr -d '\r' <"$work/$name.console" >"$work/$name.said" || true
  if [ $status -ne 0 ] || ! grep -qx 'end of job' "$work/$name.said" || grep -q 'load failed' "$work/$name.said"; then
    say "$name: QEMU ended with $status"
    tail -20 "$work/$name.said" "$work/$name.end" >&2
    return 1
  fi
  [ "$4" != hsq-tag ] || grep -q 'Host Software Queue enabled' "$work/$name.said" || { say "$name: the queue is not on"; return 1; }
  sed -n "s/^{/{\"platform\": \"$platform\", \"card\": \"$3\", \"setting\": \"$4\", /p" "$work/$name.said" >"$work/$name.jsonl"
}

mapfile -t cores < <(taskset -cp $$ | sed 's/.*: //' | tr ',' '\n' | awk -F- '{ for (n = $1; n <= ($2 == "" ? $1 : $2); n++) print n }')
names=() plans=()
for card in "${cards[@]}"; do
  for setting in none hsq-tag; do
    for run in 1 ${twice:+2}; do
      names+=("$card.$setting.$run")
      plans+=("$card $setting")
    done
  done
done
# As many at a time as there are cores.
bad=0
for ((at = 0; at < ${#names[@]}; at += ${#cores[@]})); do
  pids=()
  for ((n = 0; n < ${#cores[@]} && at + n < ${#names[@]}; n++)); do
    read -r card setting <<<"${plans[at + n]}"
    say "${names[at + n]} on core ${cores[n]}"
    machine "${names[at + n]}" "${cores[n]}" "$card" "$setting" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || bad=1; done
done
[ $bad -eq 0 ] || exit 1
for name in "${names[@]}"; do
  say "$name: $(grep -h 'guest-time:' "$work/$name.end" | sed 's/guest-time: //')"
  case $name in
    *.1) cat "$work/$name.jsonl" ;;
    *) cmp "$work/${name%.2}.1.said" "$work/$name.said" >&2 && cmp "$work/${name%.2}.1.end" "$work/$name.end" >&2 || { say "${name%.2}: two runs are not the same"; bad=1; } ;;
  esac
done
exit $bad
