//! Judges the stack with controllers and cards that others wrote: the SDHCI that machines of QEMU
//! have of their own, and its SD card. One source, and a table of machines (`table.rs`).
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
#[cfg_attr(target_arch = "arm", path = "core32.rs")]
#[cfg_attr(target_arch = "aarch64", path = "core64.rs")]
mod cpu;
#[path = "../../plan/identity.rs"]
mod identity;
#[cfg_attr(not(feature = "raspi3b"), path = "../../plan/gic.rs")]
#[cfg_attr(feature = "raspi3b", path = "bcm2836.rs")]
mod irq;
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
use identity::Identity;
use mmcq::card::{self, Options};
use mmcq::engine::{Config, DmaBuf, Error};
use mmcq::host::Width;
use mmcq::host::regs::Mmio;
use mmcq::host::sdhci::{Sdhci, SdhciConfig, Table, profiles};
use plan::alone::{InterruptsOff, Once};
use plan::firmware;
use plan::judge::{BUFFER_BYTES, Judge};
use table::{MACHINE, Profile};

#[cfg(feature = "mcimx6ul-evk")]
type Registers = mmcq::host::sdhci::Usdhc<Mmio>;
#[cfg(not(feature = "mcimx6ul-evk"))]
type Registers = Mmio;

/// The stack of this image.
pub type Stack = mmcq::task::Stack<(InterruptsOff, Sdhci<Registers, Identity, 64>), 8>;

static TABLE: Once<Table<64>> = Once::new(Table::new());

#[cfg(feature = "mcimx6ul-evk")]
fn registers(regs: Mmio) -> Registers {
    Registers::new(regs)
}

#[cfg(not(feature = "mcimx6ul-evk"))]
fn registers(regs: Mmio) -> Registers {
    regs
}

fn config() -> SdhciConfig {
    let profile = match MACHINE.profile {
        Profile::Zynq => profiles::ZYNQ,
        Profile::ZynqMp => profiles::ZYNQMP,
        Profile::Aspeed => profiles::ASPEED,
        Profile::Usdhc => profiles::USDHC,
        Profile::Bcm2835 => profiles::BCM2835_EMMC,
    };
    profile.clock(MACHINE.clock_hz).width(Width::W4)
}

fn stack() -> Result<&'static Stack, &'static str> {
    let table = TABLE.take().ok_or("taken")?;
    // SAFETY: the controller's registers, which no other code uses: `TABLE` is taken once.
    let regs = registers(unsafe { Mmio::at_address(MACHINE.sdhci) });
    let host = Sdhci::new(regs, Identity, table, config()).map_err(|error| {
        say(format_args!("{error}"));
        "no controller"
    })?;
    let (mode, at) = (host.transfer_mode(), MACHINE.sdhci);
    say(format_args!("controller: {:?}, registers at {at:#x}, {mode:?}", MACHINE.profile));
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
