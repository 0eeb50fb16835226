//! Counters and times of what was transferred on the bus.

/// Counters of one controller. Times are virtual ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusStats {
    /// Number of commands by index, including automatic ones.
    pub commands: [u64; 64],
    /// Number of commands whose expected response did not come.
    pub silent: u64,
    /// Number of blocks that the card sent and the controller received with a right CRC.
    pub blocks_read: u64,
    /// Number of blocks that the controller sent and for which the card returned a good CRC status.
    pub blocks_written: u64,
    /// Number of blocks with a wrong CRC in either direction, or without a CRC status.
    pub blocks_bad: u64,
    /// Number of bytes in all blocks that [`blocks_read`](Self::blocks_read) and
    /// [`blocks_written`](Self::blocks_written) count.
    pub bytes: u64,
    /// Number of rises of the interrupt line.
    pub interrupts: u64,
    /// Time in ns for which the CMD line was in use: command, gap, response, gap.
    pub command_ns: u64,
    /// Time in ns for which the DAT lines were in use: gap, block, CRC status.
    pub data_ns: u64,
    /// Time in ns for which the bus waited for the first or next block of a read.
    pub access_ns: u64,
    /// Time in ns for which the bus waited for the card to release DAT0 (busy).
    pub busy_ns: u64,
    /// Time in ns for which the card could have continued, but the controller had no room or no
    /// data (PIO, SDMA boundary, block gap, DMA not started).
    pub held_ns: u64,
    /// Time in ns for which the card's command queue held tasks, and none of them was ready or
    /// being executed. Time in which commands were on the CMD line is included.
    pub fetching_ns: u64,
    /// Number of DMA descriptors that the controller fetched.
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
    /// Returns the time in ns for which the CMD line or the DAT lines were in use; where both were,
    /// it counts twice.
    pub fn wire_ns(&self) -> u64 {
        self.command_ns + self.data_ns
    }

    /// Returns the shortest time in ns that the counted commands and blocks can take on this bus
    /// with this card, if the host takes no time: the time of the lines plus the time of the card.
    pub fn physical_ns(&self) -> u64 {
        self.wire_ns() + self.access_ns + self.busy_ns
    }

    /// Adds the counters of another bus to these.
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

    /// Returns the number of all commands.
    pub fn command_count(&self) -> u64 {
        self.commands.iter().sum()
    }
}

/// An event on the bus or on the interrupt line.
/// [`Controller::set_log`](crate::slot::Controller::set_log) sets the callback that gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusEvent {
    /// A command on the CMD line.
    Command {
        /// Index of the command.
        index: u8,
        /// Argument of the command.
        arg: u32,
        /// Whether the controller sent the command by itself.
        auto: bool,
        /// Time of the command's start bit in ns.
        start_ns: u64,
        /// Time of the command's end bit in ns.
        end_ns: u64,
    },
    /// A response on the CMD line.
    Response {
        /// Index of the command that the response belongs to.
        index: u8,
        /// Content of a 48-bit response, or the upper 32 bits of a 136-bit response.
        content: u32,
        /// Error bits that the controller reports, as in its own status register (SDHCI: 30h; rtsx:
        /// STAT1).
        errors: u32,
        /// Time of the response's end bit in ns.
        end_ns: u64,
    },
    /// A data block on the DAT lines.
    Block {
        /// Whether the block comes from the card.
        read: bool,
        /// Number of bytes on the lines.
        bytes: u32,
        /// Whether the CRC of the block, or its CRC status, is good.
        good: bool,
        /// Time of the block's start bit in ns.
        start_ns: u64,
        /// Time of the block's end bit in ns.
        end_ns: u64,
    },
    /// The card held DAT0 low (busy) while the bus waited for it.
    Busy {
        /// Time in ns from which the bus waited for the end of busy.
        from_ns: u64,
        /// Time in ns at which busy ended.
        until_ns: u64,
    },
    /// The controller asserted its interrupt line.
    Interrupt {
        /// Time in ns at which the line was asserted.
        at_ns: u64,
        /// Value of the controller's own interrupt status register when the line was asserted
        /// (SDHCI: 30h; rtsx: BIPR).
        status: u32,
    },
}
