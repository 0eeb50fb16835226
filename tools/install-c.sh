#!/bin/bash
# install-c.sh PREFIX [TARGET]: builds the C library (crates/mmcq-c) and installs it under PREFIX,
# for this machine or for a Rust target such as thumbv7em-none-eabihf. It installs include/mmcq.h,
# lib/libmmcq_c.a, and the files for `pkg-config --cflags --libs mmcq` and for CMake's
# `find_package(mmcq)` with the library `mmcq::mmcq`. The program that links the library must have a
# function `mmcq_panic` (see mmcq.h). FEATURES=rpmb also builds the functions for
# RPMB, FEATURES=rtsx, usdhc or stm32-sdmmc the function for another controller; FEATURES=rpmb,rtsx
# both.
#
# install-c.sh --try: installs into a temporary folder, and builds and runs a program by pkg-config
# and one by CMake.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
say() { echo "install-c.sh: $*"; }
case ${1:-} in
  '' | -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; [ -n "${1:-}" ] && exit 0 || exit 2 ;;
esac

build() { # target or nothing; prints the library's path
  local target=${1:-} folder
  folder=$(cd "$root" && cargo metadata --format-version 1 --no-deps --locked |
    sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
  (cd "$root" && cargo rustc -p mmcq-c --profile fat --locked --quiet --crate-type staticlib --features "panic-handler${FEATURES:+,$FEATURES}" \
    --config 'profile.fat.panic="abort"' ${target:+--target "$target"}) >&2
  echo "$folder/${target:+$target/}fat/libmmcq_c.a"
}

install_to() { # prefix, library
  local prefix=$1 version defines=()
  case ,${FEATURES:-}, in *,rtsx,*) defines+=(MMCQ_RTSX) ;; esac
  case ,${FEATURES:-}, in *,stm32-sdmmc,*) defines+=(MMCQ_STM32_SDMMC) ;; esac
  version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -1)
  mkdir -p "$prefix/include" "$prefix/lib/pkgconfig" "$prefix/lib/cmake/mmcq"
  prefix=$(cd "$prefix" && pwd)
  cp "$root/crates/mmcq-c/include/mmcq.h" "$prefix/include/"
  cp "$2" "$prefix/lib/"
  cat >"$prefix/lib/pkgconfig/mmcq.pc" <<EOF
prefix=\${pcfiledir}/../..
Name: mmcq
Description: a card stack: a controller and the SD card or eMMC behind it
Version: $version
Cflags: -I\${prefix}/include${defines[*]:+ }${defines[*]/#/-D}
Libs: -L\${prefix}/lib -lmmcq_c
EOF
  cat >"$prefix/lib/cmake/mmcq/mmcq-config.cmake" <<EOF
get_filename_component(mmcq_prefix "\${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET mmcq::mmcq)
  add_library(mmcq::mmcq STATIC IMPORTED)
  set_target_properties(mmcq::mmcq PROPERTIES
    IMPORTED_LOCATION "\${mmcq_prefix}/lib/libmmcq_c.a"
    INTERFACE_COMPILE_DEFINITIONS "$(IFS=';'; echo "${defines[*]}")"
    INTERFACE_INCLUDE_DIRECTORIES "\${mmcq_prefix}/include")
endif()
EOF
  # Before 1.0 a minor version may break programs.
  cat >"$prefix/lib/cmake/mmcq/mmcq-config-version.cmake" <<EOF
set(PACKAGE_VERSION "$version")
if(PACKAGE_FIND_VERSION_MAJOR EQUAL ${version%%.*} AND PACKAGE_FIND_VERSION_MINOR EQUAL $(cut -d. -f2 <<<"$version")
   AND NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
EOF
  say "mmcq $version is in $prefix"
}

if [ "$1" != --try ]; then
  library=$(build "${2:-}")
  install_to "$1" "$library"
  exit
fi

for program in cc pkg-config cmake; do
  command -v "$program" >/dev/null || { say "$program is missing" >&2; exit 1; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
library=$(build)
install_to "$folder/prefix" "$library"
source=$root/crates/mmcq-c/tests/installed.c
export PKG_CONFIG_PATH=$folder/prefix/lib/pkgconfig
# shellcheck disable=SC2046
cc -std=c11 -Wall -Wextra -Werror -o "$folder/by-pkg-config" "$source" $(pkg-config --cflags --libs mmcq)
"$folder/by-pkg-config"
mkdir "$folder/program"
cp "$source" "$folder/program/"
minor=$(pkg-config --modversion mmcq | cut -d. -f1,2)
cat >"$folder/program/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.13)
project(program C)
find_package(mmcq $minor REQUIRED)
add_executable(program installed.c)
target_link_libraries(program mmcq::mmcq)
EOF
cmake -S "$folder/program" -B "$folder/built" -DCMAKE_PREFIX_PATH="$folder/prefix" >"$folder/log" 2>&1 &&
  cmake --build "$folder/built" >>"$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
"$folder/built/program"
# A version that is not there must not be found.
sed -i "s/find_package(mmcq $minor/find_package(mmcq 9.9/" "$folder/program/CMakeLists.txt"
if cmake -S "$folder/program" -B "$folder/other" -DCMAKE_PREFIX_PATH="$folder/prefix" >/dev/null 2>&1; then
  say "CMake takes this for version 9.9" >&2
  exit 1
fi
say "pkg-config and CMake find it, and both programs run"
