#!/usr/bin/env python3
"""address.py ADDRESS: names the project's public address in every manifest, and makes each relative link of a page absolute.

For a release, on a branch of its own: packages on a registry have the pages, and not the files of the tree that these pages link to.
ADDRESS is that of the repository, such as https://example.org/mmcq. A link to a file that is not there is an error; nothing is changed then.
"""

import os
import re
import subprocess
import sys

LINK = re.compile(r"(\]\()([^)\s]+)(\))")
ELSEWHERE = re.compile(r"[a-z]+:|#")


def fail(message):
    sys.exit(f"address.py: {message}")


def absolute(page, text, base):
    """Returns the text of a page with absolute links, and the links whose file is missing."""
    missing = []

    def link(match):
        before, target, after = match.groups()
        if ELSEWHERE.match(target):
            return match.group(0)
        place, hash_sign, anchor = target.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(page), place))
        if path.startswith("..") or not os.path.exists(path):
            missing.append(f"{page}: {target}")
        kind = "tree" if os.path.isdir(path) else "blob"
        return f"{before}{base.format(kind=kind)}/{path}{hash_sign}{anchor}{after}"

    return LINK.sub(link, text), missing


def with_key(text, after, key):
    """Returns a manifest with a line behind the first one that begins so."""
    lines = text.splitlines(keepends=True)
    at = next((nth for nth, line in enumerate(lines) if line.startswith(after)), None)
    if at is None:
        fail(f"no line begins with `{after}`")
    return "".join(lines[: at + 1] + [key + "\n"] + lines[at + 1 :])


def main():
    if len(sys.argv) != 2 or not re.fullmatch(r"https://[^\s/]+/\S*[^\s/]", sys.argv[1]):
        fail("expected one address, such as https://example.org/mmcq")
    address = sys.argv[1]
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    files = subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout.splitlines()
    changed, missing = {}, []

    def text_of(path):
        with open(path, encoding="utf-8") as file:
            return file.read()

    root = text_of("Cargo.toml")
    version = re.search(r'^version = "(.*)"', root, re.M).group(1)
    for page in (file for file in files if file.endswith(".md") and not os.path.islink(file)):
        text, gone = absolute(page, text_of(page), f"{address}/{{kind}}/v{version}")
        missing += gone
        changed[page] = text
    if missing:
        fail("links to nothing:\n  " + "\n  ".join(missing))
    changed["Cargo.toml"] = with_key(root, "license = ", f'repository = "{address}"')
    for manifest in (file for file in files if re.fullmatch(r"crates/[^/]+/Cargo\.toml", file)):
        changed[manifest] = with_key(text_of(manifest), "license.workspace", "repository.workspace = true")
    python = "python/pyproject.toml"
    changed[python] = text_of(python) + f'\n[project.urls]\nRepository = "{address}"\n'
    for path, text in changed.items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
