# shellcheck shell=bash
# bare-target.sh: functions for other scripts to source, with which these build a package of boards/
# for a bare-metal target. The target's `core` comes from rustup. If rustup cannot get it, the
# functions install Debian's rustc-web and rust-web-src, and build `core` from source; with
# BOARDS_CORE=debian they do that in any case. The sourcing script must have a function `say`.

# The directory that cargo builds the package of this folder in.
output_of() {
  cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/'
}

# bare_target TARGET LINKER-FLAG...: for the package of this folder, sets `build`, the command that builds it, and `built_in`, the folder where
# its profiles have theirs. Says why and fails if this machine cannot build for the target.
bare_target() {
  local target=$1 sysroot flags="" flag machine debian=/usr/bin/rustc as_root=()
  shift
  for flag in "$@"; do flags="$flags -Clink-arg=$flag"; done
  sysroot=$(rustc --print sysroot)
  built_in=$(output_of)/$target
  has_core() { compgen -G "$sysroot/lib/rustlib/$target/lib/libcore-*.rlib" >/dev/null; }
  if [ "${BOARDS_CORE:-}" != debian ]; then
    if ! has_core && command -v rustup >/dev/null; then
      say "$target: asking rustup for it"
      rustup target add "$target" >/dev/null 2>&1 || true
    fi
    if has_core; then
      build=(env "RUSTFLAGS=$flags" cargo build -q --locked --target "$target")
      return
    fi
  fi
  if ! dpkg -s rust-web-src >/dev/null 2>&1 && command -v apt-get >/dev/null; then
    say "$target: rustup has it not; installing Debian's compiler and the source of core"
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get update -q >&2 &&
      "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends rustc-web rust-web-src >&2 || true
  fi
  if [ ! -x "$debian" ] || [ ! -d "$("$debian" --print sysroot)/lib/rustlib/src/rust/library/core" ]; then
    say "$target: got neither by 'rustup target add $target' nor from Debian's compiler (apt-get install rustc-web rust-web-src)"
    return 1
  fi
  say "$target: $("$debian" --version) builds core from source"
  machine=$(rustc -vV | sed -n 's/^host: //p')
  flags="$flags -Clinker=$sysroot/lib/rustlib/$machine/bin/rust-lld"
  build=(env "RUSTFLAGS=$flags" "RUSTC=$debian" RUSTC_BOOTSTRAP=1 cargo build -q --locked --target "$target" -Zbuild-std=core
    --target-dir "$(output_of)/debian")
  built_in=$(output_of)/debian/$target
}
