//! What a UHS-I card is told before its bus speed mode: the strength of its drivers and the current it may draw [SD 4.3.10].

use super::Options;
use crate::host::Timing;
use crate::spec::command::sd::{Group, SwitchFunc};
use crate::spec::switch::SwitchStatus;

/// ACMD41's XPC promises this much while the card starts [SD 4.2.3.1].
pub(super) const XPC_MA: u16 = 150;
/// Functions 0 to 3 of group 4 are so many times 200 mA, and one more.
const LIMIT_STEP_MA: u16 = 200;

/// Output impedance of a UHS-I card's drivers: function group 3 [SD 4.3.10].
///
/// It belongs to the wires of a board. A card that does not have what is asked for keeps its 50 ohms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Strength {
    /// 50 ohms, type B: every card has it.
    #[default]
    Ohm50 = 0,
    /// 33 ohms, type A: half as strong again.
    Ohm33 = 1,
    /// 66 ohms, type C: three quarters as strong.
    Ohm66 = 2,
    /// 100 ohms, type D: half as strong.
    Ohm100 = 3,
}

/// What CMD6 sets before the bus speed mode. `supply_ma` is what the host gives, 0 if that is not known: then the card stays at its
/// default of 200 mA.
pub(super) fn before(
    options: &Options,
    offered: &SwitchStatus,
    timing: Timing,
    supply_ma: u16,
) -> SwitchFunc {
    let strength = match options.strength as u8 {
        wanted if offered.supports(Group::DriverStrength, wanted) => wanted,
        _ => Strength::Ohm50 as u8,
    };
    let slow = matches!(timing, Timing::Sdr12 | Timing::Sdr25);
    let fits = |&limit: &u8| {
        offered.supports(Group::PowerLimit, limit) && supply_ma >= LIMIT_STEP_MA * (u16::from(limit) + 1)
    };
    let limit = if slow { 0 } else { [3, 2, 1].into_iter().find(fits).unwrap_or(0) };
    SwitchFunc::SET.with(Group::DriverStrength, strength).with(Group::PowerLimit, limit)
}
