"""Torture in parts: random campaigns of faults and power cuts, for many machines."""

from __future__ import annotations

import json
from typing import Any, Iterable

from . import _mmcq
from .boards import whole


def torture(
    mode: str = "swarm",
    *,
    ios: int = 5_000_000,
    seed: int = 1,
    shard: str = "1/1",
    jobs: int | None = None,
    faults: float = 0.002,
    cuts: int = 30_000,
) -> dict[str, Any]:
    """Runs a shard of a campaign, as `mmcq torture --mode MODE --shard I/N --json` does.

    A campaign has `ios` requests. Shard "I/N" is part I of N, and may run on any machine; `merge`
    adds the summaries up. Only the mode "swarm" uses `faults` (mean probability that a fault
    strikes where it can) and `cuts` (approximate number of power cuts in the whole campaign).
    """
    jobs = None if jobs is None else whole("jobs", jobs, 1)
    ios, seed, cuts = whole("ios", ios), whole("seed", seed), whole("cuts", cuts)
    summary: dict[str, Any] = json.loads(_mmcq.torture(mode, ios, seed, shard, jobs, faults, cuts))
    return summary


def merge(summaries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Adds up the summaries of shards; returns one per campaign. A repeated shard is an error."""
    lines = "".join(json.dumps(summary) + "\n" for summary in summaries)
    return [json.loads(line) for line in _mmcq.merge(lines).splitlines()]
