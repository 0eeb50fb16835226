//! The stack with one transfer at a time.

use crate::Stack;
use crate::sdhci::Controller;
use mmcq::card::Card;
use mmcq::engine::{DmaBuf, Error};
use mmcq::sched::Fifo;

/// Type of the driver in the stack.
pub type Host = Controller;
/// Type of the stack's profile.
pub type Profile = Fifo;
/// The stack's profile.
pub const PROFILE: Profile = Fifo;

/// Returns the address of the registers.
pub fn registers(base: usize) -> usize {
    base
}

/// Makes the driver of the stack from the driver of the controller.
pub fn host(controller: Controller) -> Option<Host> {
    Some(controller)
}

/// Returns the driver of the controller inside the stack's driver.
pub fn controller(host: &Host) -> &Controller {
    host
}

/// Returns the number of register reads and writes so far.
pub fn accesses(host: &Host) -> u32 {
    // SAFETY: no register is touched.
    unsafe { controller(host).regs() }.accesses()
}

/// Does nothing: without a queue nothing has to be enabled after bring-up.
pub async fn begin(_: &Stack, _: &Card, scratch: DmaBuf) -> Result<DmaBuf, Error> {
    Ok(scratch)
}
