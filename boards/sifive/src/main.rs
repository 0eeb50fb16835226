//! Tests the stack with an SPI port and a card by other authors: SiFive's controller as QEMU models
//! it, and QEMU's SD card in SPI mode, on the 64-bit RISC-V machine sifive_u.
//!
//! mmcq brings the card up, writes and reads it as in any firmware. Only interrupts drive it: those
//! of the port, and the alarm that the engine sets. With `left read` or `left write` on the command
//! line, the image first leaves the card inside a block, like a program that is reset during a
//! transfer. `tools/boards.sh` builds and starts this image, and checks the card's content
//! afterwards.
#![no_std]
#![no_main]

mod board;
#[path = "../../plan/riscv.rs"]
mod cpu;
mod left;
#[path = "../../plan/lines.rs"]
mod lines;
#[cfg(feature = "path")]
#[path = "../../plan/spi/path.rs"]
mod path;
#[path = "../../plan/mod.rs"]
mod plan;
#[path = "../../plan/plic.rs"]
mod plic;
mod port;

use board::say;
use mmcq::block::BlockDevice;
use mmcq::card::{self, Options};
use mmcq::engine::{Config, DmaBuf, Error};
use mmcq::host::spi::{Spi, SpiConfig, SpiMemory};
use plan::alone::{InterruptsOff, Once};
use plan::firmware;
use plan::judge::{BUFFER_BYTES, Judge};
use plan::pattern;
use port::SifiveSpi;

/// Type of the SPI port in this image.
pub type BoardPort = SifiveSpi;
/// Type of the stack in this image.
pub type Stack = mmcq::task::Stack<(InterruptsOff, Spi<BoardPort>), 8>;

static WIRE: Once<SpiMemory> = Once::new(SpiMemory::new());

fn stack(left: Option<bool>) -> Result<&'static Stack, &'static str> {
    let mut port = SifiveSpi::new();
    if left.is_some_and(|write| !left::left(&mut port, write)) {
        return Err("the card could not be left in the middle of anything");
    }
    let host = Spi::new(port, WIRE.take().ok_or("taken")?, SpiConfig::new(25_000_000));
    firmware::place(Stack::new(InterruptsOff, firmware::TIMER, host, Config::DEFAULT))
}

async fn judge(stack: &'static Stack, repair: bool) -> Result<bool, Error> {
    let Some(memory) = firmware::MEMORY.take() else { return Ok(false) };
    let mut buffers = memory.buffers.each_mut().map(|buffer| DmaBuf::from_static(buffer));
    let scratch = DmaBuf::from_static(&mut memory.scratch);
    let (mut card, scratch) = card::bring_up_sd(stack, scratch, Options::DEFAULT).await;
    // After a stop inside a block, QEMU's card sends the next block with a wrong CRC, so a second
    // attempt is made.
    if let Err(error) = card {
        say(format_args!("first try: {error}"));
        card = card::bring_up_sd(stack, scratch, Options::DEFAULT).await.0;
    }
    let card = card?;
    firmware::introduce(&card);
    #[cfg(feature = "path")]
    if !repair {
        path::measure(stack, &mut buffers)?;
        return Ok(true);
    }
    if repair {
        // A card may program blocks of the write that was cut off, since QEMU's card does not check
        // their CRC. So the first blocks get the content of blocks that were never written.
        let [first, ..] = &mut buffers;
        let mut buf = core::mem::replace(first, DmaBuf::EMPTY);
        for (lba, block) in (0..).zip(buf.chunks_exact_mut(512)) {
            pattern::fill(block, lba, 0);
        }
        let (result, back) = BlockDevice::new(stack).write(0, buf).await;
        *first = back;
        result?;
    }
    let mut judge = Judge::new(card.params.sectors, &mut memory.writers);
    let bounce = &mut memory.bounce[..BUFFER_BYTES];
    judge.whole_plan(stack, &mut buffers, bounce, &mut memory.borrowed, async || Ok(())).await?;
    let stats = stack.with(|engine| *engine.stats());
    say(format_args!(
        "transfers: {} of which {} went on in one that was open",
        stats.transfers, stats.continued
    ));
    firmware::report(stack);
    Ok(judge.wrong == 0)
}

/// Main function of the image.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    board::start();
    let left = match board::command_line().trim() {
        "" => None,
        "left read" => Some(false),
        "left write" => Some(true),
        other => {
            say(format_args!("command line: {other:?}, expected nothing, left read or left write"));
            board::exit(1)
        }
    };
    firmware::main(stack(left), |stack| judge(stack, left == Some(true)))
}
