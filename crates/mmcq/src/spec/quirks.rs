//! Deviations of cards from their standard, one bit each. `card::quirk` knows which card has which.

/// A set of deviations of a card from its standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quirks(u32);

impl Quirks {
    /// No deviation.
    pub const NONE: Quirks = Quirks(0);
    /// CMD23 makes the card fail or become slow, so it is not sent.
    pub const NO_COUNT: Quirks = Quirks(1);
    /// The first byte of a read may come later than the CSD declares.
    pub const LONG_READ: Quirks = Quirks(1 << 1);
    /// Secure erase and secure trim destroy the card, so they are not used.
    pub const NO_SECURE_ERASE: Quirks = Quirks(1 << 2);
    /// Trim damages data, or trimmed blocks do not read back as erased.
    pub const NO_TRIM: Quirks = Quirks(1 << 3);
    /// The card does not support CMD25, so each block is written by a CMD24.
    pub const NO_MULTIPLE_WRITE: Quirks = Quirks(1 << 4);
    /// SD: a flush of the card's cache never ends.
    pub const NO_SD_CACHE: Quirks = Quirks(1 << 5);
    /// SD: the card never signals that it is ready for power-off.
    pub const NO_SD_POWER_OFF: Quirks = Quirks(1 << 6);
    /// SD: the card must not be tuned at DDR50.
    pub const NO_DDR50_TUNING: Quirks = Quirks(1 << 7);
    /// SD: discard does not work.
    pub const NO_SD_DISCARD: Quirks = Quirks(1 << 8);
    /// The high-priority interrupt (HPI) makes the card fail.
    pub const NO_HPI: Quirks = Quirks(1 << 9);
    /// The years 2010 to 2012 in the card's CID mean 2026 to 2028. The card counts years like a
    /// card with EXT_CSD_REV 9 or later, but reports an earlier revision.
    pub const LATE_DATE: Quirks = Quirks(1 << 10);
    /// A secure erase takes two seconds, whatever its size.
    pub const FIXED_SECURE_TIME: Quirks = Quirks(1 << 11);
    /// CMD38 takes its argument from byte 113 of EXT_CSD, which CMD6 writes.
    pub const ERASE_ARGUMENT_BY_SWITCH: Quirks = Quirks(1 << 12);
    /// SD: the card's command queue loses data.
    pub const NO_SD_QUEUE: Quirks = Quirks(1 << 13);
    /// The last block must be read alone: after a CMD18 that reaches it the card does not respond.
    pub const LAST_BLOCK_ALONE: Quirks = Quirks(1 << 14);
    /// I/O: the standard interface code (FBR) of the card's functions must not be read; the
    /// functions have no standard interface.
    pub const IO_NO_STANDARD_INTERFACE: Quirks = Quirks(1 << 15);
    /// I/O: the pull-up on DAT3 must be switched off even with one data line, and not only with
    /// four.
    pub const IO_DETECT_OFF: Quirks = Quirks(1 << 16);
    /// I/O: the card's drivers may write any register of function 0, not only the vendor's F0h to
    /// FFh.
    pub const IO_LENIENT_F0: Quirks = Quirks(1 << 17);
    /// I/O: a CMD53 in byte mode transfers at most one block's bytes. The card's drivers set a
    /// block size first.
    pub const IO_BLOCK_SIZE_FOR_BYTES: Quirks = Quirks(1 << 18);
    /// I/O: a CMD53 in byte mode must not transfer 512 bytes.
    pub const IO_NO_512_BYTES: Quirks = Quirks(1 << 19);
    /// I/O: each read of the pending interrupts (05h) must be followed by a read of FFh; otherwise
    /// the next read shows one bit too many.
    pub const IO_NO_POLLING: Quirks = Quirks(1 << 20);
    /// I/O: the card's clock must be slower than the card declares, at most 150 MHz.
    pub const IO_SLOWER: Quirks = Quirks(1 << 21);
    /// I/O: the card must not be switched to 1.8 V. The manufacturer is not known before that
    /// switch. So if an entry of the table has this quirk, the bring-up reads the manufacturer of
    /// every card that offers 1.8 V at 3.3 V first. Then it resets the card and initialises it
    /// again, with the switch to 1.8 V unless the card has this quirk.
    pub const IO_NO_1V8: Quirks = Quirks(1 << 22);

    /// SD: the card's command queue is known to work. No entry of the stack's own table sets this.
    pub const SD_QUEUE_WORKS: Quirks = Quirks(1 << 23);

    /// Number of different quirks.
    pub const COUNT: u32 = 24;

    /// Returns whether the set contains all quirks of `other`.
    pub const fn has(self, other: Quirks) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the quirks of both sets together.
    pub const fn and(self, other: Quirks) -> Quirks {
        Quirks(self.0 | other.0)
    }

    /// Returns the quirks that are in both sets.
    pub const fn within(self, other: Quirks) -> Quirks {
        Quirks(self.0 & other.0)
    }

    /// Returns the set as bits; bit 0 is [`NO_COUNT`](Self::NO_COUNT).
    pub const fn bits(self) -> u32 {
        self.0
    }
}
