//! Quirks of I/O cards: the table `[quirk]` of a profile.

use serde::Deserialize;
use toml::Spanned;

use super::commands::flag;
use super::{IoCard, Voltage};

/// Quirks of an I/O card; by default none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IoQuirks {
    /// Source of the knowledge about the quirks.
    pub source: String,
    /// The function's interface code (FBR 00h) cannot be read: a command that reads it fails.
    pub nonstandard_interface: bool,
    /// On four lines data are damaged until the resistor for card detection is disconnected (CCCR
    /// 07h bit 7).
    pub needs_cd_off: bool,
    /// Functions become ready only after this byte of function 0 was written. It is outside of the
    /// vendor's bytes F0h to FFh.
    pub wakes_by: Option<u8>,
    /// Byte mode with more than a block fails.
    pub byte_mode_within_block: bool,
    /// Byte mode with 512 bytes fails.
    pub byte_mode_512_fails: bool,
    /// A second read of the pending interrupts (CCCR 05h) shows an interrupt that does not exist,
    /// unless FFh was read in between.
    pub polling_fakes_interrupts: bool,
    /// Clock in kHz above which data are damaged.
    pub real_max_khz: Option<u32>,
    /// The card offers 1.8 V, and fails for good at the switch.
    pub breaks_at_1v8: bool,
    /// The card is soldered to a rail of 1.8 V: it signals so from power-up on, offers no switch to
    /// it, and knows no CMD11.
    pub always_1v8: bool,
    /// Bytes of the tuple chains that replace those from the rest of the profile.
    pub cis: Vec<Spanned<CisBytes>>,
}

/// Bytes of a tuple chain.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CisBytes {
    /// Function that the chain belongs to; 0 is the card.
    pub function: u8,
    /// Place of the first byte in the chain.
    pub at: usize,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl CisBytes {
    /// Puts the bytes into their chain. Returns false if the chain has no such place.
    pub(super) fn put_into(&self, chains: &mut [Vec<u8>]) -> bool {
        let chain = chains.get_mut(usize::from(self.function));
        let place = chain.and_then(|chain| chain.get_mut(self.at..self.at.saturating_add(self.bytes.len())));
        place.is_some_and(|place| {
            place.copy_from_slice(&self.bytes);
            true
        })
    }
}

impl IoCard {
    /// Returns the card's signalling after its power-up.
    pub(super) fn first_voltage(&self) -> Voltage {
        if self.config.quirks.always_1v8 { Voltage::Switched(0) } else { Voltage::High }
    }

    /// Applies quirks before CMD52 reads a byte of function 0. Returns flags of R5 if the read
    /// fails.
    pub(super) fn before_reading_zero(&mut self, address: u32, now_ns: u64) -> Option<u8> {
        let quirks = &self.config.quirks;
        match address {
            0x05 if quirks.polling_fakes_interrupts => {
                if self.polled {
                    self.trouble.violate("interrupts polled again without a read of FFh", now_ns);
                }
                self.fake_interrupt = self.polled;
                self.polled = true;
            }
            0xff => self.polled = false,
            0x100..=0x7ff if address & 0xff == 0 && quirks.nonstandard_interface => {
                self.trouble.violate("the interface code of a function", now_ns);
                return Some(flag::ERROR);
            }
            _ => {}
        }
        None
    }

    /// Returns whether a quirk makes this CMD53 fail. `bytes`: number of bytes in byte mode.
    pub(super) fn stumbles(&mut self, bytes: Option<u16>, block: u16, now_ns: u64) -> bool {
        let quirks = &self.config.quirks;
        let bad = bytes.is_some_and(|bytes| {
            (quirks.byte_mode_512_fails && bytes == 512)
                || (quirks.byte_mode_within_block && bytes > block.max(1))
        });
        if bad {
            self.trouble.violate("byte mode with too many bytes", now_ns);
        }
        bad
    }

    /// Returns whether a quirk damages data because of how the host drives the bus.
    pub(super) fn damaged(&mut self, now_ns: u64) -> bool {
        let quirks = &self.config.quirks;
        if quirks.needs_cd_off && self.registers.width() == 4 && !self.registers.cd_off() {
            self.trouble.violate("four lines with the resistor for card detection", now_ns);
            return true;
        }
        if quirks.real_max_khz.is_some_and(|khz| self.bus.clock_hz / 1_000 > khz) {
            self.trouble.violate("a clock beyond what the card really does", now_ns);
            return true;
        }
        false
    }

    /// Handles an accepted CMD11.
    pub(super) fn leaves_3v3(&mut self, now_ns: u64) {
        self.voltage = Voltage::Low;
        if self.config.quirks.breaks_at_1v8 {
            self.trouble.violate("1.8 V", now_ns);
            self.voltage = Voltage::Failed;
        }
    }
}
