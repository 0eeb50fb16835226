#!/bin/bash
# core.sh: builds the stack as one relocatable object for a kernel, OUT/core.o_shipped, and checks what a module's loader and a kernel's thread would
# object to: relocations, floating point, names that the kernel does not have, stack frames. `make core` calls it.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
say() { echo "linux/core.sh: $*" >&2; }
for program in cargo rustc ld ar nm readelf objdump awk; do
  command -v $program >/dev/null || { say "no $program"; exit 2; }
done
source=$(rustc --print sysroot)/lib/rustlib/src/rust/library/core
[ -d "$source" ] || { say "the library \`core\` is built with the kernel's options, and its source is missing: rustup component add rust-src"; exit 2; }
mkdir -p "$OUT"
# The kernel's code model; calls of the kernel's functions without a table of addresses, which a module's loader does not know. These are options of
# unstable Rust, as in the kernel itself.
export RUSTC_BOOTSTRAP=1 CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$root/target/kernel
# A newer kernel lets the processor check that an indirect jump lands on an ENDBR instruction (IBT), which a table of jumps does not.
tables=-Zno-jump-tables
case $(rustc -C help) in *jump-tables*) tables=-Cjump-tables=no ;; esac
# What this kernel has against speculation, its module has too: indirect branches and returns by the kernel's thunks, which it exchanges at boot for what the
# processor needs.
retpoline='' rethunk='' guards=''
# has NAME: this kernel was configured with it; a newer one calls it MITIGATION_NAME.
has() { grep -qsE "^CONFIG_(MITIGATION_)?$1=y" "${KERNEL:-}/include/config/auto.conf"; }
known=$(rustc -Z help)
may() { grep -qE -- "^ *-Z +$1=" <<<"$known" || { say "this rustc has no -Z$1: the Rust part stays without it"; false; }; }
if has RETPOLINE && may retpoline-external-thunk && may indirect-branch-cs-prefix; then
  retpoline=1 guards='-Zretpoline-external-thunk -Zindirect-branch-cs-prefix'
fi
if has RETHUNK && may function-return; then
  rethunk=1 guards+=' -Zfunction-return=thunk-extern'
fi
export RUSTFLAGS="-Crelocation-model=static -Ccode-model=kernel -Cno-redzone=yes -Cforce-unwind-tables=no -Zplt=yes -Zcf-protection=branch $tables $guards"
own='memcpy|memmove|memset|memcmp|strlen|mmcq_panic|__x86_return_thunk|__x86_indirect_thunk_r[a-z0-9]+'
# A kernel with KASAN looks at each access to memory, also of this part: by calls, at any size, and not at the stack, whose frames would grow.
offset=$(sed -n 's/^CONFIG_KASAN_SHADOW_OFFSET=//p' "${KERNEL:-}/include/config/auto.conf" 2>/dev/null || true)
if [ -n "$offset" ]; then
  RUSTFLAGS+=" -Cforce-frame-pointers=yes -Zsanitizer=kernel-address -Zsanitizer-recover=kernel-address"
  for option in mapping-offset="$offset" instrumentation-with-call-threshold=0 stack=0 globals=0; do RUSTFLAGS+=" -Cllvm-args=-asan-$option"; done
  CARGO_TARGET_DIR+=-kasan
  own+='|__asan_(load|store)(1|2|4|8|16|N)_noabort|__asan_handle_no_return'
fi
(cd "$root" && cargo rustc --quiet -p mmcq-c --profile fat --config 'profile.fat.panic="abort"' --locked --crate-type staticlib --features panic-handler,rpmb,rtsx,reads-first \
  --target "$RUST_TARGET" -Zbuild-std=core)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && ar x "$CARGO_TARGET_DIR/$RUST_TARGET/fat/libmmcq_c.a")
# What the C files call.
names=$(cd "$root/linux" && grep -oh '\bmmcq_[a-z_]*(' ./*.c | tr -d '(' | grep -v '^mmcq_ko_\|^mmcq_panic$' | sort -u)
# shellcheck disable=SC2046 # One word each.
ld -r --gc-sections $(printf -- '-u %s ' $names) -T "$root/linux/core.lds" -o "$work/core.o" "$work"/mmcq_c-*.o
wrong=0
relocations=$(readelf -Wr "$work/core.o" | awk '$3 ~ /^R_X86_64_/ { print $3 }' | sort -u | grep -vxE 'R_X86_64_(32S|64|PC32|PLT32)' || true)
[ -z "$relocations" ] || { say "relocations that a module's loader does not know:" $relocations; wrong=1; }
unknown=$(nm -u "$work/core.o" | awk '{ print $2 }' | grep -vxE "$own" || true)
[ -z "$unknown" ] || { say "names that the kernel does not have:" $unknown; wrong=1; }
objdump -d --no-show-raw-insn "$work/core.o" >"$work/code"
! grep -qE '%[xyz]mm|%st\b|\bfld|\bfst' "$work/code" || { say "registers that a kernel must not use"; wrong=1; }
! grep -q notrack "$work/code" || { say "a table of jumps, which a kernel with IBT does not allow"; wrong=1; }
grep -q endbr64 "$work/code" || { say "no ENDBR, which a kernel with IBT wants"; wrong=1; }
[ -z "$retpoline" ] || ! grep -qE '\b(jmp|call) +\*' "$work/code" || { say "an indirect branch without the kernel's thunk"; wrong=1; }
[ -z "$rethunk" ] || ! grep -qE '\sret *$' "$work/code" || { say "a return without the kernel's thunk"; wrong=1; }
# A frame of more than a page is taken in several steps.
frames=$(awk '/^[0-9a-f]+ <.*>:$/ { name = $2 } /sub +\$0x[0-9a-f]+,%rsp/ { match($0, /\$0x[0-9a-f]+/); print name, substr($0, RSTART + 1, RLENGTH - 1) }' "$work/code" |
  while read -r name bytes; do echo "$((bytes)) $name"; done | awk '{ sum[$2] += $1 } END { for (name in sum) print sum[name], name }' | sort -rn)
largest=$(head -1 <<<"$frames")
[ "${largest%% *}" -le "${FRAME_MAX:-4096}" ] || { say "a frame of ${largest% *} bytes: ${largest#* }"; wrong=1; }
[ $wrong = 0 ] || exit 1
cmp -s "$work/core.o" "$OUT/core.o_shipped" || cp "$work/core.o" "$OUT/core.o_shipped"
echo "core: $(size -A "$work/core.o" | awk '$1 ~ /^\.(text|rodata|data|bss)$/ { printf "%s %s, ", $1, $2 }')largest frame ${largest%% *}"
