//! Counters and times of what was transferred on the bus.

/// Counters of one controller. Times are virtual nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusStats {
    /// Command tokens by index, automatic ones included.
    pub commands: [u64; 64],
    /// Commands that should have got a response and did not.
    pub silent: u64,
    /// Blocks received with a good CRC.
    pub blocks_read: u64,
    /// Blocks sent and acknowledged by the card.
    pub blocks_written: u64,
    /// Blocks with a bad CRC in either direction, or without CRC status.
    pub blocks_bad: u64,
    /// Bytes of good blocks.
    pub bytes: u64,
    /// Number of rises of the interrupt line.
    pub interrupts: u64,
    /// Time of the CMD line in use: command, gap, response, gap.
    pub command_ns: u64,
    /// Time of the DAT lines in use: gap, block, CRC status.
    pub data_ns: u64,
    /// Time for which the bus waited for the first or next block of a read.
    pub access_ns: u64,
    /// Time for which the bus waited for the card to release DAT0.
    pub busy_ns: u64,
    /// Time for which the card could have continued, but the controller had no room or no data
    /// (PIO, SDMA boundary, block gap, DMA not started).
    pub held_ns: u64,
    /// Time for which the card's queue held tasks, and none was ready or under way. Commands during
    /// it count as well.
    pub fetching_ns: u64,
    /// Descriptors fetched.
    pub descriptors: u64,
}

impl Default for BusStats {
    fn default() -> Self {
        BusStats {
            commands: [0; 64],
            silent: 0,
            blocks_read: 0,
            blocks_written: 0,
            blocks_bad: 0,
            bytes: 0,
            interrupts: 0,
            command_ns: 0,
            data_ns: 0,
            access_ns: 0,
            busy_ns: 0,
            held_ns: 0,
            fetching_ns: 0,
            descriptors: 0,
        }
    }
}

impl BusStats {
    /// Returns the time in ns that the wires themselves took.
    pub fn wire_ns(&self) -> u64 {
        self.command_ns + self.data_ns
    }

    /// Returns the least time in ns that this work takes on this bus and card, without any host:
    /// wires and card, one after the other.
    pub fn physical_ns(&self) -> u64 {
        self.wire_ns() + self.access_ns + self.busy_ns
    }

    /// Adds the counters of another bus.
    pub fn add(&mut self, other: &BusStats) {
        for (count, more) in self.commands.iter_mut().zip(other.commands) {
            *count += more;
        }
        self.silent += other.silent;
        self.blocks_read += other.blocks_read;
        self.blocks_written += other.blocks_written;
        self.blocks_bad += other.blocks_bad;
        self.bytes += other.bytes;
        self.interrupts += other.interrupts;
        self.command_ns += other.command_ns;
        self.data_ns += other.data_ns;
        self.access_ns += other.access_ns;
        self.busy_ns += other.busy_ns;
        self.held_ns += other.held_ns;
        self.fetching_ns += other.fetching_ns;
        self.descriptors += other.descriptors;
    }

    /// Returns the number of all command tokens.
    pub fn command_count(&self) -> u64 {
        self.commands.iter().sum()
    }
}

/// Something that happened on the bus, or on the interrupt line; see
/// [`Controller::set_log`](crate::slot::Controller::set_log).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusEvent {
    /// A command token.
    Command {
        /// Its index.
        index: u8,
        /// Its argument.
        arg: u32,
        /// Whether the controller sent it by itself.
        auto: bool,
        /// Its start bit.
        start_ns: u64,
        /// Its end bit.
        end_ns: u64,
    },
    /// A response token.
    Response {
        /// Index of the command.
        index: u8,
        /// The content of a short one; the upper 32 bits of a long one.
        content: u32,
        /// Errors found by the controller: error bits of SDHCI's register 30h, or rtsx's STAT1.
        errors: u32,
        /// Its end bit.
        end_ns: u64,
    },
    /// A data block.
    Block {
        /// Whether it comes from the card.
        read: bool,
        /// Bytes on the wire.
        bytes: u32,
        /// Whether its CRC, or its CRC status, is good.
        good: bool,
        /// Its start bit.
        start_ns: u64,
        /// Its end bit.
        end_ns: u64,
    },
    /// The card held DAT0 low while the bus waited for it.
    Busy {
        /// Begin in ns.
        from_ns: u64,
        /// End in ns.
        until_ns: u64,
    },
    /// The interrupt line rose.
    Interrupt {
        /// Time in ns.
        at_ns: u64,
        /// SDHCI's register 30h, or rtsx's BIPR.
        status: u32,
    },
}
