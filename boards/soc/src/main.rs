//! Judges the stack with controllers and cards that others wrote: the SDHCI or SMHC that machines
//! of QEMU have of their own, and its SD card. One source, and a table of machines (`table.rs`).
//!
//! The card is brought up, written and read by mmcq as any firmware would, with the profile of the
//! controller's name, driven by nothing but interrupts: the controller's, and the alarm that the
//! engine asks for. `tools/boards.sh` builds and runs this, and looks at the card's image
//! afterwards. What is not of these machines is in `plan`.
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
#[cfg_attr(feature = "orangepi-pc", path = "smhc.rs")]
#[cfg_attr(not(feature = "orangepi-pc"), path = "sdhci.rs")]
mod controller;
#[cfg_attr(target_arch = "arm", path = "core32.rs")]
#[cfg_attr(target_arch = "aarch64", path = "core64.rs")]
mod cpu;
#[path = "../../plan/identity.rs"]
mod identity;
#[cfg_attr(not(feature = "raspi3b"), path = "../../plan/gic.rs")]
#[cfg_attr(feature = "raspi3b", path = "bcm2836.rs")]
mod irq;
#[path = "../../plan/lines.rs"]
mod lines;
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
use mmcq::card::{self, Options};
use mmcq::engine::{Config, DmaBuf, Error};
use plan::alone::InterruptsOff;
use plan::firmware;
use plan::judge::{BUFFER_BYTES, Judge};
use table::MACHINE;

/// The stack of this image.
pub type Stack = mmcq::task::Stack<(InterruptsOff, Controller), 8>;

fn stack() -> Result<&'static Stack, &'static str> {
    let (host, moves) = controller::controller()?;
    let (profile, at) = (MACHINE.profile, MACHINE.registers);
    say(format_args!("controller: {profile:?}, registers at {at:#x}, {moves:?}"));
    firmware::place(Stack::new(InterruptsOff, firmware::TIMER, host, Config::DEFAULT))
}

async fn judge(stack: &'static Stack) -> Result<bool, Error> {
    let Some(memory) = firmware::MEMORY.take() else { return Ok(false) };
    let mut buffers = memory.buffers.each_mut().map(|buffer| DmaBuf::from_static(buffer));
    let scratch = DmaBuf::from_static(&mut memory.scratch);
    let card = card::bring_up_sd(stack, scratch, Options::DEFAULT).await.0?;
    firmware::introduce(&card);
    let mut judge = Judge::new(card.params.sectors, &mut memory.writers);
    let bounce = &mut memory.bounce[..BUFFER_BYTES];
    judge.whole_plan(stack, &mut buffers, bounce, &mut memory.borrowed, async || Ok(())).await?;
    firmware::report(stack);
    Ok(judge.wrong == 0)
}

/// The program.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    board::start();
    firmware::main(stack(), judge)
}
