//! Tests the stack with a controller and a card by other authors: QEMU's PL181 and its SD card, on
//! the machine vexpress-a9.
//!
//! mmcq brings the card up, writes and reads it as in any firmware. Only interrupts drive it: those
//! of the PL181, and the alarm that the engine sets. `tools/boards.sh` builds and starts this
//! image, and checks the card's content afterwards. Code for all machines is in `plan`.
#![no_std]
#![no_main]

#[path = "../../plan/arm.rs"]
mod arm;
#[path = "../../plan/armv7.rs"]
mod armv7;
mod board;
#[path = "../../plan/gic.rs"]
mod gic;
#[path = "../../plan/pl011.rs"]
mod pl011;
#[path = "../../plan/mod.rs"]
mod plan;
mod provoke;
mod start;

use board::say;
use core::ptr::NonNull;
use mmcq::card::{self, Options};
use mmcq::engine::{Config, DmaBuf, Error};
use mmcq::host::Width;
use mmcq::host::pl181::{self, Pl181};
use mmcq::host::regs::Mmio;
use plan::alone::InterruptsOff;
use plan::firmware;
use plan::judge::Judge;

/// Type of the stack in this image.
pub type Stack = mmcq::task::Stack<(InterruptsOff, Pl181<Mmio>), 8>;

fn stack() -> Result<&'static Stack, &'static str> {
    let base = NonNull::new(core::ptr::without_provenance_mut::<u8>(board::MCI)).ok_or("no address")?;
    // SAFETY: the address is the controller's register page, which no other code uses: this
    // function is called once.
    let regs = unsafe { Mmio::new(base) };
    let config = pl181::Pl181Config::new(board::MCI_HZ, board::MCI_HZ).width(Width::W4);
    let host = Pl181::new(regs, config).map_err(|error| {
        say(format_args!("{error}"));
        "no controller"
    })?;
    firmware::place(Stack::new(InterruptsOff, firmware::TIMER, host, Config::DEFAULT))
}

async fn judge(stack: &'static Stack) -> Result<bool, Error> {
    let Some(memory) = firmware::MEMORY.take() else { return Ok(false) };
    let mut buffers = memory.buffers.each_mut().map(|buffer| DmaBuf::from_static(buffer));

    let scratch = DmaBuf::from_static(&mut memory.scratch);
    let card = card::bring_up_sd(stack, scratch, Options::DEFAULT).await.0?;
    firmware::introduce(&card);
    let mut judge = Judge::new(card.params.sectors, &mut memory.writers);
    // The stack must also accept words at odd addresses.
    let bounce = &mut memory.bounce[1..];
    judge.whole_plan(stack, &mut buffers, bounce, &mut memory.borrowed, async || Ok(())).await?;
    let [buf, ..] = buffers;
    let (ns, buf) = provoke::path_ns(stack, buf).await?;
    say(format_args!("read of 4 KiB, alone: {ns} ns of the machine's time"));
    firmware::report(stack);
    let bad = provoke::provoke(stack, &mut judge, buf).await;
    say(format_args!("provoked: {bad} wrong ends, {} wrong blocks", judge.wrong));
    Ok(judge.wrong == 0 && bad == 0)
}

/// Main function of the image.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    board::start();
    firmware::main(stack(), judge)
}
