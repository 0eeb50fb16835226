"""A campaign of torture spread over a Dask cluster.

    python dask_torture.py --ios 1000000 --shards 16
    python dask_torture.py --ios 1000000000 --shards 4096 --scheduler tcp://host:8786

The result of a shard depends only on its number. If a worker is lost, the cluster runs its shards
again, and the sum is the same.
"""

import argparse
import sys

import mmcq
from dask.distributed import Client, LocalCluster, as_completed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", default="swarm", help="campaign: swarm, streams, hosts, sdmmc, spi, queues")
    parser.add_argument("--ios", type=int, default=200_000, help="requests of the whole campaign")
    parser.add_argument("--shards", type=int, default=16, help="parts")
    parser.add_argument("--scheduler", help="address of a running scheduler")
    parser.add_argument("--check", action="store_true", help="compare with a run in this process")
    given = parser.parse_args()

    def part(number):
        return mmcq.torture(given.mode, ios=given.ios, shard=f"{number}/{given.shards}", jobs=1)

    cluster = given.scheduler or LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    parts = []
    with Client(cluster) as client:
        for task in as_completed(client.map(part, range(1, given.shards + 1))):
            parts.append(task.result())
            task.release()
    if given.scheduler is None:
        cluster.close()
    (whole,) = mmcq.merge(parts)
    counts = whole["counts"]
    print(f"{counts['requests']} requests, {counts['cuts']} power cuts, {sum(whole['faults'].values())} faults")
    print(f"promises broken: {whole['broken'] or 'none'}; recoveries over budget: {whole['over_budget']}")
    for seed, what in whole["failures"]:
        print(f"seed {seed}: {what}")
    if given.check:
        alone = mmcq.torture(given.mode, ios=given.ios)
        same = {**whole, "of": 1, "shares": [1]} == alone
        print("the same sum as in one process" if same else "the sum differs from that of one process")
        return 0 if same else 1
    return 1 if whole["broken"] or whole["over_budget"] else 0


if __name__ == "__main__":
    sys.exit(main())
