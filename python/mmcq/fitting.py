"""Fits values of a board and a card to measured figures."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Mapping, Sequence, Union

from . import _mmcq
from .boards import DEFAULT, Card, Platform, scene, whole

if TYPE_CHECKING:
    import pandas

Files = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]


class Fit:
    """The result of a fit."""

    def __init__(self, facts: dict[str, Any]) -> None:
        #: The object that `mmcq fit --json` prints.
        self.facts = facts

    @property
    def verdict(self) -> str:
        """How good the fit is, in one line."""
        return str(self.facts["verdict"])

    def values(self) -> pandas.DataFrame:
        """Returns the fitted values, as a frame: before, after, 95 % interval, determined."""
        import pandas

        frame = pandas.DataFrame(self.facts["values"]).set_index("key")
        ends = [pair or (float("nan"), float("nan")) for pair in frame.pop("interval_95")]
        return frame.assign(least_95=[least for least, _ in ends], most_95=[most for _, most in ends])

    def residuals(self) -> pandas.DataFrame:
        """Returns all figures, as a frame: measured, model, error; held out or fitted."""
        import pandas

        parts = ((False, "fitted"), (True, "held"))
        rows = [{"held": held, **row} for held, part in parts for row in self.facts[part]]
        return pandas.DataFrame(rows)

    def changes(self) -> dict[str, float]:
        """Returns the values that the figures determine, for the argument `set` of other calls."""
        return {value["key"]: value["after"] for value in self.facts["values"] if value["determined"]}

    def __str__(self) -> str:
        return self.verdict


def fit(
    measured: Files,
    *,
    holdout: Files = (),
    fit_blocks: Sequence[str] = (),
    free: Sequence[str] = (),
    percentiles: Sequence[float] = (),
    noise: float = 0.02,
    ios: int | None = None,
    jobs: int | None = None,
    platform: str | os.PathLike[str] | Platform = DEFAULT,
    card: str | os.PathLike[str] | Card | None = None,
    setting: str = "none",
    seed: int = 1,
    set: Mapping[str, Any] | None = None,
) -> Fit:
    """Fits values of board and card to figures: fio's JSON, tables of iozone, rows of `sweep`.

    `measured` names the files of figures for the fit. Figures in the files of `holdout` are held
    out: the model only predicts them. If `fit_blocks` is given, figures of other block sizes are
    held out too. `percentiles` lists percentiles of the latency to fit as well.

    `free` has the keys (of `params()`) whose values may change. A key that ends in `*` means all
    keys with this beginning, and `KEY=LEAST..MOST` sets other bounds. Without `free`, the times and
    rates of the card may change. `noise` is the relative standard deviation of a figure: 0.02 is 2
    %. `ios` is the largest number of requests of a job in the model. Without `ios` it is 3000, and
    a job transfers at most 32 MiB, or twice the size of the card's caches if that is more.
    """
    board, slot, changes = scene(platform, card, set)
    figures = {
        "measured": _several(measured),
        "holdout": _several(holdout),
        "fit_blocks": list(fit_blocks),
        "percentiles": list(percentiles),
    }
    how = {
        "free": list(free),
        "noise": noise,
        "ios": None if ios is None else whole("ios", ios),
        "jobs": None if jobs is None else whole("jobs", jobs, 1),
    }
    seed = whole("seed", seed)
    return Fit(json.loads(_mmcq.fit(figures, how, board, slot, setting, seed, changes)))


def _several(files: Files) -> list[str]:
    if isinstance(files, (str, os.PathLike)):
        files = [files]
    return [os.fspath(file) for file in files]
