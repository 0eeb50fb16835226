//! `mmcq diff-bus`: compares two logs of the bus.

use super::Error;
use super::form::Form;
use clap::Args;
use mmcq_lab::buslog;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compare two logs of the bus: first difference in commands, gaps between transfers, and how many
/// transfers began without waking a thread
///
/// Logs come from `mmcq run --bus-log`, `mmcq guest --log` and `mmcq device --log`. A gap lasts
/// from the end of a transfer to the first command of the next transfer in the same direction.
/// Columns: the value in the first log, the value in the second, and the second minus the first.
#[derive(Debug, Args)]
pub struct DiffBus {
    /// The first log
    one: PathBuf,
    /// The second log
    other: PathBuf,
    /// Ignores events of the first log before this time in nanoseconds
    #[arg(long, value_name = "NS", default_value_t = 0, value_parser = super::whole)]
    from_one: u64,
    /// Ignores events of the second log before this time in nanoseconds
    #[arg(long, value_name = "NS", default_value_t = 0, value_parser = super::whole)]
    from_other: u64,
    /// Length in nanoseconds of the part of both logs that is compared [default: all]
    #[arg(long = "for", value_name = "NS", value_parser = super::whole)]
    length: Option<u64>,
    /// Time in microseconds to wake a thread: if a transfer begins sooner after an interrupt, no
    /// thread was needed for it
    #[arg(long, value_name = "US", default_value_t = 20, value_parser = super::whole)]
    wake_us: u64,
    #[command(flatten)]
    form: Form,
}

impl DiffBus {
    pub fn run(self) -> Result<ExitCode, Error> {
        let until = |from: u64| self.length.map_or(u64::MAX, |length| from.saturating_add(length));
        let one = buslog::read(&self.one, self.from_one, until(self.from_one)).map_err(Error::Input)?;
        let other =
            buslog::read(&self.other, self.from_other, until(self.from_other)).map_err(Error::Input)?;
        let wake_ns = self.wake_us.saturating_mul(1000);
        self.form
            .print(|| buslog::text(&one, &other, wake_ns), || buslog::json_lines(&one, &other, wake_ns))?;
        Ok(ExitCode::SUCCESS)
    }
}
