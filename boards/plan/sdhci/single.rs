//! The stack with one transfer at a time.

use crate::Stack;
use crate::sdhci::Controller;
use mmcq::card::Card;
use mmcq::engine::{DmaBuf, Error};
use mmcq::sched::Fifo;

/// The driver of the stack.
pub type Host = Controller;
/// Its profile.
pub type Profile = Fifo;
/// The profile.
pub const PROFILE: Profile = Fifo;

/// Where the registers are.
pub fn registers(base: usize) -> usize {
    base
}

/// The driver of the stack, around that of the controller.
pub fn host(controller: Controller) -> Option<Host> {
    Some(controller)
}

/// The driver of the controller.
pub fn controller(host: &Host) -> &Controller {
    host
}

/// Reads and writes of its registers so far.
pub fn accesses(host: &Host) -> u32 {
    // SAFETY: no register is touched.
    unsafe { controller(host).regs() }.accesses()
}

/// What is switched on once there is a card.
pub async fn begin(_: &Stack, _: &Card, scratch: DmaBuf) -> Result<DmaBuf, Error> {
    Ok(scratch)
}
