"""Runs: the numbers are those of the program."""

import _thread
import json
import os
import signal
import subprocess
import threading

import mmcq
import pytest

JOB = "[one]\nfilename=/dev/mmcblk0\ndirect=1\nbs=4k\nsize=256k\nrw=randrw\nioengine=libaio\niodepth=4\n"
OPTIONS = {"rw": "randread", "bs": "4k", "size": "256k", "ioengine": "libaio", "direct": 1}


def program(*arguments, text=None):
    """What the program prints."""
    command = [os.environ["MMCQ"], *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def test_a_run_equals_that_of_the_program():
    report = mmcq.run(JOB, platform="hsq-sprd", setting="none", set={"cost.wake_us": 40}, seed=3)
    theirs = program(
        "run", "-", "--platform", "hsq-sprd", "--setting", "none", "--set", "cost.wake_us=40",
        "--seed", "3", "--output-format", "json", text=JOB,
    )
    assert dict(report) == json.loads(theirs)


def test_jobs_are_text_options_or_a_file(tmp_path):
    path = tmp_path / "j.fio"
    path.write_text(JOB)
    assert mmcq.run(path) == mmcq.run(JOB) == mmcq.run(str(path))
    assert mmcq.run({**OPTIONS, "direct": False}).rows().ios[0] == 64
    rows = mmcq.run(OPTIONS).rows()
    assert list(rows.direction) == ["read"] and rows.ios[0] == 64


def test_a_knob_of_the_card_and_of_the_board():
    card = mmcq.Card("pro-plus-128", {"read_first_us": 400})
    slow, fast = mmcq.run(OPTIONS, card=card), mmcq.run(OPTIONS, card="pro-plus-128")
    assert slow.mib_per_s() < 0.7 * fast.mib_per_s()
    assert slow["mmcq"]["card"] == "pro-plus-128"
    # A write of Linux's wakes a thread; a read of one job does not.
    job = {**OPTIONS, "rw": "randwrite"}
    board = mmcq.Platform("generic").with_(cost__wake_us=200)
    assert mmcq.run(job, platform=board, setting="none").mib_per_s() < mmcq.run(job, setting="none").mib_per_s()


# A shell that starts the tests in the background has them ignore SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Hundred hours of virtual time, and a job that reads the whole card: neither ends within a test.
LONG = "[one]\nfilename=/dev/mmcblk0\ndirect=1\nbs=4k\nrw=randread\nioengine=libaio\ntime_based\nruntime=100h\n"


@pytest.mark.parametrize("call", [mmcq.run, mmcq.why])
def test_ctrl_c_ends_a_run(tmp_path, call):
    # The job comes through a pipe: when it is read, the call computes.
    pipe = tmp_path / "job.fio"
    os.mkfifo(pipe)

    def press():
        pipe.write_text(LONG)
        _thread.interrupt_main()

    presses = threading.Thread(target=press)
    presses.start()
    with pytest.raises(KeyboardInterrupt):
        call(pipe)
    presses.join()


def test_ctrl_c_ends_a_point_of_a_grid_and_a_campaign():
    grid = mmcq.Grid(LONG, {"seed": [1, 2]})
    for call in (lambda: grid.rows(0), grid.run, lambda: mmcq.torture(ios=10**12, jobs=1)):
        # A signal that is there when the call begins ends it, too: it is heard within.
        begun = threading.Event()
        presses = threading.Thread(target=lambda: begun.wait() and _thread.interrupt_main())
        presses.start()
        with pytest.raises(KeyboardInterrupt):
            begun.set()
            call()
        presses.join()


def test_rows_have_the_rate_of_the_run_and_no_percentile_above_the_longest():
    report = mmcq.run({**OPTIONS, "numjobs": 4, "rw": "randwrite", "iodepth": 8}, platform="intel-jsl")
    rows, counters = report.rows(), report["mmcq"]["counters"]
    rate = counters["bytes"] / 2**20 / (counters["elapsed_ns"] / 1e9)
    assert list(rows.run_mib_s) == [rate] * 4 and report.mib_per_s() == rate
    assert (rows.clat_p50_us <= rows.clat_max_us).all() and (rows.clat_p99_us <= rows.clat_max_us).all()


def test_flushes_are_a_row_of_their_own():
    job = {**OPTIONS, "rw": "randwrite", "fdatasync": 4}
    rows = mmcq.run(job, card="emmc-queue").rows()
    assert list(rows.direction) == ["write", "sync"]
    flushes = rows[rows.direction == "sync"].iloc[0]
    assert flushes.ios > 10 and 0 < flushes.clat_p50_us <= flushes.clat_max_us == flushes.lat_max_us


def test_a_percentile_that_the_job_leaves_out_is_no_number():
    rows = mmcq.run({**OPTIONS, "percentile_list": "50"}, platform="intel-jsl").rows()
    assert (rows.clat_p50_us > 0).all() and rows.clat_p99_us.isna().all()


@pytest.mark.parametrize("call", [mmcq.run, mmcq.why])
def test_a_change_without_effect_is_warned_of(call):
    # Only Linux's driver has a thread that is woken.
    with pytest.warns(UserWarning, match="cost.wake_us=80: made no difference"):
        call(OPTIONS, set={"cost.wake_us": 80})


def test_grids_and_explanations_name_themselves():
    grid, why = mmcq.Grid(JOB, {"seed": [1, 2]}), mmcq.why(JOB)
    assert repr(grid) == "Grid(2 points, over seed=1,2)"
    assert grid == mmcq.Grid(JOB, {"seed": [1, 2]}) and grid != mmcq.Grid(JOB, {"seed": [1, 3]})
    assert repr(why) == f"Why({why.conclusion!r})" and why == mmcq.why(JOB)


def test_boards_and_cards_list_what_can_be_set():
    params = mmcq.Platform("hsq-sprd").params()
    assert params.loc["cost.wake_us", "unit"] == "us"
    assert not any(key.startswith("card.") for key in params.index)
    assert "flash.read.read_first_us" in mmcq.Card("pro-plus-128").params().index
    assert "generic" in mmcq.platforms() and "pro-plus-128" in mmcq.cards() and "mmcq" in mmcq.settings()


def test_why_adds_up():
    why = mmcq.why(JOB, setting="none")
    facts = why.frame()
    time = facts[facts.group == "time"].set_index("name").value
    assert time.drop("in all").sum() == pytest.approx(time["in all"], rel=1e-6)
    theirs = program("why", "-", "--setting", "none", "--json", text=JOB)
    assert why.facts == [json.loads(line) for line in theirs.splitlines()]
    assert str(why).strip()


def test_a_trace_is_replayed(tmp_path):
    trace = tmp_path / "t.csv"
    lines = ["ts,op,lba,len"] + [f"{n * 500},{'RW'[n % 2]},{n * 8},4096" for n in range(100)]
    trace.write_text("\n".join(lines) + "\n")
    columns = "time=ts,op=op,sector=lba,bytes=len,unit=us"
    report = mmcq.replay(trace, format="csv", columns=columns, mode="open", platform="hsq-sprd")
    theirs = program(
        "replay", str(trace), "--format", "csv", "--columns", columns, "--platform", "hsq-sprd", "--output-format", "json"
    )
    assert dict(report) == json.loads(theirs)


def test_a_replay_warns_of_what_differs_from_the_recording(tmp_path):
    trace = tmp_path / "t.csv"
    trace.write_text("0,R,0,100\n")
    columns = "time=1,op=2,offset=3,bytes=4"
    with pytest.warns(UserWarning, match="rounded to whole blocks"):
        mmcq.replay(trace, columns=columns)
    with pytest.raises(ValueError, match="expected a number from 0"):
        mmcq.replay(trace, columns=columns, scale=-1.0)


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: mmcq.run("[a]\nrw=reed\n"), "reed"),
        (lambda: mmcq.run("no-such.fio"), "no-such.fio"),
        (lambda: mmcq.run(OPTIONS, platform="no-such-board"), "no-such-board"),
        (lambda: mmcq.run(OPTIONS, set={"cost.wake_usd": 3}), "cost.wake_usd"),
        (lambda: mmcq.run(OPTIONS, setting="fast"), "fast"),
        (lambda: mmcq.Card("no-such-card"), "no-such-card"),
        (lambda: mmcq.Platform("generic", {"cost.wake_usd": 3}), "cost.wake_usd"),
        (lambda: mmcq.replay("no-such.trace"), "no-such.trace"),
        (lambda: mmcq.replay("x", mode="fast"), "mode fast"),
        (lambda: mmcq.replay([]), "no trace"),
        (lambda: mmcq.run(""), "job"),
        (lambda: mmcq.run(OPTIONS, seed=-1), "seed -1"),
        (lambda: mmcq.run(OPTIONS, set=["cost.wake_us=3"]), "expected a mapping"),
        (lambda: mmcq.torture("queues", ios=100, jobs=0), "jobs 0"),
        (lambda: mmcq.replay("x", depth=-1), "depth -1"),
    ],
)
def test_bad_input_is_one_line(call, said):
    with pytest.raises(ValueError) as caught:
        call()
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_shards_of_a_campaign_are_the_whole():
    parts = [mmcq.torture("queues", ios=2000, shard=f"{n}/3", jobs=1) for n in (3, 1, 2)]
    (whole,) = mmcq.merge(parts)
    alone = mmcq.torture("queues", ios=2000)
    assert {**whole, "of": 1, "shares": [1]} == alone
    assert json.loads(program("torture", "--mode", "queues", "--ios", "2000", "--shard", "1/1", "--json")) == alone
    with pytest.raises(ValueError, match="share 3/3 is there twice"):
        mmcq.merge(parts + parts)
    with pytest.raises(ValueError, match="mode fast"):
        mmcq.torture("fast")


def test_a_hidden_value_is_found_in_rows_of_a_sweep(tmp_path):
    job = {"size": "64m", "ioengine": "libaio", "direct": 1}
    over = {"job.rw": ["randread", "read"], "job.bs": ["4k", "64k"], "job.iodepth": [1, 8]}
    hidden = mmcq.Card("pro-plus-128", {"flash.read.read_first_us": 140})
    rows = mmcq.sweep({**job, "io_size": "2m"}, over=over, card=hidden, setting="none")
    rows = rows[["job.rw", "job.bs", "job.iodepth", "direction", "mib_s"]]
    rows.assign(**{"job.size": "64m", "job.ioengine": "libaio", "job.direct": 1}).to_csv(tmp_path / "rows.csv", index=False)
    given = dict(card="pro-plus-128", free=["card.read_first_us"], fit_blocks=["4k"], ios=400)
    fitted = mmcq.fit(tmp_path / "rows.csv", **given)
    found = fitted.values().loc["card.flash.read.read_first_us"]
    assert found.determined and found.least_95 <= 140 <= found.most_95
    assert found.after == pytest.approx(140, rel=0.03)
    assert fitted.residuals().held.sum() == 4 and "predicted within" in str(fitted)
    assert fitted.changes() == {"card.flash.read.read_first_us": found.after}
    words = f"fit --measured {tmp_path}/rows.csv --card pro-plus-128 --free card.read_first_us --fit-blocks 4k --ios 400 --json"
    assert fitted.facts == json.loads(program(*words.split()))
    with pytest.raises(ValueError, match="no figure of --measured has this block size"):
        mmcq.fit(tmp_path / "rows.csv", **{**given, "fit_blocks": ["8k"]})
