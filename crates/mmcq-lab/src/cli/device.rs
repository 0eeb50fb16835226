//! `mmcq device`: connects a simulated controller with its card to a virtual machine.

use super::serve::ENDING;
use super::{Error, print, voice};
use clap::Args;
use mmcq_lab::device::{self, Setup, pci};
use mmcq_sim::schedule::Schedule;
use signal_hook::consts::{SIGHUP, SIGUSR1, SIGUSR2};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show the controller model with its card to a virtual machine, as a PCI device over vfio-user
///
/// Serves one virtual machine, and ends when this machine disconnects or at a signal INT or TERM.
/// Virtual time passes as fast as real time.
///
/// Other signals: USR1 cuts the card's power for a moment, which the slot does not report; what the
/// card had not written is lost. USR2 takes the card out, and the next USR2 puts it in again. HUP
/// begins the schedule if --hold was given.
#[derive(Debug, Args)]
#[command(after_help = "Example (QEMU 10.1 or later; the machine's memory must be shared):
  truncate -s 1G card.img && mmcq device card.img --socket card.sock
  qemu-system-x86_64 -M q35,memory-backend=ram -object memory-backend-memfd,id=ram,size=512M,share=on ... \\
    -device '{\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":\"card.sock\"},\"x-no-posted-writes\":true}'
Writes that are not posted keep the guest's pauses as long as it wants them.")]
pub struct Device {
    /// Image file with the card's content. The board's own card takes its size; a card named by
    /// --card must fit into it (the rest of the image is not used) [default: generated memory]
    image: Option<PathBuf>,
    /// Opens the image read-only, and shows the card as write-protected to the guest
    #[arg(long, requires = "image")]
    read_only: bool,
    /// Path of the socket
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Card: a name from `mmcq platforms`, or a TOML file [default: the board's]
    #[arg(long, value_name = "CARD")]
    card: Option<String>,
    /// Board with an SDHCI controller: a name from `mmcq platforms`, or a TOML file
    #[arg(long, value_name = "PLATFORM", default_value = mmcq_lab::scene::PLATFORM)]
    platform: String,
    /// Vendor and device ID, four hexadecimal digits each. A guest's driver may apply quirks to
    /// some IDs
    #[arg(long, value_name = "VENDOR:DEVICE", default_value_t = pci::DEFAULT_ID)]
    pci_id: pci::Id,
    /// File of events at the slot, one a line: the time in milliseconds after the machine has
    /// connected; then a fault of the catalogue (docs/FAILURES.md), `cut` (the card has no supply)
    /// or `out` (the card is taken out); for an event that lasts, also its duration in milliseconds
    #[arg(long, value_name = "FILE")]
    schedule: Option<PathBuf>,
    /// Begins the events of --schedule when this program gets the signal HUP, not when the machine
    /// connects
    #[arg(long, requires = "schedule")]
    hold: bool,
    /// Write all events on the bus to this file, one a line, with times in nanoseconds
    #[arg(long, value_name = "PATH")]
    log: Option<PathBuf>,
}

fn read_schedule(path: &Path) -> Result<Schedule, Error> {
    let read = std::fs::read_to_string(path).map_err(|error| error.to_string());
    read.and_then(|text| Schedule::parse(&text))
        .map_err(|why| Error::Input(format!("--schedule {}: {why}", path.display())))
}

impl Device {
    pub fn run(self) -> Result<ExitCode, Error> {
        let platform = device::platform(&self.platform).map_err(Error::Input)?;
        let image = self.image.as_deref().map(|path| super::image(path, !self.read_only)).transpose()?;
        let (medium, _lock) = image.unzip();
        let schedule = self.schedule.as_deref().map(read_schedule).transpose()?.unwrap_or_default();
        let [one, other] = ENDING;
        let which = [one, other, SIGHUP, SIGUSR1, SIGUSR2];
        let begun = super::serve::signals(&which, |control: &device::Control, signal| match signal {
            SIGHUP => control.begin(),
            SIGUSR1 => control.cut(),
            SIGUSR2 => control.swap(),
            _ => control.stop(),
        })?;
        let setup = Setup { platform, card: self.card, medium, id: self.pci_id, schedule, hold: self.hold };
        let mut device = device::Device::new(setup, &self.socket).map_err(Error::Input)?;
        if let Some(path) = &self.log {
            let file = std::fs::File::create(path)
                .map_err(|e| Error::Input(format!("--log {}: {e}", path.display())))?;
            let mut file = std::io::BufWriter::new(file);
            // If the log cannot be written any more, the machine must still keep its card.
            device.set_log(Box::new(move |event| drop(writeln!(file, "{event:?}"))));
        }
        print(&format!("PCI device {} at {}\n", self.pci_id, self.socket.display()))?;
        let summary = device.serve(begun).map_err(Error::Run)?;
        let stats = &summary.stats;
        print(&format!(
            "{} commands, {} interrupts, {} blocks read, {} written, {} bad; {} violations by the driver; {} accesses to no memory\n",
            stats.command_count(),
            stats.interrupts,
            stats.blocks_read,
            stats.blocks_written,
            stats.blocks_bad,
            summary.violations,
            summary.refused.0,
        ))?;
        if let Some(first) = summary.refused.1 {
            voice::fault(format_args!("DMA {first}"));
        }
        match summary.error {
            Some(error) => Err(Error::Run(error)),
            None => Ok(ExitCode::SUCCESS),
        }
    }
}
