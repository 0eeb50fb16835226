#!/bin/bash
# semver.sh [REV]: checks by cargo-semver-checks whether the version number fits the changes of the
# public items of the published libraries. Without REV it compares with the newest tag v*, or, if
# there is none, with the last commit that had another version. The two versions decide which
# changes are allowed (0.1 to 0.2: any change; 0.2.0 to 0.2.1: no change that breaks a program).
# With REV it lists the changes since then that break programs, whatever the versions are.
# semver.sh --try: tests the script: makes a function private in a copy of the tree, and fails if
# the check does not find this.
#
# Uses the cargo-semver-checks of PATH, or builds one from crates.io into target/judges (some
# minutes).
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "semver.sh: $*" >&2; }
version=0.51.0
packages=(mmcq mmcq-embassy mmcq-sim)
judges=$PWD/target/judges/semver
PATH=$PATH:$judges/bin
if ! command -v cargo-semver-checks >/dev/null; then
  say "installing cargo-semver-checks $version into $judges"
  cargo install -q --locked --root "$judges" "cargo-semver-checks@$version" || {
    say "left out: cargo-semver-checks could not be fetched or built"
    exit 0
  }
fi
# judge FOLDER REV OPTION...: the libraries of the tree in FOLDER against those of REV.
judge() {
  local folder=$1 rev=$2
  shift 2
  (cd "$folder" && cargo semver-checks check-release --baseline-rev "$rev" "${packages[@]/#/-p}" "$@")
}
case ${1:-} in
  --try)
    packages=(mmcq)
    copy=$PWD/target/semver-copy
    trap 'rm -rf "$copy"' EXIT
    rm -rf "$copy"
    git clone -q --shared . "$copy"
    judge "$copy" HEAD --release-type patch >/dev/null 2>&1 || { say "finds a break where nothing changed"; exit 1; }
    sed -i 's/pub const fn is_tuned(&self)/pub(crate) const fn is_tuned(\&self)/' "$copy/crates/mmcq/src/engine/request.rs"
    found=$(judge "$copy" HEAD --release-type minor 2>&1) && { say "a function that is private now was not found"; exit 1; }
    grep -q 'Output::is_tuned' <<<"$found" || { say "the failure does not name the function"; echo "$found"; exit 1; }
    say "the planted break was found, and nothing where nothing changed"
    ;;
  -*) say "$1: expected a revision or --try"; exit 2 ;;
  '')
    now=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
    rev=$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || true)
    if [ -z "$rev" ]; then
      # The commit before the first that has this version.
      rev=$(git log --format=%H -S"version = \"$now\"" -- Cargo.toml | tail -1)^
    fi
    say "against $(git log -1 --format='%h %s' "$rev")"
    judge . "$rev"
    ;;
  *) judge . "$1" --release-type minor ;;
esac
