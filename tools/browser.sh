#!/bin/bash
# browser.sh: tests the pages of `mmcq` and the playground in Debian's Chromium, without a window:
# what they show, with a width of 400 and of 1400 pixels, in light and dark, used by keys, and
# without scripts. The pages must have no error and must not use the network. Pictures of all pages
# are in target/browser/ afterwards.
# Needs Python 3.9 or later. Chromium and its driver come from Debian (100 MB to download), Selenium
# and a checker of accessibility from PyPI. MMCQ names the program; if it is not set, the script
# builds the program.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "browser.sh: $*" >&2; }
[ $# -eq 0 ] || { say "$1: expected nothing"; exit 2; }
left_out() { say "left out: $*"; exit 0; }
export CHROMIUM CHROMEDRIVER
find_browser() { CHROMIUM=$(command -v chromium) && CHROMEDRIVER=$(command -v chromedriver); }
if ! find_browser; then
  command -v apt-get >/dev/null || left_out "no chromium with chromedriver, and no apt-get"
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || left_out "no chromium with chromedriver; not root, and no sudo"
    as_root=(sudo)
  fi
  say "installs chromium, chromium-driver and a font"
  export DEBIAN_FRONTEND=noninteractive
  { "${as_root[@]}" apt-get update -q && "${as_root[@]}" apt-get install -q -y --no-install-recommends chromium chromium-driver fonts-dejavu-core; } >&2 ||
    left_out "chromium cannot be installed (see above)"
  find_browser || left_out "chromium is installed, and is not found"
fi
target=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
place=$target/browser
python=$place/python/bin/python
if ! "$python" -c 'import selenium, importlib.util; assert importlib.util.find_spec("axe_playwright_python")' 2>/dev/null; then
  say "installs Selenium and axe into $place/python"
  # Of the second package its script for pages alone is used, none of what it depends on.
  { python3 -m venv "$place/python" && "$place/python/bin/pip" install -q --disable-pip-version-check 'selenium==4.51.0' &&
    "$place/python/bin/pip" install -q --disable-pip-version-check --no-deps 'axe-playwright-python==0.1.8'; } >&2 ||
    left_out "Selenium and axe cannot be installed (see above)"
fi
if [ -z "${MMCQ:-}" ]; then
  cargo build --quiet --release --locked -p mmcq-lab --features full
  MMCQ=$target/release/mmcq
fi
export MMCQ=$(realpath "$MMCQ")
shown=$place/shown
mkdir -p "$shown"
rm -f "$shown"/*
cp jobs/quickstart.fio "$shown/job.fio"
# Each command that writes a page, with a name for it.
(
  cd "$shown"
  page() { "$MMCQ" -q "${@:2}" --report "$1.html" >/dev/null; }
  page run run job.fio --export blktrace run.blktrace.0
  page run-plain run job.fio --setting none --set cost.wake_us=80
  page run-without-probe run job.fio --platform stream-rtsx --setting patch
  page replay replay run
  page sweep sweep job.fio --over seed=1..4 --over setting=none,hsq-tag,mmcq --over cost.wake_us=10,40 --heat sweep.svg cost.wake_us,setting,run_mib_s
  page reproduce reproduce hsq --plot reproduce.svg
  page torture torture --mode swarm --ios 20000
  page torture-swap torture --mode swap
  page compare compare run.html run-plain.html
  "$MMCQ" -q report job.fio -o report.html >/dev/null
)
"$python" tools/browser/pages.py "$shown"
say "the playground, alone and in a report"
tools/playground.sh
"$MMCQ" -q report "$shown/job.fio" --platform stm32h7-sdmmc --set cost.wake_us=30 -o "$shown/live.html" --live="$target/playground" >/dev/null
"$python" tools/browser/play.py "$target/playground" "$shown"
say "pictures: $shown"
