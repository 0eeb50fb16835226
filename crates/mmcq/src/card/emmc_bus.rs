//! Sets up an eMMC's bus: first the number of data lines that the board connects, then the timing,
//! then the sampling point [eMMC 6.6.2 to 6.6.5].

use super::emmc::{Offered, switch};
use super::link::Link;
use super::session::{Failed, OnMoreLines, Session};
use super::speed::Bounds;
use super::{Card, Family, Options};
use crate::engine::{Breach, Error};
use crate::host::{BusOp, Caps, Timing, Width};
use crate::spec::command::{self, emmc as cmd};
use crate::spec::ext_csd::{ExtCsd, index};
use crate::spec::timing::emmc as limits;

/// Values of HS_TIMING [eMMC 7.4.65].
mod hs_timing {
    pub const HIGH_SPEED: u8 = 1;
    pub const HS200: u8 = 2;
    pub const HS400: u8 = 3;
    /// Lowest bit of the driver strength in HS_TIMING, bits 7:4. Each write of the byte selects the
    /// strength again.
    pub const STRENGTH_SHIFT: u8 = 4;
}

/// Bytes of EXT_CSD that no command changes, so a bus without errors returns the same values each
/// time [eMMC 7.4].
const FIXED: [u8; 26] = [
    160, 181, 192, 194, 196, 200, 201, 202, 203, 212, 213, 214, 215, 217, 221, 223, 224, 229, 230, 231, 232,
    236, 237, 238, 239, 253,
];

/// Value to add to BUS_WIDTH for DDR [eMMC 7.4.67].
const DDR: u8 = 4;
/// Value to add to BUS_WIDTH for enhanced strobe [eMMC 7.4.67].
const STROBE: u8 = 0x80;

/// Power classes that the device needs in each timing: the bytes PWR_CL_ff_vvv, with the class for
/// four data lines in bits 3:0 and for eight in 7:4 [eMMC 6.6.3].
///
/// Bring-up accepts only a device with a VCC of 2.7 to 3.6 V, so these are the bytes for 3.6 V.
/// HS200 and HS400 have a VCCQ of 1.8 V.
#[derive(Clone, Copy)]
pub(super) struct PowerClasses {
    legacy: u8,
    high_speed: u8,
    ddr52: u8,
    hs200: u8,
    hs400: u8,
}

impl PowerClasses {
    pub fn of(ext: &ExtCsd<'_>) -> Self {
        PowerClasses {
            legacy: ext.pwr_cl_26_360(),
            high_speed: ext.pwr_cl_52_360(),
            ddr52: ext.pwr_cl_ddr_52_360(),
            hs200: ext.pwr_cl_200_195(),
            hs400: ext.pwr_cl_ddr_200_360(),
        }
    }

    /// Returns the highest power class of this timing and of the timings through which the device
    /// reaches it. With one data line the device needs only class 0.
    fn on_the_way_to(&self, timing: Timing, width: Width) -> u8 {
        let class = |byte: u8| match width {
            Width::W1 => 0,
            Width::W4 => byte & 0xf,
            Width::W8 => byte >> 4,
        };
        let beyond = match timing {
            Timing::HighSpeed => [self.high_speed, 0, 0],
            Timing::Ddr52 => [self.high_speed, self.ddr52, 0],
            Timing::Hs200 => [self.hs200, 0, 0],
            Timing::Hs400 => [self.hs200, self.high_speed, self.hs400],
            Timing::Hs400Es => [self.high_speed, self.hs400, 0],
            _ => [0; 3],
        };
        beyond.into_iter().fold(class(self.legacy), |highest, byte| highest.max(class(byte)))
    }
}

/// Returns a checksum of the bytes in [`FIXED`].
pub(super) fn fingerprint(ext_csd: &[u8; 512]) -> u32 {
    FIXED
        .iter()
        .fold(0x811c_9dc5, |sum, &at| (sum ^ u32::from(ext_csd[usize::from(at)])).wrapping_mul(0x0100_0193))
}

/// Number of tries of each bus width, since a single lost block does not prove bad lines.
const TRIES: u32 = 2;

/// Finds the best timing and its bus width, sets the bus to that width, with the power class that
/// the timing needs, and returns both. `bounds`: what host and board can do; `offered`: what the
/// device can do.
///
/// Some boards do not connect all data lines of controller and device, or cross them. The
/// standard's bus test [eMMC 6.6.4] needs a controller that sends and receives blocks without CRC.
/// This function reads EXT_CSD again instead, which works with any controller and checks the CRC of
/// each line.
pub(super) async fn widen<L: Link>(
    session: &mut Session<L>,
    bounds: &Bounds,
    offered: &Offered,
) -> Result<(Timing, Width), Failed> {
    let switch_ns = offered.switch_ns;
    let mut class = 0;
    for width in [Width::W8, Width::W4, Width::W1] {
        if width != bounds.width(width) {
            continue;
        }
        let timing = choose(bounds, offered, width);
        let needed = offered.classes.on_the_way_to(timing, width);
        // A device that refuses a power class that it has requested also works in its present
        // class.
        if needed != class && switch(session, index::POWER_CLASS, needed, switch_ns).await.is_ok() {
            class = needed;
        }
        if width == Width::W1 {
            set_width(session, width, 0, switch_ns).await?;
            return Ok((timing, width));
        }
        for _ in 0..TRIES {
            if set_width(session, width, 0, switch_ns).await.is_ok()
                && matches!(Offered::read(session).await, Ok(again) if again.fixed == offered.fixed)
            {
                return Ok((timing, width));
            }
        }
    }
    session.refuse(Breach::NoWidth)
}

/// Returns the best timing for this number of data lines.
fn choose(bounds: &Bounds, offered: &Offered, width: Width) -> Timing {
    let usable = |timing: Timing| {
        let fits = limits::speed(timing)
            .is_some_and(|speed| speed.widths.contains(&width) && (speed.at_3v3 || bounds.signal18));
        let entered = timing != Timing::Hs400 || bounds.allow(Timing::Hs200);
        fits && entered && offered.timings & Caps::timing_bit(timing) != 0 && bounds.allow(timing)
    };
    let best = [Timing::Hs400Es, Timing::Hs400, Timing::Hs200, Timing::Ddr52, Timing::HighSpeed];
    best.into_iter().find(|&timing| usable(timing)).unwrap_or(Timing::Legacy)
}

/// Sets BUS_WIDTH on the device, and then the width on the controller; `extra` adds DDR or enhanced
/// strobe. `switch_ns`: longest busy of the switch.
async fn set_width<L: Link>(
    session: &mut Session<L>,
    width: Width,
    extra: u8,
    switch_ns: u64,
) -> Result<(), Failed> {
    let value = match width {
        Width::W1 => 0,
        Width::W4 => 1,
        Width::W8 => 2,
    };
    switch(session, index::BUS_WIDTH, value | extra, switch_ns).await?;
    session.bus(BusOp::Width(width)).await?;
    Ok(())
}

/// Switches from legacy timing to `timing`; the bus width is already set [eMMC 6.6.2.3, 6.6.2.4,
/// 6.6.5]. `strength` is the driver strength in each timing on the way, `switch_ns` the longest
/// time in ns of a CMD6. Returns the clock in hertz.
pub(super) async fn go_to<L: Link>(
    session: &mut Session<L>,
    bounds: &Bounds,
    timing: Timing,
    width: Width,
    strength: u8,
    switch_ns: u64,
) -> Result<u32, Failed> {
    let strength = strength << hs_timing::STRENGTH_SHIFT;
    let clock = |timing| bounds.clock(limits::max_hz(timing));
    let fast = matches!(timing, Timing::Hs200 | Timing::Hs400 | Timing::Hs400Es);
    if fast {
        session.bus(BusOp::Signal18(true)).await?;
    }
    if matches!(timing, Timing::Hs200 | Timing::Hs400) {
        let value = hs_timing::HS200 | strength;
        switch_timing(session, value, Timing::Hs200, clock(Timing::Hs200), switch_ns).await?;
        let bytes = if width == Width::W8 { 128 } else { 64 };
        let tuning = session.tune(cmd::send_tuning_block(), bytes, limits::TUNING_BLOCKS);
        OnMoreLines::<L, _>::of(tuning).await?;
        session.status_of(command::send_status(session.rca)).await?;
        if timing == Timing::Hs200 {
            return Ok(clock(timing));
        }
        // HS400 needs a clock of high speed before the bus switches to DDR.
        session.bus(BusOp::Clock(clock(Timing::HighSpeed))).await?;
    }
    let high_speed = clock(Timing::HighSpeed);
    let value = hs_timing::HIGH_SPEED | strength;
    switch_timing(session, value, Timing::HighSpeed, high_speed, switch_ns).await?;
    match timing {
        Timing::Ddr52 => {
            set_width(session, width, DDR, switch_ns).await?;
            session.bus(BusOp::Timing(Timing::Ddr52)).await?;
            session.status_of(command::send_status(session.rca)).await?;
            Ok(clock(Timing::Ddr52))
        }
        Timing::Hs400 | Timing::Hs400Es => {
            let strobe = if timing == Timing::Hs400Es { STROBE } else { 0 };
            set_width(session, width, DDR | strobe, switch_ns).await?;
            switch_timing(session, hs_timing::HS400 | strength, timing, clock(timing), switch_ns).await?;
            Ok(clock(timing))
        }
        _ => Ok(high_speed),
    }
}

/// Finds a new sampling point in the present timing; for HS400 the device is switched back to HS200
/// before it is tuned [eMMC 6.6.2.3].
pub(super) async fn retune<L: Link>(
    session: &mut Session<L>,
    options: Options,
    card: &Card,
) -> Result<(), Failed> {
    let bounds = Bounds::of(&*session, &options);
    let (width, switch_ns) = (card.width, limits::SWITCH_NS);
    match card.timing {
        Timing::Hs200 => {
            let bytes = if width == Width::W8 { 128 } else { 64 };
            session.tune(cmd::send_tuning_block(), bytes, limits::TUNING_BLOCKS).await?;
            session.status_of(command::send_status(session.rca)).await?;
        }
        Timing::Hs400 => {
            let high_speed = bounds.clock(limits::max_hz(Timing::HighSpeed));
            session.bus(BusOp::Clock(high_speed)).await?;
            let strength = if let Family::Emmc(emmc) = card.family { emmc.strength } else { 0 };
            let value = hs_timing::HIGH_SPEED | strength << hs_timing::STRENGTH_SHIFT;
            // The device stays in DDR until BUS_WIDTH is written. Until then only commands are
            // sent, which are the same in DDR. So the controller is not set to DDR, which it need
            // not support at this clock.
            switch_timing(session, value, Timing::HighSpeed, high_speed, switch_ns).await?;
            set_width(session, width, 0, switch_ns).await?;
            go_to(session, &bounds, Timing::Hs400, width, strength, switch_ns).await?;
        }
        _ => return session.fail(Error::Unsupported),
    }
    Ok(())
}

/// Sets HS_TIMING on the device to `value`, then timing and clock on the controller. Then reads a
/// status in the new timing. `switch_ns`: longest time in ns of the switch of the device.
async fn switch_timing<L: Link>(
    session: &mut Session<L>,
    value: u8,
    timing: Timing,
    clock_hz: u32,
    switch_ns: u64,
) -> Result<(), Failed> {
    let command = cmd::switch(cmd::SwitchMode::WriteByte, index::HS_TIMING, value, 0);
    // The device may respond only in the new timing, so the controller is switched before the
    // status is read.
    session.switch_then(command, switch_ns).await?;
    session.bus(BusOp::Timing(timing)).await?;
    session.bus(BusOp::Clock(clock_hz)).await?;
    // At the clock of HS200 responses are not reliable before tuning, so the status is read after
    // the tuning.
    if timing != Timing::Hs200 {
        session.status_of(command::send_status(session.rca)).await?;
    }
    Ok(())
}
