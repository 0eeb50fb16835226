"""Jobs: a fio job file, its text, or options."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Mapping, Union

#: A path, the text of a job file, or fio's options as a mapping.
Job = Union[str, "os.PathLike[str]", Mapping[str, Any]]


def given(job: Job) -> list[str] | str | Path:
    """Returns the job as the module `_mmcq` takes it: options, text or path."""
    if isinstance(job, Mapping):
        options = {"name": "job", **job}
        return [_option(key, value) for key, value in options.items()]
    if isinstance(job, str) and ("\n" in job or job.lstrip().startswith("[")):
        return job
    if not os.fspath(job):
        raise ValueError("job: expected a path, the text of a job file, or options; this text is empty")
    return Path(job)


def _option(key: str, value: Any) -> str:
    if value is True:
        return f"--{key}"
    return f"--{key}={0 if value is False else value}"
