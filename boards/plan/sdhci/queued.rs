//! The stack with the card's queue, driven by the controller's queue engine: on the laboratory's
//! controller (`mmcq guest`, `mmcq device`), or on one of Intel's.

use crate::Stack;
use crate::board::say;
use crate::plan::alone::Once;
use crate::sdhci::counted::Counted;
use crate::sdhci::{Controller, Identity, guest_does};
use mmcq::card::{self, Card};
use mmcq::engine::{DmaBuf, Error};
use mmcq::host::regs::Mmio;
use mmcq::host::sdhci::{Cqhci, CqhciConfig, CqhciQuirks, TaskList};
use mmcq::sched::{Fifo, HostQueued};

/// The driver of the stack.
pub type Host = Cqhci<Counted<Mmio>, Identity, 64, PIECES>;
/// Its profile.
pub type Profile = HostQueued<Fifo>;
/// The profile.
pub const PROFILE: Profile = HostQueued(Fifo);

/// Pieces of memory of a task.
const PIECES: usize = 8;
/// Where `mmcq guest` has all registers of its controller: QEMU's own device has 256 bytes.
const WINDOW: usize = 0xfed8_0000;
/// Where the engine's registers begin.
const ENGINE: u16 = 0x200;

static LIST: Once<TaskList<PIECES>> = Once::new(TaskList::new());

/// Where the registers are.
pub fn registers(base: usize) -> usize {
    if guest_does().is_some() { WINDOW } else { base }
}

/// The driver of the stack, around that of the controller.
pub fn host(controller: Controller) -> Option<Host> {
    // SAFETY: the engine's registers are in the controller's page, on each machine that this image
    // is for.
    let config = unsafe { CqhciConfig::at(ENGINE) }.quirks(CqhciQuirks::INTEL);
    Some(Cqhci::new(controller, LIST.take()?, config))
}

/// The driver of the controller.
pub fn controller(host: &Host) -> &Controller {
    host.controller()
}

/// Reads and writes of its registers so far.
pub fn accesses(host: &Host) -> u32 {
    // SAFETY: no register is touched.
    unsafe { controller(host).regs() }.accesses()
}

/// What is switched on once there is a card.
pub async fn begin(stack: &Stack, card: &Card, scratch: DmaBuf) -> Result<DmaBuf, Error> {
    let (depth, scratch) = card::enable_task_queue(stack, card, scratch).await;
    stack.with(|engine| engine.always_use_task_queue(true));
    say(format_args!("queue: {} tasks", depth?));
    Ok(scratch)
}
