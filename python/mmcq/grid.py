"""Grids of runs: a job is run with each combination of given values."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Sequence

from . import _mmcq
from .boards import DEFAULT, Card, Platform, _word, scene, whole
from .jobs import Job, given

if TYPE_CHECKING:
    import pandas


class Grid:
    """A job and a grid of values; each combination is a point. Other processes can get a copy.

    `over` maps each key to a list of values. A key is one that `set` takes, or "platform", "card",
    "setting" or "seed". The points are all combinations of values; the last key changes fastest.
    Each group of keys in `zip` advances together and counts as one axis.
    """

    def __init__(
        self,
        job: Job,
        over: Mapping[str, object],
        *,
        zip: Sequence[Sequence[str]] = (),
        platform: str | os.PathLike[str] | Platform = DEFAULT,
        card: str | os.PathLike[str] | Card | None = None,
        setting: str = "mmcq",
        seed: int = 1,
        set: Mapping[str, Any] | None = None,
    ) -> None:
        axes = [f"{key}={','.join(map(_axis, _listed(key, values)))}" for key, values in over.items()]
        zips = [",".join(keys) for keys in zip]
        board, slot, words = scene(platform, card, set)
        self._given = (given(job), axes, zips, board, slot, setting, whole("seed", seed), words)
        self._grid = _mmcq.Grid(*self._given)

    def __len__(self) -> int:
        return self._grid.points()

    def __repr__(self) -> str:
        return f"Grid({len(self)} points, over {', '.join(self._given[1])})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grid) and self._given == other._given

    def __hash__(self) -> int:
        return hash(repr(self))

    def __getstate__(self) -> tuple[Any, ...]:
        return self._given

    def __setstate__(self, state: Any) -> None:
        self._given = state
        self._grid = _mmcq.Grid(*state)

    def lines(self, point: int) -> str:
        """Runs a point; returns its rows, the same bytes as `mmcq sweep --out x.jsonl` writes."""
        return self._grid.lines(whole("point", point))

    def rows(self, point: int) -> list[dict[str, Any]]:
        """Runs a point, and returns its rows, one for each direction."""
        return [json.loads(line) for line in self.lines(point).splitlines()]

    def points(self, shard: str = "1/1") -> list[int]:
        """Returns the points of a shard: "3/16" has the points whose number modulo 16 is 2."""
        return self._grid.part(shard)

    def run(
        self,
        *,
        shard: str = "1/1",
        jobs: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> pandas.DataFrame:
        """Runs the points of a shard, and returns a frame of rows.

        `jobs` is the number of threads; without it there is one for each core. `progress` is called
        after each point with the number of points done, and with the number of all points.
        """
        jobs = None if jobs is None else whole("jobs", jobs, 1)
        points = self.points(shard)
        rows: list[dict[str, Any]] = []
        done = 0

        def take(lines: str) -> None:
            nonlocal done
            rows.extend(json.loads(line) for line in lines.splitlines())
            done += 1
            if progress is not None:
                progress(done, len(points))

        self._grid.run(points, jobs, take)
        return frame(rows)


def frame(rows: Iterable[Mapping[str, Any]]) -> pandas.DataFrame:
    """Returns rows as a pandas frame."""
    import pandas

    return pandas.DataFrame([dict(row) for row in rows])


def sweep(
    job: Job,
    over: Mapping[str, object],
    *,
    zip: Sequence[Sequence[str]] = (),
    platform: str | os.PathLike[str] | Platform = DEFAULT,
    card: str | os.PathLike[str] | Card | None = None,
    setting: str = "mmcq",
    seed: int = 1,
    set: Mapping[str, Any] | None = None,
    shard: str = "1/1",
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pandas.DataFrame:
    """Runs a grid; returns a frame with a row for each run and direction; see `Grid`, `Grid.run`.

    Each key of `over` is a column. `mib_s` is the rate of the row's direction, and `run_mib_s` is
    the rate of the whole run.
    """
    grid = Grid(job, over, zip=zip, platform=platform, card=card, setting=setting, seed=seed, set=set)
    return grid.run(shard=shard, jobs=jobs, progress=progress)


def _listed(key: str, values: object) -> Iterable[Any]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ValueError(f"over {key}: expected a list of values, such as [{values!r}]")
    return values


def _axis(value: Any) -> str:
    word = os.fspath(value) if isinstance(value, os.PathLike) else _word(value)
    return f'"{word}"' if "," in word and not word.startswith("[") else word

