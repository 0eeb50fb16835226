//! The stack with the card's command queue, which the controller's command queue engine drives: on
//! the simulated controller (`mmcq guest`, `mmcq device`), or on one of Intel's.

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

/// Type of the driver in the stack.
pub type Host = Cqhci<Counted<Mmio>, Identity, 64, PIECES>;
/// Type of the stack's profile.
pub type Profile = HostQueued<Fifo>;
/// The stack's profile.
pub const PROFILE: Profile = HostQueued(Fifo);

/// Number of memory segments in a task.
const PIECES: usize = 8;
/// Address at which `mmcq guest` has all registers of its controller; QEMU's own device has only
/// 256 bytes.
const WINDOW: usize = 0xfed8_0000;
/// Offset of the command queue engine's registers.
const ENGINE: u16 = 0x200;

static LIST: Once<TaskList<PIECES>> = Once::new(TaskList::new());

/// Returns the address of the registers.
pub fn registers(base: usize) -> usize {
    if guest_does().is_some() { WINDOW } else { base }
}

/// Makes the driver of the stack from the driver of the controller.
pub fn host(controller: Controller) -> Option<Host> {
    // SAFETY: on each machine of this image the engine's registers are in the controller's page.
    let config = unsafe { CqhciConfig::at(ENGINE) }.quirks(CqhciQuirks::INTEL);
    Some(Cqhci::new(controller, LIST.take()?, config))
}

/// Returns the driver of the controller inside the stack's driver.
pub fn controller(host: &Host) -> &Controller {
    host.controller()
}

/// Returns the number of register reads and writes so far.
pub fn accesses(host: &Host) -> u32 {
    // SAFETY: no register is touched.
    unsafe { controller(host).regs() }.accesses()
}

/// Enables the card's queue after bring-up.
pub async fn begin(stack: &Stack, card: &Card, scratch: DmaBuf) -> Result<DmaBuf, Error> {
    let (depth, scratch) = card::enable_task_queue(stack, card, scratch).await;
    stack.with(|engine| engine.always_use_task_queue(true));
    say(format_args!("queue: {} tasks", depth?));
    Ok(scratch)
}
