"""Jobs: a fio job file, its text, or options."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Mapping, Union

#: A path, the text of a job file, or fio's options as a mapping.
Job = Union[str, "os.PathLike[str]", Mapping[str, Any]]


def given(job: Job) -> list[str] | str | Path:
    """As the module below takes it: options, text or path."""
    if isinstance(job, Mapping):
        options = {"name": "job", **job}
        return [f"--{key}" if value is True else f"--{key}={value}" for key, value in options.items()]
    if isinstance(job, str) and ("\n" in job or job.lstrip().startswith("[")):
        return job
    return Path(job)
