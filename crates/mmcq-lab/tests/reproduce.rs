//! Tests what the reproductions promise, cell by cell. Time is virtual, so the numbers are the same
//! on every machine.

use mmcq_lab::reproduce::{Amount, Row, fifo, hsq, queues, spread, stream, stream_sweep};
use std::sync::OnceLock;

const CELLS: [&str; 4] = ["seq read", "rand read", "seq write", "rand write"];

fn find<'a>(rows: &'a [Row], cell: &str, setting: &str) -> &'a Row {
    let found = rows.iter().find(|row| row.cell == cell && row.setting == setting);
    found.unwrap_or_else(|| panic!("no row for {cell}, {setting}"))
}

/// Checks that no cell of the table has a value beyond what wire and card allow.
#[track_caller]
fn within_the_limit(rows: &[Row]) {
    for row in rows {
        assert!(row.share_percent().is_none_or(|share| share <= 100.5), "{row:?}");
    }
    assert!(rows.iter().any(|row| row.limit.is_some()));
}

/// Returns the rows of HSQ's own board, whose experiment runs once for all tests.
fn quiet() -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    ROWS.get_or_init(|| hsq::board("hsq-sprd", Amount::default(), &mut |_| ()).unwrap())
}

#[test]
fn hsq_before_is_fitted_and_after_is_predicted() {
    let rows = quiet();
    within_the_limit(rows);
    for cell in CELLS {
        let (before, after) = (find(rows, cell, "none"), find(rows, cell, "hsq-tag"));
        assert!(before.fitted && before.error_percent().unwrap().abs() <= 2.0, "{before:?}");
        assert!(!after.fitted && after.error_percent().unwrap().abs() <= 8.0, "{after:?}");
        // With Linux's CPU costs, mmcq must reach at least the queue's rate and come close to the
        // physical limit.
        let (ours, own) = (find(rows, cell, "mmcq"), find(rows, cell, "mmcq-own"));
        // At the limit all 20 readers merge into one batch; in mmcq about half of them do.
        let goal = match cell {
            "rand read" => 96.0,
            "seq read" => 93.9,
            _ => 99.5,
        };
        for row in [ours, own] {
            assert!(row.model >= after.model && row.share_percent().unwrap() >= goal, "{row:?}");
        }
    }
    // With three requests taken out of the scheduler, fewer I/Os merge than with two.
    let merging = |setting| find(rows, "seq read, merging", setting).model;
    assert!((5.0..7.0).contains(&merging("none")) && (3.5..4.5).contains(&merging("hsq-tag")));
}

/// Checks the stand-in's time from an interrupt to the next command: an old version of the model
/// had 11.5 us, Linux's own code takes 5.0 us.
#[test]
fn the_stand_in_is_as_fast_as_linux_itself_and_says_what_that_leaves() {
    let rows = quiet();
    let meetings = hsq::meetings(rows);
    assert_eq!(meetings.len(), 4);
    for meeting in &meetings {
        assert!(meeting.error_percent().abs() <= 1.0, "{meeting:?}");
    }
    let lead = find(rows, "rand read", "mmcq-own").model / find(rows, "rand read", "hsq-tag").model;
    assert!((1.02..1.03).contains(&lead), "{lead}");
    let note = hsq::note(rows);
    let line = note.lines().find(|line| line.starts_with("rand read, hsq-tag")).unwrap();
    assert!(line.contains("-5.6%"), "{note}");
}

#[test]
#[ignore = "a table of a busy board: a minute"]
fn a_busy_cpu_costs_linux_and_not_the_interrupt() {
    let rows = hsq::board("hsq-sprd-busy", Amount::default(), &mut |_| ()).unwrap();
    for cell in CELLS {
        let at = format!("{cell} @hsq-sprd-busy");
        let ours = find(&rows, &at, "mmcq");
        for setting in ["none", "hsq-tag", "hsq-fifo"] {
            assert!(ours.model >= find(&rows, &at, setting).model, "{ours:?}");
        }
        match cell {
            // Readers that run late cannot be merged with the others in any stack. Transfers are
            // then smaller, but the bus stays busy.
            "seq read" => {
                let at_work = find(&rows, "seq read, bus at work @hsq-sprd-busy", "mmcq").model;
                assert!(at_work >= 93.0, "{at_work}");
            }
            "rand read" => assert!(ours.share_percent().unwrap() >= 90.0, "{ours:?}"),
            _ => assert!(ours.share_percent().unwrap() >= 96.0, "{ours:?}"),
        }
    }
    let lost = |cell: &str| {
        find(&rows, &format!("{cell} @hsq-sprd-busy"), "none").model / find(quiet(), cell, "none").model
    };
    assert!(lost("rand write") < 0.6, "a busy CPU halves the stack without a queue");
}

#[test]
#[ignore = "tables of three hosts: a quarter of a minute"]
fn hosts_with_a_handicap_are_never_slower_than_without_a_queue() {
    for board in ["hsq-defer", "hsq-nobusy"] {
        let rows = hsq::board(board, Amount::default(), &mut |_| ()).unwrap();
        for cell in CELLS {
            let at = format!("{cell} @{board}");
            assert!(find(&rows, &at, "mmcq").model >= find(&rows, &at, "none").model, "{at}");
        }
    }
}

#[test]
#[ignore = "the table of the FIFO thread: half a minute"]
fn tag_order_starves_and_fifo_order_does_not() {
    let rows = fifo::board("fifo-allwinner", Amount::default(), &mut |_| ()).unwrap();
    within_the_limit(&rows);
    let tail = |setting: &str| {
        let us = |percent: &str| find(&rows, &format!("rand read p{percent}"), setting).model;
        us("99.99") / us("50")
    };
    assert!(tail("hsq-tag") >= 50.0, "{}", tail("hsq-tag"));
    for setting in ["hsq-fifo", "mmcq", "mmcq-own"] {
        assert!(tail(setting) <= 3.0, "{setting}: {}", tail(setting));
    }
    // The published 1 % and 99.9 % percentiles are within the range of five runs; 99.99 % is not,
    // but near.
    for (percent, published, slack) in
        [("1", 498.0, 1.0), ("99.9", 31_589.0, 1.02), ("99.99", 200_279.0, 1.3)]
    {
        let of = |which| find(&rows, &format!("rand read p{percent}, {which} of 5"), "hsq-tag").model;
        let mean = find(&rows, &format!("rand read p{percent}"), "hsq-tag").model;
        assert!(of("least") <= published && published <= slack * of("most"), "{percent}: {}", of("most"));
        assert!(of("least") <= mean && mean <= of("most"));
    }
    // Published rates of AndroBench are shown beside the model's. The model need not have the same
    // order of random reads, since it has no file system.
    for cell in ["seq read", "seq write", "rand read", "rand write"] {
        let row = |setting| find(&rows, &format!("AndroBench {cell}"), setting);
        for setting in ["hsq-tag", "none", "hsq-fifo"] {
            assert!(row(setting).published.is_some() && !row(setting).fitted, "{cell}, {setting}");
        }
        assert!(row("mmcq").model > 0.0 && row("mmcq").published.is_none());
    }
    // The statements in the line below the table about the two cards.
    for card in ["", ", card B"] {
        let mean = |setting| find(&rows, &format!("rand read iops avg{card}"), setting).model;
        assert!(mean("hsq-fifo") > mean("none") && mean("hsq-tag") > mean("none"), "{card}");
    }
    assert!(find(&rows, "rand read p99.99, card B", "none").error_percent().unwrap() < -50.0);
    assert!(fifo::NOTE.contains("another card") && fifo::NOTE.contains("9.5 ms without the queue"));
    let mean = |setting| find(&rows, "rand read iops avg", setting).model;
    assert!(mean("mmcq") >= mean("hsq-fifo") && mean("mmcq") >= mean("none"));
}

/// Names of the cells in the STREAM table.
const STREAM: [&str; 8] = [
    "Disks: read",
    "Disks: write, fsync",
    "rand read 1M",
    "rand write 1M",
    "rand read 8k",
    "rand read 16k",
    "rand write 8k",
    "rand write 16k",
];

fn streams() -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    ROWS.get_or_init(|| stream::board("stream-rtsx", Amount::default(), &mut |_| ()).unwrap())
}

#[test]
fn stream_before_is_fitted_and_the_patch_is_predicted() {
    let rows = streams();
    within_the_limit(rows);
    for cell in STREAM {
        let (before, after) = (find(rows, cell, "close"), find(rows, cell, "patch"));
        assert!(before.error_percent().unwrap().abs() <= 5.0, "{before:?}");
        assert_eq!((before.fitted, after.fitted), (cell != "rand write 16k", false));
        // The published rates for random writes of 16 KiB contradict those for 8 KiB.
        let within = if cell == "rand write 16k" { 25.0 } else { 10.0 };
        assert!(after.error_percent().unwrap().abs() <= within, "{after:?}");
    }
    // The patch makes small random reads slower; the model must show this cost.
    for cell in ["rand read 8k", "rand read 16k"] {
        assert!(find(rows, cell, "patch").model < 0.9 * find(rows, cell, "close").model, "{cell}");
    }
}

#[test]
fn latencies_of_the_1_mib_loads_stand_beside_the_published_ones() {
    let rows = streams();
    let of = |cell: &str, setting| find(rows, &format!("latency: {cell}"), setting);
    // The median latencies follow from the rates.
    for (cell, setting, within) in [
        ("rand read 1M mean", "close", 1.0),
        ("rand read 1M p50", "close", 1.0),
        ("rand read 1M p50", "patch", 1.0),
        ("rand read 1M p99", "close", 2.0),
        ("rand write 1M mean", "close", 5.0),
        ("rand write 1M p50", "close", 2.0),
        ("rand write 1M p50", "patch", 12.0),
        ("rand write 1M p95", "close", 15.0),
    ] {
        let row = of(cell, setting);
        assert!(row.error_percent().unwrap().abs() <= within && !row.fitted, "{row:?}");
    }
    // The latencies of mmcq are never above those of the better of `close` and `patch`.
    for cell in ["rand read 1M p50", "rand write 1M p50", "rand write 1M p99"] {
        let best = of(cell, "close").model.min(of(cell, "patch").model);
        assert!(of(cell, "mmcq").model <= 1.01 * best, "{cell}");
    }
}

#[test]
fn ours_streams_and_no_read_pays_for_it() {
    let rows = streams();
    let reads = STREAM.iter().filter(|cell| cell.contains("read"));
    for cell in reads.chain(["seq write", "seq write 64k"].iter()) {
        for setting in ["mmcq", "mmcq-own"] {
            let (ours, close) = (find(rows, cell, setting), find(rows, cell, "close"));
            assert!(ours.model >= close.model, "{ours:?}");
        }
    }
    // Long reads are faster than with the patch. Writes may be a little slower: mmcq completes a
    // write when the card has programmed it, the patch when the card has received it.
    for (cell, share) in [("seq read", 1.0), ("rand read 1M", 1.0), ("seq write", 0.95)] {
        let (ours, patch) = (find(rows, cell, "mmcq"), find(rows, cell, "patch"));
        assert!(ours.model >= share * patch.model, "{ours:?}");
    }
    // The loop of GNOME Disks. For writes, mmcq is compared with completion at reception, as the
    // patch does it.
    for (cell, ours) in [("Disks: read", "mmcq"), ("Disks: write", "mmcq-early")] {
        assert!(find(rows, cell, ours).model >= find(rows, cell, "patch").model, "{cell}");
    }
    for setting in ["close", "patch"] {
        let access = |setting| find(rows, "Disks: access", setting).model;
        assert!(access("mmcq") < access(setting), "{setting}");
    }
    let gain = |cell: &str| find(rows, cell, "mmcq").model / find(rows, cell, "close").model;
    assert!(gain("seq read 64k") >= 1.45 && gain("seq write 64k") >= 2.4);
    // On a card that reads ahead beyond the count of CMD23, small random reads are not slower than
    // before either.
    for (cell, before) in [("rand read 8k", 16.5), ("rand read 16k", 23.3)] {
        let ours = find(rows, &format!("{cell}, card reads ahead"), "mmcq");
        assert!(ours.model >= before, "{ours:?}");
    }
}

#[test]
#[ignore = "a benchmark of gigabytes: a quarter of a minute"]
fn commands_of_a_stream_are_gone_and_not_hidden() {
    let rows = streams();
    let commands = |cell: &str, setting| find(rows, &format!("commands: {cell}"), setting).model;
    // 20 requests per sample: with `close` each needs CMD18 and CMD12; an open transfer needs one
    // of each.
    assert_eq!(commands("seq read", "close"), 40.0);
    assert!(commands("seq read", "patch") <= 2.0);
    // Each write needs CMD25, CMD12 and CMD13.
    assert_eq!(commands("rand write 8k", "close"), 3.0);
    assert!(commands("seq write 64k", "mmcq") < 0.1);
}

#[test]
fn no_cell_pays_for_streams() {
    let grid = stream_sweep::Grid::THIN;
    let rows = stream_sweep::sweep(&grid, Amount::default(), &mut |_| ()).unwrap();
    let (gain, ours) = (stream_sweep::GAIN, stream_sweep::OURS);
    let cells: Vec<&Row> = rows.iter().filter(|row| row.setting == ours).collect();
    assert_eq!(cells.len(), grid.sizes.len() * grid.depths.len() * grid.patterns.len());
    for row in &cells {
        let (off, close) =
            (find(&rows, &row.cell, stream_sweep::OFF), find(&rows, &row.cell, stream_sweep::CLOSE));
        assert!(row.model >= 0.995 * off.model, "{row:?} {off:?}");
        assert!(row.model >= 0.995 * close.model, "{row:?} {close:?}");
    }
    // The last row has the smallest gain of all. (Random loads gain nothing.)
    let gains = rows.iter().filter(|row| row.setting == gain);
    let worst = rows.last().unwrap();
    assert!(worst.cell.starts_with(stream_sweep::WORST) && gains.clone().all(|row| row.model >= worst.model));
    assert!(find(&rows, "write 64k, depth 1", gain).model >= 140.0);
    let table = stream_sweep::table(&rows);
    let end = |line: &str| line.trim_end().len();
    assert!(table.lines().all(|line| end(line) == end(table.lines().next().unwrap())), "{table}");
}

#[test]
fn merging_brings_sequential_4_kib_near_the_limit_where_nothing_can_be_continued() {
    let rows = stream_sweep::merging(Amount::default(), &mut |_| ()).unwrap();
    for pattern in ["read", "write"] {
        let cell = format!("{pattern} 4k, depth 32 @hsq-sprd");
        let ours = find(&rows, &cell, "mmcq");
        // The limit includes no job. This job takes 3.9 us to reap and submit each of 32 requests
        // while no request is under way: 121 us of 1.9 ms. With writes, the card's cache hides this
        // time.
        let goal = if pattern == "read" { 90.4 } else { 99.5 };
        assert!(ours.share_percent().unwrap() >= goal, "{ours:?}");
        // Without merging, a read needs two commands and a write three.
        let commands = |depth: u32| {
            find(&rows, &format!("commands: {pattern} 4k, depth {depth} @hsq-sprd"), "mmcq").model
        };
        // Of each 32 writes, two have a transfer of their own: the first, and one more. The card's
        // programming is the limit, so an additional transfer costs no time, and no start is held.
        let most = if pattern == "read" { 64.0 } else { 70.0 };
        assert!(commands(1) >= 512.0 && commands(32) <= most, "{} {}", commands(1), commands(32));
        for depth in [1, 4, 32] {
            let cell = format!("{pattern} 4k, depth {depth} @hsq-sprd");
            let (ours, none) = (find(&rows, &cell, "mmcq"), find(&rows, &cell, "none"));
            assert!(ours.model >= none.model, "{ours:?} {none:?}");
        }
    }
}

#[test]
fn a_phone_with_a_software_queue_is_met_by_a_card_that_was_fitted_without_it() {
    let rows = queues::board("cmdq-mt6761", Amount::default(), &mut |_| ()).unwrap();
    let published: Vec<&Row> = rows.iter().filter(|row| row.published.is_some()).collect();
    assert_eq!(published.len(), 8);
    for row in published {
        assert_eq!(row.fitted, row.setting == "none", "{row:?}");
        assert!(row.error_percent().unwrap().abs() <= 5.5, "{row:?}");
    }
}

/// Checks that the lane which mmcq chooses at run time is as fast as the best fixed lane. A user
/// could set the best lane only with knowledge of the load.
#[test]
fn the_choice_of_a_lane_is_as_good_as_the_best_of_them() {
    let rows = queues::board("intel-jsl", Amount::default(), &mut |_| ()).unwrap();
    let rates: Vec<Row> = rows.into_iter().filter(|row| row.unit == "MiB/s").collect();
    assert!(rates.iter().all(|row| row.share_percent().unwrap() <= 101.0), "{rates:?}");
    let mut cells: Vec<&str> = rates.iter().map(|row| row.cell.as_str()).collect();
    cells.dedup();
    assert_eq!(cells.len(), 8);
    for cell in cells {
        let rate = |setting| find(&rates, cell, setting).model;
        let best = ["none", "single", "tasks", "cqe"].map(rate).into_iter().fold(0.0, f64::max);
        assert!(rate("auto") >= 0.99 * best, "{cell}: {} of {best}", rate("auto"));
    }
    let share = |setting| find(&rates, "rand read, depth 32 @intel-jsl", setting).share_percent().unwrap();
    assert!(share("cqe") >= 95.0 && share("tasks") >= 92.0, "{} {}", share("cqe"), share("tasks"));
}

#[test]
fn several_requests_in_one_transfer_are_as_good_as_the_card_lets_them() {
    let rows = queues::board("generic", Amount::default(), &mut |_| ()).unwrap();
    let rates: Vec<&Row> = rows.iter().filter(|row| row.unit == "MiB/s").collect();
    for row in &rates {
        assert!(row.share_percent().unwrap() <= 101.0, "{row:?}");
    }
    for row in rates.iter().filter(|row| row.setting == "packed") {
        let single = find(&rows, &row.cell, "single").model;
        assert!(row.model >= 0.99 * single, "{row:?}: single {single}");
    }
    let write = find(&rows, "rand write, depth 32 @generic", "packed");
    assert!(write.share_percent().unwrap() >= 95.0, "{write:?}");
}

/// Checks that a chain saves software between transfers, but no time of the card.
#[test]
fn chains_cost_nothing_and_gain_where_many_wait() {
    let rows = queues::board("adma3-sprd", Amount::default(), &mut |_| ()).unwrap();
    for row in rows.iter().filter(|row| row.setting == "adma3" && row.unit == "MiB/s") {
        assert!(row.share_percent().unwrap() <= 101.0, "{row:?}");
        let single = find(&rows, &row.cell, "single").model;
        assert!(row.model >= 0.99 * single, "{row:?}: single {single}");
    }
    for (cell, gain) in [("rand read, depth 32", 1.015), ("rand write, depth 32", 1.0)] {
        let of = |setting| find(&rows, &format!("{cell} @adma3-sprd"), setting).model;
        assert!(of("adma3") >= gain * of("single"), "{cell}: {} and {}", of("single"), of("adma3"));
        let each = |setting| find(&rows, &format!("{cell}, interrupts @adma3-sprd"), setting).model;
        assert!(each("adma3") <= 0.25 * each("single"), "{cell}: {} {}", each("single"), each("adma3"));
    }
}

#[test]
fn the_command_says_what_it_does_at_once_and_where_its_picture_is() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mmcq"));
    command.current_dir(folder.path()).args(["reproduce", "fair", "--plot", "rates.svg"]);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && !output.stdout.is_empty(), "{said}");
    let first = said.lines().next().unwrap();
    assert!(first.starts_with("mmcq: ") && first.ends_with(", 0 s"), "{said}");
    assert_eq!(said.lines().last(), Some("mmcq: the picture is rates.svg"), "{said}");
    let picture = std::fs::read_to_string(folder.path().join("rates.svg")).unwrap();
    assert!(picture.contains("<svg") && picture.contains("MiB/s"), "{picture:.200}");
}

#[test]
#[ignore = "five tables: a quarter of a minute"]
fn five_runs_spread_as_boards_and_cards_do() {
    let rows = spread::rows(Amount::default(), &mut |_| ()).unwrap();
    for cell in CELLS {
        for setting in ["none", "hsq-tag"] {
            let of = |what: &str| find(&rows, &format!("{cell}, {what} of 5"), setting);
            let (least, mean, most) = (of("least"), of("mean"), of("most"));
            assert!(least.model < mean.model && mean.model < most.model, "{mean:?}");
            assert!(mean.error_percent().unwrap().abs() < 10.0, "{mean:?}");
            assert_eq!(mean.fitted, (cell, setting) == ("rand read", "none"));
        }
    }
    // The published mean in the table is the mean of the five published runs.
    let published = find(&rows, "seq read, mean of 5", "none").published.unwrap();
    assert!((published - 59.66).abs() < 0.01, "{published}");
}
