"""What teaches: the help, the README, the notebook, and the wheel's own page."""

import doctest
import importlib.metadata
import json
import pydoc
from pathlib import Path

import mmcq
import mmcq.boards
import mmcq.runs
import pytest

PYTHON = Path(__file__).parents[1]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("module", [mmcq, mmcq.boards, mmcq.runs])
def test_examples_of_the_help_run(module):
    outcome = doctest.testmod(module, optionflags=FLAGS)
    assert outcome.attempted > 0 and outcome.failed == 0


def test_the_first_screen_of_the_help_has_an_example_and_the_parts():
    screen = pydoc.render_doc(mmcq, renderer=pydoc.plaintext).splitlines()[:40]
    text = "\n".join(screen)
    assert "mmcq.run(job, platform=" in "\n".join(screen[:24])
    missing = [name for name in mmcq.__all__ if name != "__version__" and name not in text]
    assert not missing


def test_each_part_has_a_help():
    silent = [name for name in mmcq.__all__ if not (getattr(mmcq, name).__doc__ or "").strip()]
    assert not silent


def test_the_program_of_the_readme_runs(capsys):
    readme = (PYTHON / "README.md").read_text()
    program, *others = [part.split("```")[0] for part in readme.split("```python\n")[1:]]
    names = {}
    exec(compile(program, "README.md", "exec"), names)
    assert "of the limit" in capsys.readouterr().out
    assert names["table"].shape == (3, 2)
    assert len(others) == 1


def test_the_notebook_opens_with_a_question():
    notebook = json.loads((PYTHON / "examples/wake_ups.ipynb").read_text())
    title = notebook["cells"][0]["source"][0]
    assert title.startswith("# ") and title.rstrip().endswith("?")


def test_the_wheel_says_its_licence_and_no_address_that_is_none():
    metadata = importlib.metadata.metadata("mmcq")
    assert metadata["License-Expression"] == "MIT OR Apache-2.0"
    assert sorted(metadata.get_all("License-File")) == ["LICENSE-APACHE", "LICENSE-MIT"]
    texts = {file.name: file.read_text() for file in importlib.metadata.files("mmcq") if "LICENSE" in file.name}
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        assert texts[name] == (PYTHON.parent / name).read_text()
    # The project has no public address yet: CONTRIBUTING.md says where it goes.
    assert metadata.get_all("Project-URL") is None and metadata["Home-page"] is None
