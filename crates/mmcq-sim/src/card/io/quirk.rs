//! Quirks of I/O cards: the table `[quirk]` of a profile.

use serde::Deserialize;
use toml::Spanned;

use super::commands::flag;
use super::{IoCard, Voltage};

/// Quirks of an I/O card; by default none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IoQuirks {
    /// Where the knowledge about the quirks comes from.
    pub source: String,
    /// True: the function's interface code (FBR 00h) cannot be read; a command that tries it fails.
    pub nonstandard_interface: bool,
    /// Data on four lines are damaged until the host disconnects the pull-up resistor for card
    /// detection (CCCR 07h bit 7).
    pub needs_cd_off: bool,
    /// Address of a byte of function 0 that wakes the functions: they become ready only after the
    /// host has written it. The address is outside of the vendor's range F0h to FFh. `None`: the
    /// functions need no such write.
    pub wakes_by: Option<u8>,
    /// True: a CMD53 in byte mode fails if it has more bytes than the block size.
    pub byte_mode_within_block: bool,
    /// A CMD53 in byte mode with 512 bytes fails.
    pub byte_mode_512_fails: bool,
    /// A second read of the pending interrupts (CCCR 05h) shows an interrupt that does not exist,
    /// unless FFh was read in between.
    pub polling_fakes_interrupts: bool,
    /// Clock in kHz above which data are damaged; `None`: data are good up to the declared clock.
    pub real_max_khz: Option<u32>,
    /// The card offers 1.8 V signalling, and fails until power-off when the host switches to it.
    pub breaks_at_1v8: bool,
    /// The card is soldered to a 1.8 V rail: it signals at 1.8 V from power-up on, offers no
    /// voltage switch, and does not know CMD11.
    pub always_1v8: bool,
    /// Replacement bytes for the tuple chains: the profile gives these bytes instead of those that
    /// the card's other settings make.
    pub cis: Vec<Spanned<CisBytes>>,
}

/// Replacement bytes for a tuple chain.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CisBytes {
    /// Function to which the chain of tuples belongs; 0 is the card itself.
    pub function: u8,
    /// Index of the first replaced byte in the function's tuple chain (its CIS).
    pub at: usize,
    /// Values of the replacement bytes.
    pub bytes: Vec<u8>,
}

impl CisBytes {
    /// Replaces the bytes in the tuple chain of their function. Returns false if the chain is too
    /// short.
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
    /// Returns the signalling voltage of the card after power-up.
    pub(super) fn first_voltage(&self) -> Voltage {
        if self.config.quirks.always_1v8 { Voltage::Switched(0) } else { Voltage::High }
    }

    /// Applies quirks before CMD52 reads the byte of function 0 at `address`. Returns the error
    /// flags of R5 if the read fails.
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

    /// Returns whether a quirk makes this CMD53 fail. `bytes` is the number of bytes in byte mode,
    /// `None` in block mode.
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

    /// Returns whether a quirk damages data at the clock and width that the host uses.
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

    /// Begins the voltage switch after CMD11 was accepted: the card holds its lines low. With the
    /// quirk `breaks_at_1v8` it never releases them.
    pub(super) fn leaves_3v3(&mut self, now_ns: u64) {
        self.voltage = Voltage::begin(&self.bus, now_ns);
        if self.config.quirks.breaks_at_1v8 {
            self.trouble.violate("1.8 V", now_ns);
            self.voltage = Voltage::Failed;
        }
    }
}
