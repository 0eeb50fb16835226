# Linux pulls RST_n: mmc-utils lets the card look at it, the slot is taken off the bus and found again, and case 45 of mmc_test resets the card.
# For an eMMC on a board that has the line and is soldered to it: a copy of crates/mmcq-lab/platforms/intel-emmc.toml with fixed = true. Needs
# --initrd target/judges/guest/tools.initrd (tools/guest-tools.sh).
needs_linux "mmc-utils and mmc_test"
export LD_LIBRARY_PATH=/lib
function_is() { mmc extcsd read $disk | grep -q "RST_N_FUNCTION\]: $1" || wrong "RST_n_FUNCTION is not $1"; }
pulses() { cat /sys/module/slot/parameters/resets; }
slot=$(basename /sys/bus/pci/drivers/slot/0000:*)
function_is 0x00
mmc hwreset enable $disk >/tmp/said 2>&1 || wrong "mmc hwreset: $(cat /tmp/said)"
echo 1 >/sys/bus/pci/devices/$slot/remove
echo 1 >/sys/bus/pci/rescan
n=0; while ! [ -e $disk ] && [ $n -lt 60 ]; do n=$((n + 1)); sleep 1; done
[ -e $disk ] || wrong "the card is not found again"
function_is 0x01
card=$(basename /sys/class/mmc_host/mmc0/mmc0:*)
echo $card >/sys/bus/mmc/drivers/mmcblk/unbind
insmod /modules/mmc_test.ko || wrong "no module mmc_test"
before=$(pulses)
dmesg -c >/dev/null
echo 45 >/sys/kernel/debug/mmc0/$card/test
dmesg | grep -q 'Result: OK' || wrong "case 45: $(dmesg | tail -2)"
[ "$(pulses)" = $((before + 1)) ] || wrong "RST_n was pulled $before times before, and $(pulses) after"
echo "RST_n: pulled $(pulses) times, the last by case 45"
