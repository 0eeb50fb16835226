//! Packed commands: several writes, or reads, of different places in one transfer [eMMC 6.6.29].
//!
//! A header of one block has, for each entry, the argument of a CMD23 and an address. Entries are
//! executed in order. At the first entry that fails the device stops: the entries before it are
//! done, the failed one and the later ones are not. The device reports the index of the failed
//! entry.

use super::super::cut::mixed;
use super::super::flash::UNIT_BYTES;
use super::super::status::{self, State};
use super::super::transfer::{Read, Sent, Taken, Write};
use super::super::{Flow, Reply, WriteBlock};
use super::{Count, EmmcCard, Transfer};
use crate::faults::{Point, Strike};

/// Bits 7:0 of word 0 of a packed header: version 1 of the format.
const VERSION: u32 = 1;
/// Direction in a packed header: packed reads.
const READS: u32 = 1;
/// Direction in a packed header: packed writes.
const WRITES: u32 = 2;
/// Largest number of entries in the header of a packed command, which is one block.
const MOST: usize = 63;
/// Bit of PACKED_COMMAND_STATUS: the packed command failed.
const FAILED: u8 = 1;
/// Bit of PACKED_COMMAND_STATUS: PACKED_FAILURE_INDEX holds the index of the failed entry.
const INDEXED: u8 = 2;

/// Support of packed commands by a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedConfig {
    /// Largest number of entries in a packed write; 0: packed writes are not supported.
    pub writes: u8,
    /// Largest number of entries in a packed read.
    pub reads: u8,
    /// Busy time in ns of a packed write after the data of each entry except the last.
    pub entry_ns: u64,
    /// Number of flash units that read in parallel.
    pub units: u8,
    /// Whether the card reports a failed entry by the bit EXCEPTION_EVENT alone, without an error
    /// bit in R1.
    pub exception_alone: bool,
}

/// One entry of a packed command.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Byte address of the entry's first block.
    at: u64,
    blocks: u32,
    reliable: bool,
    forced: bool,
    /// Time in ns at which the first page of a read entry is loaded.
    loaded_ns: u64,
}

/// State of a packed command.
#[derive(Clone, Debug, Default)]
pub(super) struct Pack {
    /// Number of blocks that are still to come, of those that CMD23 announced. The first block is
    /// the header.
    left: u32,
    headed: bool,
    entries: Vec<Entry>,
    /// Index in `entries` of the entry whose blocks are read or written now.
    place: usize,
    write: Option<Write>,
    read: Option<Read>,
    /// Whether the header of a packed read was received, and its CMD18 was not.
    awaits_read: bool,
    /// Whether the card ignores further blocks of this command.
    over: bool,
    /// Whether a block with a wrong CRC has come. The card sends no CRC status for later blocks.
    deaf: bool,
    /// Value of PACKED_COMMAND_STATUS, which reports whether the last packed command failed.
    status: u8,
    /// Value of PACKED_FAILURE_INDEX: number of the failed entry, from 1.
    index: u8,
    /// Fault: index in `entries` of the entry that fails, and an offset that is added to the number
    /// that the card reports.
    struck: Option<(usize, i32)>,
}

impl Pack {
    pub(super) fn failed(&self) -> bool {
        self.status != 0
    }

    /// Returns the bytes PACKED_COMMAND_STATUS and PACKED_FAILURE_INDEX of EXT_CSD.
    pub(super) fn told(&self) -> (u8, u8) {
        (self.status, self.index)
    }

    /// Forgets the header of a packed read, since another data transfer comes instead of its CMD18.
    pub(super) fn gives_up_read(&mut self) {
        self.awaits_read = false;
    }

    /// Refuses the whole packed command: PACKED_FAILURE_INDEX names no entry.
    fn refuse(&mut self) {
        (self.status, self.index, self.over) = (FAILED, 0, true);
    }

    /// Fails the current entry, and stores its number for PACKED_FAILURE_INDEX.
    fn fail(&mut self) {
        let astray = self.struck.filter(|(place, _)| *place == self.place).map_or(0, |(_, by)| by);
        let index = (self.place as i32 + 1).saturating_add(astray);
        (self.status, self.index, self.over) = (FAILED | INDEXED, index.clamp(0, 255) as u8, true);
    }

    /// Parses the header of a packed command. Returns false if it is not valid. `blocks` is the
    /// number of blocks in CMD23, `writes` and `reads` are the largest numbers of entries.
    /// `sectors`: addresses are in sectors, not in bytes.
    fn head(&mut self, data: &[u8], blocks: u32, (writes, reads): (u8, u8), sectors: bool) -> bool {
        let word = |n: usize| {
            let bytes = data.get(4 * n..4 * n + 4).and_then(|bytes| bytes.try_into().ok());
            u32::from_le_bytes(bytes.unwrap_or_default())
        };
        let (version, direction, count) = (word(0) & 0xff, word(0) >> 8 & 0xff, (word(0) >> 16) as usize);
        let most = if direction == READS { reads } else { writes };
        if version != VERSION
            || !matches!(direction, READS | WRITES)
            || !(1..=MOST.min(most.into())).contains(&count)
        {
            return false;
        }
        self.entries = (1..=count)
            .map(|n| {
                let (arg, address) = (word(2 * n), u64::from(word(2 * n + 1)));
                Entry {
                    at: if sectors { address * 512 } else { address },
                    blocks: arg & 0xffff,
                    reliable: arg >> 31 == 1,
                    forced: arg >> 24 & 1 == 1,
                    loaded_ns: 0,
                }
            })
            .collect();
        let sum: u32 = self.entries.iter().map(|entry| entry.blocks).sum();
        self.awaits_read = direction == READS;
        // The header of a packed read is sent without data.
        self.entries.iter().all(|entry| entry.blocks > 0)
            && blocks == if direction == READS { 1 } else { 1 + sum }
    }
}

impl EmmcCard {
    /// Returns whether a CMD23 with this argument announces a packed command that the device
    /// supports.
    pub(super) fn takes_packed(&self, arg: u32) -> bool {
        let flags = 0xff << 24;
        self.config.packed.is_some_and(|packed| packed.writes > 0 || packed.reads > 0)
            && arg & flags == 1 << 30
            && self.partition == super::Partition::User
    }

    /// Executes the CMD25 of a packed command: the card receives the header, and the data of packed
    /// writes. `count`: what CMD23 announced; `None`: no CMD23 came before.
    pub(super) fn packed_write(&mut self, arg: u32, count: Option<Count>, now_ns: u64) -> Reply {
        let blocks = count.map_or(0, |count| count.blocks);
        if let Err(errors) = self.address(arg) {
            return self.refuse(25, errors);
        }
        // A new packed command resets the status of the last one.
        self.pack = Pack { left: blocks, ..Pack::default() };
        self.interface.busy_until_ns = now_ns;
        self.counted(true, now_ns);
        self.flash.partition = self.partition.number();
        self.receive(25, Transfer::Packed, 512)
    }

    /// Executes the CMD18 of a packed read after its header was received.
    pub(super) fn packed_read(&mut self, arg: u32, count: Option<Count>, now_ns: u64) -> Reply {
        let sum: u32 = self.pack.entries.iter().map(|entry| entry.blocks).sum();
        let first = self.pack.entries.first().map(|entry| entry.at);
        let fits = count.is_some_and(|count| count.blocks == sum) && first == Some(self.byte_address(arg));
        if !std::mem::take(&mut self.pack.awaits_read) || !fits {
            return self.refuse(18, status::ERROR);
        }
        self.counted(true, now_ns);
        self.pack.place = 0;
        self.reads += 1;
        let mut reply = self.go(18, State::Data);
        reply.flow = Flow::Read { block_size: 512 };
        self.interface.data_end_ns = None;
        self.transfer = Transfer::PackedRead;
        reply
    }

    /// Takes a received block of a packed command: the header or data. `good`: its CRC is right.
    /// Returns the card's CRC status and the end of its busy.
    pub(super) fn take_packed(&mut self, data: &[u8], good: bool, now_ns: u64) -> WriteBlock {
        if self.pack.deaf {
            return WriteBlock { status: None, busy_until_ns: now_ns };
        }
        if !good {
            if self.pack.headed && !self.pack.over {
                self.pack.fail()
            } else {
                self.pack.refuse()
            }
            self.pack.deaf = true;
            return WriteBlock { status: Some(false), busy_until_ns: now_ns };
        }
        let until_ns = if self.pack.headed {
            self.take_entry(data, now_ns)
        } else {
            self.take_header(data, now_ns);
            now_ns
        };
        self.pack.left = self.pack.left.saturating_sub(1);
        self.interface.busy_until_ns = until_ns;
        if self.pack.left == 0 {
            self.program(now_ns);
        }
        WriteBlock { status: Some(true), busy_until_ns: self.interface.busy_until_ns }
    }

    fn take_header(&mut self, data: &[u8], now_ns: u64) {
        let Some(config) = self.config.packed else { return };
        let (most, sectors, blocks) =
            ((config.writes, config.reads), self.config.sector_mode(), self.pack.left);
        self.pack.headed = true;
        if !self.pack.head(data, blocks, most, sectors) {
            self.pack.refuse();
            self.pack.awaits_read = false;
            self.status.raise(status::ERROR);
            return;
        }
        let victim = self.pack.entries.len() / 2;
        self.pack.struck = match self.flash.faults.strike(Point::Pack) {
            Some(Strike::Fail) => Some((victim, 0)),
            Some(Strike::Astray(by)) => Some((victim, by)),
            _ => None,
        };
        if self.pack.awaits_read {
            let load_ns = self.flash.timing().read_first_ns;
            let mut units_ns = vec![now_ns; config.units.into()];
            for entry in &mut self.pack.entries {
                let unit = (mixed(entry.at / UNIT_BYTES) % units_ns.len() as u64) as usize;
                let retries_ns = self.flash.retries_ns();
                units_ns[unit] = units_ns[unit].saturating_add(load_ns).saturating_add(retries_ns);
                entry.loaded_ns = units_ns[unit];
            }
        }
    }

    /// Takes a data block of the current entry. Returns the end of busy in ns.
    fn take_entry(&mut self, data: &[u8], now_ns: u64) -> u64 {
        if self.pack.over {
            return now_ns;
        }
        let mut write = match self.pack.write.take() {
            Some(write) => write,
            None => match self.begin_entry(now_ns) {
                Ok(write) => write,
                Err(errors) => {
                    self.tell_of_entry(errors);
                    self.pack.fail();
                    return now_ns;
                }
            },
        };
        let medium = self.stores.active(self.partition);
        match write.take(medium, &mut self.flash, data, now_ns) {
            Taken::More(until_ns) => {
                self.pack.write = Some(write);
                until_ns
            }
            Taken::Last => self.entry_ends(write, now_ns),
            Taken::Refused(errors) => {
                self.entry_ends(write, now_ns);
                if !self.pack.over {
                    self.pack.place -= 1;
                    self.pack.fail();
                }
                self.tell_of_entry(errors);
                now_ns
            }
        }
    }

    /// Raises the error bits of a failed entry in R1. Does nothing on a card that reports such
    /// errors by EXCEPTION_EVENT alone.
    fn tell_of_entry(&mut self, errors: u32) {
        if !self.config.packed.is_some_and(|packed| packed.exception_alone) {
            self.status.raise(errors);
        }
    }

    fn begin_entry(&mut self, now_ns: u64) -> Result<Write, u32> {
        let Some(&entry) = self.pack.entries.get(self.pack.place) else { return Err(status::ERROR) };
        let bytes = u64::from(entry.blocks) * 512;
        if entry.at.saturating_add(bytes) > self.capacity() {
            return Err(status::OUT_OF_RANGE);
        }
        if !entry.at.is_multiple_of(512) {
            return Err(status::ADDRESS_ERROR);
        }
        if self.write_protected(entry.at, bytes) {
            return Err(status::WP_VIOLATION);
        }
        if self.pack.struck.is_some_and(|(place, _)| place == self.pack.place) {
            return Err(status::ERROR);
        }
        if entry.reliable && !self.config.takes_reliable(entry.at, entry.blocks) {
            return Err(status::BLOCK_LEN_ERROR);
        }
        if let Some(medium) = self.store_mut(self.partition) {
            medium.begin();
        }
        self.flash.journal.begin(now_ns);
        let mut write = Write::new(entry.at, 512, Some(entry.blocks));
        write.reliable = entry.reliable;
        write.past_cache = entry.reliable || entry.forced;
        let last = self.pack.place + 1 == self.pack.entries.len();
        write.entry_ns = self.config.packed.filter(|_| !last).map(|packed| packed.entry_ns);
        Ok(write)
    }

    /// Ends the data of an entry, and begins to program them. Returns the time in ns at which the
    /// busy of the entry ends.
    fn entry_ends(&mut self, mut write: Write, now_ns: u64) -> u64 {
        let medium = self.stores.active(self.partition);
        let (until_ns, errors) = write.end(medium, &mut self.flash, now_ns);
        self.written = true;
        if errors == 0 {
            self.pack.place += 1;
        } else {
            self.tell_of_entry(errors);
            self.pack.fail();
        }
        until_ns.saturating_add(if self.pack.left <= 1 { self.neglected_ns() } else { 0 })
    }

    /// Ends a packed command whose data are complete or were cut off. Returns the end of busy in
    /// ns.
    pub(super) fn packed_ends(&mut self, now_ns: u64) -> u64 {
        match self.pack.write.take() {
            Some(write) => {
                let until_ns = self.entry_ends(write, now_ns);
                if !self.pack.over {
                    self.pack.place -= 1;
                    self.pack.fail();
                }
                until_ns
            }
            None => {
                if self.pack.left > 0 && !self.pack.over {
                    self.pack.fail();
                }
                now_ns
            }
        }
    }

    /// Puts the next block of a packed read into `buffer`. Returns the time in ns at which the
    /// block starts on the lines, and whether it is the last one. `None`: no block comes, since all
    /// were sent or an entry has failed.
    pub(super) fn send_packed(&mut self, buffer: &mut [u8], now_ns: u64) -> Option<(u64, bool)> {
        let &entry = self.pack.entries.get(self.pack.place).filter(|_| !self.pack.over)?;
        let beyond = entry.at.saturating_add(u64::from(entry.blocks) * 512) > self.capacity();
        let struck = self.pack.struck.is_some_and(|(place, _)| place == self.pack.place);
        if beyond || struck {
            self.tell_of_entry(if beyond { status::OUT_OF_RANGE } else { status::CARD_ECC_FAILED });
            self.pack.fail();
            return None;
        }
        let mut read = self
            .pack
            .read
            .take()
            .unwrap_or_else(|| Read::loaded(entry.at, 512, entry.blocks, entry.loaded_ns.max(now_ns)));
        let medium = self.stores.active(self.partition);
        match read.next(medium, &mut self.flash, buffer, &self.interface.bus, now_ns) {
            Sent::Block(start_ns) => {
                if read.left == Some(0) {
                    self.pack.place += 1;
                } else {
                    self.pack.read = Some(read);
                }
                Some((start_ns, self.pack.place == self.pack.entries.len()))
            }
            Sent::Nothing(errors) => {
                self.tell_of_entry(errors);
                self.pack.fail();
                None
            }
        }
    }
}
