//! Cards as seen from the bus.
//!
//! This is the interface between a controller model and a card. Times are absolute virtual
//! nanoseconds; a card never waits, it returns the time of what it will do. The card models
//! implement the standards independently: they use none of the stack's command builders or parsers,
//! so that a misreading of the standard in one is not hidden by the other.

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

/// State of the bus as the host drives it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BusState {
    /// Whether the card's power is on.
    pub powered: bool,
    /// SD clock in hertz; 0 when stopped.
    pub clock_hz: u32,
    /// Data lines the host uses: 1, 4 or 8.
    pub width: u8,
    /// Whether data are on both edges of the clock.
    pub ddr: bool,
    /// Whether the host signals at 1.8 V.
    pub signal18: bool,
    /// Whether the host samples responses and data by the card's strobe (HS400ES).
    pub strobe: bool,
    /// Whether the host holds the reset line of an eMMC (RST_n) low.
    pub reset: bool,
    /// Distance of the host's sampling point from the middle of the eye, 0 (perfect) to 100
    /// (wrong); set by tuning.
    pub sample_error: u8,
}

/// A response token on the CMD line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// 48 bits: the index field (0x3f for R3/R4), the 32 bits of content, and whether a CRC7 is
    /// sent (R3/R4 have ones instead).
    Short {
        /// Bits 45:40.
        index: u8,
        /// Bits 39:8.
        content: u32,
        /// Whether a CRC7 follows.
        crc: bool,
    },
    /// 136 bits: bits 127:0, the CRC byte included.
    Long([u8; 16]),
}

impl Answer {
    /// Returns whether this is an R1 with ERROR.
    pub(crate) fn tells_error(self) -> bool {
        matches!(self, Answer::Short { content, crc: true, .. } if content & status::ERROR != 0)
    }
}

/// Data on the DAT lines after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// No data.
    None,
    /// The card will send blocks of this size: call [`Card::read_block`].
    Read {
        /// Bytes in a block.
        block_size: u16,
    },
    /// The card expects blocks of this size: call [`Card::write_block`].
    Write {
        /// Bytes in a block.
        block_size: u16,
    },
}

/// A card's reaction to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// `None`: the card stays silent (not addressed, or it takes the command as illegal).
    pub answer: Option<Answer>,
    /// Data after the response.
    pub flow: Flow,
    /// Time until which DAT0 is held low after the response (R1b; also CMD12 after a write).
    pub busy_until_ns: Option<u64>,
}

impl Reply {
    /// No response, no data.
    pub const SILENT: Self = Self { answer: None, flow: Flow::None, busy_until_ns: None };

    /// Makes a short response with a CRC7 and no data.
    #[must_use]
    pub const fn short(index: u8, content: u32) -> Self {
        Self {
            answer: Some(Answer::Short { index, content, crc: true }),
            flow: Flow::None,
            busy_until_ns: None,
        }
    }

    /// Makes an R3: operating conditions, without a CRC7.
    #[must_use]
    pub const fn ocr(content: u32) -> Self {
        Self {
            answer: Some(Answer::Short { index: 0x3f, content, crc: false }),
            flow: Flow::None,
            busy_until_ns: None,
        }
    }
}

/// Next block of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBlock {
    /// The buffer is filled. The start bit comes at this time (not before the `now` that was
    /// given).
    At {
        /// Time of the start bit.
        start_ns: u64,
        /// Whether the CRC16 on the wire is right.
        crc_ok: bool,
    },
    /// No block will come: end of a counted transfer, end of the card, or an error that only the
    /// status reports.
    Never,
}

/// The card's reaction to a written block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBlock {
    /// CRC status token: `Some(true)` is 010 (good), `Some(false)` is 101 (CRC error), `None`: no
    /// token.
    pub status: Option<bool>,
    /// Time until which DAT0 is low; a time not after `now` means no busy.
    pub busy_until_ns: u64,
}

/// A card on the bus. All `now_ns` must not decrease during the life of a card.
pub trait Card {
    /// Handles a change of the bus by the host (power, clock, width, voltage and others).
    fn bus_changed(&mut self, bus: &BusState, now_ns: u64);

    /// Returns the time in ns for which the card's queue held tasks of which none was ready or
    /// under way: the card was fetching data.
    fn fetching_ns(&self) -> u64 {
        0
    }

    /// Returns what the flash did since this was asked last.
    fn take_work(&mut self) -> flash::Work {
        flash::Work::default()
    }

    /// Handles a command token that ended at `now_ns` with a good CRC7.
    fn command(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply;

    /// Returns the next block of the read in progress; the bus is free from `now_ns` on. `buffer`
    /// has the block size of [`Flow::Read`].
    fn read_block(&mut self, buffer: &mut [u8], now_ns: u64) -> ReadBlock;

    /// Handles a block of the write in progress, which ended on the wire at `now_ns`. `crc_ok`:
    /// what the card's receiver saw.
    fn write_block(&mut self, data: &[u8], crc_ok: bool, now_ns: u64) -> WriteBlock;

    /// Returns whether the card holds DAT0 low.
    fn busy(&self, now_ns: u64) -> bool;

    /// Returns whether the card holds CMD and DAT0 to DAT3 low, as between CMD11 and the end of a
    /// voltage switch.
    fn switching_voltage(&self, now_ns: u64) -> bool;

    /// Returns which of DAT3 to DAT0 the card holds low, in bits 3 to 0, busy excluded.
    fn lines_low(&self, now_ns: u64) -> u8 {
        if self.switching_voltage(now_ns) { 0xf } else { 0 }
    }

    /// Returns the position of the mechanical write protection switch (SD).
    fn write_protect_switch(&self) -> bool {
        false
    }

    /// Switches TMP_WRITE_PROTECT of the CSD on or off. A card does so by itself at the end of its
    /// life, and a host may, by CMD27.
    fn set_protected(&mut self, on: bool) {
        let _ = on;
    }

    /// Returns whether the card refuses a write of these bytes of a partition (as in
    /// PARTITION_CONFIG) now.
    fn is_protected(&self, partition: u8, at: u64, bytes: u64) -> bool {
        let _ = (partition, at, bytes);
        false
    }

    /// Returns whether bytes of an SPI bus arrive damaged.
    fn damages_spi(&self) -> bool {
        false
    }

    /// Returns the card as an SPI bus sees it, if it has an SPI mode.
    fn spi(&mut self) -> Option<&mut SdCard> {
        None
    }

    /// Sets the faults of the card from now on: of the points [`crate::faults::Point::Busy`],
    /// `PowerUp`, `Voltage`, `Cache`, `Medium` and `Function`. From now on the card also tracks its
    /// writes, for [`Card::cut`].
    fn set_faults(&mut self, faults: Faults) {
        let _ = faults;
    }

    /// Returns the sectors that a power cut at this time would decide about, in the order of their
    /// arrival. Complete after [`Card::set_faults`]; before, only sectors in a volatile cache.
    fn at_stake(&mut self, now_ns: u64) -> Vec<AtStake> {
        let _ = now_ns;
        Vec::new()
    }

    /// Cuts the power, whatever the host does; `keep` decides what is left of each sector at stake.
    /// The card stays without power until [`Card::bus_changed`] restores it.
    fn cut(&mut self, now_ns: u64, keep: &mut dyn FnMut(&AtStake) -> Kept) {
        let _ = keep;
        self.power_cut(now_ns);
    }

    /// Lets the power dip: volatile data are lost and the card is back in `idle`, without notice to
    /// the host.
    fn brown_out(&mut self, now_ns: u64) {
        let _ = now_ns;
    }

    /// Returns how often everything at stake has been decided (by CMD0 or a dip or loss of power),
    /// and how often a cache held something then.
    fn losses(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Makes this sector (of an eMMC: of the user area) unreadable until it is written again.
    fn spoil(&mut self, sector: u64) {
        let _ = sector;
    }

    /// Puts an attacker between the host and the RPMB of an eMMC.
    fn attack_rpmb(&mut self, attack: emmc::Attack) {
        let _ = attack;
    }

    /// Returns the host's actions that this card does not support, oldest first.
    fn violations(&self) -> &[Violation] {
        &[]
    }

    /// Cuts the power, whatever the host does. Nothing at stake is kept; [`Card::peek`] reads what
    /// is left.
    fn power_cut(&mut self, now_ns: u64) {
        self.bus_changed(&BusState::default(), now_ns);
    }

    /// Returns whether the card has functions that may interrupt. If not, [`Card::interrupt`] and
    /// [`Card::next_event_ns`] need not be called.
    fn has_functions(&self) -> bool {
        false
    }

    /// Returns whether a function interrupts: outside of data the card then holds DAT1 low.
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

    /// Reads bytes of the medium (of an eMMC: of the user area) without the bus.
    fn peek(&mut self, at: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        let _ = (at, buffer);
        Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "this card has no medium to look at"))
    }

    /// Reads bytes of this partition (as in PARTITION_CONFIG; not of the RPMB) without the bus.
    fn peek_partition(&mut self, partition: u8, at: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        if partition == 0 {
            return self.peek(at, buffer);
        }
        Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "this card has no such partition"))
    }

    /// Calls `each` with all sectors that were ever written or erased, of each partition (as in
    /// PARTITION_CONFIG; 3 is the RPMB, all of it once its key is programmed). Never called for a
    /// medium that is an image.
    fn touched(&self, each: &mut dyn FnMut(u8, Range<u64>)) {
        let _ = each;
    }

    /// Returns the settings that a host can change and that survive a power cycle, besides the
    /// media: name and value.
    fn settings(&self) -> Vec<(&'static str, u8)> {
        Vec::new()
    }

    /// Sets how an eMMC boots, as its maker would: BOOT_ACK and BOOT_PARTITION_ENABLE, in their
    /// place in PARTITION_CONFIG.
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
