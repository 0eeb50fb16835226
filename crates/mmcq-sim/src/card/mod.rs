//! Cards as seen from the bus.
//!
//! A controller model and a card meet here. Times are absolute virtual nanoseconds; a card never
//! waits, it says when. Cards know the standards by themselves: nothing of the stack's own command
//! builders or parsers is used here, so that a misreading of the standard in one is not excused by
//! the other.

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
pub use odd::{Odd, OddAnswer, Register, RegisterBytes};
pub use profile::{CardProfile, ProfileError};
pub use queue::{Order as TaskOrder, QueueConfig};
pub use quirk::Quirks;
pub use sd::SdCard;
pub use trouble::Violation;

use crate::faults::Faults;
use std::ops::Range;

/// How the host drives the bus at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BusState {
    /// Card supply is on.
    pub powered: bool,
    /// SD clock in hertz; 0 when stopped.
    pub clock_hz: u32,
    /// Data lines the host uses: 1, 4 or 8.
    pub width: u8,
    /// Data on both edges of the clock.
    pub ddr: bool,
    /// 1.8 V signalling on the host's side.
    pub signal18: bool,
    /// The host samples responses and data by the card's strobe (HS400ES).
    pub strobe: bool,
    /// The host holds the reset line of an eMMC (RST_n) low.
    pub reset: bool,
    /// How far the host's sampling point is from the middle of the eye, 0 (perfect) to 100 (wrong):
    /// set by tuning.
    pub sample_error: u8,
}

/// A response token on the CMD line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// 48 bits: the index field (0x3f for R3/R4), the 32 bits of content, and whether a CRC7 is
    /// sent (R3/R4 have all ones there).
    Short {
        /// Bits 45:40.
        index: u8,
        /// Bits 39:8.
        content: u32,
        /// A real CRC7 follows.
        crc: bool,
    },
    /// 136 bits: bits 127:0, the CRC byte included.
    Long([u8; 16]),
}

impl Answer {
    /// It is an R1 with ERROR.
    pub(crate) fn tells_error(self) -> bool {
        matches!(self, Answer::Short { content, crc: true, .. } if content & status::ERROR != 0)
    }
}

/// What follows on the DAT lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Nothing.
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
    /// What follows.
    pub flow: Flow,
    /// DAT0 is held low from the end of the response until then (R1b; also CMD12 after a write).
    pub busy_until_ns: Option<u64>,
}

impl Reply {
    /// No answer, nothing follows.
    pub const SILENT: Self = Self { answer: None, flow: Flow::None, busy_until_ns: None };

    /// A short answer with a CRC7, nothing follows.
    #[must_use]
    pub const fn short(index: u8, content: u32) -> Self {
        Self {
            answer: Some(Answer::Short { index, content, crc: true }),
            flow: Flow::None,
            busy_until_ns: None,
        }
    }

    /// R3: operating conditions, without a CRC7.
    #[must_use]
    pub const fn ocr(content: u32) -> Self {
        Self {
            answer: Some(Answer::Short { index: 0x3f, content, crc: false }),
            flow: Flow::None,
            busy_until_ns: None,
        }
    }
}

/// The next block of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBlock {
    /// The buffer is filled; the start bit appears at this time (not before the `now` that was
    /// given).
    At {
        /// Time of the start bit.
        start_ns: u64,
        /// The CRC16 on the wire is right.
        crc_ok: bool,
    },
    /// No block will come (end of a counted transfer, end of the card, or an error that only the
    /// status tells).
    Never,
}

/// The card's reaction to a written block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBlock {
    /// CRC status token: `Some(true)` is 010 (good), `Some(false)` is 101 (CRC error), `None`: no
    /// token.
    pub status: Option<bool>,
    /// DAT0 is low until then; a time not after `now` means no busy.
    pub busy_until_ns: u64,
}

/// A card on the bus. All `now_ns` are non-decreasing over the life of a card.
pub trait Card {
    /// The host changed something about the bus (power, clock, width, voltage ...).
    fn bus_changed(&mut self, bus: &BusState, now_ns: u64);

    /// How long its queue held tasks of which none was ready, or under way: it was fetching data.
    fn fetching_ns(&self) -> u64 {
        0
    }

    /// A command token ended at `now_ns` with a good CRC7.
    fn command(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply;

    /// The bus is free from `now_ns` on: the next block of the read in progress. `buffer` has the
    /// block size of [`Flow::Read`].
    fn read_block(&mut self, buffer: &mut [u8], now_ns: u64) -> ReadBlock;

    /// A block of the write in progress ended on the wire at `now_ns`; `crc_ok` is what the card's
    /// receiver saw.
    fn write_block(&mut self, data: &[u8], crc_ok: bool, now_ns: u64) -> WriteBlock;

    /// Does the card hold DAT0 low?
    fn busy(&self, now_ns: u64) -> bool;

    /// Does the card hold CMD and DAT0 to DAT3 low, as between CMD11 and the end of a voltage
    /// switch?
    fn switching_voltage(&self, now_ns: u64) -> bool;

    /// DAT3 to DAT0 that the card holds low, in bits 3 to 0, other than by busy.
    fn lines_low(&self, now_ns: u64) -> u8 {
        if self.switching_voltage(now_ns) { 0xf } else { 0 }
    }

    /// Mechanical write protection (SD).
    fn write_protect_switch(&self) -> bool {
        false
    }

    /// The card as an SPI bus sees it, if it has an SPI mode.
    fn spi(&mut self) -> Option<&mut SdCard> {
        None
    }

    /// What goes wrong from now on: the points [`crate::faults::Point::Busy`], `PowerUp`,
    /// `Voltage`, `Cache`, `Medium` and `Function` are the card's. From now on the card also
    /// follows its writes, for [`Card::cut`].
    fn set_faults(&mut self, faults: Faults) {
        let _ = faults;
    }

    /// Sectors that a power cut at this time would decide about, in the order of their arrival.
    /// Complete after [`Card::set_faults`]; before, only what is in a volatile cache.
    fn at_stake(&mut self, now_ns: u64) -> Vec<AtStake> {
        let _ = now_ns;
        Vec::new()
    }

    /// The supply is cut, whatever the host believes, and of each sector at stake that is left
    /// which `keep` says. The card stays without supply until the bus brings it
    /// ([`Card::bus_changed`]).
    fn cut(&mut self, now_ns: u64, keep: &mut dyn FnMut(&AtStake) -> Kept) {
        let _ = keep;
        self.power_cut(now_ns);
    }

    /// The supply dips: volatile things are lost and the card is back in `idle`; the host is not
    /// told.
    fn brown_out(&mut self, now_ns: u64) {
        let _ = now_ns;
    }

    /// How often what was at stake has been decided, by CMD0 or a dip or loss of the supply; and
    /// how often a cache held something then.
    fn losses(&self) -> (u64, u64) {
        (0, 0)
    }

    /// This sector (of an eMMC: of the user area) cannot be read until it is written again.
    fn spoil(&mut self, sector: u64) {
        let _ = sector;
    }

    /// An attacker stands between the host and the RPMB of an eMMC.
    fn attack_rpmb(&mut self, attack: emmc::Attack) {
        let _ = attack;
    }

    /// What the host did that this card does not stand, oldest first.
    fn violations(&self) -> &[Violation] {
        &[]
    }

    /// The supply is cut, whatever the host believes; what the card keeps of its writes is then in
    /// [`Card::peek`]. Nothing that is at stake is kept.
    fn power_cut(&mut self, now_ns: u64) {
        self.bus_changed(&BusState::default(), now_ns);
    }

    /// Has it functions that may ask for attention? If not, [`Card::interrupt`] and
    /// [`Card::next_event_ns`] need not be asked.
    fn has_functions(&self) -> bool {
        false
    }

    /// A function asks for attention: outside of data the card holds DAT1 low (the interrupt of an
    /// I/O card).
    fn interrupt(&self, now_ns: u64) -> bool {
        let _ = now_ns;
        false
    }

    /// The next moment after `now_ns` at which [`Card::interrupt`] changes if the host does not
    /// speak to the card.
    fn next_event_ns(&self, now_ns: u64) -> Option<u64> {
        let _ = now_ns;
        None
    }

    /// Bytes that the medium (of an eMMC: the user area) holds, looked at without the bus.
    fn peek(&mut self, at: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        let _ = (at, buffer);
        Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "this card has no medium to look at"))
    }

    /// As [`Card::peek`], of this partition (as in PARTITION_CONFIG; not of the RPMB).
    fn peek_partition(&mut self, partition: u8, at: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        if partition == 0 {
            return self.peek(at, buffer);
        }
        Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "this card has no such partition"))
    }

    /// Tells of all sectors that were ever written or erased, of each partition (as in
    /// PARTITION_CONFIG; 3 is the RPMB, all of it once its key is programmed). Nothing is told of a
    /// medium that is an image.
    fn touched(&self, each: &mut dyn FnMut(u8, Range<u64>)) {
        let _ = each;
    }

    /// What a host can set and a power cycle does not take away, beside the media: the name of
    /// each, and its value.
    fn settings(&self) -> Vec<(&'static str, u8)> {
        Vec::new()
    }

    /// The board's maker has told an eMMC to boot so: BOOT_ACK and BOOT_PARTITION_ENABLE, in their
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
