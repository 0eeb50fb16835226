"""What a checker of types says of programs: it takes the examples, and finds a slip."""

import doctest
import re
from pathlib import Path

import mmcq
import pytest

api = pytest.importorskip("mypy.api")
EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))

GOOD = """
import mmcq

JOB = {"rw": "randread", "bs": "4k"}
board = mmcq.Platform("generic").with_(cost__wake_us=200)
report = mmcq.run(JOB, platform=board, card=mmcq.Card("pro-plus-128"), set={"cost.wake_us": 3})
rate: float = report.mib_per_s()
names: list[str] = mmcq.platforms() + mmcq.cards() + mmcq.settings()
version: str = mmcq.__version__
rows = mmcq.sweep(JOB, over={"seed": range(3)}, zip=[("a", "b")], platform=board, jobs=2)
over = {"seed": range(3), "setting": ["none"], "cost.wake_us": [5, 20]}
length: int = len(mmcq.Grid(JOB, over))
columns = list(rows.columns) + list(report.rows().columns) + list(mmcq.why(JOB).frame().columns)
fitted = mmcq.fit(["a.json"], free=["card.*"])
changes: dict[str, float] = fitted.changes()
"""

# One error each, in its own line.
SLIPS = """
mmcq.run(JOB, plattform="generic")
mmcq.why(JOB, plattform="generic")
mmcq.replay("t.csv", plattform="generic")
mmcq.replay("t.csv", mod="open")
mmcq.sweep(JOB, {"seed": [1]}, plattform="generic")
mmcq.sweep(JOB, ["seed"])
mmcq.Grid(JOB, {"seed": [1]}, plattform="generic")
mmcq.fit("a.json", fre=["card.*"])
mmcq.torture("swarm", faluts=0.1)
mmcq.run(JOB, seed="1")
mmcq.run(JOB, platform=mmcq.Card("pro-plus-128"))
mmcq.run(JOB).mib_per_second()
mmcq.plattforms()
"""


def judged(tmp_path, *arguments):
    """The lines with an error, and all that mypy says."""
    out, err, _ = api.run([*map(str, arguments), "--no-error-summary", "--cache-dir", str(tmp_path / "cache")])
    return [int(line) for line in re.findall(r"^[^:\n]+:(\d+): error", out, re.M)], out + err


def test_programs_are_taken_and_slips_are_found(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(GOOD + SLIPS)
    begin = GOOD.count("\n")
    lines, said = judged(tmp_path, "--strict", program)
    expected = [begin + 1 + n for n in range(1, SLIPS.count("\n"))]
    assert lines == expected, said


def test_the_help_and_the_examples_are_taken(tmp_path):
    shown = tmp_path / "shown.py"
    shown.write_text("".join(example.source for example in doctest.DocTestParser().get_examples(mmcq.__doc__)))
    lines, said = judged(tmp_path, "--strict", shown)
    assert not lines, said
    assert EXAMPLES
    lines, said = judged(tmp_path, "--ignore-missing-imports", "--check-untyped-defs", *EXAMPLES)
    assert not lines, said
