//! One packet of the SDIO experiment: from the card's interrupt to the acknowledge, by what
//! advances its steps.

use super::linux::Advance;
use super::ours::Stay;
use super::platform::Board;
use super::trace::Step;
use super::{Failure, Run, Way, run};
use crate::trace::{Capture, Start, What, Window, WindowError};

/// What advances: as `mmcq reproduce sdio` names and does it.
pub const SETTINGS: [(&str, Way); 4] = [
    ("thread+tasklet", Way::Linux(Advance::ThreadTasklet)),
    ("thread", Way::Linux(Advance::Thread)),
    ("async", Way::Linux(Advance::Async)),
    ("mmcq", Way::Ours { stay: Stay::Fifo, own: false, dma: false, asks: false }),
];

/// Shown before the card's interrupt.
const BEFORE_NS: u64 = 5_000;
/// Shown after the acknowledge.
const AFTER_NS: u64 = 20_000;
/// A packet comes every 4 ms: the recorded window ends before the next.
const WINDOW_NS: u64 = 3_900_000;
/// Two packets' time.
const RUN_NS: u64 = 8_000_000;

/// A packet that was recorded.
pub struct Packet {
    /// What the setting is called.
    pub setting: &'static str,
    /// The window.
    pub capture: Capture,
    /// Its steps: what, from the end of the one before (the first: from the fall of DAT1), to the
    /// end of its last token or block.
    pub steps: Vec<(Step, u64, u64)>,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum PacketError {
    /// No such setting.
    #[error("--sdio {0}: unknown setting; expected thread+tasklet, thread, async or mmcq")]
    Setting(String),
    /// The experiment failed.
    #[error(transparent)]
    Run(#[from] Failure),
    /// There was no packet.
    #[error(transparent)]
    Window(#[from] WindowError),
    /// It was not acknowledged.
    #[error("setting {0}: the packet is not acknowledged before the next one comes")]
    Open(&'static str),
}

/// Records the first packet after the warm-up in this setting.
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

/// The steps up to the first acknowledge.
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
