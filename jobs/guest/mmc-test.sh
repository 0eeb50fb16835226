# Linux's own tests of host and card, mmc_test: all cases (or those of CASES), a line each. They write to the card, and end with another one's driver on it.
card=$(basename /sys/class/mmc_host/mmc0/mmc0:*)
echo $card >/sys/bus/mmc/drivers/mmcblk/unbind
insmod /modules/mmc_test.ko || wrong "no module mmc_test"
test=/sys/kernel/debug/mmc0/$card/test
[ -e $test ] || wrong "mmc_test has not taken the card"
failed=0
for number in ${CASES:-$(seq 1 52)}; do
  dmesg -c >/dev/null
  echo $number >$test
  dmesg | sed 's/^\[[^]]*\] //' >/tmp/said
  name=$(sed -n 's/^mmc0: Test case [0-9]*\. \(.*\)\.\.\.$/\1/p' /tmp/said)
  result=$(sed -n 's/^mmc0: Result: //p' /tmp/said)
  echo "mmc_test $number, $name: ${result:-no result}"
  case $result in
    OK | UNSUPPORTED*) ;;
    *) failed=$((failed + 1)); sed 's/^/  /' /tmp/said ;;
  esac
done
echo "mmc_test: $failed failed"
[ $failed = 0 ] || wrong "mmc_test: $failed cases failed"
