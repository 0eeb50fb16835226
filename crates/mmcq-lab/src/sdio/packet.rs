//! Records one packet of the SDIO experiment, from the card's interrupt to the command that
//! acknowledges it, in several settings.

use super::linux::Advance;
use super::ours::Stay;
use super::platform::Board;
use super::trace::Step;
use super::{Failure, Run, Way, run};
use crate::trace::{Capture, Start, What, Window, WindowError};

/// Settings that can be recorded: the name in `mmcq reproduce sdio`, and the stack with the context
/// (such as thread or interrupt) in which its driver starts each next command.
pub const SETTINGS: [(&str, Way); 4] = [
    ("thread+tasklet", Way::Linux(Advance::ThreadTasklet)),
    ("thread", Way::Linux(Advance::Thread)),
    ("async", Way::Linux(Advance::Async)),
    ("mmcq", Way::Ours { stay: Stay::Fifo, own: false, dma: false, asks: false }),
];

/// Time in ns before the card's interrupt that the recorded window shows.
const BEFORE_NS: u64 = 5_000;
/// Time in ns after the acknowledge of the interrupt that the recorded window shows.
const AFTER_NS: u64 = 20_000;
/// Length in ns of the recorded window. A packet arrives every 4 ms, so the window ends before the
/// next packet.
const WINDOW_NS: u64 = 3_900_000;
/// Length in ns of the run: the time of two packets.
const RUN_NS: u64 = 8_000_000;

/// A recorded packet of the SDIO experiment.
pub struct Packet {
    /// Name of the setting in which the packet was recorded.
    pub setting: &'static str,
    /// Recorded signals and events of the window.
    pub capture: Capture,
    /// Steps of the packet, with start and end in ns. A step begins at the end of the step before
    /// (the first one when DAT1 falls) and ends with its last token or block.
    pub steps: Vec<(Step, u64, u64)>,
}

/// Reason why no packet of the SDIO experiment could be recorded.
#[derive(Debug, thiserror::Error)]
pub enum PacketError {
    /// No setting of the SDIO experiment has this name.
    #[error("--sdio {0}: unknown setting; expected thread+tasklet, thread, async or mmcq")]
    Setting(String),
    /// The run of the experiment failed.
    #[error(transparent)]
    Run(#[from] Failure),
    /// The recorder cannot record the window (the part of the run that is to be shown); the field
    /// says why.
    #[error(transparent)]
    Window(#[from] WindowError),
    /// The driver did not acknowledge the packet before the recorded window of time ended; the text
    /// names the setting of the driver.
    #[error("setting {0}: the packet is not acknowledged before the next one comes")]
    Open(&'static str),
}

/// Records the first packet after the warm-up. `setting`: the name of a driver and its context, one
/// of [`SETTINGS`]. `seed`: seed of the run's random times.
pub fn record(board: &Board, setting: &str, seed: u64) -> Result<Packet, PacketError> {
    let known = SETTINGS.iter().find(|(name, _)| *name == setting);
    let &(setting, way) = known.ok_or_else(|| PacketError::Setting(setting.to_owned()))?;
    let start = Start::CardInterrupt { n: 1 };
    let window = Window { start, before_ns: BEFORE_NS, for_ns: Some(WINDOW_NS) };
    let (outcome, recording) =
        crate::trace::record(window, || run(&Run { board, way, thief: None, for_ns: RUN_NS, seed }));
    outcome?;
    let mut capture = recording.capture()?;
    let steps = steps(&capture);
    let Some(&(Step::Acknowledge, _, end_ns)) = steps.last() else { return Err(PacketError::Open(setting)) };
    capture.shorten(end_ns + AFTER_NS);
    Ok(Packet { setting, capture, steps })
}

/// Returns the packet's steps up to the first acknowledge, each with its start and end in ns.
fn steps(capture: &Capture) -> Vec<(Step, u64, u64)> {
    let mut steps: Vec<(Step, u64, u64)> = Vec::new();
    let after = capture.events.iter().skip_while(|event| event.start_ns < capture.start_ns);
    for event in after {
        let last = steps.last().map(|(step, _, end_ns)| (*step, *end_ns));
        match event.what {
            What::Command { index, arg, .. } => {
                if matches!(last, Some((Step::Acknowledge, _))) {
                    break;
                }
                if let Some(step) = Step::of(index, arg) {
                    let from_ns = last.map_or(capture.start_ns, |(_, end_ns)| end_ns);
                    steps.push((step, from_ns, event.end_ns));
                }
            }
            What::Response { .. } | What::Block { .. } => {
                if let Some((.., end_ns)) = steps.last_mut() {
                    *end_ns = event.end_ns.max(*end_ns);
                }
            }
            What::CrcStatus { .. } | What::Busy | What::ClockStopped => {}
        }
    }
    steps
}
