//! SD memory card on the SD bus [SD Physical Layer]: SDSC, SDHC, SDXC and SDUC.

mod bus;
mod commands;
pub(crate) mod config;
mod erase;
mod extension;
mod functions;
mod queue;
mod spi;
pub(crate) mod voltage;

use super::cut;
use super::erase_range::EraseRange;
use super::flash::Flash;
use super::interface::Interface;
use super::link::{IDENTIFICATION_HZ, Mode};
use super::lock::{Lock, Outcome};
use super::medium::Medium;
use super::queue::Tasks;
use super::quirk::WornOut;
use super::status::{self, State, Status};
use super::transfer::{Read, Write};
use super::tuning;
use config::SdConfig;
use extension::Extensions;
use functions::Functions;
pub(crate) use spi::{SpiBlock, r1_bits};
use voltage::Voltage;

/// Transfer that is under way on the data lines.
#[derive(Clone, Debug)]
enum Transfer {
    None,
    /// A single block that the card sends from a buffer: a register or a tuning block.
    Register {
        bytes: [u8; 64],
        len: u8,
    },
    Read(Read),
    Write {
        write: Write,
        single: bool,
    },
    /// The data block of CMD48: extension registers that the host reads.
    ReadExtension(Box<[u8; 512]>),
    /// The data block of CMD49: extension registers that the host writes, at this place.
    WriteExtension(extension::Place),
    ProgramCsd,
    Lock,
    /// In SPI mode, the card gets blocks for a write-protected address, and refuses them one by
    /// one.
    Protected {
        single: bool,
    },
}

/// An SD memory card.
#[derive(Debug)]
pub struct SdCard {
    config: SdConfig,
    medium: Medium,
    flash: Flash,
    extensions: Extensions,
    /// Number of read commands since the model was made.
    reads: u32,
    /// Extra busy time in ns at the end of the present write command.
    extra_busy_ns: u64,
    /// Whether the card was initialised at least once since the model was made.
    was_up: bool,
    lock: Lock,
    /// Byte 14 of the CSD: COPY, PERM_WRITE_PROTECT and TMP_WRITE_PROTECT.
    csd_flags: u8,
    interface: Interface,
    voltage: Voltage,
    /// Fault of a voltage switch: extra time in ns until the card releases the lines.
    voltage_late_ns: u64,
    /// Fault of a voltage switch: lines that the card never releases, one bit each.
    voltage_stuck: u8,
    status: Status,
    app: bool,
    saw_cmd8: bool,
    ready_ns: Option<u64>,
    /// Time in ns of the last ACMD41, if it was an inquiry (an ACMD41 without voltages); otherwise
    /// `None`.
    inquired_ns: Option<u64>,
    switch_agreed: bool,
    rca: u16,
    block_len: u16,
    count: Option<u32>,
    /// Bits 37:32 of the next command's address, from CMD22; `None`: no CMD22 came [SD 4.20].
    upper: Option<u8>,
    width: u8,
    functions: Functions,
    pending_functions: Option<(Functions, u64)>,
    transfer: Transfer,
    erase: EraseRange,
    well_written: u32,
    /// The command queue; `None`: the card has none.
    queue: Option<Tasks>,
    /// Number of tasks executed so far.
    executed: u32,
    spi: spi::Mode,
    /// Number of bytes on an SPI bus so far. The card counts them only if a quirk damages some.
    spi_bytes: u64,
}

impl SdCard {
    pub(crate) fn new(config: SdConfig, mut medium: Medium) -> Self {
        medium.shorten(config.capacity_bytes);
        let flash = Flash::new(config.flash).with(&config.quirks);
        let csd_flags = config.quirks.csd_protection.flags();
        let queue = config.queue.map(Tasks::new);
        let block_len = config.default_block_len();
        Self {
            config,
            medium,
            flash,
            extensions: Extensions::default(),
            reads: 0,
            extra_busy_ns: 0,
            was_up: false,
            lock: Lock::default(),
            csd_flags,
            spi_bytes: 0,
            interface: Interface::default(),
            voltage: Voltage::High,
            voltage_late_ns: 0,
            voltage_stuck: 0,
            status: Status::default(),
            app: false,
            saw_cmd8: false,
            ready_ns: None,
            inquired_ns: None,
            switch_agreed: false,
            rca: 0,
            block_len,
            count: None,
            upper: None,
            width: 1,
            functions: Functions::default(),
            pending_functions: None,
            transfer: Transfer::None,
            erase: EraseRange::default(),
            well_written: 0,
            queue,
            executed: 0,
            spi: spi::Mode::default(),
        }
    }

    /// Returns the medium of the card.
    #[must_use]
    pub fn medium(&self) -> &Medium {
        &self.medium
    }

    /// Returns the medium of the card, to read or prepare it without the bus.
    pub fn medium_mut(&mut self) -> &mut Medium {
        &mut self.medium
    }

    /// Gives the card this password: it is locked from its next power-up on.
    pub fn set_password(&mut self, password: &[u8]) {
        self.lock = Lock::with_password(password);
    }

    /// Returns the state of the card (idle, tran, prg ...) at this time.
    pub fn state(&mut self, now_ns: u64) -> State {
        self.settle(now_ns);
        self.interface.state
    }

    /// Resets the card to `idle`, by CMD0 or a power cycle.
    fn reset(&mut self, now_ns: u64) {
        if self.flash.journal.follows() {
            self.flash.journal.decide(&mut self.medium, now_ns, &mut cut::reset);
        }
        self.flash.journal.volatile = false;
        self.extensions = Extensions::default();
        if std::mem::take(&mut self.was_up) {
            let SdConfig { quirks, identity, capacity_bytes, .. } = &mut self.config;
            quirks.come_up_again(identity, capacity_bytes, 512 * 1024);
        }
        self.interface.reset();
        self.status = Status::default();
        self.app = false;
        self.saw_cmd8 = false;
        self.ready_ns = None;
        self.inquired_ns = None;
        self.switch_agreed = false;
        self.rca = 0;
        self.block_len = self.config.default_block_len();
        self.count = None;
        self.upper = None;
        self.width = 1;
        self.functions = Functions::default();
        self.pending_functions = None;
        self.transfer = Transfer::None;
        self.erase = EraseRange::default();
        if let Some(queue) = &mut self.queue {
            queue.begin(false);
        }
    }

    /// Returns the bus settings that the card's present mode needs.
    fn mode(&self) -> Mode {
        let is_18 = self.voltage.is_18();
        let (max_hz, ddr) = match (self.interface.state, is_18, self.functions.0[0]) {
            (State::Idle | State::Ready | State::Ident, ..) => (IDENTIFICATION_HZ, false),
            (_, _, 0) => (25_000_000, false),
            (_, _, 1) => (50_000_000, false),
            (_, _, 2) => (100_000_000, false),
            (_, _, 3) => (208_000_000, false),
            _ => (50_000_000, true),
        };
        let slow = max_hz <= 25_000_000;
        let signal18 = if self.config.quirks.stuck_1v8 && is_18 && slow { None } else { Some(is_18) };
        Mode { max_hz, width: self.width, ddr, signal18, strobe: false }
    }

    /// Returns the TRAN_SPEED code of the present bus speed mode.
    fn tran_speed(&self) -> u8 {
        match self.functions.0[0] {
            0 => 0x32,
            1 => 0x5a,
            3 => 0x2b,
            _ => 0x0b,
        }
    }

    /// Brings the state of the card up to this time: functions that CMD6 has switched, the queue,
    /// and the end of a read or of busy.
    fn settle(&mut self, now_ns: u64) {
        if let Some((functions, at_ns)) = self.pending_functions
            && now_ns >= at_ns
        {
            self.functions = functions;
            self.pending_functions = None;
        }
        self.settle_queue(now_ns);
        match self.interface.state {
            State::Data if self.interface.data_end_ns.is_some_and(|end_ns| now_ns >= end_ns) => {
                self.task_ended(self.interface.data_end_ns.unwrap_or(now_ns));
                self.transfer = Transfer::None;
                self.interface.data_end_ns = None;
                self.interface.state = State::Tran;
            }
            State::Prg if now_ns >= self.interface.busy_until_ns => self.interface.state = State::Tran,
            State::Dis if now_ns >= self.interface.busy_until_ns => self.interface.state = State::Stby,
            _ => {}
        }
    }

    fn write_protected(&self) -> bool {
        let worn_out = self.flash.wear.worn_out() == Some(WornOut::ReadOnly);
        self.medium.read_only() || self.csd_flags & 0x30 != 0 || worn_out
    }

    /// Ends the data of a write and begins programming. Returns the end of busy in ns.
    fn program(&mut self, now_ns: u64) -> u64 {
        let mut busy_ns = now_ns;
        if let Transfer::Write { write, .. } = &mut self.transfer {
            let (until_ns, errors) = write.end(&mut self.medium, &mut self.flash, now_ns);
            busy_ns = until_ns.max(self.interface.busy_until_ns).saturating_add(self.extra_busy_ns);
            self.well_written = write.stored;
            match &mut self.queue {
                // The card reports an error of a queued write at the end of programming.
                Some(queue) if !queue.is_empty() => queue.owes(busy_ns, errors),
                _ => self.status.raise(errors),
            }
        }
        self.task_ended(now_ns);
        self.transfer = Transfer::None;
        self.interface.state = State::Prg;
        self.interface.busy_until_ns = busy_ns;
        busy_ns
    }

    fn take_csd(&mut self, data: &[u8]) {
        let mut now = self.config.csd(self.tran_speed());
        let Some(new) = data.get(..16) else { return };
        // Byte 14 has FILE_FORMAT_GRP, COPY, PERM_WRITE_PROTECT, TMP_WRITE_PROTECT and FILE_FORMAT;
        // byte 15 is the CRC.
        let same = new[..14] == now[..14];
        let gone = self.csd_flags & 0x60 & !new[14];
        now[14] = new[14];
        super::registers::seal(&mut now);
        if same && gone == 0 && new[15] == now[15] {
            self.csd_flags = new[14];
        } else {
            self.status.raise(status::CSD_OVERWRITE);
        }
    }

    fn take_lock(&mut self, data: &[u8], now_ns: u64) {
        match self.lock.apply(data) {
            Outcome::Done => {}
            Outcome::Failed => self.status.raise(status::LOCK_UNLOCK_FAILED),
            Outcome::Erase => {
                let bytes = self.medium.bytes();
                if self.medium.erase(0, bytes, 0).is_err() {
                    self.status.raise(status::ERROR);
                }
                self.interface.busy_until_ns = self.flash.erase(now_ns, bytes.div_ceil(self.config.au_bytes));
            }
        }
    }
}
