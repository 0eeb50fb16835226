//! Cards as seen from the bus.
//!
//! The trait [`Card`] is the interface between a controller model and a card. Times are absolute
//! virtual nanoseconds. A card never waits: it returns the times at which things will happen. The
//! card models implement the standards on their own, without the stack's command builders and
//! parsers. So a wrong reading of the standard in the stack shows in the tests.

mod cut;
pub mod emmc;
mod erase_range;
pub mod flash;
mod interface;
pub mod io;
mod link;
mod lock;
pub mod medium;
mod odd;
pub mod profile;
pub mod queue;
pub mod quirk;
mod registers;
pub mod sd;
mod status;
#[cfg(test)]
pub(crate) mod tests;
mod transfer;
mod trouble;
mod tuning;

pub use cut::{AtStake, Kept, Stage};
pub use emmc::EmmcCard;
pub use io::IoCard;
pub use medium::{Fill, Medium, MediumError};
pub use odd::{Odd, OddAnswer, Register, RegisterBytes, SpiBytes, SpiLine};
pub use profile::{CardProfile, ProfileError};
pub use queue::{Order as TaskOrder, QueueConfig};
pub use quirk::Quirks;
pub use sd::SdCard;
pub use trouble::Violation;

use crate::faults::Faults;
use std::ops::Range;

/// State of the bus as the host drives it: power, clock, lines and voltage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BusState {
    /// Whether the card's power is on.
    pub powered: bool,
    /// SD clock in hertz; 0 when stopped.
    pub clock_hz: u32,
    /// Number of data lines that the host uses: 1, 4 or 8.
    pub width: u8,
    /// Whether data go on both edges of the clock.
    pub ddr: bool,
    /// Whether the host signals at 1.8 V.
    pub signal18: bool,
    /// Whether the host samples responses and data with the card's data strobe (HS400ES).
    pub strobe: bool,
    /// Whether the host holds the reset line of an eMMC (RST_n) low.
    pub reset: bool,
    /// Distance of the host's sampling point from the middle of the data eye: 0 (in the middle) to
    /// 100 (wrong). Tuning changes this distance.
    pub sample_error: u8,
}

/// A response on the CMD line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A response of 48 bits. R3 and R4 have the index 0x3f, and ones in place of a CRC7.
    Short {
        /// Index field of the response, bits 45:40.
        index: u8,
        /// Content of the response, bits 39:8.
        content: u32,
        /// Whether the response has a CRC7.
        crc: bool,
    },
    /// A response of 136 bits (R2): its bits 127:0, the CRC byte included.
    Long([u8; 16]),
}

impl Answer {
    /// Returns whether the response is an R1 with the bit ERROR.
    pub(crate) fn tells_error(self) -> bool {
        matches!(self, Answer::Short { content, crc: true, .. } if content & status::ERROR != 0)
    }
}

/// What follows a command on the DAT lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// No data follow.
    None,
    /// The card will send blocks of this size: call [`Card::read_block`].
    Read {
        /// Block size in bytes.
        block_size: u16,
    },
    /// The card expects blocks of this size: call [`Card::write_block`].
    Write {
        /// Block size in bytes.
        block_size: u16,
    },
}

/// A card's reaction to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The response; `None`: the card does not respond, since it is not addressed or the command is
    /// illegal.
    pub answer: Option<Answer>,
    /// Data that follow the response.
    pub flow: Flow,
    /// Time in ns until which the card holds DAT0 low after the response (busy: R1b, and CMD12
    /// after a write). `None`: no busy.
    pub busy_until_ns: Option<u64>,
}

impl Reply {
    /// Reaction without a response and without data.
    pub const SILENT: Self = Self { answer: None, flow: Flow::None, busy_until_ns: None };

    /// Makes the reaction to a command with a 48-bit response that has a CRC7, and without data.
    /// `index` and `content` are the response's fields.
    #[must_use]
    pub const fn short(index: u8, content: u32) -> Self {
        Self {
            answer: Some(Answer::Short { index, content, crc: true }),
            flow: Flow::None,
            busy_until_ns: None,
        }
    }

    /// Makes the reaction to a command with an R3, which holds the operating conditions register
    /// and has no CRC7.
    #[must_use]
    pub const fn ocr(content: u32) -> Self {
        Self {
            answer: Some(Answer::Short { index: 0x3f, content, crc: false }),
            flow: Flow::None,
            busy_until_ns: None,
        }
    }
}

/// Result of asking a card for the next block of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBlock {
    /// The buffer holds the block. Its start bit comes at `start_ns`, which is not before the
    /// `now_ns` of the call.
    At {
        /// Time in ns at which the start bit of the block is on the lines.
        start_ns: u64,
        /// Whether the block arrives with a correct CRC16.
        crc_ok: bool,
    },
    /// No block will come: the blocks that CMD23 announced were all sent, the card's end was
    /// reached, or an error occurred that only the card status reports.
    Never,
}

/// The card's reaction to a written block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBlock {
    /// CRC status token of the card: `Some(true)` is 010 (good), `Some(false)` is 101 (CRC error),
    /// `None` is no token.
    pub status: Option<bool>,
    /// Time in ns until which the card holds DAT0 low (busy). If it is not later than `now_ns` of
    /// the call, the card is not busy.
    pub busy_until_ns: u64,
}

/// A card on the bus. The `now_ns` of its calls must never decrease.
pub trait Card {
    /// Handles a change of the bus by the host (power, clock, width, voltage and others).
    fn bus_changed(&mut self, bus: &BusState, now_ns: u64);

    /// Returns the total time in ns in which the card's queue held tasks, none of them ready or
    /// under way. In this time the card only fetched data.
    fn fetching_ns(&self) -> u64 {
        0
    }

    /// Returns what the flash did since the last call of this method.
    fn take_work(&mut self) -> flash::Work {
        flash::Work::default()
    }

    /// Executes the command `index` with the argument `arg`, which ended at `now_ns` with a correct
    /// CRC7. Returns the card's reaction.
    fn command(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply;

    /// Returns the next block of the read in progress; the data lines are free from `now_ns` on.
    /// `buffer` has the block size of [`Flow::Read`].
    fn read_block(&mut self, buffer: &mut [u8], now_ns: u64) -> ReadBlock;

    /// Takes a block of the present write, which ended on the wire at `now_ns`. `crc_ok` tells
    /// whether its CRC was correct at the card.
    fn write_block(&mut self, data: &[u8], crc_ok: bool, now_ns: u64) -> WriteBlock;

    /// Returns whether the card holds DAT0 low (busy).
    fn busy(&self, now_ns: u64) -> bool;

    /// Returns whether the card holds CMD and DAT3 to DAT0 low, as it does in a voltage switch
    /// after CMD11.
    fn switching_voltage(&self, now_ns: u64) -> bool;

    /// Returns which data lines the card holds low: bits 3 to 0 stand for DAT3 to DAT0. A DAT0 that
    /// is low because the card is busy does not count.
    fn lines_low(&self, now_ns: u64) -> u8 {
        if self.switching_voltage(now_ns) { 0xf } else { 0 }
    }

    /// Returns whether the mechanical write protection switch of an SD card protects the card.
    fn write_protect_switch(&self) -> bool {
        false
    }

    /// Sets or clears TMP_WRITE_PROTECT in the CSD. A worn-out card sets the bit by itself; a host
    /// changes it by CMD27.
    fn set_protected(&mut self, on: bool) {
        let _ = on;
    }

    /// Returns whether the card would now refuse a write of the `bytes` bytes from byte address
    /// `at` of a partition on. `partition` is a number as in PARTITION_CONFIG.
    fn is_protected(&self, partition: u8, at: u64, bytes: u64) -> bool {
        let _ = (partition, at, bytes);
        false
    }

    /// Returns whether the card has a quirk that damages bytes on an SPI bus.
    fn damages_spi(&self) -> bool {
        false
    }

    /// Returns the card for use on an SPI bus; `None` if it has no SPI mode.
    fn spi(&mut self) -> Option<&mut SdCard> {
        None
    }

    /// Sets the faults of the card. They strike the kinds of events that happen inside the card,
    /// such as [`crate::faults::Point::Busy`], `PowerUp`, `Cache`, `Medium`, `Task` and `Pack`.
    /// From then on the card also tracks its writes for [`Card::cut`].
    fn set_faults(&mut self, faults: Faults) {
        let _ = faults;
    }

    /// Returns the written versions of sectors that a power cut at this time could lose or tear, in
    /// the order of their arrival. Before [`Card::set_faults`] these are only sectors in a volatile
    /// cache.
    fn at_stake(&mut self, now_ns: u64) -> Vec<AtStake> {
        let _ = now_ns;
        Vec::new()
    }

    /// Cuts the card's power, regardless of the host. `keep` decides what is left of each version
    /// of [`Card::at_stake`]. The card stays without power until [`Card::bus_changed`] restores it.
    fn cut(&mut self, now_ns: u64, keep: &mut dyn FnMut(&AtStake) -> Kept) {
        let _ = keep;
        self.power_cut(now_ns);
    }

    /// Lets the supply voltage dip: volatile data are lost and the card is back in `idle`. The
    /// model tells the host nothing about it.
    fn brown_out(&mut self, now_ns: u64) {
        let _ = now_ns;
    }

    /// Returns two counters. The first counts the CMD0, dips of the supply, losses of power and
    /// failed flushes at which data could be lost that were not in the flash yet
    /// ([`Card::at_stake`]). The second tells in how many of these cases the cache held a sector.
    fn losses(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Makes this sector (of an eMMC: of the user area) unreadable until it is written or erased.
    fn spoil(&mut self, sector: u64) {
        let _ = sector;
    }

    /// Puts an attacker between the host and the RPMB of an eMMC.
    fn attack_rpmb(&mut self, attack: emmc::Attack) {
        let _ = attack;
    }

    /// Returns the actions of the host that this card does not support, oldest first.
    fn violations(&self) -> &[Violation] {
        &[]
    }

    /// Cuts the card's power, regardless of the host. All versions of [`Card::at_stake`] are lost,
    /// so their sectors have the content before the write; [`Card::peek`] reads it.
    fn power_cut(&mut self, now_ns: u64) {
        self.bus_changed(&BusState::default(), now_ns);
    }

    /// Returns whether the card has functions that may interrupt. Without them a controller need
    /// not call [`Card::interrupt`] and [`Card::next_event_ns`].
    fn has_functions(&self) -> bool {
        false
    }

    /// Returns whether a function requests an interrupt. While no data are on the lines, the card
    /// then holds DAT1 low.
    fn interrupt(&self, now_ns: u64) -> bool {
        let _ = now_ns;
        false
    }

    /// Returns the next time in ns after `now_ns` at which [`Card::interrupt`] changes if the host
    /// sends no command.
    fn next_event_ns(&self, now_ns: u64) -> Option<u64> {
        let _ = now_ns;
        None
    }

    /// Reads bytes of the medium from byte address `at` on, without a command on the bus; of an
    /// eMMC, bytes of the user area.
    fn peek(&mut self, at: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        let _ = (at, buffer);
        Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "this card has no medium to look at"))
    }

    /// Fills `buffer` with the bytes of a partition from byte address `at` on, without a command on
    /// the bus. `partition` is a number as in PARTITION_CONFIG; the RPMB cannot be read this way.
    fn peek_partition(&mut self, partition: u8, at: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        if partition == 0 {
            return self.peek(at, buffer);
        }
        Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "this card has no such partition"))
    }

    /// Calls `each` with the ranges of all sectors of each partition that were ever written or
    /// erased. Partitions have the numbers of PARTITION_CONFIG. Number 3 is the RPMB, of which all
    /// sectors count after its key was programmed. If the medium is an image file, `each` is never
    /// called.
    fn touched(&self, each: &mut dyn FnMut(u8, Range<u64>)) {
        let _ = each;
    }

    /// Returns names and values of all settings, apart from the media, that a host can change and
    /// that survive a power cycle.
    fn settings(&self) -> Vec<(&'static str, u8)> {
        Vec::new()
    }

    /// Sets how an eMMC boots, as the manufacturer of the device would. `config` has BOOT_ACK and
    /// BOOT_PARTITION_ENABLE at their bits of PARTITION_CONFIG.
    fn set_boot(&mut self, config: u8) {
        let _ = config;
    }
}

impl<C: Card + ?Sized> Card for Box<C> {
    fn bus_changed(&mut self, bus: &BusState, now_ns: u64) {
        (**self).bus_changed(bus, now_ns);
    }

    fn command(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply {
        (**self).command(index, arg, now_ns)
    }

    fn read_block(&mut self, buffer: &mut [u8], now_ns: u64) -> ReadBlock {
        (**self).read_block(buffer, now_ns)
    }

    fn write_block(&mut self, data: &[u8], crc_ok: bool, now_ns: u64) -> WriteBlock {
        (**self).write_block(data, crc_ok, now_ns)
    }

    fn busy(&self, now_ns: u64) -> bool {
        (**self).busy(now_ns)
    }

    fn switching_voltage(&self, now_ns: u64) -> bool {
        (**self).switching_voltage(now_ns)
    }

    fn lines_low(&self, now_ns: u64) -> u8 {
        (**self).lines_low(now_ns)
    }

    fn write_protect_switch(&self) -> bool {
        (**self).write_protect_switch()
    }

    fn set_protected(&mut self, on: bool) {
        (**self).set_protected(on);
    }

    fn is_protected(&self, partition: u8, at: u64, bytes: u64) -> bool {
        (**self).is_protected(partition, at, bytes)
    }

    fn damages_spi(&self) -> bool {
        (**self).damages_spi()
    }

    fn fetching_ns(&self) -> u64 {
        (**self).fetching_ns()
    }

    fn take_work(&mut self) -> flash::Work {
        (**self).take_work()
    }

    fn spi(&mut self) -> Option<&mut SdCard> {
        (**self).spi()
    }

    fn power_cut(&mut self, now_ns: u64) {
        (**self).power_cut(now_ns);
    }

    fn set_faults(&mut self, faults: Faults) {
        (**self).set_faults(faults);
    }

    fn at_stake(&mut self, now_ns: u64) -> Vec<AtStake> {
        (**self).at_stake(now_ns)
    }

    fn cut(&mut self, now_ns: u64, keep: &mut dyn FnMut(&AtStake) -> Kept) {
        (**self).cut(now_ns, keep);
    }

    fn brown_out(&mut self, now_ns: u64) {
        (**self).brown_out(now_ns);
    }

    fn losses(&self) -> (u64, u64) {
        (**self).losses()
    }

    fn spoil(&mut self, sector: u64) {
        (**self).spoil(sector);
    }

    fn attack_rpmb(&mut self, attack: emmc::Attack) {
        (**self).attack_rpmb(attack);
    }

    fn violations(&self) -> &[Violation] {
        (**self).violations()
    }

    fn has_functions(&self) -> bool {
        (**self).has_functions()
    }

    fn interrupt(&self, now_ns: u64) -> bool {
        (**self).interrupt(now_ns)
    }

    fn next_event_ns(&self, now_ns: u64) -> Option<u64> {
        (**self).next_event_ns(now_ns)
    }

    fn peek(&mut self, at: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        (**self).peek(at, buffer)
    }

    fn peek_partition(&mut self, partition: u8, at: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        (**self).peek_partition(partition, at, buffer)
    }

    fn touched(&self, each: &mut dyn FnMut(u8, Range<u64>)) {
        (**self).touched(each);
    }

    fn settings(&self) -> Vec<(&'static str, u8)> {
        (**self).settings()
    }

    fn set_boot(&mut self, config: u8) {
        (**self).set_boot(config);
    }
}
