//! Tests the stack with controllers and cards by other authors: the SDHCI or SMHC that QEMU's
//! machines have, and QEMU's SD card. All machines have the same source and a table (`table.rs`).
//!
//! mmcq brings the card up, writes and reads it as in any firmware, with the profile that has the
//! controller's name. Only interrupts drive it: the controller's, and the alarm that the engine
//! sets. `tools/boards.sh` builds and starts this image, and checks the card's content afterwards.
//! Code for all machines is in `plan`.
#![no_std]
#![no_main]

#[path = "../../plan/arm.rs"]
mod arm;
#[cfg(target_arch = "arm")]
#[path = "../../plan/armv7.rs"]
mod armv7;
#[cfg(target_arch = "aarch64")]
#[path = "../../plan/armv8.rs"]
mod armv8;
mod board;
#[cfg_attr(any(feature = "orangepi-pc", feature = "bpim2u"), path = "smhc.rs")]
#[cfg_attr(not(any(feature = "orangepi-pc", feature = "bpim2u")), path = "sdhci.rs")]
mod controller;
#[path = "../../plan/sdhci/counted.rs"]
mod counted;
#[cfg_attr(target_arch = "arm", path = "core32.rs")]
#[cfg_attr(target_arch = "aarch64", path = "core64.rs")]
mod cpu;
#[path = "../../plan/identity.rs"]
mod identity;
#[cfg_attr(not(feature = "raspi3b"), path = "../../plan/gic.rs")]
#[cfg_attr(feature = "raspi3b", path = "bcm2836.rs")]
mod irq;
#[cfg(feature = "path")]
mod lane;
#[path = "../../plan/lines.rs"]
mod lines;
#[cfg(feature = "path")]
#[path = "../../plan/sdhci/path.rs"]
mod path;
#[cfg_attr(feature = "path", expect(dead_code, reason = "the plan is not done then"))]
#[path = "../../plan/mod.rs"]
mod plan;
#[cfg(target_arch = "arm")]
#[path = "../../arm/src/start.rs"]
mod start;
#[cfg(target_arch = "aarch64")]
#[path = "start64.rs"]
mod start;
mod table;

use board::say;
use controller::Controller;
use mmcq::card::{self, Card, Options};
use mmcq::engine::{Config, DmaBuf, Error};
use plan::alone::InterruptsOff;
use plan::firmware;
#[cfg(not(feature = "path"))]
use plan::judge::{BUFFER_BYTES, Judge};
use table::MACHINE;

/// Number of slots in the stack; a path is measured with up to 32 requests.
const SLOTS: usize = if cfg!(feature = "path") { 32 } else { 8 };

/// Type of the stack in this image.
pub type Stack = mmcq::task::Stack<(InterruptsOff, Controller), SLOTS>;

fn stack() -> Result<&'static Stack, &'static str> {
    let (host, moves) = controller::controller()?;
    let (profile, at) = (MACHINE.profile, MACHINE.registers);
    say(format_args!("controller: {profile:?}, registers at {at:#x}, {moves:?}"));
    firmware::place(Stack::new(InterruptsOff, firmware::TIMER, host, Config::DEFAULT))
}

/// Brings the card up.
async fn card(stack: &'static Stack, scratch: DmaBuf) -> Result<Card, Error> {
    let card = card::bring_up_sd(stack, scratch, Options::DEFAULT).await.0?;
    firmware::introduce(&card);
    Ok(card)
}

#[cfg(not(feature = "path"))]
async fn judge(stack: &'static Stack) -> Result<bool, Error> {
    let Some(memory) = firmware::MEMORY.take() else { return Ok(false) };
    let mut buffers = memory.buffers.each_mut().map(|buffer| DmaBuf::from_static(buffer));
    let card = card(stack, DmaBuf::from_static(&mut memory.scratch)).await?;
    let mut judge = Judge::new(card.params.sectors, &mut memory.writers);
    let bounce = &mut memory.bounce[..BUFFER_BYTES];
    judge.whole_plan(stack, &mut buffers, bounce, &mut memory.borrowed, async || Ok(())).await?;
    firmware::report(stack);
    Ok(judge.wrong == 0)
}

#[cfg(feature = "path")]
async fn judge(stack: &'static Stack) -> Result<bool, Error> {
    let Some(memory) = firmware::MEMORY.take() else { return Ok(false) };
    card(stack, DmaBuf::from_static(&mut memory.scratch)).await?;
    path::measure(stack, lane::buffers(), 0).await?;
    Ok(true)
}

/// Main function of the image.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    board::start();
    firmware::main(stack(), judge)
}
