//! Settings of a UHS-I card before its bus speed mode: driver strength and current limit
//! [SD 4.3.10].

use super::Options;
use crate::host::Timing;
use crate::spec::command::sd::{Group, SwitchFunc};
use crate::spec::switch::SwitchStatus;

/// Current that ACMD41's XPC allows while the card starts [SD 4.2.3.1].
pub(super) const XPC_MA: u16 = 150;
/// Functions of group 4, the highest first: 2.88 W, 2.16 W, 1.80 W and 1.44 W, and what that is in
/// mA at 3.6 V. Function 0, 0.72 W, is the default [SD 4.3.10.3].
const LIMITS_MA: [(u8, u16); 4] = [(3, 800), (2, 600), (4, 500), (1, 400)];

/// Output impedance of a card's drivers: function group 3 of a UHS-I card [SD 4.3.10]; HS_TIMING
/// 7:4 of an eMMC [eMMC 7.4, 185, 197].
///
/// The right value depends on the wires of the board. A card that does not have the requested
/// strength keeps its 50 ohms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Strength {
    /// 50 ohms, type B, of an eMMC type 0: every card has it.
    #[default]
    Ohm50 = 0,
    /// 33 ohms, type A, of an eMMC type 1: half as strong again.
    Ohm33 = 1,
    /// 66 ohms: driver type C of SD cards, type 2 of an eMMC. It drives 0.75 times the current of
    /// 50 ohms.
    Ohm66 = 2,
    /// 100 ohms, type D, of an eMMC type 3: half as strong.
    Ohm100 = 3,
    /// 40 ohms, of an eMMC type 4: a quarter stronger. No UHS-I card has it.
    Ohm40 = 4,
}

/// Sets driver strength and current limit by CMD6, before the bus speed mode. `supply_ma` is what
/// the host gives, 0 if that is not known: then the card stays at its default of 200 mA.
pub(super) fn before(
    options: &Options,
    offered: &SwitchStatus,
    timing: Timing,
    supply_ma: u16,
) -> SwitchFunc {
    let strength = match options.strength as u8 {
        // Function 4 of a card would be something else.
        wanted if wanted <= Strength::Ohm100 as u8 && offered.supports(Group::DriverStrength, wanted) => {
            wanted
        }
        _ => Strength::Ohm50 as u8,
    };
    let slow = matches!(timing, Timing::Sdr12 | Timing::Sdr25);
    let fits = |&(limit, ma): &(u8, u16)| offered.supports(Group::PowerLimit, limit) && supply_ma >= ma;
    let limit = if slow { 0 } else { LIMITS_MA.into_iter().find(fits).map_or(0, |(limit, _)| limit) };
    SwitchFunc::SET.with(Group::DriverStrength, strength).with(Group::PowerLimit, limit)
}
