# Linux's own tests of host and card, mmc_test: each case that its list has, or those of mmcq.cases=1,2,3 on the kernel's command line (`mmcq guest --append`), a line
# each: number, name, result, and the seconds of the guest that it took. They write to the card, and end with another one's driver on it.
needs_linux mmc_test
card=$(basename /sys/class/mmc_host/mmc0/mmc0:*)
echo $card >/sys/bus/mmc/drivers/mmcblk/unbind
insmod /modules/mmc_test.ko || wrong "no module mmc_test"
test=/sys/kernel/debug/mmc0/$card/test
[ -e $test ] || wrong "mmc_test has not taken the card"
cases=$(given cases '' | tr , ' ')
[ -n "$cases" ] || cases=$(sed -n 's/^\([1-9][0-9]*\):.*/\1/p' /sys/kernel/debug/mmc0/$card/testlist)
failed=0
for number in $cases; do
  dmesg -c >/dev/null
  begin=$(cut -d' ' -f1 /proc/uptime | tr -d .)
  echo $number >$test
  cs=$(($(cut -d' ' -f1 /proc/uptime | tr -d .) - begin))
  dmesg | sed 's/^\[[^]]*\] //' >/tmp/said
  name=$(sed -n 's/^mmc0: Test case [0-9]*\. \(.*\)\.\.\.$/\1/p' /tmp/said)
  result=$(sed -n 's/^mmc0: Result: //p' /tmp/said)
  echo "mmc_test $number, $name: ${result:-no result}, $((cs / 100)).$((cs / 10 % 10)) s"
  case $result in
    OK | UNSUPPORTED*) ;;
    *) failed=$((failed + 1)); sed 's/^/  /' /tmp/said ;;
  esac
done
echo "mmc_test: $failed failed"
