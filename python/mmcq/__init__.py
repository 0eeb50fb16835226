"""Card stacks on simulated boards, in virtual time: the laboratory of mmcq.

How fast is a job of fio's on a board? Where did the time go? What would a slower CPU cost?

>>> import mmcq
>>> job = {"rw": "randwrite", "bs": "4k", "io_size": "2m", "size": "64m",
...        "ioengine": "libaio", "iodepth": 8, "direct": 1}
>>> report = mmcq.run(job, platform="hsq-sprd", setting="none")
>>> print(f"{report.mib_per_s():.1f} MiB/s")
35.5 MiB/s
>>> print(mmcq.why(job, platform="hsq-sprd", setting="none"))
42.6 % of the limit; most of the loss: software takes 62 us for each transfer ...
>>> rows = mmcq.sweep(job, over={"cost.wake_us": [5, 20, 80], "setting": ["none", "mmcq"]},
...                   platform="hsq-sprd")
>>> rows.pivot_table(index="cost.wake_us", columns="setting", values="run_mib_s").round(1)
setting       mmcq  none
cost.wake_us
5             75.9  58.1
20            75.9  40.2
80            75.9  18.0

The parts; each has a help of its own, such as help(mmcq.run):

  run, replay                        a job, or a recorded load: Report, fio's JSON and more
  why                                where the time of a run went: Why
  sweep, Grid                        a job at every point of a grid: a frame of pandas
  fit                                values of board and card from measured figures: Fit
  torture, merge                     random faults and power cuts, in parts for many machines
  Platform, Card                     a board, a card: what it has, and changes of it
  platforms(), cards(), settings()   the names that there are

A job is a path, the text of a job file, or fio's options as above. All that run something take
`platform`, `card`, `setting`, `seed`, and `set` for all that `mmcq params` lists. The same of these
give the same numbers as the program `mmcq`, on every machine. Bad input raises ValueError with one
line that names the place and the fault.
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
