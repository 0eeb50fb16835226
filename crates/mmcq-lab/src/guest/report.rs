//! Report of a guest's run: its output, and the counters.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Counters over a period of a guest's run: between two marks (numbers that the program in the
/// guest writes), or over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Time in ns of the guest's clock at the end of the period that these counters cover.
    pub at_ns: u64,
    /// Number of instructions that the guest's CPUs executed. Time in which the CPUs were idle or
    /// waited for a register does not count.
    pub instructions: u64,
    /// Number of reads of the controller's registers by the guest.
    pub register_reads: u64,
    /// Number of writes of the controller's registers by the guest.
    pub register_writes: u64,
    /// Number of times that the controller's interrupt line was asserted.
    pub interrupts: u64,
    /// Number of commands that the driver sent on the bus.
    pub commands: u64,
    /// Number of violations of the standard by the guest's driver.
    pub violations: u64,
}

impl Counters {
    fn since(self, earlier: Counters) -> Counters {
        Counters {
            at_ns: self.at_ns.saturating_sub(earlier.at_ns),
            instructions: self.instructions.saturating_sub(earlier.instructions),
            register_reads: self.register_reads.saturating_sub(earlier.register_reads),
            register_writes: self.register_writes.saturating_sub(earlier.register_writes),
            interrupts: self.interrupts.saturating_sub(earlier.interrupts),
            commands: self.commands.saturating_sub(earlier.commands),
            violations: self.violations.saturating_sub(earlier.violations),
        }
    }
}

/// Result of one load (a benchmark) that the program `load` ran in the guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Kind of load, as in fio's option `rw`.
    pub load: String,
    /// Size in bytes of a request of the load.
    pub bytes: u64,
    /// Number of requests that each job has under way.
    pub depth: u32,
    /// Number of processes that run the load.
    pub jobs: u32,
    /// Number of requests of all jobs of the load.
    pub requests: u64,
    /// How the program collects completed requests: `all` in one call, or `one` by one.
    pub reaps: String,
    /// Rate of the load in MiB/s in the steady state.
    pub mib_per_s: f64,
    /// Mean latency of all requests in microseconds.
    pub latency_us: f64,
    /// Mean number of the load's requests in each request of the block layer.
    pub merged: f64,
    /// Duration of the whole load in microseconds.
    pub elapsed_us: f64,
    /// Number of context switches during the load.
    pub switches: u64,
    /// Latencies in us, by the percentage of requests that do not exceed them.
    pub percentiles_us: BTreeMap<String, f64>,
    /// Counters of the guest while this load ran (instructions, register accesses, interrupts).
    /// `None`: the program in the guest did not mark the begin and end of this load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<Counters>,
}

impl Load {
    /// Returns the mean time in us for each request in the steady state.
    pub fn us(&self) -> f64 {
        self.bytes as f64 / f64::from(1 << 20) / self.mib_per_s * 1e6
    }
}

/// Report on the run of a guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Name of the board.
    pub platform: String,
    /// Name of the card; empty: the board's own.
    pub card: String,
    /// Setting: `none`, `hsq-tag`, `cqe`, or `mmcq.ko` for this stack as a kernel module; for an
    /// image its name.
    pub setting: String,
    /// Number of CPUs of the guest.
    pub cpus: u8,
    /// Time in ns that the guest's CPUs need for an instruction.
    pub instruction_ns: u32,
    /// Time in ns from the wake-up of a thread to its first instruction.
    pub wake_ns: u64,
    /// Time in ns by which an interrupt reaches the guest's CPU later than the controller asserts
    /// it.
    pub irq_ns: u64,
    /// Time in ns of a read of a controller register.
    pub register_read_ns: u64,
    /// Time in ns of a write of a controller register.
    pub register_write_ns: u64,
    /// Events at the card slot during the run, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedule: Vec<String>,
    /// Output of the guest before the job began.
    pub begin: Vec<String>,
    /// Lines that the job has printed in the guest.
    pub output: Vec<String>,
    /// Loads that the job's output reports.
    pub loads: Vec<Load>,
    /// Counters of the whole run.
    pub counters: Counters,
}

impl Report {
    /// Returns the report as readable text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in self.begin.iter().chain(self.output.iter().filter(|line| !line.starts_with('{'))) {
            text += line;
            text.push('\n');
        }
        if !self.loads.is_empty() {
            let _ = writeln!(
                text,
                "{:34}{:>9} {:>9} {:>9} | for each request: {:>9} {:>9} {:>9} {:>9} {:>9}",
                "load", "MiB/s", "us", "merged", "instr.", "registers", "interr.", "commands", "switches"
            );
        }
        for load in &self.loads {
            let name = format!("{} {}, depth {}, {} jobs", load.load, load.bytes, load.depth, load.jobs);
            let _ = write!(text, "{name:34}{:9.2} {:9.1} {:9.2}", load.mib_per_s, load.us(), load.merged);
            if let Some(counted) = &load.counters {
                let each = |count: u64| count as f64 / load.requests.max(1) as f64;
                let _ = write!(
                    text,
                    " |                   {:9.0} {:9.2} {:9.2} {:9.2} {:9.2}",
                    each(counted.instructions),
                    each(counted.register_reads + counted.register_writes),
                    each(counted.interrupts),
                    each(counted.commands),
                    each(load.switches),
                );
            }
            text.push('\n');
        }
        let Counters {
            at_ns,
            instructions,
            register_reads,
            register_writes,
            interrupts,
            commands,
            violations,
        } = self.counters;
        let _ = writeln!(
            text,
            "{:.6} s of the guest, {instructions} instructions, {register_reads} register reads, {register_writes} writes, \
             {interrupts} interrupts, {commands} commands, {violations} violations",
            at_ns as f64 / 1e9
        );
        text
    }
}

/// Line with the counters at a mark, which QEMU's plugin wrote. A mark is a point in time: the
/// program in the guest writes a number to the controller, and the plugin stores the number with
/// its counters.
#[derive(Deserialize)]
struct Mark {
    mark: u64,
    #[serde(flatten)]
    counters: Counters,
}

/// Number of the mark that the program in the guest makes before it sends the first request of a
/// load.
const LOAD_BEGINS: u64 = 1;
/// Number of the mark that the program in the guest makes after the last request of a load.
const LOAD_ENDS: u64 = 2;

/// Returns the loads that a job's output reports, each with its counters, and the counters of the
/// whole run. `counted`: the counters at the begin and end of each load, one object in JSON on each
/// line.
pub(super) fn join(output: &[String], counted: &str) -> Result<(Vec<Load>, Counters), String> {
    let marks = counted
        .lines()
        .map(|line| serde_json::from_str::<Mark>(line).map_err(|error| format!("counters: {line}: {error}")));
    let marks: Vec<Mark> = marks.collect::<Result<_, _>>()?;
    let end = marks.last().ok_or("counters: there are none")?.counters;
    let begins = marks.iter().filter(|mark| mark.mark == LOAD_BEGINS);
    let ends = marks.iter().filter(|mark| mark.mark == LOAD_ENDS);
    let mut beside = begins.zip(ends).map(|(begin, end)| end.counters.since(begin.counters));
    let mut loads = Vec::new();
    for line in output.iter().filter(|line| line.starts_with('{')) {
        let mut load: Load =
            serde_json::from_str(line).map_err(|error| format!("the guest said {line}: {error}"))?;
        load.counters = beside.next();
        loads.push(load);
    }
    Ok((loads, end))
}

#[cfg(test)]
mod tests {
    use super::join;

    const LINE: &str = r#"{"load": "read", "bytes": 4096, "depth": 2, "jobs": 1, "requests": 100, "reaps": "all", "mib_per_s": 8.0, "latency_us": 1.0, "merged": 1.0, "elapsed_us": 2.0, "switches": 3, "percentiles_us": {"50": 2.5}}"#;

    fn mark(mark: u64, all: u64) -> String {
        format!(
            r#"{{"mark": {mark}, "at_ns": {all}, "instructions": {all}, "register_reads": 0, "register_writes": 0, "interrupts": {all}, "commands": 1, "violations": 0}}"#
        )
    }

    #[test]
    fn a_load_has_what_was_counted_between_its_marks() {
        let output = ["said".to_owned(), LINE.to_owned(), LINE.to_owned()];
        let counted = [mark(1, 10), mark(2, 15), mark(1, 20), mark(2, 40), mark(0, 50)].join("\n");
        let (loads, all) = join(&output, &counted).unwrap();
        let between: Vec<u64> = loads.iter().map(|load| load.counters.unwrap().interrupts).collect();
        assert_eq!((between, all.instructions), (vec![5, 20], 50));
        assert!((loads[0].us() - 488.28125).abs() < 1e-9);
        for (output, counted) in [(&output[..], ""), (&output[..], "{}"), (&["{".to_owned()][..], &counted)] {
            assert_eq!(join(output, counted).unwrap_err().lines().count(), 1);
        }
    }
}
