"""Single runs."""

from __future__ import annotations

import json
import math
import os
import warnings
from typing import TYPE_CHECKING, Any, Dict, Mapping, Sequence

from . import _mmcq
from .boards import DEFAULT, Card, Platform, scene, whole
from .jobs import Job, given

if TYPE_CHECKING:
    import pandas


class Report(Dict[str, Any]):
    """A run's report: fio's JSON, and the laboratory's own part under "mmcq"."""

    def rows(self) -> pandas.DataFrame:
        """Returns rates and latencies, as a frame with a row for each job and direction.

        The direction `sync` means flushes. `mib_s` is the rate over the time of its job.
        `run_mib_s` is the rate of all jobs over the time of the run, as `mib_per_s()` returns it.
        So the sum of `mib_s` may be larger than `run_mib_s`.
        """
        import pandas

        together = self.mib_per_s()

        def row(job: Mapping[str, Any], direction: str) -> dict[str, Any]:
            one = job[direction]
            # A flush has no data, so its latency is its completion time.
            latency, completion = one["lat_ns"], one.get("clat_ns", one["lat_ns"])
            percentiles, longest = completion.get("percentile", {}), completion.get("max", 0)

            def within(percent: str) -> float:
                # fio's percentile is the middle of a bucket, which may exceed the longest time. The
                # job's `percentile_list` may leave this percentile out.
                return float(min(percentiles.get(percent, math.nan), longest) / 1e3)

            return {
                "job": job["jobname"],
                "direction": direction,
                "ios": one["total_ios"],
                "mib_s": one["bw_bytes"] / 2**20 if "bw_bytes" in one else math.nan,
                "iops": one.get("iops", math.nan),
                "lat_mean_us": latency["mean"] / 1e3,
                "clat_p50_us": within("50.000000"),
                "clat_p99_us": within("99.000000"),
                "clat_max_us": longest / 1e3,
                "lat_max_us": latency["max"] / 1e3,
                "run_mib_s": together,
            }

        ways = ("read", "write", "trim", "sync")
        moved = [(job, way) for job in self["jobs"] for way in ways if job[way].get("total_ios")]
        return pandas.DataFrame([row(job, direction) for job, direction in moved])

    def mib_per_s(self) -> float:
        """Returns the rate of both directions together, over the whole run, in MiB/s."""
        counters = self["mmcq"]["counters"]
        return float(counters["bytes"] / 2**20 / (counters["elapsed_ns"] / 1e9))

    def _repr_html_(self) -> str:
        of = self["mmcq"]
        title = f"{of['platform']}, {of['card']}, {of['setting']}: {self.mib_per_s():.2f} MiB/s"
        return f"<p>{title}</p>{self.rows().to_html(index=False, float_format='{:.2f}'.format)}"


class Why:
    """An explanation of where the time of a run went."""

    def __init__(self, lines: str, conclusion: str) -> None:
        self.facts: list[dict[str, Any]] = [json.loads(line) for line in lines.splitlines()]
        #: The largest cost, in one line.
        self.conclusion = conclusion

    def frame(self) -> pandas.DataFrame:
        """Returns all facts, as a frame: group, name, value, unit."""
        import pandas

        return pandas.DataFrame([fact for fact in self.facts if "name" in fact])

    def __str__(self) -> str:
        return self.conclusion

    def __repr__(self) -> str:
        return f"Why({self.conclusion!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Why) and (self.facts, self.conclusion) == (other.facts, other.conclusion)

    __hash__ = None  # type: ignore[assignment]


def run(
    job: Job,
    *,
    platform: str | os.PathLike[str] | Platform = DEFAULT,
    card: str | os.PathLike[str] | Card | None = None,
    setting: str = "mmcq",
    seed: int = 1,
    set: Mapping[str, Any] | None = None,
) -> Report:
    """Runs fio jobs on a board, in virtual time.

    >>> job = {"rw": "randread", "bs": "4k", "size": "4m", "ioengine": "libaio", "direct": 1}
    >>> run(job, card="pro-plus-128").rows()[["job", "direction", "ios"]]
       job direction   ios
    0  job      read  1024
    """
    board, slot, changes = scene(platform, card, set)
    told, idle = _mmcq.run(given(job), board, slot, setting, whole("seed", seed), changes)
    _warn(idle)
    return Report(json.loads(told))


def why(
    job: Job,
    *,
    platform: str | os.PathLike[str] | Platform = DEFAULT,
    card: str | os.PathLike[str] | Card | None = None,
    setting: str = "mmcq",
    seed: int = 1,
    set: Mapping[str, Any] | None = None,
) -> Why:
    """Runs jobs; returns where the time went, and the physical limit of bus and card."""
    board, slot, changes = scene(platform, card, set)
    seed = whole("seed", seed)
    lines, conclusion, idle = _mmcq.explain(given(job), board, slot, setting, seed, changes)
    _warn(idle)
    return Why(lines, conclusion)


def _warn(idle: Sequence[str]) -> None:
    """Raises each line as a warning at the user's call: arguments without effect, or differences
    between the recording and the replay."""
    for line in idle:
        warnings.warn(line, stacklevel=3)


def replay(
    traces: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    platform: str | os.PathLike[str] | Platform = DEFAULT,
    card: str | os.PathLike[str] | Card | None = None,
    setting: str = "mmcq",
    seed: int = 1,
    set: Mapping[str, Any] | None = None,
    format: str | None = None,
    columns: str | None = None,
    time_unit: str | None = None,
    event: str | None = None,
    device: str | None = None,
    mode: str | None = None,
    depth: int | None = None,
    scale: float | None = None,
    gap_max_ns: int | None = None,
    remap: str | None = None,
    sort: bool = False,
    count: int | None = None,
    without: Sequence[str] = (),
) -> Report:
    """Replays a recorded load.

    `traces` names the files of the recording. The arguments from `format` on are the options of
    `mmcq replay`. `without` lists requests to leave out: "flush", "discard", "fua".
    """
    numbers = {"depth": depth, "gap_max_ns": gap_max_ns, "count": count}
    options: dict[str, Any] = {
        "format": format,
        "columns": columns,
        "time_unit": time_unit,
        "event": event,
        "device": device,
        "mode": mode,
        "scale": scale,
        "remap": remap,
        "sort": sort,
        "without": list(without),
        **{name: None if value is None else whole(name, value) for name, value in numbers.items()},
    }
    several = [traces] if isinstance(traces, (str, os.PathLike)) else list(traces)
    if not several:
        raise ValueError("replay: no trace was given")
    board, slot, changes = scene(platform, card, set)
    files = [os.fspath(trace) for trace in several]
    seed = whole("seed", seed)
    told, notes = _mmcq.replay(files, options, board, slot, setting, seed, changes)
    _warn(notes)
    return Report(json.loads(told))
