//! Tests `mmcq reproduce sdio`: the published values, what the project promised, and relations
//! between the settings.

use mmcq_lab::reproduce::sdio::{BOARDS, board, parts};
use mmcq_lab::reproduce::{Amount, Row};
use mmcq_lab::sdio::linux::Advance;
use mmcq_lab::sdio::ours::Stay;
use mmcq_lab::sdio::platform::Board;
use mmcq_lab::sdio::{Run, Way, run};
use std::process::Command;
use std::sync::OnceLock;

fn rows() -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    ROWS.get_or_init(|| board(BOARDS[0], &[], Amount::default(), &mut |_| ()).unwrap())
}

fn row(setting: &str, cell: &str) -> &'static Row {
    let found = rows().iter().find(|row| row.setting == setting && row.cell == cell);
    found.unwrap_or_else(|| panic!("no row {cell} of {setting}"))
}

const LATENCY: &str = "interrupt to cleared";
const COUNTER: &str = "counter";

#[test]
fn what_is_not_fitted_is_predicted_within_3_percent() {
    let published = rows().iter().filter(|row| row.published.is_some());
    let (wakes, published): (Vec<&Row>, Vec<&Row>) = published.partition(|row| row.unit == "/s");
    assert_eq!((published.len(), wakes.len()), (6, 2));
    // Each step wakes the thread: 1500 wake-ups per second, without the one after the interrupt.
    assert!(wakes.iter().all(|row| !row.fitted && row.error_percent().unwrap().abs() < 0.5), "{wakes:?}");
    for row in published {
        let error = row.error_percent().unwrap().abs();
        let bound = if row.fitted { 0.3 } else { 3.4 };
        assert!(error <= bound, "{row:?}: {error:.1} %");
        let latency = row.setting == "async" && row.cell == LATENCY;
        assert_eq!(row.fitted, row.setting == "thread+tasklet" || latency);
    }
    // The bus clock is stopped while a tasklet is late; without a tasklet it is hardly ever
    // stopped.
    let held = |setting| row(setting, "bus clock stopped").model;
    assert!(held("thread+tasklet") > 15.0 && held("thread") < 5.0);
}

#[test]
fn ours_reaches_its_figures() {
    assert!(row("mmcq", LATENCY).model <= 112.0 && row("mmcq", COUNTER).model >= 191.0);
    assert!(row("mmcq-own", LATENCY).model <= 70.0 && row("mmcq-own", COUNTER).model >= 205.0);
    // Reading INTx costs one more command.
    let more = row("mmcq asks", LATENCY).model - row("mmcq", LATENCY).model;
    assert!((more - 44.0).abs() < 0.1, "issue, CMD52, interrupt, end: {more}");
    // The card keeps four packets, 16 ms: a driver in a thread loses one now and then, one in the
    // interrupt never.
    for row in rows().iter().filter(|row| row.cell == "with thief: packets lost") {
        let most = if row.setting.starts_with("thread") { 1.0 } else { 0.0 };
        assert!(row.model <= most, "{row:?}");
    }
}

#[test]
fn the_thief_holds_up_threads_and_not_the_interrupt() {
    let percentile = |setting| row(setting, "with thief: p99.9").model;
    for setting in ["thread+tasklet", "thread", "thread+spin"] {
        // Published: "often 10 or 20 ms".
        assert!((19_000.0..21_000.0).contains(&percentile(setting)), "{setting}");
    }
    for setting in ["async", "mmcq", "mmcq-own", "mmcq dma"] {
        assert!(percentile(setting) < 1.1 * row(setting, LATENCY).model, "{setting}");
    }
}

/// Checks the policy in each cell of the table of waits and at the two bus clocks next to the
/// crossover, and the bus clock from which spinning pays. The other way than spinning is `leave` in
/// the interrupt handler, and `sleep` in a thread.
#[test]
fn the_policy_is_at_most_5_percent_worse_than_the_better_way() {
    let waits = parts(rows()).pop().unwrap();
    let of = |cell: &str, setting: &str| {
        let found = waits.iter().find(|row| row.cell == cell && row.setting == setting);
        found.unwrap_or_else(|| panic!("no {cell} of {setting}")).model
    };
    let cells: Vec<&str> =
        waits.iter().map(|row| row.cell.as_str()).filter(|c| c.starts_with("CMD52")).collect();
    assert_eq!(cells.len(), 8 * 5);
    for (other, policy) in [("leave", "policy or leave"), ("sleep", "policy or sleep")] {
        let worst = of("policy's worst excess", policy);
        assert!(worst <= 5.0, "{policy}: {worst} %");
        for cell in &cells {
            let best = of(cell, "spin").min(of(cell, other));
            let excess = 100.0 * (of(cell, policy) / best - 1.0);
            assert!(excess <= worst, "{cell}, {policy}: {excess} %, worst {worst} %");
            // At the slowest bus clock of the table, the policy does not spin.
            assert!(!cell.starts_with("CMD52, 0.4 MHz") || of(cell, policy) == of(cell, other), "{cell}");
        }
    }
    // Clocks at which 104 bus cycles take as long as leaving: 11 and 81 us, 3.5 and 14 us.
    for (cpu, leave_mhz, sleep_mhz) in [("ARM926", 9.45, 1.284), ("fast CPU", 29.7, 7.43)] {
        let cell = format!("spinning pays from, {cpu}");
        for (policy, mhz) in [("policy or leave", leave_mhz), ("policy or sleep", sleep_mhz)] {
            // The controller's next slower clock, 50 MHz divided by the next whole number, must be
            // too slow for spinning.
            let slower = 50.0 / ((50.0 / of(&cell, policy)).round() + 1.0);
            assert!(slower < 1.03 * mhz && of(&cell, policy) > 0.97 * mhz, "{cell}: {}", of(&cell, policy));
        }
    }
}

#[test]
fn what_an_interrupt_and_a_completion_take_are_two_rows() {
    let of = |setting| ["interrupt latency", "completion latency"].map(|cell| row(setting, cell).model);
    let ([irq, done], [irq_async, done_async]) = (of("thread"), of("async"));
    // With a thread, both latencies include waking it; with the interrupt handler, neither does.
    assert!(irq > 90.0 && done > 90.0 && irq_async < 40.0 && done_async < 40.0, "{irq} {done}");
    let one_command_us = 10.4;
    assert!((irq + one_command_us - row("thread", "step 1 whose interrupt").model).abs() < 0.1, "{irq}");
}

#[test]
#[ignore = "the whole table for another board: a quarter of a minute"]
fn another_board_has_no_published_figures() {
    let changes = ["bus.clock_hz=25000000".to_owned()];
    let amount = Amount::default();
    let rows = board(BOARDS[0], &changes, amount, &mut |_| ()).unwrap();
    assert!(rows.iter().all(|row| row.published.is_none() && !row.fitted));
    assert!(rows.iter().any(|row| row.cell == LATENCY && row.model < 330.0));
}

/// Checks what was remarked in the SDIO thread: on a fast PC the CPU load does not matter, and the
/// latency gets slightly better.
#[test]
fn on_a_fast_pc_the_load_does_not_matter_and_the_latency_gets_better() {
    let rows = board(BOARDS[1], &[], Amount::default(), &mut |_| ()).unwrap();
    let of = |setting: &str, cell: &str| {
        let cell = format!("{cell} @sdio-pc");
        rows.iter().find(|row| row.setting == setting && row.cell == cell).unwrap().model
    };
    let counters = ["thread+tasklet", "thread", "async", "mmcq"].map(|setting| of(setting, COUNTER));
    let (least, most) = counters.iter().fold((f64::MAX, 0.0_f64), |(l, m), &c| (l.min(c), m.max(c)));
    assert!(most / least < 1.02, "{counters:?}");
    assert!(
        of("async", LATENCY) < of("thread", LATENCY) && of("thread", LATENCY) < of("thread+tasklet", LATENCY)
    );
    assert!(of("mmcq", LATENCY) < of("async", LATENCY));
    let table = parts(&rows);
    assert_eq!(table.len(), 1);
    assert!(table[0].iter().all(|row| row.cell.contains("@sdio-pc")));
}

/// Checks that DMA leaves more CPU time to other programs than the FIFO does, at the same latency.
#[test]
fn dma_gives_the_cpu_what_the_fifo_took() {
    let board = Board::load(BOARDS[0]).unwrap();
    let of = |dma| {
        let way = Way::Ours { stay: Stay::Fifo, own: false, dma, asks: false };
        run(&Run { board: &board, way, thief: None, for_ns: 1_000_000_000, seed: 1 }).unwrap()
    };
    let (pio, dma) = (of(false), of(true));
    assert!(dma.kcycles > pio.kcycles + 20.0, "{} {}", dma.kcycles, pio.kcycles);
    assert_eq!(dma.mean_ns(), pio.mean_ns());
}

/// Checks that the latency to the clearing contains the cost of a wake-up three times, and the
/// interrupt's own latency does not contain it.
#[test]
fn a_wake_up_costs_three_times_its_price() {
    let board = Board::load(BOARDS[0]).unwrap();
    let mut slow = board.clone();
    slow.cost.wake_ns += 10_000;
    let mean_ns = |board: &Board, advance| {
        let way = Way::Linux(advance);
        run(&Run { board, way, thief: None, for_ns: 200_000_000, seed: 1 }).unwrap().mean_ns()
    };
    let more = |advance| mean_ns(&slow, advance) - mean_ns(&board, advance);
    assert!((more(Advance::Thread) - 30_000.0).abs() < 1.0);
    assert_eq!(more(Advance::Async), 0.0);
}

/// Runs the command, and returns its exit code and what it printed.
fn mmcq(args: &[&str]) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
    let output = command.current_dir(folder.path()).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
#[ignore = "the whole table once more: a quarter of a minute"]
fn the_command_prints_tables() {
    let (code, table, _) = mmcq(&["reproduce", "sdio"]);
    assert_eq!(code, Some(0));
    for part in ["thread+tasklet", "340*", "mmcq-own dma", "CMD52, 0.4 MHz, ARM926", "policy or leave"] {
        assert!(table.contains(part), "{part}\n{table}");
    }
    assert!(table.lines().all(|line| line.chars().count() <= 180), "{table}");
}

#[test]
fn the_command_names_mistakes() {
    let (code, _, message) = mmcq(&["reproduce", "sdio", "--platform", "hsq-sprd"]);
    assert_eq!((code, message.lines().count()), (Some(2), 1));
    assert!(message.contains("sdio-s3c24a0"), "{message}");
    let (code, list, _) = mmcq(&["platforms"]);
    assert!(code == Some(0) && list.contains("sdio-s3c24a0") && list.contains("sdio-pc"), "{list}");
    for (args, expected) in [
        (&["reproduce", "sdio", "--set", "cost.wakeup_us=3"][..], "the nearest known name is"),
        (&["reproduce", "sdio", "--plot", "x.svg"], "--plot: sdio has no rates to draw"),
        (&["reproduce", "hsq", "--set", "cost.wake_us=3"], "--set cost.wake_us=3: a published experiment"),
        (&["run", "--platform", "sdio-pc", "--", "--name=a", "--size=4k"], "sdio-pc: an SDIO board"),
    ] {
        let (code, _, message) = mmcq(args);
        assert_eq!((code, message.lines().count()), (Some(2), 1), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}
