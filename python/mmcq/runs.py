"""Single runs."""

from __future__ import annotations

import json
import os
from typing import Any, Mapping, Sequence

from . import _mmcq
from .boards import DEFAULT, Card, Platform, scene
from .jobs import Job, given


class Report(dict):
    """A run's report: fio's JSON, and what the laboratory adds under "mmcq"."""

    def rows(self):
        """Job and direction: rates and latencies, as a frame."""
        import pandas

        def row(job: Mapping[str, Any], direction: str) -> dict[str, Any]:
            one = job[direction]
            latency, percentiles = one["lat_ns"], one.get("clat_ns", {}).get("percentile", {})
            return {
                "job": job["jobname"],
                "direction": direction,
                "ios": one["total_ios"],
                "mib_s": one["bw_bytes"] / 2**20,
                "iops": one["iops"],
                "lat_mean_us": latency["mean"] / 1e3,
                "clat_p50_us": percentiles.get("50.000000", 0) / 1e3,
                "clat_p99_us": percentiles.get("99.000000", 0) / 1e3,
                "lat_max_us": latency["max"] / 1e3,
            }

        moved = [(job, d) for job in self["jobs"] for d in ("read", "write", "trim") if job[d]["total_ios"]]
        return pandas.DataFrame([row(job, direction) for job, direction in moved])

    def mib_per_s(self) -> float:
        """Both directions, over the whole run."""
        counters = self["mmcq"]["counters"]
        return counters["bytes"] / 2**20 / (counters["elapsed_ns"] / 1e9)

    def _repr_html_(self) -> str:
        of = self["mmcq"]
        title = f"{of['platform']}, {of['card']}, {of['setting']}: {self.mib_per_s():.2f} MiB/s"
        return f"<p>{title}</p>{self.rows().to_html(index=False, float_format='%.2f')}"


class Why:
    """Where the time of a run went."""

    def __init__(self, lines: str, conclusion: str):
        self.facts = [json.loads(line) for line in lines.splitlines()]
        #: What costs most, in one line.
        self.conclusion = conclusion

    def frame(self):
        """All facts: group, name, value, unit."""
        import pandas

        return pandas.DataFrame([fact for fact in self.facts if "name" in fact])

    def __str__(self) -> str:
        return self.conclusion


def run(
    job: Job,
    *,
    platform: str | os.PathLike[str] | Platform = DEFAULT,
    card: str | os.PathLike[str] | Card | None = None,
    setting: str = "mmcq",
    seed: int = 1,
    set: Mapping[str, Any] | None = None,
) -> Report:
    """Runs fio jobs on a board, in virtual time."""
    platform, card, changes = scene(platform, card, set)
    return Report(json.loads(_mmcq.run(given(job), platform, card, setting, seed, changes)))


def why(
    job: Job,
    *,
    platform: str | os.PathLike[str] | Platform = DEFAULT,
    card: str | os.PathLike[str] | Card | None = None,
    setting: str = "mmcq",
    seed: int = 1,
    set: Mapping[str, Any] | None = None,
) -> Why:
    """Runs jobs, and says where the time went and what the physical limit is."""
    platform, card, changes = scene(platform, card, set)
    return Why(*_mmcq.explain(given(job), platform, card, setting, seed, changes))


def replay(
    traces: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    platform: str | os.PathLike[str] | Platform = DEFAULT,
    card: str | os.PathLike[str] | Card | None = None,
    setting: str = "mmcq",
    seed: int = 1,
    set: Mapping[str, Any] | None = None,
    **options: Any,
) -> Report:
    """Replays a recorded load.

    Options are those of `mmcq replay`: format, columns, time_unit, event, device, mode, depth,
    scale, gap_max_ns, remap, sort, count, without (a list).
    """
    known = "format columns time_unit event device mode depth scale gap_max_ns remap sort count without".split()
    unknown = [name for name in options if name not in known]
    if unknown:
        raise TypeError(f"replay() has no option {unknown[0]!r}; expected one of: {', '.join(known)}")
    several = [traces] if isinstance(traces, (str, os.PathLike)) else list(traces)
    if not several:
        raise ValueError("replay: no trace was given")
    platform, card, changes = scene(platform, card, set)
    files = [os.fspath(trace) for trace in several]
    return Report(json.loads(_mmcq.replay(files, options, platform, card, setting, seed, changes)))
