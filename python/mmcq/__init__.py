"""Card stacks on simulated boards, in virtual time: the laboratory of mmcq.

How fast is a fio job on a board? Where does the time go? What would a slower CPU cost?

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

The parts (help(mmcq.run), for example, says more about one of them):

  run, replay                        run a job, or a recorded load; return a Report
  why                                says where the time of a run goes; returns a Why
  sweep, Grid                        run a job with each combination of values: a pandas frame
  fit                                fits values of board and card to measurements; returns a Fit
  torture, merge                     random faults and power cuts, in parts for many machines
  Platform, Card                     a board, a card: its values, and changes of them
  platforms(), cards(), settings()   the existing names

A job is a path, the text of a job file, or a mapping of fio's options as above. All calls that run
something take `platform`, `card`, `setting`, `seed` and `set`. `set` changes values that `mmcq
params` lists. With equal arguments the numbers equal those of the program `mmcq`, on every machine.
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
