# Linux's SDIO core and its driver of Bluetooth cards (btsdio) on the card bt-type-a: functions, driver, interrupts, 200 packets. tools/guest-tools.sh builds
# what this begins with. btsdio reads a packet's header into four bytes of its stack. This kernel's stacks are mapped memory, which has no address for
# DMA. So its reads work by the processor alone: mmcq.quirks=96 on the kernel's command line (neither ADMA nor SDMA).
dmesg -n 1
: >/tmp/packets
cat /sys/bus/sdio/devices/*/uevent | sed 's/^/function: /'
for module in $(cat /modules/tools/sdio); do
  # The last one is the driver.
  [ $module != btsdio ] || break
  insmod /modules/tools/$module.ko || wrong "no module $module"
done
packets 200 5 >/tmp/packets 2>&1 &
listener=$!
n=0; while ! grep -q listening /tmp/packets && [ $n -lt 50 ]; do n=$((n + 1)); sleep 0.1; done
interrupts() { awk '/mmc0/ { print $2 }' /proc/interrupts; }
before=$(interrupts)
dmesg -c >/dev/null
insmod /modules/tools/btsdio.ko || wrong "no module btsdio"
wait $listener || wrong "$(tail -1 /tmp/packets); $(dmesg | grep -m 1 -o 'ADMA error.*'); $(dmesg | grep -m 1 -o 'DMA 0x.*')"
echo "interrupts: $(($(interrupts) - before))"
echo "driver: $(basename $(readlink /sys/bus/sdio/devices/*:1/driver)), $(ls /sys/class/bluetooth)"
cat /tmp/packets
