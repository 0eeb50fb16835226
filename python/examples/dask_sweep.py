"""A grid of runs spread over a Dask cluster.

    python dask_sweep.py                          workers are processes of this machine
    python dask_sweep.py --scheduler tcp://host:8786
    python dask_sweep.py --kill --check           a worker is killed in the middle; same rows all the same

The rows of a point depend only on its number. If a worker is lost, the cluster runs its points
again.
"""

import argparse
import os
import signal
import sys

import mmcq
from dask.distributed import Client, LocalCluster, as_completed

JOB = """
[reader]
filename=/dev/mmcblk0
direct=1
ioengine=libaio
rw=randread
bs=4k
io_size=1m
size=64m
"""
OVER = {
    "setting": ["none", "mmcq"],
    "cost.wake_us": [5, 10, 20, 40, 80],
    "job.iodepth": [1, 4, 16],
    "seed": range(1, 5),
}


def spread(client, grid, kill=False):
    """Runs all points on the cluster; returns the lines of each point, in their order."""
    # One copy of the grid for each worker; the tasks are numbers.
    shared = client.scatter(grid, broadcast=True)
    tasks = client.map(lambda point, grid: (point, grid.lines(point)), range(len(grid)), grid=shared)
    lines = {}
    for task in as_completed(tasks):
        point, text = task.result()
        lines[point] = text
        task.release()  # If the worker is lost later, this point is not run again.
        if kill and len(lines) == len(grid) // 3:
            victim = next(iter(client.run(os.getpid).values()))
            os.kill(victim, signal.SIGKILL)
            print(f"killed the worker of process {victim} after {len(lines)} of {len(grid)} points")
            kill = False
    return [lines[point] for point in range(len(grid))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scheduler", help="address of a running scheduler")
    parser.add_argument("--out", default="rows.jsonl", help="file of the rows")
    parser.add_argument("--kill", action="store_true", help="kill a local worker in the middle")
    parser.add_argument("--check", action="store_true", help="compare with a run in this process")
    given = parser.parse_args()
    grid = mmcq.Grid(JOB, OVER, platform="hsq-sprd")
    cluster = given.scheduler or LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with Client(cluster) as client:
        lines = spread(client, grid, given.kill and not given.scheduler)
    if given.scheduler is None:
        cluster.close()
    with open(given.out, "w") as out:
        out.writelines(lines)
    print(f"{len(grid)} points, {sum(text.count(chr(10)) for text in lines)} rows: {given.out}")
    if given.check:
        same = lines == [grid.lines(point) for point in range(len(grid))]
        print("the same rows as in one process, bit for bit" if same else "the rows differ from those of one process")
        return 0 if same else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
