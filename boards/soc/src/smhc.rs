//! Allwinner's mobile storage host (SMHC).

use crate::board::say;
use crate::counted::Counted;
use crate::identity::Identity;
use crate::plan::alone::Once;
use crate::table::MACHINE;
use mmcq::host::Width;
use mmcq::host::mshc::{Descriptors, MshcConfig, Smhc};
use mmcq::host::regs::Mmio;

/// Type of the controller's driver.
pub type Controller = Smhc<Counted<Mmio>, Identity, (), 64>;

/// The unit that moves the data between controller and memory.
#[derive(Clone, Copy, Debug)]
pub enum Moves {
    /// The controller's internal DMA.
    Idmac,
}

static TABLE: Once<Descriptors<64>> = Once::new(Descriptors::new());

/// Makes the driver. Returns the driver, and the unit that moves its data.
pub fn controller() -> Result<(Controller, Moves), &'static str> {
    let table = TABLE.take().ok_or("taken")?;
    // SAFETY: the address is the controller's register page, which no other code uses: `TABLE` is
    // taken once.
    let regs = Counted::new(unsafe { Mmio::at_address(MACHINE.registers) });
    let config = MshcConfig::new(MACHINE.clock_hz)
        .width(Width::W4)
        .max_clock_hz(50_000_000)
        .high_speed(true)
        .descriptor_bytes(32_768);
    let host = Smhc::new(regs, Identity, (), table, config).map_err(|error| {
        say(format_args!("{error}"));
        "no controller"
    })?;
    Ok((host, Moves::Idmac))
}
