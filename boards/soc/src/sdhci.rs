//! The SDHCI controller of most machines.

use crate::board::say;
use crate::counted::Counted;
use crate::identity::Identity;
use crate::plan::alone::Once;
use crate::table::{MACHINE, Profile};
use mmcq::host::Width;
use mmcq::host::regs::Mmio;
use mmcq::host::sdhci::{Sdhci, SdhciConfig, Table, TransferMode, profiles};

#[cfg(feature = "mcimx6ul-evk")]
type Shown = mmcq::host::sdhci::Usdhc<Mmio>;
#[cfg(not(feature = "mcimx6ul-evk"))]
type Shown = Mmio;
type Registers = Counted<Shown>;

/// Type of the controller's driver.
pub type Controller = Sdhci<Registers, Identity, 64>;

static TABLE: Once<Table<64>> = Once::new(Table::new());

#[cfg(feature = "mcimx6ul-evk")]
fn registers(regs: Mmio) -> Registers {
    Counted::new(Shown::new(regs))
}

#[cfg(not(feature = "mcimx6ul-evk"))]
fn registers(regs: Mmio) -> Registers {
    Counted::new(regs)
}

fn config() -> Option<SdhciConfig> {
    let profile = match MACHINE.profile {
        Profile::Zynq => profiles::ZYNQ,
        Profile::ZynqMp => profiles::ZYNQMP,
        Profile::Aspeed => profiles::ASPEED,
        Profile::Usdhc => profiles::USDHC,
        Profile::Bcm2835 => profiles::BCM2835_EMMC,
        Profile::Smhc => return None,
    };
    Some(profile.clock(MACHINE.clock_hz).width(Width::W4))
}

/// Makes the driver. Returns the driver and its transfer mode.
pub fn controller() -> Result<(Controller, TransferMode), &'static str> {
    let config = config().ok_or("no SDHCI")?;
    let table = TABLE.take().ok_or("taken")?;
    // SAFETY: the address is the controller's register page, which no other code uses: `TABLE` is
    // taken once.
    let regs = registers(unsafe { Mmio::at_address(MACHINE.registers) });
    let host = Sdhci::new(regs, Identity, table, config).map_err(|error| {
        say(format_args!("{error}"));
        "no controller"
    })?;
    let mode = host.transfer_mode();
    Ok((host, mode))
}
