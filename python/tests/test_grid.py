"""Grids: the rows are those of `mmcq sweep`."""

import os
import pickle
import subprocess
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import mmcq
import pytest

JOB = "[one]\nfilename=/dev/mmcblk0\ndirect=1\nbs=4k\nsize=64k\nrw=randrw\nioengine=libaio\n"
OVER = {"setting": ["none", "mmcq"], "job.iodepth": [1, 4], "cost.wake_us": [5, 80], "seed": range(1, 4)}
ZIP = [("job.iodepth", "cost.wake_us")]


def grid():
    return mmcq.Grid(JOB, OVER, zip=ZIP)


def bytes_of_the_program(tmp_path):
    (tmp_path / "j.fio").write_text(JOB)
    command = [os.environ["MMCQ"], "sweep", "j.fio", "--zip", "job.iodepth,cost.wake_us", "--out", "rows.jsonl"]
    for key, values in OVER.items():
        command += ["--over", f"{key}={','.join(map(str, values))}"]
    subprocess.run(command, cwd=tmp_path, check=True)
    return (tmp_path / "rows.jsonl").read_text()


def test_rows_are_those_of_the_program(tmp_path):
    assert "".join(grid().lines(point) for point in range(len(grid()))) == bytes_of_the_program(tmp_path)


def test_columns_of_the_program_are_the_frame(tmp_path):
    (tmp_path / "j.fio").write_text(JOB)
    command = [os.environ["MMCQ"], "sweep", "j.fio", "--over", "seed=1,2", "--out", "rows.parquet"]
    subprocess.run(command, cwd=tmp_path, check=True)
    import pandas

    theirs, ours = pandas.read_parquet(tmp_path / "rows.parquet"), mmcq.sweep(JOB, {"seed": [1, 2]})
    assert list(theirs.columns) == list(ours.columns)
    for name in ours.columns:
        assert list(theirs[name].fillna("-")) == list(ours[name].fillna("-")), name


def test_a_sweep_is_a_frame_in_the_order_of_the_grid():
    seen = []
    rows = mmcq.sweep(JOB, OVER, zip=ZIP, progress=lambda done, of: seen.append((done, of)))
    assert list(rows.point) == [n // 2 for n in range(24)]
    assert seen == [(n, 12) for n in range(1, 13)]
    table = rows.pivot_table(index="cost.wake_us", columns="setting", values="run_mib_s")
    assert table.shape == (2, 2)


def test_shards_are_parts_of_the_whole():
    whole = mmcq.sweep(JOB, OVER, zip=ZIP)
    parts = [mmcq.sweep(JOB, OVER, zip=ZIP, shard=f"{n}/3", jobs=1) for n in (1, 2, 3)]
    import pandas

    joined = pandas.concat(parts).sort_values("point", kind="stable").reset_index(drop=True)
    pandas.testing.assert_frame_equal(joined, whole)


def test_threads_and_processes_get_the_same():
    ours = grid()
    expected = [ours.lines(point) for point in range(len(ours))]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(ours.lines, range(len(ours)))) == expected
    with ProcessPoolExecutor(2) as pool:
        assert list(pool.map(ours.lines, range(len(ours)))) == expected
    assert pickle.loads(pickle.dumps(ours)).lines(5) == expected[5]


def test_what_a_callback_raises_ends_the_sweep():
    def stop(done, of):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mmcq.sweep(JOB, OVER, zip=ZIP, progress=stop)


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: mmcq.Grid(JOB, {"cost.no_such_us": [1]}), "no_such_us"),
        (lambda: mmcq.Grid(JOB, {"seed": [1, 1]}), "twice"),
        (lambda: mmcq.Grid(JOB, {"seed": []}), "seed"),
        (lambda: mmcq.Grid(JOB, OVER, zip=[("seed", "setting")]), "zip"),
        (lambda: grid().points("5/3"), "5/3"),
        (lambda: grid().lines(99), "99"),
        (lambda: grid().rows(-1), "point -1"),
        (lambda: mmcq.Grid(JOB, {"setting": "none"}), "expected a list of values, such as ['none']"),
        (lambda: grid().run(jobs=0), "jobs 0"),
    ],
)
def test_bad_input_is_one_line(call, said):
    with pytest.raises(ValueError) as caught:
        call()
    assert said in str(caught.value) and "\n" not in str(caught.value)
