//! SDIO: a Bluetooth card on a slow CPU. Shows the time from the interrupt until it is cleared, and
//! the CPU's idle share.

use super::{Amount, Row};
use crate::sdio::linux::Advance;
use crate::sdio::ours::Stay;
use crate::sdio::platform::{Board, Costs, Kind, NAME, PC};
use crate::sdio::spin::{self, COMMAND_CLK, Wait};
use crate::sdio::trace::Step;
use crate::sdio::{Failure, Outcome, Run, Way, run};

/// Boards of the experiment: a model of the board of the publication, and a fast PC with the same
/// card.
pub const BOARDS: [&str; 2] = [NAME, PC];

const fn ours(stay: Stay, own: bool, dma: bool, asks: bool) -> Way {
    Way::Ours { stay, own, dma, asks }
}

/// Published values of a setting: latency in us, and the rate of a counter that counts only while
/// the CPU is idle, in thousands of cycles per second.
type Published = (f64, f64);

/// Settings of the SDIO experiment: name, stack with its context, and the published values of the
/// original board (`None`: none were published).
const SETTINGS: [(&str, Way, Option<Published>); 12] = [
    ("thread+tasklet", Way::Linux(Advance::ThreadTasklet), Some((340.0, 154.0))),
    ("thread", Way::Linux(Advance::Thread), Some((320.0, 156.0))),
    ("async", Way::Linux(Advance::Async), Some((132.0, 185.0))),
    ("thread+spin", Way::Linux(Advance::ThreadSpin), None),
    ("mmcq", ours(Stay::Fifo, false, false, false), None),
    ("mmcq asks", ours(Stay::Fifo, false, false, true), None),
    ("mmcq spin", ours(Stay::Commands, false, false, false), None),
    ("mmcq dma", ours(Stay::Fifo, false, true, false), None),
    ("mmcq-own", ours(Stay::Commands, true, false, false), None),
    ("mmcq-own asks", ours(Stay::Commands, true, false, true), None),
    ("mmcq-own dma", ours(Stay::Commands, true, true, false), None),
    (SLOW, ours(Stay::Commands, true, false, false), None),
];

/// Settings that run on the board whose controller has its own DMA. They have no published values:
/// about such a board only a single remark was published.
const BY_DMA: [(&str, Way); 7] = [
    ("thread+tasklet", Way::Linux(Advance::ThreadTasklet)),
    ("thread", Way::Linux(Advance::Thread)),
    ("async", Way::Linux(Advance::Async)),
    ("thread+spin", Way::Linux(Advance::ThreadSpin)),
    ("mmcq", ours(Stay::Fifo, false, true, false)),
    ("mmcq spin", ours(Stay::Commands, false, true, false)),
    ("mmcq-own", ours(Stay::Commands, true, true, false)),
];

/// Setting `mmcq-own` on a CPU with the largest number of cycles per instruction.
const SLOW: &str = "mmcq-own slow";
/// Settings whose published values were used to fit the board: both values of the first setting,
/// and only the latency of the second.
const FITTED: [&str; 2] = ["thread+tasklet", "async"];

/// Name of the result that contains the time from the card's interrupt until the driver has cleared
/// it.
const LATENCY: &str = "interrupt to cleared";
/// Name of the table's column with the number of times that the thread is woken for a packet,
/// without the wake-up after the card's interrupt.
const WAKES: &str = "wake-ups by steps";

/// Text below the tables of the published board.
pub const NOTE: &str = "\
The mail prints two counts for thread+tasklet: 130674 (a sum without its time) and 154 kcycles/s. The model is
fitted to 154: the mail's \"about 45 % of the CPU\" is what 154 of 269 leaves (43 %); 130.7 would be 51 %.
interrupt latency: from the card's interrupt to the begin of the first command. completion latency: from the
end of a command, or of its data, to the begin of the next.
";

/// Number of 32-bit words in the payload (data) of a packet.
const PAYLOAD_WORDS: f64 = 512.0;

/// Runs the SDIO experiment on the board `name` after `changes` (`KEY=VALUE`), and returns the rows
/// of the table. Before each setting calls `progress` with its name. Without changes the rows also
/// show the published values.
pub fn board(
    name: &str,
    changes: &[String],
    amount: Amount,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Row>, Failure> {
    let board = Board::load_with(name, changes)?;
    // The published values are of the board without changes.
    let of_the_paper = changes.is_empty();
    let for_ns = if amount.full { 60_000_000_000 } else { 8_000_000_000 };
    let by_dma = BY_DMA.map(|(setting, way)| (setting, way, None));
    let settings: &[(&str, Way, Option<Published>)] = match board.controller {
        Kind::S3cSdi => &SETTINGS,
        Kind::Sdhci => &by_dma,
    };
    let mut rows = Vec::new();
    for &(setting, way, published) in settings {
        progress(setting);
        let mut board = board.clone();
        if setting == SLOW {
            board.own.cycles_per_instruction = board.own.cycles_per_instruction_most;
        }
        let of = |thief| run(&Run { board: &board, way, thief, for_ns, seed: amount.seed });
        let quiet = of(None)?;
        let robbed = board.thief.map(|thief| of(Some(thief))).transpose()?;
        let published = published.filter(|_| of_the_paper);
        rows.extend(rows_of(&board, setting, way, published, &quiet, robbed.as_ref()));
    }
    if name != NAME {
        rows.iter_mut().for_each(|row| row.cell = format!("{} @{name}", row.cell));
    }
    if let Some(fast) = board.fast {
        rows.extend(waits(&board, [("ARM926", board.cost), ("fast CPU", fast)], progress)?);
    }
    Ok(rows)
}

/// Bus clocks in Hz for which the table shows the ways to wait.
const CLOCKS_HZ: [u32; 4] = [400_000, 10_000_000, 25_000_000, 50_000_000];

/// Returns rows about the ways to wait for a CMD52:
///
/// - the cost of a CMD52 for each way;
/// - the bus clock from which on spinning costs less than the other way;
/// - the policy's largest excess over the better of its two ways, also checked at the clocks on
///   both sides of the crossover.
fn waits(
    board: &Board,
    cpus: [(&str, Costs); 2],
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let mut row = |cell: String, setting: Wait, unit: &str, model: f64| {
        let (setting, unit) = (setting.name().to_owned(), unit.to_owned());
        rows.push(Row { cell, setting, unit, published: None, fitted: false, model, limit: None });
    };
    let ways = [(false, Wait::Interrupt, Wait::PolicyInterrupt), (true, Wait::Thread, Wait::PolicyThread)];
    let mut worst = [0.0_f64; 2];
    for (cpu, costs) in cpus {
        for clock_hz in CLOCKS_HZ {
            let cell = format!("CMD52, {} MHz, {cpu}", f64::from(clock_hz) / 1e6);
            progress(&cell);
            let mut prices = Wait::ALL.map(|_| 0.0);
            for (price, wait) in prices.iter_mut().zip(Wait::ALL) {
                *price = spin::price_ns(board, costs, clock_hz, wait)? / 1e3;
                row(cell.clone(), wait, "us of CPU", *price);
            }
            let [spin, leave, sleep, or_leave, or_sleep] = prices;
            worst[0] = worst[0].max(or_leave / spin.min(leave) - 1.0);
            worst[1] = worst[1].max(or_sleep / spin.min(sleep) - 1.0);
        }
        for (worst, (in_thread, other, policy)) in worst.iter_mut().zip(ways) {
            progress(&format!("crossover, {cpu}"));
            let leaves = spin::crossover(board, costs, in_thread)?;
            for divider in leaves - 1..=leaves {
                let price = |wait| spin::price_ns(board, costs, spin::clock_hz(board, divider), wait);
                let best = price(Wait::Spin)?.min(price(other)?);
                *worst = worst.max(price(policy)? / best - 1.0);
            }
            let slowest_hz = f64::from(board.pclk_hz) / f64::from(leaves - 1);
            row(format!("spinning pays from, {cpu}"), policy, "MHz", slowest_hz / 1e6);
        }
    }
    for (worst, (_, _, policy)) in worst.into_iter().zip(ways) {
        row(WORST.to_owned(), policy, "%", 100.0 * worst);
    }
    Ok(rows)
}

/// Name of the result that says, in percent, how much more CPU time the waiting policy costs than
/// the better of its two ways (to spin, or to leave the CPU), in the worst case.
const WORST: &str = "policy's worst excess";

/// Splits the rows into tables that fit a screen: the settings of Linux, mmcq with Linux's costs,
/// mmcq with its own costs, the ways to wait, then the other boards.
pub fn parts(rows: &[Row]) -> Vec<Vec<Row>> {
    let part = |row: &Row| match SETTINGS.iter().find(|(setting, ..)| *setting == row.setting) {
        _ if row.cell.contains(" @") => 4,
        Some((_, Way::Linux(_), _)) => 0,
        Some((_, Way::Ours { own: false, .. }, _)) => 1,
        Some((_, Way::Ours { own: true, .. }, _)) => 2,
        None => 3,
    };
    let mut cells: Vec<&str> = Vec::new();
    for row in rows {
        if !cells.contains(&row.cell.as_str()) {
            cells.push(&row.cell);
        }
    }
    let tables = (0..5).map(|at| {
        let mut table: Vec<Row> = Vec::new();
        for cell in &cells {
            let line = rows.iter().filter(|row| row.cell == *cell && part(row) == at);
            // Each setting has its own limit here, so limits are in a line, not in a column.
            let limit = |row: &Row| row.limit.map(|limit| (format!("{cell}: limit"), limit));
            let limits = line.clone().filter_map(|row| {
                let (cell, model) = limit(row)?;
                Some(Row { cell, model, published: None, fitted: false, limit: None, ..row.clone() })
            });
            let limits: Vec<Row> = limits.collect();
            table.extend(line.map(|row| Row { limit: None, ..row.clone() }));
            table.extend(limits);
        }
        table
    });
    tables.filter(|table| !table.is_empty()).collect()
}

fn rows_of(
    board: &Board,
    setting: &str,
    way: Way,
    published: Option<Published>,
    quiet: &Outcome,
    robbed: Option<&Outcome>,
) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |cell: &str, unit: &str, published: Option<f64>, model: f64, limit: Option<f64>| {
        let of_fit = setting == FITTED[0] || setting == FITTED[1] && cell == LATENCY;
        let fitted = of_fit && published.is_some() && cell != WAKES;
        let (cell, setting, unit) = (cell.to_owned(), setting.to_owned(), unit.to_owned());
        rows.push(Row { cell, setting, unit, published, fitted, model, limit });
    };
    let clk_ns = 1e9 / f64::from(board.clock_hz);
    // A driver that knows which function interrupts needs two commands, otherwise three.
    let knows = matches!(way, Way::Ours { asks: false, .. });
    let wire_us = if knows { 2.0 } else { 3.0 } * COMMAND_CLK as f64 * clk_ns / 1e3;
    // The CPU is busy with the packet's work, and with the payload's words if there is no DMA.
    let dma = matches!(way, Way::Ours { dma: true, .. });
    let payload_ns = if dma { 0.0 } else { PAYLOAD_WORDS * board.cost.fifo_word_ns as f64 };
    let busy = (board.cost.work_ns as f64 + payload_ns) / PERIOD_NS;
    let most = board.idle_kcycles * (1.0 - busy);
    let us = |ns: f64| ns / 1e3;
    row(LATENCY, "us", published.map(|p| p.0), us(quiet.mean_ns()), Some(wire_us));
    row("counter", "kcycles/s", published.map(|p| p.1), quiet.kcycles, Some(most));
    row("interrupt to cleared p99.9", "us", None, us(quiet.percentile_ns(99.9) as f64), None);
    if let Some(robbed) = robbed {
        row("with thief: mean", "us", None, us(robbed.mean_ns()), None);
        row("with thief: p99.9", "us", None, us(robbed.percentile_ns(99.9) as f64), None);
        row("with thief: packets lost", "%", None, share(robbed.overrun, robbed.packets), None);
    }
    row("interrupts", "/packet", None, quiet.interrupts, None);
    if board.controller == Kind::S3cSdi {
        row("bus clock stopped", "us/packet", None, us(quiet.held_ns), None);
    }
    let per_s = quiet.packets as f64 / (quiet.for_ns as f64 / 1e9);
    // Published as "1500 wake-ups a second, besides the interrupt's own": the thread wakes at each
    // step.
    let of_steps = (quiet.wakes - 1.0).max(0.0) * per_s;
    let paper = published.is_some() && setting.starts_with("thread");
    row(WAKES, "/s", paper.then_some(1500.0), of_steps, None);
    row("context switches", "/s", None, quiet.switches_per_s, None);
    let of = |step: Step| quiet.steps_ns.iter().find(|(s, _)| *s == step).map(|(_, ns)| *ns);
    // The first step begins with the interrupt. Its time is the latency minus the times of the
    // other steps until the interrupt is cleared.
    let first = Step::ALL.into_iter().take_while(|step| of(*step).is_none()).last();
    let others: f64 = Step::ALL[..=Step::Clear as usize].iter().filter_map(|step| of(*step)).sum();
    // The time from the interrupt to the first command is the first step without the command's own
    // clocks.
    if board.controller == Kind::S3cSdi {
        let first_ns = quiet.mean_ns() - others - COMMAND_CLK as f64 * clk_ns;
        row("interrupt latency", "us", None, us(first_ns), None);
        row("completion latency", "us", None, us(quiet.completion_ns), None);
    }
    for step in Step::ALL {
        let ns = if Some(step) == first { Some(quiet.mean_ns() - others) } else { of(step) };
        if let Some(ns) = ns {
            row(&format!("step {}", step.name()), "us", None, us(ns), None);
        }
    }
    rows
}

/// Time in ns from one packet of the Bluetooth card to the next in the SDIO experiment.
const PERIOD_NS: f64 = 4_000_000.0;

fn share(part: u64, rest: u64) -> f64 {
    100.0 * part as f64 / (part + rest).max(1) as f64
}
