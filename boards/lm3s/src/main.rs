//! Tests the stack with an SPI port and a card by other authors: QEMU's PL022 and its SD card in
//! SPI mode, on the machine lm3s6965evb.
//!
//! mmcq brings the card up, writes and reads it as in any firmware. Only interrupts drive it: those
//! of the PL022, and the alarm that the engine sets. `tools/boards.sh` builds and starts this
//! image, and checks the card's content afterwards.
#![no_std]
#![no_main]

#[path = "../../plan/arm.rs"]
mod arm;
mod board;
#[cfg_attr(feature = "path", expect(dead_code, reason = "the plan is not done then"))]
mod judge;
#[cfg(feature = "path")]
#[path = "../../plan/spi/path.rs"]
mod path;
#[path = "../../plan/pl011.rs"]
mod pl011;
mod pl022;
#[expect(dead_code, reason = "this machine has no memory for the whole plan at once")]
#[path = "../../plan/mod.rs"]
mod plan;
mod start;

#[cfg(not(feature = "path"))]
use board::say;
use mmcq::card::{self, Options};
#[cfg(not(feature = "path"))]
use mmcq::engine::Error;
use mmcq::engine::{Config, DmaBuf};
use mmcq::host::spi::{Spi, SpiConfig, SpiMemory};
use pl022::Pl022;
use plan::alone::{InterruptsOff, Once};
use plan::firmware;

/// Type of the SPI port in this image.
pub type BoardPort = Pl022;
/// Type of the stack in this image.
pub type Stack = mmcq::task::Stack<(InterruptsOff, Spi<BoardPort>), 4>;

/// Memory that the plan uses.
struct Memory {
    buffers: [[u8; judge::PIECE_BYTES]; judge::DEPTH],
    scratch: [u8; card::SCRATCH_BYTES as usize],
    wire: SpiMemory,
}

static MEMORY: Once<Memory> =
    Once::new(Memory { buffers: [[0; _]; _], scratch: [0; _], wire: SpiMemory::new() });

fn stack(wire: &'static mut SpiMemory) -> Result<&'static Stack, &'static str> {
    let host = Spi::new(Pl022::new(), wire, SpiConfig::new(6_250_000));
    firmware::place(Stack::new(InterruptsOff, firmware::TIMER, host, Config::DEFAULT))
}

/// Main function of the image.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    board::start();
    let Some(memory) = MEMORY.take() else { board::exit(1) };
    let Memory { buffers, scratch, wire } = memory;
    let judge = move |stack: &'static Stack| async move {
        let mut buffers = buffers.each_mut().map(|buffer| DmaBuf::from_static(buffer));
        let card = card::bring_up_sd(stack, DmaBuf::from_static(scratch), Options::DEFAULT).await.0?;
        firmware::introduce(&card);
        #[cfg(feature = "path")]
        {
            path::measure(stack, &mut buffers)?;
            Ok(true)
        }
        #[cfg(not(feature = "path"))]
        judged(stack, card.params.sectors, &mut buffers).await
    };
    firmware::main(stack(wire), judge)
}

/// Does the plan. Returns whether all blocks were right.
#[cfg(not(feature = "path"))]
async fn judged(
    stack: &'static Stack,
    card_blocks: u64,
    buffers: &mut [DmaBuf; judge::DEPTH],
) -> Result<bool, Error> {
    let mut judge = judge::Judge { card_blocks, wrong: 0 };
    judge.whole_plan(stack, buffers).await?;
    let stats = stack.with(|engine| *engine.stats());
    say(format_args!(
        "transfers: {} of which {} went on in one that was open",
        stats.transfers, stats.continued
    ));
    firmware::report(stack);
    Ok(judge.wrong == 0)
}
