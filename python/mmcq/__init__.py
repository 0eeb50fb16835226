"""The laboratory of mmcq: card stacks on simulated boards, in virtual time.

    import mmcq
    report = mmcq.run({"rw": "randread", "bs": "4k", "size": "4m"}, setting="none")
    print(report.mib_per_s())
    rows = mmcq.sweep("my.fio", over={"cost.wake_us": [5, 20, 80], "setting": ["none", "mmcq"]})
    rows.pivot_table(index="cost.wake_us", columns="setting", values="mib_s")

The same job, board, card and seed give the same numbers as the program `mmcq`, on every machine.
Bad input raises ValueError with one line that names the place and the fault.
"""

from ._mmcq import __version__, cards, platforms, settings
from .boards import Card, Platform
from .fitting import Fit, fit
from .grid import Grid, sweep
from .runs import Report, Why, replay, run, why
from .torture import merge, torture

__all__ = [
    "Card",
    "Fit",
    "Grid",
    "Platform",
    "Report",
    "Why",
    "__version__",
    "cards",
    "fit",
    "merge",
    "platforms",
    "replay",
    "run",
    "settings",
    "sweep",
    "torture",
    "why",
]
