//! What a card needs otherwise than its standard says: one bit each. Which card has which is the
//! upper layers' knowledge.

/// What a card needs otherwise than its standard says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quirks(u32);

impl Quirks {
    /// It keeps to its standard.
    pub const NONE: Quirks = Quirks(0);
    /// CMD23 makes it fail or slow.
    pub const NO_COUNT: Quirks = Quirks(1);
    /// Its first byte may come later than its CSD says.
    pub const LONG_READ: Quirks = Quirks(1 << 1);
    /// Secure erase and secure trim destroy it.
    pub const NO_SECURE_ERASE: Quirks = Quirks(1 << 2);
    /// Trim damages data, or does not read back as erased.
    pub const NO_TRIM: Quirks = Quirks(1 << 3);
    /// SD: a flush of its cache never ends.
    pub const NO_SD_CACHE: Quirks = Quirks(1 << 5);
    /// SD: it never gets ready to be powered off.
    pub const NO_SD_POWER_OFF: Quirks = Quirks(1 << 6);
    /// SD: it must not be tuned at DDR50.
    pub const NO_DDR50_TUNING: Quirks = Quirks(1 << 7);
    /// SD: discard does not work.
    pub const NO_SD_DISCARD: Quirks = Quirks(1 << 8);
    /// The high-priority interrupt breaks it.
    pub const NO_HPI: Quirks = Quirks(1 << 9);
    /// Its years 2010 to 2012 are 2026 to 2028: it counts as EXT_CSD_REV 9 does and has an older
    /// one.
    pub const LATE_DATE: Quirks = Quirks(1 << 10);
    /// A secure erase takes two seconds, whatever its size.
    pub const FIXED_SECURE_TIME: Quirks = Quirks(1 << 11);
    /// CMD38 takes its argument from byte 113 of EXT_CSD.
    pub const ERASE_ARGUMENT_BY_SWITCH: Quirks = Quirks(1 << 12);
    /// SD: its command queue loses data.
    pub const NO_SD_QUEUE: Quirks = Quirks(1 << 13);
    /// The last block must be read alone: CMD18 that comes to it makes the card silent.
    pub const LAST_BLOCK_ALONE: Quirks = Quirks(1 << 14);
    /// I/O: the interface code of its functions must not be read; they have none.
    pub const IO_NO_STANDARD_INTERFACE: Quirks = Quirks(1 << 15);
    /// I/O: its pull-up at DAT3 must be switched off on one line as well, and not only on four.
    pub const IO_DETECT_OFF: Quirks = Quirks(1 << 16);
    /// I/O: its drivers may write any register of function 0, and not only the vendor's F0h to FFh.
    pub const IO_LENIENT_F0: Quirks = Quirks(1 << 17);
    /// I/O: a transfer by bytes has a block's bytes at most. Its drivers set a block size first.
    pub const IO_BLOCK_SIZE_FOR_BYTES: Quirks = Quirks(1 << 18);
    /// I/O: a transfer by bytes cannot have 512 of them.
    pub const IO_NO_512_BYTES: Quirks = Quirks(1 << 19);
    /// I/O: each look at its pending bits must be followed by a read of FFh, or the next shows one
    /// too many.
    pub const IO_NO_POLLING: Quirks = Quirks(1 << 20);
    /// I/O: a slower clock than it claims, 150 MHz at most.
    pub const IO_SLOWER: Quirks = Quirks(1 << 21);
    /// I/O: it must not be switched to 1.8 V. Its maker is not known before that; so where an entry
    /// has this, every card that offers 1.8 V is looked at first, then reset.
    pub const IO_NO_1V8: Quirks = Quirks(1 << 22);

    /// SD: its command queue is known to work. No card is taken for such by itself.
    pub const SD_QUEUE_WORKS: Quirks = Quirks(1 << 23);

    /// How many different ones there are.
    pub const COUNT: u32 = 24;

    /// Does it have all of these?
    pub const fn has(self, other: Quirks) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both.
    pub const fn and(self, other: Quirks) -> Quirks {
        Quirks(self.0 | other.0)
    }

    /// Only what is in both.
    pub const fn within(self, other: Quirks) -> Quirks {
        Quirks(self.0 & other.0)
    }

    /// Its bits, the lowest for the first above.
    pub const fn bits(self) -> u32 {
        self.0
    }
}
