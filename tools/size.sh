#!/bin/bash
# size.sh [target ...]: measures the size of the core: links the images of boards/size (fat LTO,
# opt-level z, without unused sections), and prints the sizes of their sections and of the types in
# memory, in bytes. Without targets: thumbv7em-none-eabihf (also at opt-level s),
# thumbv6m-none-eabi, riscv32imac-unknown-none-elf and aarch64-unknown-none; the last two are left
# out if this machine cannot build for them. Then it runs no-panic.sh, unless NO_PANIC=skip.
# size.sh --table: prints the rows of docs/footprint.md with the measured figures, for that page.
#
# Fails if, at opt-level z, text and rodata of an image without the runtime have more bytes than its
# limit allows: LIMIT_READER, LIMIT_SD_READER, LIMIT_SPI_READER, LIMIT_TRANSFER, LIMIT_KEPT,
# LIMIT_DIRECT, LIMIT_DIRECT_SPI or LIMIT_BESIDE (other cores than ARMv7-M may have more, see `eighths`). Fails if 8 slots with their
# descriptor table take more than LIMIT_RAM (64-bit cores may take more). Fails if a figure of
# docs/footprint.md differs by more than a fiftieth.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/../boards/size"
say() { echo "size.sh: $*" >&2; }
page=$PWD/../../docs/footprint.md
rows=
if [ "${1:-}" = --table ]; then
  rows=yes
  NO_PANIC=skip
  set -- thumbv7em-none-eabihf
fi
# shellcheck source=bare-target.sh
. ../../tools/bare-target.sh
# What safe code must not be able to break costs code in each image: calls from inside a call are turned away, wakers are cloned and
# dropped outside of the lock, lent memory stays with its slot until a controller that hangs has been stopped. `kept` has the card's rest, its
# lock, the way back from a partition, the second tries of a mapping, what a supervisor leaves that is dropped in its work, the slot of
# one that comes late, and writes that are complete with their data as well. What is known of the runs of each direction, so that a transfer
# stays open where that pays, has 240 bytes in each engine, and 1.6 KB of code in that of a host that continues data.
# That one lost answer ends no bring-up costs 400 bytes, and a slot whose card is tried again 700 more in `kept`. That a handle and each
# conversation are for one card, and that each late error is heard, has 1.7 to 2 KB in an image that brings a card up.
# That SPI believes no shifted block, and no answer from a transfer that goes on, has 110 bytes; that late erases are waited for 260.
# That what a busy card told outlasts a lost answer, and a late erase under a silent controller, has 110 in `kept`.
# That the loop alone looks what is next and begins recovery costs 180 to 330: the entries that tell it keep their registers until then.
# That one flush serves all who wait has 900 bytes in `kept`, and 32 of memory (a bit for each of 256 clients); that what is owed to a card that has gone is told, 60; that cards of twelve more
# public reports come up and are written, 30 to 60, by SPI 260 (CMD59 again, busy after CMD55, a clock after CS), and 800 in `kept`.
# That the parts of the engine get what they read as arguments, and not the whole engine, has 230 to 350: several addresses go where one went.
# That the error of an automatic command is read before its bit is cleared has 90 with an SDHCI, and that an eMMC may refuse what is optional 100.
# That pieces of a long write have a status of their own, that a flush of an erase is no erase, that a lost CMD13 is asked again: 650 in `kept`.
# That an eMMC of 2 GB gets its block length, that a task is told of a card that goes, and that a later supervisor knows the card's mode: 130, in `kept` 370.
# That writes in pieces keep their order, their errors and their flush, and that CMD11's lines are judged late: 330 to 610, in `kept` 670.
# That a durable write is not sent again over a later request, that an interrupt which was acknowledged is not spurious, and that an
# incident whose request has gone is over: 240 to 310, in `kept` 850; 8 of memory.
# That a write whose status was lost fails where nothing is sent again: 50 to 60.
# That a status is lost only with a command, that an empty slot is no silent card, and that power-off waits for the supervisor: 70 to 170, in `kept` 200.
# That a request which continues an open transfer ends by the short path has 110 by SPI.
# That an empty slot tells of a card that comes, and that a loss is not the next card's, has 50 to 180.
limit_reader=${LIMIT_READER:-41490}
limit_sd_reader=${LIMIT_SD_READER:-35510}
limit_spi_reader=${LIMIT_SPI_READER:-37600}
limit_transfer=${LIMIT_TRANSFER:-26740}
limit_kept=${LIMIT_KEPT:-87380}
# Without a queue; the goals are 18000 and 14000 bytes of text with the runtime.
limit_direct=${LIMIT_DIRECT:-17000}
limit_direct_spi=${LIMIT_DIRECT_SPI:-16750}
limit_ram=${LIMIT_RAM:-3512}
# Another's, beside ours: that it is what it was.
limit_beside=${LIMIT_BESIDE:-4096}

# Bytes of the sections of an image whose names match a pattern.
section() {
  local bytes=0 size
  for size in $(readelf -SW "$1" | sed 's/^ *\[ *[0-9]*\]//' | awk -v want="$2" '$1 ~ want { print $5 }'); do
    bytes=$((bytes + 16#$size))
  done
  echo "$bytes"
}
# Bytes of code in an image that are the compiler's: copying and filling memory, division of 64 bits.
runtime() {
  local bytes=0 size
  local names='compiler_builtins|^__aeabi_|^mem(cpy|move|set|cmp)$|^__(u?(div|mod)|ashl|lshr|ashr)'
  # One function may have several names.
  for size in $(readelf -sW "$1" | awk -v names="$names" '$4 == "FUNC" && $8 ~ names { print $2 " " $3 }' |
    sort -u | awk '{ print $2 }'); do
    bytes=$((bytes + size))
  done
  echo "$bytes"
}
# A line of the text section that the image `ram` carries.
noted() { readelf -p .mmcq_sizes "$1" | sed -E 's/^ *\[ *[0-9a-f]+\] *//; s/\\n$//' | awk -v want="$2" '$1 == want { print $2 }'; }

# What docs/footprint.md has a row for: flash and RAM in bytes, or `-`.
declare -A flash_of=() ram_of=()
# The page's rows, each with the figures that were measured.
page_rows() {
  local line name
  while IFS= read -r line; do
    name=$(sed -nE 's/^\| `([a-z0-9_]+)` \|.*/\1/p' <<<"$line")
    [ -n "$name" ] && [ -n "${flash_of[$name]:-}" ] || { printf '%s\n' "$line"; continue; }
    sed -E "s/\| [0-9-]+ \| [0-9-]+ \|\$/| ${flash_of[$name]} | ${ram_of[$name]} |/" <<<"$line"
  done < <(grep '^|' "$page")
}
# Are the page's figures still right?
check_page() {
  local name row measured written
  for name in "${!flash_of[@]}"; do
    row=$(sed -nE "s/^\\| \`$name\` \\|.*\\| ([0-9-]+) \\| ([0-9-]+) \\|\$/\\1 \\2/p" "$page")
    [ -n "$row" ] || { say "docs/footprint.md has no row for $name"; bad=1; continue; }
    for measured in "${flash_of[$name]}:${row% *}" "${ram_of[$name]}:${row#* }"; do
      written=${measured#*:} measured=${measured%:*}
      if [ "$measured" = - ] || [ "$written" = - ]; then
        [ "$measured" = "$written" ] && continue
      elif [ $((measured * 50)) -le $((written * 51)) ] && [ $((measured * 50)) -ge $((written * 49)) ]; then
        continue
      fi
      say "docs/footprint.md: $name: $written, measured $measured; tools/size.sh --table prints the rows"
      bad=1
    done
  done
}

bad=0
targets=("$@")
optional=()
if [ ${#targets[@]} -eq 0 ]; then
  optional=(riscv32imac-unknown-none-elf aarch64-unknown-none)
  targets=(thumbv7em-none-eabihf thumbv6m-none-eabi "${optional[@]}")
fi
# Eighths of a limit for ARMv7-M's code that a target may have: its instructions say less, or are longer.
eighths() {
  case $1 in
    thumbv7*) echo 8 ;;
    thumbv6*) echo 9 ;;
    *) echo 10 ;;
  esac
}
row="%-30s %-4s %-9s %7s %8s %7s %9s\n"
ram_row="%-30s %8s %8s %8s %8s %8s %9s %6s\n"
images="" rams=""
for target in "${targets[@]}"; do
  if ! bare_target "$target" "-T$PWD/link.x"; then
    case " ${optional[*]} " in *" $target "*) say "$target is left out"; continue ;; esac
    exit 2
  fi
  profiles=(release)
  case $#:$target in 0:thumbv7em*) profiles+=(s) ;; esac
  for profile in "${profiles[@]}"; do
    bins=(--bin reader --bin sd_reader --bin spi_reader --bin transfer --bin kept --bin direct --bin direct_spi --bin beside)
    # The sizes of types are the same at all levels.
    [ "$profile" = s ] || bins+=(--bin ram)
    "${build[@]}" --profile "$profile" "${bins[@]}"
    folder=$built_in/$profile
    case $profile in release) opt=z ;; *) opt=$profile ;; esac
    for image in reader sd_reader spi_reader transfer kept direct direct_spi beside; do
      file=$folder/$image
      runtime=$(runtime "$file") text=$(section "$file" '^\.text') rodata=$(section "$file" '^\.rodata') data=$(section "$file" '^\.(data|bss)')
      # shellcheck disable=SC2059 # the format is ours
      images+=$(printf "$row" "$target" "$opt" "$image" "$text" "$runtime" "$rodata" "$data")$'\n'
      limit=limit_$image
      allowed=$((${!limit} * $(eighths "$target") / 8))
      own=$((text - runtime + rodata))
      case $target:$opt in thumbv7em*:z) flash_of[$image]=$((text + rodata)) ram_of[$image]=$data ;; esac
      if [ "$opt" = z ] && [ "$own" -gt "$allowed" ]; then
        say "$target: $image: text and rodata without the runtime have $own bytes, expected at most $allowed"
        bad=1
      fi
    done
  done
  file=$built_in/release/ram
  eight=$(noted "$file" shared8)
  table=$(noted "$file" table)
  # shellcheck disable=SC2059
  rams+=$(printf "$ram_row" "$target" "$(noted "$file" engine1)" "$(noted "$file" engine8)" \
    "$(noted "$file" engine32)" "$eight" "$(noted "$file" driver)" "$table" "$(noted "$file" bring_up)")$'\n'
  case $target in
    thumbv7em*)
      for type in engine1 engine8 engine32 table bring_up; do
        flash_of[$type]=- ram_of[$type]=$(noted "$file" "$type")
      done
      ;;
  esac
  # Pointers of 64 bits take more, and sets of slots are as wide.
  ram=$limit_ram
  case $target in aarch64*) ram=$((limit_ram * 5 / 4)) ;; esac
  if [ $((eight + table)) -gt "$ram" ]; then
    say "$target: 8 slots and the descriptor table have $((eight + table)) bytes, expected at most $ram"
    bad=1
  fi
done

if [ -n "$rows" ]; then
  page_rows
  exit $bad
fi
[ ${#flash_of[@]} -eq 0 ] || check_page

# shellcheck disable=SC2059
printf "$row" target opt image text runtime rodata data+bss
printf '%s\n' "$images"
# shellcheck disable=SC2059
printf "$ram_row" "memory of" engine1 engine8 engine32 shared8 driver table bring_up
printf '%s' "$rams"
cat <<'END'

reader: driver, queue, bring-up of SD and eMMC, read, write, flush; sd_reader: the same for SD alone;
spi_reader: that by SPI;
direct: sd_reader without a queue (mmcq::direct), by polling and blocking calls; direct_spi: that by SPI;
transfer: the reader without bring-up, it and the first three without the ladder of recovery (sched::Lean); kept: the reader with it, and with card::supervise; all with their board's few lines. runtime: the part of text that is the compiler's own (memcpy, 64-bit division),
which other code of a firmware shares. data+bss: 8 slots, table, one block, scratch. engineN: N slots with the
driver in it.
bring_up: the future, on the stack while a card is brought up.
END
if [ "${NO_PANIC:-}" != skip ]; then
  ../../tools/no-panic.sh || bad=1
fi
exit $bad
