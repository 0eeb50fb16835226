//! SPI mode of an SD card: how it handles commands, blocks and tokens [SD 7].
//!
//! The card and its states are the same as on the SD bus. In SPI mode a card has no address, so it
//! is in `tran` as soon as it is ready. The model of the bus ([`crate::spi`]) handles frames, gaps
//! and the bytes of blocks.

use super::super::interface::Interfaced;
use super::super::odd::SpiBytes;
use super::super::status::{self, State};
use super::super::{Answer, Card, Flow, ReadBlock, Reply};
use super::commands::VOLTAGES;
use super::config::{Class, Spec};
use super::{SdCard, Transfer};

/// Bit 0 of R1 in SPI mode: the card is idle [SD 7.3.2.1].
const IDLE: u8 = 1 << 0;
/// Bit 3 of R1 in SPI mode: the command had a wrong CRC [SD 7.3.2.1].
const CRC_ERROR: u8 = 1 << 3;
/// Bits of R1 in SPI mode that report card status bits: the card status bit, and the bit in R1 [SD
/// 7.3.2.1].
const R1_BITS: [(u32, u8); 5] = [
    (status::ERASE_RESET, 1 << 1),
    (status::ILLEGAL_COMMAND, 1 << 2),
    (status::ERASE_SEQ_ERROR, 1 << 4),
    (status::ADDRESS_ERROR, 1 << 5),
    (status::OUT_OF_RANGE | status::BLOCK_LEN_ERROR, 1 << 6),
];

/// Bits of the second byte of R2 in SPI mode: the card status bit, and the bit in R2 [SD 7.3.2.3].
const R2_BITS: [(u32, u8); 8] = [
    (status::CARD_IS_LOCKED, 1 << 0),
    (status::WP_ERASE_SKIP | status::LOCK_UNLOCK_FAILED, 1 << 1),
    (status::ERROR, 1 << 2),
    (CC_ERROR, 1 << 3),
    (status::CARD_ECC_FAILED, 1 << 4),
    (status::WP_VIOLATION, 1 << 5),
    (status::ERASE_PARAM, 1 << 6),
    (status::OUT_OF_RANGE | status::CSD_OVERWRITE, 1 << 7),
];

/// Bits of a data error token: the card status bit, and the bit in the token [SD 7.3.3.3].
const ERROR_TOKENS: [(u32, u8); 4] = [
    (status::ERROR, 1 << 0),
    (CC_ERROR, 1 << 1),
    (status::CARD_ECC_FAILED, 1 << 2),
    (status::OUT_OF_RANGE, 1 << 3),
];

/// CC_ERROR, bit 20 of the card status: the card's internal controller failed.
const CC_ERROR: u32 = 1 << 20;

/// Data response token: the card accepted the block. The upper three bits have no meaning [SD
/// 7.3.3.1].
const ACCEPTED: u8 = 0xe5;
/// Data response token: the card refused the block because of a wrong CRC.
const REFUSED_CRC: u8 = 0xeb;
/// Data response token: the card refused the block because of a write error.
const REFUSED_WRITE: u8 = 0xed;

/// State of the card that exists only for SPI mode.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mode {
    /// Whether the card is in SPI mode, which lasts until power-off.
    on: bool,
    /// Whether the card checks CRCs (CMD59).
    crc: bool,
    /// Whether the card has refused a block, and so ignores further ones.
    deaf: bool,
}

/// A response in SPI mode, and what follows it: further bytes and data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpiReply {
    pub(crate) r1: u8,
    /// Those bytes of the response that follow R1 (in R2, R3 and R7), and how many of the four are
    /// used.
    rest: ([u8; 4], u8),
    pub(crate) flow: Flow,
}

impl SpiReply {
    const fn r1(r1: u8) -> Self {
        SpiReply { r1, rest: ([0; 4], 0), flow: Flow::None }
    }

    /// Returns the bytes of the response that follow R1 (of an R2, R3 or R7).
    pub(crate) fn rest(&self) -> &[u8] {
        &self.rest.0[..usize::from(self.rest.1)]
    }
}

/// What the card sends next in a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpiBlock {
    /// A block whose start token comes at `start_ns` or later. `whole`: no quirk or fault damages
    /// it on the wire.
    At { start_ns: u64, whole: bool },
    /// The card sends this data error token.
    Error(u8),
    /// The card sends nothing more.
    Never,
}

/// Returns the bits of an SPI response that `map` gives for this card status.
fn bits(map: &[(u32, u8)], status: u32) -> u8 {
    map.iter().filter(|(from, _)| status & from != 0).fold(0, |to, (_, bit)| to | bit)
}

/// Returns the bits of R1 that report this card status.
pub(crate) fn r1_bits(status: u32) -> u8 {
    bits(&R1_BITS, status)
}

/// Returns whether a command with this index exists in SPI mode; `app` marks an application
/// command.
fn is_known(index: u8, app: bool) -> bool {
    match index {
        // ACMD6 does not exist in SPI mode, nor do commands that need an RCA.
        6 if app => false,
        22 | 23 | 41 | 51 => app,
        0 | 1 | 6 | 8..=10 | 12 | 13 | 16..=18 | 24 | 25 | 27 | 32 | 33 | 38 | 42 | 55 | 58 | 59 => true,
        _ => false,
    }
}

impl SdCard {
    /// Returns whether the card has an SPI mode; an SDUC card has none.
    pub(super) fn has_spi(&self) -> bool {
        self.config.class != Class::Sduc
    }

    /// Ends SPI mode, at power-off or power-up.
    pub(super) fn leave_spi(&mut self) {
        self.spi = Mode::default();
    }

    /// Returns whether the card is in SPI mode.
    pub(crate) fn in_spi(&self) -> bool {
        self.spi.on
    }

    /// Counts a byte on an SPI bus. Returns the bits that arrive inverted, to the card and from the
    /// card.
    pub(crate) fn next_spi_byte(&mut self) -> (u8, u8) {
        self.spi_bytes += 1;
        SpiBytes::turned(&self.config.quirks.spi_bytes, self.spi_bytes)
    }

    /// Returns whether the card is programming, and so accepts only CMD0.
    fn programs(&self, now_ns: u64) -> bool {
        let state = self.interface.state;
        state == State::Prg || (state == State::Rcv && self.interface.busy_until_ns > now_ns)
    }

    /// Returns whether the card waits for the blocks of a write.
    pub(crate) fn spi_receives(&mut self, now_ns: u64) -> bool {
        self.settle(now_ns);
        self.spi.on && self.interface.state == State::Rcv && !self.programs(now_ns)
    }

    /// Returns whether the card has more blocks to send in the present read.
    pub(crate) fn spi_sends(&mut self, now_ns: u64) -> bool {
        self.settle(now_ns);
        self.spi.on && self.interface.state == State::Data
    }

    /// Returns whether the next block of the present read is beyond the end of the card.
    pub(crate) fn spi_is_at_end(&self) -> bool {
        matches!(&self.transfer, Transfer::Read(read) if read.at + u64::from(read.block) > self.medium.bytes())
    }

    /// Executes a command frame (`index`, `arg`) that ended while the card was selected. `crc_ok`:
    /// its CRC7 is right. Returns `None` if the card does not respond.
    pub(crate) fn spi_frame(&mut self, index: u8, arg: u32, crc_ok: bool, now_ns: u64) -> Option<SpiReply> {
        self.settle(now_ns);
        let mode = self.mode();
        let interface = &mut self.interface;
        let hears = !interface.trouble.locked_up
            && interface.state != State::Ina
            && mode.hears(&interface.bus)
            && interface.power.awake(&interface.bus, now_ns);
        let enters = index == 0 && crc_ok;
        if !hears || !(self.spi.on || enters) || (index != 0 && self.programs(now_ns)) {
            return None;
        }
        self.spi.on = true;
        // The CRC of CMD0 is checked as on the SD bus, the CRC of CMD8 always [SD 7.2.2].
        if !crc_ok && (self.spi.crc || matches!(index, 0 | 8)) {
            return Some(SpiReply::r1(CRC_ERROR | self.idle()));
        }
        let pending = self.status.take();
        let mut rest = ([0; 4], 0);
        let is_r2 = index == 13;
        let mut reply = self.obey(index, arg, &mut rest, now_ns);
        let told = match reply.answer {
            Some(Answer::Short { content, crc: true, .. }) if index != 8 => content & status::ERRORS,
            _ => 0,
        };
        let mut errors = told | self.status.take();
        if matches!(index, 24 | 25) && errors & status::WP_VIOLATION != 0 {
            // The card accepts a write to a protected address, and refuses its blocks.
            errors &= !status::WP_VIOLATION;
            self.interface.state = State::Rcv;
            self.transfer = Transfer::Protected { single: index == 24 };
            reply.flow = Flow::Write { block_size: 512 };
        }
        // R1 reports errors of the command; errors of data are reported by R2.
        let r1 = if index == 12 { errors & status::ILLEGAL_COMMAND } else { errors };
        let shown = R1_BITS.iter().fold(0, |shown, (bits, _)| shown | (r1 & bits));
        let kept = pending | (errors & !shown);
        if is_r2 {
            let locked = if self.lock.locked() { status::CARD_IS_LOCKED } else { 0 };
            rest = ([bits(&R2_BITS, kept | locked), 0, 0, 0], 1);
        } else {
            self.status.raise(kept);
        }
        if let Some(until_ns) = reply.busy_until_ns.filter(|&until_ns| until_ns > now_ns) {
            self.busy_begins(until_ns);
        }
        if self.due_dip(now_ns) {
            return None;
        }
        Some(SpiReply { r1: bits(&R1_BITS, shown) | self.idle(), rest, flow: reply.flow })
    }

    fn idle(&self) -> u8 {
        if self.interface.state == State::Idle { IDLE } else { 0 }
    }

    fn obey(&mut self, index: u8, arg: u32, rest: &mut ([u8; 4], u8), now_ns: u64) -> Reply {
        use State::{Data, Idle, Rcv, Tran};
        let (app, state) = (self.app, self.interface.state);
        self.spi.deaf = false;
        match (index, state) {
            (0, _) => {
                self.spi.crc = false;
                self.execute(0, arg, now_ns)
            }
            (58, Idle | Tran) => {
                self.begin(index);
                *rest = (self.ocr().to_be_bytes(), 4);
                Reply::SILENT
            }
            (59, Idle | Tran) => {
                self.begin(index);
                self.spi.crc = arg & 1 == 1;
                Reply::SILENT
            }
            (55, Idle | Tran) => {
                self.begin(index);
                self.app = true;
                Reply::SILENT
            }
            (1, Idle) if !app => self.initialise(index, arg, now_ns),
            (41, Idle) if app => self.initialise(index, arg, now_ns),
            (8, Idle) if self.config.spec >= Spec::V2 => {
                self.begin(index);
                self.saw_cmd8 = true;
                // The response repeats an accepted supply voltage, or 0.
                let volts = if (arg >> 8) & 0xf == 1 { 1 } else { 0 };
                *rest = ((volts << 8 | (arg & 0xff)).to_be_bytes(), 4);
                Reply::SILENT
            }
            (9 | 10, Tran) => {
                self.begin(index);
                let register = if index == 9 { self.csd() } else { self.config.cid() };
                let mut bytes = [0; 64];
                bytes[..16].copy_from_slice(&register);
                self.send_register(index, bytes, 16, now_ns)
            }
            (13, Tran | Data | Rcv) if !app => Reply::SILENT,
            (_, Idle | Tran) if is_known(index, app) => self.execute(index, arg, now_ns),
            (12, Data | Rcv) => self.execute(12, arg, now_ns),
            _ => {
                self.begin(index);
                self.status.raise_illegal();
                Reply::SILENT
            }
        }
    }

    /// Prepares the card for a command that the SD bus does not have, or has in another form. A
    /// CMD55 before it has no effect. A sequence of erase commands ends if the command does not
    /// belong to it.
    fn begin(&mut self, index: u8) {
        self.app = false;
        self.leave_erase(index);
    }

    /// Executes CMD1 and ACMD41. The card ignores the voltages in their argument.
    fn initialise(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply {
        self.begin(index);
        self.operating_conditions((arg & 1 << 30) | VOLTAGES, now_ns);
        if self.interface.state == State::Ready {
            self.interface.state = State::Tran;
        }
        Reply::SILENT
    }

    /// Returns the OCR: bit 30 (CCS) is valid only while bit 31 is set.
    fn ocr(&self) -> u32 {
        match self.interface.state {
            State::Idle => VOLTAGES,
            _ => VOLTAGES | 1 << 31 | u32::from(self.config.block_addressed()) << 30,
        }
    }

    /// Returns what the card sends next in the present read; the bus is free from `now_ns` on.
    pub(crate) fn spi_block(&mut self, buffer: &mut [u8], now_ns: u64) -> SpiBlock {
        let pending = self.status.take();
        let single = !matches!(&self.transfer, Transfer::Read(read) if read.is_multiple());
        let block = self.read_block(buffer, now_ns);
        let errors = self.status.take();
        self.status.raise(pending | errors);
        match block {
            ReadBlock::At { .. } if !self.spi.on => SpiBlock::Never,
            ReadBlock::At { start_ns, crc_ok } => SpiBlock::At { start_ns, whole: crc_ok },
            ReadBlock::Never => {
                if single && self.interface.state == State::Data && !self.interface.trouble.locked_up {
                    self.transfer = Transfer::None;
                    self.interface.state = State::Tran;
                }
                match bits(&ERROR_TOKENS, errors) {
                    0 => SpiBlock::Never,
                    token => SpiBlock::Error(token),
                }
            }
        }
    }

    /// Handles a written block that ended on the wire. `crc_ok`: its CRC is right; this counts only
    /// if the host has switched CRC on. Returns the data response token; `None` if the card sends
    /// none.
    pub(crate) fn spi_write(&mut self, data: &[u8], crc_ok: bool, now_ns: u64) -> Option<u8> {
        if self.interface.trouble.locked_up || self.spi.deaf {
            return None;
        }
        let good = crc_ok || !self.spi.crc;
        if let Transfer::Protected { single } = self.transfer {
            self.transfer = Transfer::None;
            self.status.raise(if good { status::WP_VIOLATION } else { 0 });
            self.spi.deaf = !single;
            if single {
                self.interface.state = State::Tran;
            }
            return Some(if good { REFUSED_WRITE } else { REFUSED_CRC });
        }
        let taken = self.write_block(data, good, now_ns);
        if !self.spi.on {
            return None;
        }
        self.spi.deaf = taken.status != Some(true) && self.interface.state == State::Rcv;
        Some(match taken.status {
            Some(true) => ACCEPTED,
            Some(false) => REFUSED_CRC,
            None => REFUSED_WRITE,
        })
    }

    /// Handles the stop token, which ends a CMD25.
    pub(crate) fn spi_stop(&mut self, now_ns: u64) {
        let until_ns = self.program(now_ns);
        if until_ns > now_ns {
            self.busy_begins(until_ns);
        }
        self.due_dip(now_ns);
    }

    /// Ends the transfer under way because CS goes high. Not every card does this.
    pub(crate) fn spi_deselected(&mut self, now_ns: u64) {
        self.settle(now_ns);
        match self.interface.state {
            State::Data => {
                self.execute(12, 0, now_ns);
            }
            State::Rcv => self.spi_stop(now_ns),
            _ => {}
        }
    }
}
