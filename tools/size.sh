#!/bin/bash
# size.sh [target ...]: how large the core is: links the images of boards/size (fat LTO, opt-level z and s,
# unused sections left out) and prints their sections and the memory that the types take, in bytes. Without
# targets: thumbv7em-none-eabihf and thumbv6m-none-eabi. Then runs no-panic.sh, unless NO_PANIC=skip.
#
# Fails if, at opt-level z, text and rodata without the runtime have more bytes than LIMIT_READER, LIMIT_KEPT or
# LIMIT_TRANSFER (an eighth more on ARMv6-M, whose code is that much larger), or 8 slots with their descriptor
# table more than LIMIT_RAM.
#
# A target's `core` comes from rustup. Where rustup cannot get it, Debian's rustc-web and rust-web-src build
# it from source; they are installed then.
set -euo pipefail
cd "$(dirname "$0")/../boards/size"
say() { echo "size.sh: $*" >&2; }
limit_reader=${LIMIT_READER:-40960}
limit_sd_reader=${LIMIT_SD_READER:-35328}
limit_transfer=${LIMIT_TRANSFER:-25088}
limit_kept=${LIMIT_KEPT:-58368}
limit_ram=${LIMIT_RAM:-4096}
sysroot=$(rustc --print sysroot)
machine=$(rustc -vV | sed -n 's/^host: //p')
lld=$sysroot/lib/rustlib/$machine/bin/rust-lld
output=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')

has() { compgen -G "$sysroot/lib/rustlib/$1/lib/libcore-*.rlib" >/dev/null; }

# Sets `build`, the command that builds for a target.
choose() {
  if ! has "$1" && command -v rustup >/dev/null; then
    say "$1: asking rustup for it"
    rustup target add "$1" >/dev/null 2>&1 || true
  fi
  export RUSTFLAGS="-Clink-arg=-T$PWD/link.x"
  build=(cargo build -q --locked --target "$1")
  has "$1" && return
  local debian=/usr/bin/rustc
  if ! dpkg -s rust-web-src >/dev/null 2>&1 && command -v apt-get >/dev/null; then
    say "$1: rustup has it not; installing Debian's compiler and the source of core"
    local as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get update -q >&2
    DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -q -y --no-install-recommends rustc-web rust-web-src >&2
  fi
  if [ ! -x "$debian" ] || [ ! -d "$("$debian" --print sysroot)/lib/rustlib/src/rust/library/core" ]; then
    say "$1: got neither by 'rustup target add $1' nor from Debian's compiler (apt-get install rustc-web rust-web-src)"
    exit 2
  fi
  say "$1: rustup has it not; $("$debian" --version) builds core from source"
  RUSTFLAGS="$RUSTFLAGS -Clinker=$lld"
  build=(env "RUSTC=$debian" RUSTC_BOOTSTRAP=1 cargo build -q -Zbuild-std=core --target "$1")
  build+=(--target-dir "$output/debian")
}

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
  local names='compiler_builtins|^__aeabi_|^mem(cpy|move|set|cmp)$|^__u?div'
  # One function may have several names.
  for size in $(readelf -sW "$1" | awk -v names="$names" '$4 == "FUNC" && $8 ~ names { print $2 " " $3 }' |
    sort -u | awk '{ print $2 }'); do
    bytes=$((bytes + size))
  done
  echo "$bytes"
}
# A line of the text section that the image `ram` carries.
noted() { readelf -p .mmcq_sizes "$1" | sed -E 's/^ *\[ *[0-9a-f]+\] *//; s/\\n$//' | awk -v want="$2" '$1 == want { print $2 }'; }

bad=0
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(thumbv7em-none-eabihf thumbv6m-none-eabi)
row="%-22s %-4s %-9s %7s %8s %7s %9s\n"
ram_row="%-22s %8s %8s %8s %8s %8s %9s %6s\n"
images="" rams=""
for target in "${targets[@]}"; do
  choose "$target"
  for profile in release s; do
    "${build[@]}" --profile "$profile" --bin reader --bin sd_reader --bin transfer --bin kept --bin ram
    folder=$output/$target/$profile
    case ${build[0]} in env) folder=$output/debian/$target/$profile ;; esac
    case $profile in release) opt=z ;; *) opt=$profile ;; esac
    for image in reader sd_reader transfer kept; do
      file=$folder/$image
      runtime=$(runtime "$file") text=$(section "$file" '^\.text') rodata=$(section "$file" '^\.rodata') data=$(section "$file" '^\.(data|bss)')
      # shellcheck disable=SC2059 # the format is ours
      images+=$(printf "$row" "$target" "$opt" "$image" "$text" "$runtime" "$rodata" "$data")$'\n'
      limit=limit_$image
      allowed=${!limit}
      case $target in thumbv6m*) allowed=$((allowed * 9 / 8)) ;; esac
      own=$((text - runtime + rodata))
      if [ "$opt" = z ] && [ "$own" -gt "$allowed" ]; then
        say "$target: $image: text and rodata without the runtime have $own bytes, expected at most $allowed"
        bad=1
      fi
    done
  done
  file=$folder/ram
  eight=$(noted "$file" shared8)
  table=$(noted "$file" table)
  # shellcheck disable=SC2059
  rams+=$(printf "$ram_row" "$target" "$(noted "$file" engine1)" "$(noted "$file" engine8)" \
    "$(noted "$file" engine32)" "$eight" "$(noted "$file" driver)" "$table" "$(noted "$file" bring_up)")$'\n'
  if [ $((eight + table)) -gt "$limit_ram" ]; then
    say "$target: 8 slots and the descriptor table have $((eight + table)) bytes, expected at most $limit_ram"
    bad=1
  fi
done

# shellcheck disable=SC2059
printf "$row" target opt image text runtime rodata data+bss
printf '%s\n' "$images"
# shellcheck disable=SC2059
printf "$ram_row" "memory of" engine1 engine8 engine32 shared8 driver table bring_up
printf '%s' "$rams"
cat <<'END'

reader: driver, queue, bring-up of SD and eMMC, read, write, flush; sd_reader: the same for SD alone;
transfer: the same without bring-up, all three without the ladder of recovery (sched::Lean); kept: the reader with it, and with card::keep; all with their board's few lines. runtime: the part of text that is the compiler's own (memcpy, 64-bit division),
which other code of a firmware shares. data+bss: 8 slots, table, one block, scratch. engineN: N slots with the
driver in it.
bring_up: the future, on the stack while a card is brought up.
END
if [ "${NO_PANIC:-}" != skip ]; then
  unset RUSTFLAGS
  ../../tools/no-panic.sh || bad=1
fi
exit $bad
