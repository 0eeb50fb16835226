"""The playground in a browser. play.py FOLDER PICTURES: it is served from this machine, used as a reader uses it, and compared with the
program that MMCQ names."""

import functools
import http.server
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import threading

from chrome import ENTER, RIGHT, Chrome
from look import HERE, faults_of

CASES = json.loads((HERE / "../../playground/cases.json").read_text())
EXPECTED = ["What does the software between", "Rate and latency", "Where the time goes, with mmcq", "The bus in the middle of the run",
            "The same on a command line", "mmcq run --platform", "limit of wire and card", "CMD", "wire, data", "cost.wake_us"]
# How long a change may take on an unloaded machine; the script tells what it took here, and fails by no clock.
GOAL_MS = 300
DRAWN = """
const done = arguments[arguments.length - 1];
const look = () => (/^Computed in|no WebAssembly|refuse|expected/.test(document.getElementById('said').textContent) && document.querySelector('#scope svg')
  ? done(performance.now()) : setTimeout(look, 10));
look();
"""
# A change of a slider, until the table is another one, and until the picture is.
CHANGED = """
const [name, value, done] = arguments;
const begun = performance.now();
let table;
const drawn = (place, then) => new MutationObserver((_, seen) => then(performance.now() - begun) && seen.disconnect()).observe(document.getElementById(place), {childList: true});
drawn('rows', (ms) => { table = ms; return true; });
// A picture that comes before the table is that of the change before.
drawn('scope', (ms) => { if (table) done([table, ms]); return table; });
const slider = name === 'depth' ? document.forms[0].elements.depth : [...document.querySelectorAll('#knobs label')].find((label) => label.textContent.includes(name)).querySelector('input');
slider.value = value;
slider.dispatchEvent(new Event('input', {bubbles: true}));
"""
# Another worker of the page's own, asked what the page asks.
ASKED = """
const [questions, done] = arguments;
(async () => {
  const worker = new Worker('worker.js', {type: 'module'});
  worker.postMessage({compiled: await WebAssembly.compile(await (await fetch('mmcq_playground.wasm')).arrayBuffer())});
  const answers = [];
  for (const [id, question] of questions.entries()) {
    answers.push(await new Promise((told) => { worker.onmessage = ({data}) => told(data); worker.postMessage({id, question}); }));
  }
  worker.terminate();
  return answers;
})().then(done, (error) => done(String(error)));
"""
STATE = """
return {fields: [...document.forms[0].elements].map((field) => field.value), rows: document.getElementById('rows').innerText,
  command: document.getElementById('command').textContent, phases: document.getElementById('phases').innerText,
  scope: document.getElementById('scope').innerHTML, link: document.getElementById('link').href};
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def served(folder):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/"


def program(words):
    """What the program prints, or the one line with which it refuses."""
    ran = subprocess.run([os.environ["MMCQ"], *words], capture_output=True, text=True)
    return ran.stdout.strip() if ran.returncode == 0 else "refused: " + ran.stderr.removeprefix("mmcq: ").strip()


def options(load):
    """fio's options as page/lab.js writes them."""
    more = load.get("more", [])
    own = ["--name=play", f"--rw={load['rw']}", f"--bs={load['bs']}", f"--size={load['size']}", f"--iodepth={load['depth']}",
           f"--numjobs={load['jobs']}", "--direct=1", "--ioengine=libaio", "--runtime=200ms", "--time_based"]
    return [one for one in own if not any(one.split("=")[0] == other.split("=")[0] for other in more)] + more


def same_numbers(chrome):
    """All answers of playground/check.mjs, by a worker of the page in this browser."""
    questions, expected = [], []
    for case in CASES["cases"]:
        job = options(case["load"])
        common = {"platform": case["platform"], "card": case["card"], "set": case["set"], "job": job}
        place = ["--platform", case["platform"], *(["--card", case["card"]] if case["card"] else []), *(word for one in case["set"] for word in ("--set", one))]
        reports = {}
        for setting in CASES["settings"]:
            questions.append({"what": "run", "setting": setting, **common})
            reports[setting] = program(["run", *place, "--setting", setting, "--output-format", "json", "--", *job])
            expected.append(reports[setting])
        why = program(["why", *place, "--json", "--", *job])
        questions.append({"what": "why", "setting": "mmcq", **common})
        expected.append(why)
        # What the page itself asks: both at once.
        questions.append({"what": "explained", "setting": "mmcq", **common})
        expected.append([reports["mmcq"], reports["limit"], why])
    questions.append({"what": "params", "platform": "generic"})
    expected.append([json.loads(line) for line in program(["params", "--json", "--platform", "generic"]).splitlines()])
    answers = chrome.wait(ASKED, questions)
    if isinstance(answers, str):
        return [f"the worker does not answer: {answers}"]
    faults = []
    for question, answer, theirs in zip(questions, answers, expected, strict=True):
        ours = answer.get("ok", "refused: " + answer.get("error", ""))
        match question["what"]:
            case "why":
                ours = ours["lines"].strip() if "ok" in answer else ours
            case "run":
                ours = ours.strip()
            case "explained":
                ours = [ours["run"].strip(), ours["limit"]["run"].strip(), ours["lines"].strip()] if "ok" in answer else [ours] * 3
        if ours != theirs:
            faults.append(f"{question['what']} {question['platform']} {question.get('setting')}: not what the program says")
    print(f"{len(questions)} answers compared with the program's, {len(faults)} differ", flush=True)
    return faults


def figures(report):
    """Rate, mean and longest latency as the page's table shows them."""
    ways = [job[way] for job in report["jobs"] for way in ("read", "write") if job[way]["total_ios"] > 0]
    ios = sum(way["total_ios"] for way in ways)
    counters = report["mmcq"]["counters"]
    rate = counters["bytes"] / 2**20 / (counters["elapsed_ns"] / 1e9)
    mean = sum(way["clat_ns"]["mean"] * way["total_ios"] for way in ways) / ios
    return (f"{rate:.2f}", f"{mean / 1e3:.1f}", f"{max(way['clat_ns']['max'] for way in ways) / 1e3:.1f}")


def row_of(chrome):
    """Rate, mean and longest latency of mmcq, in the page's table."""
    cells = chrome.run("return [...document.querySelectorAll('#rows tr')][2].innerText").split("\t")
    return cells[1], cells[3], cells[5]


def by_line(chrome, text):
    """The page's line gives on a shell what the table says."""
    words = shlex.split(text)
    if words[:2] != ["mmcq", "run"]:
        return [f"no command line: {text!r}"]
    report = program(["run", "--output-format", "json", *words[2:]])
    if report.startswith("refused"):
        return [f"the line {text!r} is {report}"]
    theirs = figures(json.loads(report))
    return [] if row_of(chrome) == theirs else [f"the line {text!r} gives {theirs}, the table has {row_of(chrome)}"]


def copied_line(chrome):
    chrome.run("document.getElementById('copy').focus()")
    chrome.key(ENTER)
    text = chrome.wait("const done = arguments[0]; setTimeout(() => navigator.clipboard.readText().then(done, (error) => done(String(error))), 200)")
    if text != chrome.run("return document.getElementById('command').textContent"):
        return [f"copied {text!r}"]
    return by_line(chrome, text)


def used(chrome, address):
    """As a reader uses it."""
    faults = []
    chrome.open(address)
    first = chrome.wait(DRAWN)
    print(f"first picture after {first:.0f} ms", flush=True)
    faults += copied_line(chrome)
    # A slider by keys.
    before = chrome.run(STATE)
    chrome.run("document.forms[0].elements.depth.focus()")
    chrome.key(RIGHT)
    chrome.wait("const [was, done] = arguments; const look = () => (document.getElementById('rows').innerText !== was ? done() : setTimeout(look, 10)); look();", before["rows"])
    after = chrome.run(STATE)
    if "--iodepth=5" not in after["command"] or after["link"] == before["link"]:
        faults.append(f"a key at the depth: {after['command']}")
    # What a change takes.
    changes = [("cost.wake_us", 20 + 5 * step) for step in range(5)] + [("depth", 3 + step) for step in range(5)]
    times = [chrome.wait(CHANGED, name, value) for name, value in changes]
    tables, pictures = zip(*times)
    print(f"a change: table after {statistics.median(tables):.0f} ms (goal {GOAL_MS}), the bus after {statistics.median(pictures):.0f} ms; medians of {len(times)}", flush=True)
    # The link leads to the same page, where it is opened for the first time.
    state = chrome.run(STATE)
    with Chrome() as other:
        other.open(state["link"])
        other.wait(DRAWN)
        again = other.run(STATE)
    faults += [f"the link: {name} is not the same: {again[name]!r}, was {state[name]!r}"[:300] for name in state if again[name] != state[name]]
    faults += copied_line(chrome)
    # A link that says nonsense.
    chrome.open(address + "#platform=generic&rw=randread&bs=4k&depth=4&set=cost.wake_us=abc")
    said = chrome.wait("const done = arguments[0]; const look = () => { const text = document.getElementById('said').textContent; /^(Loading|Computing)/.test(text) ? setTimeout(look, 10) : done(text); }; look();")
    if "cost.wake_us" not in said or "\n" in said:
        faults.append(f"a link with a wrong value: {said!r}")
    # A link that is pasted into the same tab, and asks for more than a link may.
    before = chrome.run(STATE)
    chrome.run("location.hash = '#platform=generic&rw=randwrite&bs=16k&depth=7&more=--runtime=1h&more=--write_bw_log=x'")
    chrome.wait("const [was, done] = arguments; const look = () => (document.getElementById('command').textContent !== was && /^Computed/.test(document.getElementById('said').textContent) ? done() : setTimeout(look, 10)); look();", before["command"])
    after = chrome.run(STATE)
    for word in ("--rw=randwrite", "--bs=16k", "--iodepth=7", "--runtime=200ms"):
        if word not in after["command"]:
            faults.append(f"a pasted link: no {word} in {after['command']}")
    said = chrome.run("return document.getElementById('said').textContent")
    if "--runtime, --write_bw_log" not in said or "write_bw_log" in after["command"] + after["link"]:
        faults.append(f"a link that asks for too much: {said!r}, {after['command']}")
    # Each slider has a name.
    chrome.ask("Accessibility.enable")
    nameless = [node for node in chrome.ask("Accessibility.getFullAXTree")["nodes"]
                if node.get("role", {}).get("value") == "slider" and not node.get("name", {}).get("value")]
    if nameless:
        faults.append(f"{len(nameless)} sliders have no name")
    lines, asked = chrome.said()
    faults += [f"console: {line}" for line in lines]
    faults += [f"asks the network for {url}" for url in asked if not url.startswith(address)]
    return faults


def without_wasm(address):
    with Chrome() as chrome:
        chrome.ask("Page.addScriptToEvaluateOnNewDocument", source="delete globalThis.WebAssembly")
        chrome.open(address)
        if chrome.run("return typeof WebAssembly") != "undefined":
            return ["the browser keeps its WebAssembly"]
        said = chrome.run("return document.getElementById('said').textContent")
        lines, _ = chrome.said()
    faults = [f"console without WebAssembly: {line}" for line in lines]
    if "no WebAssembly" not in said or "\n" in said:
        faults.append(f"without WebAssembly the page says {said!r}")
    return faults


def live(chrome, page, pictures, elsewhere):
    """A report with the playground inside, as a file."""
    address = page.as_uri()
    chrome.open(address)
    first = chrome.wait(DRAWN)
    print(f"{page.name}: {page.stat().st_size} bytes, first picture after {first:.0f} ms", flush=True)
    state = chrome.run(STATE)
    faults = by_line(chrome, state["command"])
    for word in ("--platform stm32h7-sdmmc", "--rw=randrw", "--rwmixread=70", "--size=256M", "cost.wake_us=30"):
        if word not in state["command"]:
            faults.append(f"{page.name}: its playground begins without {word}: {state['command']}")
    times = [chrome.wait(CHANGED, "depth", 3 + step) for step in range(5)]
    print(f"{page.name}: a change: table after {statistics.median(table for table, _ in times):.0f} ms", flush=True)
    faults += by_line(chrome, chrome.run("return document.getElementById('command').textContent"))
    lines, asked = chrome.said()
    faults += [f"{page.name}: console: {line}" for line in lines]
    faults += [f"{page.name}: asks the network for {url}" for url in asked if not url.startswith(address)]
    # Nothing of it can ask the network: neither the page nor its worker.
    for script in ("fetch(arguments[0])", "new Promise((done, failed) => { const image = new Image(); image.onload = done; image.onerror = failed; image.src = arguments[0]; })"):
        got = chrome.wait(f"const done = arguments[1]; ({script}).then(() => done('loaded'), () => done('refused'))", elsewhere)
        if got != "refused":
            faults.append(f"{page.name}: {script} is {got}")
    faults += faults_of(chrome, address, ["Change it", "How fast, and how fast it could be", *EXPECTED[1:]], pictures / page.stem, lambda chrome: chrome.wait(DRAWN))
    return faults + without_wasm(address)


def main():
    folder, pictures = map(pathlib.Path, sys.argv[1:])
    address = served(folder)
    faults = []
    with Chrome() as chrome:
        chrome.ask("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        faults += used(chrome, address)
        faults += same_numbers(chrome)
        faults += faults_of(chrome, address, EXPECTED, pictures / "playground", lambda chrome: chrome.wait(DRAWN), address)
        faults += without_wasm(address)
        faults += live(chrome, pictures / "live.html", pictures, address)
    for fault in faults:
        print(f"  {fault}")
    if faults:
        sys.exit(f"the playground: {len(faults)} faults")


main()
