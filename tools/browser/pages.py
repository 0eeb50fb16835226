"""The pages of reports. pages.py FOLDER: opens each of the pages there."""

import pathlib
import sys

from chrome import Chrome
from look import HERE, faults_of, without_script

# A page may have so many bytes; it is for mail.
BYTES_MAX = 500_000
RUN = ["How fast, and how fast it could be", "Where the time goes", "How long a request takes", "Over the time of the run",
       "The bus, as an oscilloscope sees it", "Run it again", "What the model assumes", "share of that", "MiB/s", "99 %"]
LIST = ["Run again", "mmcq"]
# By the beginning of a page's name: what a reader sees there.
EXPECTED = [
    ("run-without", [*RUN, "No picture: the controller cannot be traced"]),
    ("run", RUN),
    ("report", RUN),
    ("replay", [*RUN, "The recorded load"]),
    ("sweep", [*LIST, "Fastest: ", "All points", "of the limit"]),
    ("reproduce", [*LIST, "published"]),
    ("torture", [*LIST, "No promise was broken"]),
    ("compare", ["A", "B", "run time for each request", "are equal"]),
]
# What is wrong with the page that has all faults.
PLANTED = ["does not show 'not there'", "pixels wide in a window", "nothing shows that the keyboard is there", "no Tab reaches it",
           "has no tabindex", "of a picture: contrast", "mark of rgb(238, 238, 238)", "color-contrast", "planted error",
           "Content Security Policy", "asks the network for http://example.org/a.png"]


def main():
    folder = pathlib.Path(sys.argv[1])
    pages = sorted(folder.glob("*.html"))
    failed = 0
    with Chrome() as chrome:
        found = "\n".join(faults_of(chrome, (HERE / "planted.html").as_uri(), ["not there"]))
        for part in PLANTED:
            if part not in found:
                sys.exit(f"the check does not find the planted fault {part!r}")
        if not pages:
            sys.exit(f"{folder}: no pages")
        for page in pages:
            expected = next((texts for name, texts in EXPECTED if page.stem.startswith(name)), None)
            if expected is None:
                sys.exit(f"{page}: no such page is known")
            faults = faults_of(chrome, page.as_uri(), expected, folder / page.stem)
            if page.stat().st_size >= BYTES_MAX:
                faults.append(f"{page.stat().st_size} bytes; expected fewer than {BYTES_MAX}")
            texts = without_script(chrome, page.as_uri())
            if len(texts[0]) < 10 or texts[0] != texts[1]:
                faults.append("is another page without scripts")
            print(f"{page.name}: {page.stat().st_size} bytes, {len(texts[0])} texts, {len(faults)} faults", flush=True)
            for fault in faults:
                print(f"  {fault}")
            failed += len(faults)
    if failed:
        sys.exit(f"{failed} faults")


main()
