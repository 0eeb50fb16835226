//! Settings of a UHS-I card that CMD6 makes before the bus speed mode: driver strength and current
//! limit [SD 4.3.10].

use super::Options;
use crate::host::Timing;
use crate::spec::command::sd::{Group, SwitchFunc};
use crate::spec::switch::SwitchStatus;

/// Current in mA that a card may draw during start-up if ACMD41 has XPC set [SD 4.2.3.1].
pub(super) const XPC_MA: u16 = 150;
/// Functions of group 4 (power limit), the highest first: 2.88 W, 2.16 W, 1.80 W and 1.44 W; with
/// each the current in mA at 3.6 V. Function 0, 0.72 W, is the default [SD 4.3.10.3].
const LIMITS_MA: [(u8, u16); 4] = [(3, 800), (2, 600), (4, 500), (1, 400)];

/// Output impedance of a card's drivers. A UHS-I card sets it by function group 3 [SD 4.3.10], an
/// eMMC by bits 7:4 of HS_TIMING [eMMC 7.4, 185, 197].
///
/// The right value depends on the wiring of the board. A card without the requested strength keeps
/// its 50 ohms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Strength {
    /// 50 ohms: type B of UHS-I, type 0 of eMMC. Every card supports it.
    #[default]
    Ohm50 = 0,
    /// 33 ohms: type A of UHS-I, type 1 of eMMC. It drives 1.5 times the current of 50 ohms.
    Ohm33 = 1,
    /// 66 ohms: type C of UHS-I, type 2 of eMMC. It drives 0.75 times the current of 50 ohms.
    Ohm66 = 2,
    /// 100 ohms: type D of UHS-I, type 3 of eMMC. It drives half the current of 50 ohms.
    Ohm100 = 3,
    /// 40 ohms: type 4 of eMMC. It drives 1.25 times the current of 50 ohms. UHS-I cards do not
    /// support it.
    Ohm40 = 4,
}

/// Sets driver strength and current limit by CMD6, before the bus speed mode. `supply_ma` is the
/// current that the host can supply in mA. With 0 (not known) the card stays at its default of 200
/// mA.
pub(super) fn before(
    options: &Options,
    offered: &SwitchStatus,
    timing: Timing,
    supply_ma: u16,
) -> SwitchFunc {
    let strength = match options.strength as u8 {
        // Function 4 has another meaning in this group of an SD card.
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
