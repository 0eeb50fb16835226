"""What every page has to be: whole, alone, legible on a telephone and a wide screen, in light and dark, and by keys."""

import importlib.util
import pathlib

from chrome import ENTER, TAB

HERE = pathlib.Path(__file__).parent
WIDTHS = (400, 1400)
# Deque's checker; of its package this file alone is read.
AXE = pathlib.Path(importlib.util.find_spec("axe_playwright_python").origin).parent / "axe.min.js"
RULES = """
const done = arguments[arguments.length - 1];
axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'], resultTypes: ['violations']})
  .then(({violations}) => done(violations.flatMap((rule) => rule.nodes.map((node) =>
    `${rule.id}: ${node.target.join(' ')}: ${(node.any[0] ?? node.all[0] ?? node.none[0])?.message ?? rule.help}`))), (error) => done([`axe: ${error}`]));
"""


def tools(chrome):
    chrome.run(AXE.read_text())
    chrome.run((HERE / "look.js").read_text())


def by_keys(chrome):
    """Each thing that can be used, by Tab; what is folded is opened by Enter first."""
    faults = []
    count = chrome.run("return mmcqLook.begin()")
    for _ in range(2 * count + 10):
        chrome.key(TAB)
        found = chrome.run("return mmcqLook.now()")
        if found is None:
            break
        faults += found
        if chrome.run("return document.activeElement.matches('details:not([open]) > summary')"):
            chrome.key(ENTER)
            if chrome.run("return document.activeElement.matches('details:not([open]) > summary')"):
                faults.append("details: Enter does not open them")
    return faults + chrome.run("return mmcqLook.missed()") + chrome.run("return mmcqLook.scrolled()")


def faults_of(chrome, address, expected, pictures=None, before=None, own=None):
    """Opens a page in each width and scheme. `expected` is text that a reader sees; `before` is run when it is open;
    it may ask for addresses that begin with `own`."""
    faults = []
    for width in WIDTHS:
        for dark in (False, True):
            where = f"{width} pixels, {'dark' if dark else 'light'}"
            chrome.view(width, dark)
            chrome.open(address)
            if before:
                before(chrome)
            found = []
            text = chrome.run("return document.body.innerText")
            found += [f"does not show {part!r}" for part in expected if part not in text]
            tools(chrome)
            found += chrome.run("return mmcqLook.width()")
            if (width, dark) == (WIDTHS[0], False) or (width, dark) == (WIDTHS[1], True):
                found += by_keys(chrome)
            # As high as the page: what is measured has to be on the screen.
            height = chrome.run("return document.documentElement.scrollHeight")
            chrome.view(width, dark, min(height + 10, 30_000))
            found += chrome.run("return mmcqLook.pictures()") + chrome.run("return mmcqLook.marks()")
            found += chrome.wait(RULES)
            chrome.view(width, dark)
            if pictures:
                chrome.picture(f"{pictures}-{width}-{'dark' if dark else 'light'}.png")
            lines, asked = chrome.said()
            found += [f"console: {line}" for line in lines]
            allowed = own or address
            found += [f"asks the network for {url}" for url in asked if not url.startswith(allowed)]
            if not asked:
                found.append("no request was seen, not even its own")
            faults += [f"{where}: {line}" for line in found]
    return faults


def without_script(chrome, address):
    """The text of a page with and without scripts."""
    texts = []
    for disabled in (False, True):
        chrome.ask("Emulation.setScriptExecutionDisabled", value=disabled)
        chrome.open(address)
        tree = chrome.ask("Accessibility.getFullAXTree")["nodes"]
        texts.append([node["name"]["value"] for node in tree if node.get("role", {}).get("value") == "StaticText"])
    chrome.ask("Emulation.setScriptExecutionDisabled", value=False)
    return texts
