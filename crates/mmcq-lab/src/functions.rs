//! Report on an SDIO function that a user describes in a load file: the rows of `mmcq run`, and
//! where a packet's time is spent.

use crate::reproduce::Row;
use crate::sdio::Failure;
use crate::sdio::load::Load;
use crate::sdio::packet::SETTINGS;
use crate::sdio::platform::Board;
use crate::sdio::served::{Seen, run};

/// Results of the runs of an SDIO function that a user describes in a load file, one for each
/// setting.
pub struct Told<'a> {
    load: &'a Load,
    board: &'a Board,
    seen: Vec<(&'static str, Seen)>,
}

/// One figure of a run: its name, its unit and its value.
type Cell = (String, &'static str, f64);

impl<'a> Told<'a> {
    /// Runs a load on a board in all settings. `seed`: seed of all random numbers of the runs.
    pub fn of(load: &'a Load, board: &'a Board, seed: u64) -> Result<Self, Failure> {
        let one = |(name, way)| run(board, load, way, seed).map(|seen| (name, seen));
        let seen = SETTINGS.into_iter().map(one).collect::<Result<Vec<_>, _>>()?;
        Ok(Told { load, board, seen })
    }

    fn rows_of(&self, cells: &dyn Fn(&Seen) -> Vec<Cell>) -> Vec<Row> {
        let mut rows = Vec::new();
        for (setting, seen) in &self.seen {
            for (cell, unit, model) in cells(seen) {
                let (setting, unit) = ((*setting).to_owned(), unit.to_owned());
                rows.push(Row { cell, setting, unit, published: None, fitted: false, model, limit: None });
            }
        }
        rows
    }

    /// Returns rows for the settings, with the figures that a user of the card's I/O function can
    /// measure: rate, latencies, wake-ups, and the idle share of the CPU.
    pub fn rows(&self) -> Vec<Row> {
        self.rows_of(&|seen| {
            let o = &seen.outcome;
            let per_s = o.packets as f64 / (o.for_ns as f64 / 1e9);
            let offered = (o.packets + o.overrun).max(1) as f64;
            let kib = per_s * f64::from(self.load.packet_bytes()) / 1024.0;
            let us = |ns: f64| ns / 1e3;
            [
                ("packets", "/s", per_s),
                ("data", "KiB/s", kib),
                ("packets lost", "%", 100.0 * o.overrun as f64 / offered),
                (self.asked(), "us", us(o.mean_ns())),
                ("the same, p99.9", "us", us(o.percentile_ns(99.9) as f64)),
                (self.first(), "us", us(first_ns(seen))),
                ("completion latency", "us", us(o.completion_ns)),
                ("wake-ups", "/s", o.wakes * per_s),
                ("context switches", "/s", o.switches_per_s),
                ("interrupts", "/s", o.interrupts * per_s),
                ("CPU idle", "%", self.idle(seen)),
            ]
            .map(|(cell, unit, model)| (cell.to_owned(), unit, model))
            .to_vec()
        })
    }

    /// Returns the rows of a table with the times of a packet: of its first interrupt, of each step
    /// of the driver, of the whole packet, of the bus, and of the CPU. Each setting has these rows.
    pub fn steps(&self) -> Vec<Row> {
        self.rows_of(&|seen| {
            let us = |ns: f64| ns / 1e3;
            let mut rows = vec![(self.first().to_owned(), "us", us(first_ns(seen)))];
            let steps = self.load.steps.iter().zip(&seen.means.steps_ns);
            rows.extend(steps.map(|(step, ns)| (format!("step {}", step.name), "us", us(*ns))));
            rows.push(("all of a packet".to_owned(), "us", us(first_ns(seen) + seen.means.whole_ns)));
            rows.push(("of it on the bus".to_owned(), "us", us(bus_ns(seen))));
            rows.push(("of it bus clock stopped".to_owned(), "us", us(seen.outcome.held_ns)));
            rows.push(("of it until who waits goes on".to_owned(), "us", us(seen.means.completions_ns)));
            rows.push(("CPU busy".to_owned(), "us", us(self.busy_ns(seen))));
            rows
        })
    }

    /// Returns one line for each setting, which names the largest part of a packet's time. The
    /// parts are the latency before the first step, the latencies of completions, and the time of
    /// bus and card.
    pub fn conclusions(&self) -> String {
        let line = |(setting, seen): &(&str, Seen)| {
            let whole_ns = (first_ns(seen) + seen.means.whole_ns).max(1.0);
            let parts = [
                (self.first(), first_ns(seen)),
                ("completion latency", seen.means.completions_ns),
                ("the bus and the card", bus_ns(seen)),
            ];
            let most = parts.iter().fold(parts[0], |most, part| if part.1 > most.1 { *part } else { most });
            format!(
                "{setting}: a packet takes {:.1} us, {:.0} % of it {}; the CPU is busy for {:.1} us\n",
                whole_ns / 1e3,
                100.0 * most.1 / whole_ns,
                most.0,
                self.busy_ns(seen) / 1e3
            )
        };
        self.seen.iter().map(line).collect()
    }

    /// Returns a text that says from which event to which event the latency counts.
    fn asked(&self) -> &'static str {
        if self.load.poll_ns.is_some() { "arrival to cleared" } else { "interrupt to cleared" }
    }

    fn first(&self) -> &'static str {
        if self.load.poll_ns.is_some() { "latency of the look" } else { "interrupt latency" }
    }

    fn idle(&self, seen: &Seen) -> f64 {
        100.0 * seen.outcome.kcycles / self.board.idle_kcycles
    }

    /// Returns the CPU time in ns that this run needed for each packet.
    fn busy_ns(&self, seen: &Seen) -> f64 {
        let share = 1.0 - self.idle(seen) / 100.0;
        share * seen.outcome.for_ns as f64 / seen.outcome.packets.max(1) as f64
    }
}

/// Returns the time in ns from the card's interrupt (or, with polling, the packet's arrival) to the
/// start of the packet's first command.
fn first_ns(seen: &Seen) -> f64 {
    (seen.outcome.mean_ns() - seen.means.to_clear_ns).max(0.0)
}

/// Returns the time in ns of a packet without the latencies of completions: what the bus and the
/// card need.
fn bus_ns(seen: &Seen) -> f64 {
    seen.means.whole_ns - seen.means.completions_ns
}
