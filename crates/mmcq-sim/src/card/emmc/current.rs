//! Power classes: how much current the device draws, and how much the host allows [eMMC 6.6.3].

use super::EmmcCard;
use super::config::byte;
use serde::Deserialize;

/// Power class that each bus timing needs (PWR_CL_ff_vvv), with four lines and with eight; 0 to 15.
/// The classes do not depend on the voltage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PowerClasses {
    hs26: [u8; 2],
    hs52: [u8; 2],
    ddr52: [u8; 2],
    hs200: [u8; 2],
    hs400: [u8; 2],
}

impl PowerClasses {
    /// Returns whether each power class fits in the four bits that EXT_CSD has for it.
    pub(crate) fn fit(&self) -> bool {
        [self.hs26, self.hs52, self.ddr52, self.hs200, self.hs400]
            .as_flattened()
            .iter()
            .all(|&class| class < 16)
    }

    pub(super) fn write_to(&self, ext: &mut [u8; 512]) {
        for ([four, eight], bytes) in [
            (self.hs26, [203, 201]),
            (self.hs52, [202, 200]),
            (self.ddr52, [239, 238]),
            (self.hs200, [237, 236]),
            (self.hs400, [253, 253]),
        ] {
            for at in bytes {
                ext[at] = eight << 4 | four;
            }
        }
    }
}

impl EmmcCard {
    /// Checks at a data transfer that POWER_CLASS, which the host has set, is at least what the
    /// present bus timing and width need. Otherwise the model records a violation
    /// ([`Card::violations`](crate::card::Card::violations)).
    pub(super) fn draw(&mut self, now_ns: u64) {
        let classes = &self.config.power_classes;
        let mode = self.mode();
        let [four, eight] = match self.timing & 0xf {
            2 => classes.hs200,
            3 => classes.hs400,
            1 if mode.ddr => classes.ddr52,
            1 if self.interface.bus.clock_hz > 26_000_000 => classes.hs52,
            _ => classes.hs26,
        };
        let needed = match mode.width {
            1 => 0,
            4 => four,
            _ => eight,
        };
        if needed > self.ext_csd[usize::from(byte::POWER_CLASS)] {
            self.interface.trouble.violate("data at more than the power class allows", now_ns);
        }
    }
}
