#!/usr/bin/env python3
"""sqlite-cuts.py [--mmcq PROGRAM] [--transactions N] [--random N] [--card CARD] [--lying]
               [--journal persist|wal|wal-exclusive]

SQLite on a simulated card whose supply fails: at every flush of the card, and at random moments.
After each cut the database is opened from what the card kept. It must be whole, and must have each
transaction that SQLite had acknowledged. With --lying the card's cache forgets what it took, and
tells of flushes that it has not done: then at least one cut must be found to have done damage.
With --journal wal, the index of the log (-shm) is memory in a file of this machine, since nothing of
it must survive; with wal-exclusive there is none.
Exit codes: 0 as it must be, 1 not, 2 bad input.
"""

import argparse
import os
import random
import re
import sqlite3
import subprocess
import sys
import tempfile

ROWS = 5  # of a transaction
PART = 1 << 20  # of the card, for the database and for its journal
CARD_BYTES = 8 << 30


def write(path, transactions, journal):
    """What runs on the card: transactions, each told when it is committed."""
    base = sqlite3.connect(path, isolation_level=None)
    if journal == "wal-exclusive":
        base.execute("pragma locking_mode=exclusive")
    # Files on the card keep their length: a journal is ended by its header, not by its removal.
    mode = "persist" if journal == "persist" else "wal"
    said = base.execute(f"pragma journal_mode={mode}").fetchone()[0]
    if said != mode:
        sys.exit(f"journal_mode={mode}: SQLite has {said}")
    # Often, so that the log begins anew within a few transactions.
    base.execute("pragma wal_autocheckpoint=12")
    base.execute("pragma synchronous=full")
    base.execute("pragma cache_size=10")
    for nth in range(transactions):
        base.execute("begin")
        for row in range(ROWS):
            base.execute("insert into t values (?, ?)", (nth * ROWS + row + 1, bytes([nth % 256]) * 700))
        base.execute("update t set v = zeroblob(600) where id % 3 = 0")
        base.execute("commit")
        os.write(1, b"%d\n" % (nth + 1))


def whole(folder, image, committed, suffix):
    """What is wrong with what the card kept, or None."""
    path = os.path.join(folder, "kept.db")
    if os.path.exists(path + "-shm"):
        os.remove(path + "-shm")
    with open(image, "rb") as card:
        for name, start in ((path, 0), (path + suffix, PART)):
            card.seek(start)
            with open(name, "wb") as part:
                part.write(card.read(PART))
    try:
        base = sqlite3.connect(path)
        said = base.execute("pragma integrity_check").fetchone()[0]
        if said != "ok":
            return f"the check of the database says {said.splitlines()[0]!r}"
        rows, last = base.execute("select count(*), coalesce(max(id), 0) from t").fetchone()
        base.close()
    except sqlite3.Error as error:
        return f"the database cannot be read: {error}"
    if rows != last or rows % ROWS:
        return f"a part of a transaction: {rows} rows, the last is {last}"
    if rows < committed * ROWS:
        return f"transaction {committed} was acknowledged, and {rows // ROWS} are there"
    return None


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--mmcq", default="mmcq")
    parser.add_argument("--transactions", type=int, default=8)
    parser.add_argument("--random", type=int, default=24)
    parser.add_argument("--card", default="emmc-51-full")
    parser.add_argument("--lying", action="store_true")
    parser.add_argument("--journal", choices=("persist", "wal", "wal-exclusive"), default="persist")
    given = parser.parse_args()
    suffix = "-journal" if given.journal == "persist" else "-wal"
    with tempfile.TemporaryDirectory() as folder:
        start = os.path.join(folder, "base.db")
        base = sqlite3.connect(start)
        # The switch itself would need a file beside those on the card.
        base.execute("pragma journal_mode=" + ("delete" if given.journal == "persist" else "wal"))
        base.execute("create table t (id integer primary key, v blob)")
        base.commit()
        base.close()
        with open(start, "rb") as file:
            start = file.read()
        image = os.path.join(folder, "card.img")

        def run(*more):
            with open(image, "wb") as card:
                card.write(start)
                card.truncate(CARD_BYTES)
            command = [given.mmcq, "exec", "--card", given.card, "--image", image]
            command += [f"--file=t.db={PART}", f"--file=t.db{suffix}={PART}", *more]
            command += ["--", sys.executable, os.path.abspath(__file__), "--write"]
            command += [str(given.transactions), given.journal]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            # 125: the program ended before the cut.
            if done.returncode not in (0, 125):
                sys.exit(f"sqlite-cuts.py: {done.stderr.strip()}")
            return len(done.stdout.split()), done.stderr

        lying = ["--lying-cache"] if given.lying else []
        committed, said = run()
        counted = re.search(r"([0-9.]+) s in virtual time.* ([0-9]+) flushes", said)
        if not counted or committed != given.transactions:
            sys.exit(f"sqlite-cuts.py: the run without a cut said {said.strip()!r}")
        wrong = whole(folder, image, committed, suffix)
        if wrong:
            print(f"without a cut: {wrong}")
            sys.exit(1)
        micros, flushes = int(float(counted[1]) * 1e6), int(counted[2])
        draw = random.Random(1)
        cuts = [("--cut-after-flush", n) for n in range(1, flushes + 1)]
        cuts += [("--cut-at", draw.randrange(1, micros)) for _ in range(given.random)]
        found, unsafe = 0, 0
        for seed, (option, value) in enumerate(cuts, 1):
            committed, said = run(option, str(value), "--seed", str(seed), *lying)
            at_stake = re.search(r"([0-9]+) sectors were not safe", said)
            unsafe += int(at_stake[1]) > 0 if at_stake else 0
            wrong = whole(folder, image, committed, suffix)
            if wrong:
                found += 1
                print(f"{option} {value} --seed {seed}: {wrong}")
        print(
            f"{given.transactions} transactions, {flushes} flushes, {len(cuts)} cuts: "
            f"{unsafe} with sectors at stake, {found} with damage"
        )
        sys.exit((found == 0) if given.lying else (found > 0))


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "--write":
        write("t.db", int(sys.argv[2]), sys.argv[3])
    else:
        main()
