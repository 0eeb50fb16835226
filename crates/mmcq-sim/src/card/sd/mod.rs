//! SD memory card, SD mode [SD Physical Layer]: SDSC, SDHC and SDXC.

mod commands;
pub(crate) mod config;
mod functions;
pub(crate) mod voltage;

use std::io;

use super::flash::Flash;
use super::link::{self, IDENTIFICATION_HZ, Mode, PowerUp};
use super::lock::{Lock, Outcome};
use super::medium::Medium;
use super::status::{self, State, Status};
use super::transfer::{Read, Sent, Taken, Write};
use super::tuning;
use super::{BusState, Card, ReadBlock, Reply, WriteBlock};
use config::SdConfig;
use functions::Functions;
use voltage::Voltage;

/// What is under way on the data lines.
#[derive(Clone, Debug)]
enum Transfer {
    None,
    /// A register: one block.
    Register {
        bytes: [u8; 64],
        len: u8,
    },
    Read(Read),
    Write {
        write: Write,
        single: bool,
    },
    ProgramCsd,
    Lock,
}

/// The blocks chosen by CMD32 and CMD33.
#[derive(Clone, Copy, Debug, Default)]
struct EraseRange {
    start: Option<u64>,
    end: Option<u64>,
}

/// An SD memory card.
#[derive(Debug)]
pub struct SdCard {
    config: SdConfig,
    medium: Medium,
    flash: Flash,
    lock: Lock,
    /// COPY, PERM_WRITE_PROTECT and TMP_WRITE_PROTECT of the CSD: byte 14.
    csd_flags: u8,
    bus: BusState,
    power: PowerUp,
    voltage: Voltage,
    state: State,
    status: Status,
    app: bool,
    saw_cmd8: bool,
    ready_ns: Option<u64>,
    switch_agreed: bool,
    rca: u16,
    block_len: u16,
    count: Option<u32>,
    width: u8,
    functions: Functions,
    pending_functions: Option<(Functions, u64)>,
    transfer: Transfer,
    data_end_ns: Option<u64>,
    busy_until_ns: u64,
    erase: EraseRange,
    well_written: u32,
}

impl SdCard {
    pub(crate) fn new(config: SdConfig, mut medium: Medium) -> Self {
        medium.shorten(config.capacity_bytes);
        let flash = Flash::new(config.flash);
        Self {
            config,
            medium,
            flash,
            lock: Lock::default(),
            csd_flags: 0,
            bus: BusState::default(),
            power: PowerUp::default(),
            voltage: Voltage::High,
            state: State::Idle,
            status: Status::default(),
            app: false,
            saw_cmd8: false,
            ready_ns: None,
            switch_agreed: false,
            rca: 0,
            block_len: 512,
            count: None,
            width: 1,
            functions: Functions::default(),
            pending_functions: None,
            transfer: Transfer::None,
            data_end_ns: None,
            busy_until_ns: 0,
            erase: EraseRange::default(),
            well_written: 0,
        }
    }

    /// The bytes on the card.
    #[must_use]
    pub fn medium(&self) -> &Medium {
        &self.medium
    }

    /// The bytes on the card, to be prepared or looked at without the bus.
    pub fn medium_mut(&mut self) -> &mut Medium {
        &mut self.medium
    }

    /// Present state, as a status at this time would show it.
    pub fn state(&mut self, now_ns: u64) -> State {
        self.settle(now_ns);
        self.state
    }

    /// Back to idle: CMD0, or a power cycle.
    fn reset(&mut self) {
        self.state = State::Idle;
        self.status = Status::default();
        self.app = false;
        self.saw_cmd8 = false;
        self.ready_ns = None;
        self.switch_agreed = false;
        self.rca = 0;
        self.block_len = 512;
        self.count = None;
        self.width = 1;
        self.functions = Functions::default();
        self.pending_functions = None;
        self.transfer = Transfer::None;
        self.data_end_ns = None;
        self.busy_until_ns = 0;
        self.erase = EraseRange::default();
    }

    /// What the bus must be like now.
    fn mode(&self) -> Mode {
        let is_18 = self.voltage.is_18();
        let (max_hz, ddr) = match (self.state, is_18, self.functions.0[0]) {
            (State::Idle | State::Ready | State::Ident, ..) => (IDENTIFICATION_HZ, false),
            (_, _, 0) => (25_000_000, false),
            (_, _, 1) => (50_000_000, false),
            (_, _, 2) => (100_000_000, false),
            (_, _, 3) => (208_000_000, false),
            _ => (50_000_000, true),
        };
        Mode { max_hz, width: self.width, ddr, signal18: Some(is_18), strobe: false }
    }

    /// TRAN_SPEED of the present bus speed mode.
    fn tran_speed(&self) -> u8 {
        match self.functions.0[0] {
            0 => 0x32,
            1 => 0x5a,
            3 => 0x2b,
            _ => 0x0b,
        }
    }

    /// Lets everything happen that was due.
    fn settle(&mut self, now_ns: u64) {
        if let Some((functions, at_ns)) = self.pending_functions
            && now_ns >= at_ns
        {
            self.functions = functions;
            self.pending_functions = None;
        }
        match self.state {
            State::Data if self.data_end_ns.is_some_and(|end_ns| now_ns >= end_ns) => {
                self.transfer = Transfer::None;
                self.data_end_ns = None;
                self.state = State::Tran;
            }
            State::Prg if now_ns >= self.busy_until_ns => self.state = State::Tran,
            State::Dis if now_ns >= self.busy_until_ns => self.state = State::Stby,
            _ => {}
        }
    }

    fn write_protected(&self) -> bool {
        self.medium.read_only() || self.csd_flags & 0x30 != 0
    }

    /// The data of a write ended: programming begins. Returns the end of busy.
    fn program(&mut self, now_ns: u64) -> u64 {
        let mut busy_ns = now_ns;
        if let Transfer::Write { write, .. } = &mut self.transfer {
            let (until_ns, errors) = write.end(&mut self.medium, &mut self.flash, now_ns);
            busy_ns = until_ns.max(self.busy_until_ns);
            self.well_written = write.stored;
            self.status.raise(errors);
        }
        self.transfer = Transfer::None;
        self.state = State::Prg;
        self.busy_until_ns = busy_ns;
        busy_ns
    }

    fn take_csd(&mut self, data: &[u8]) {
        let mut now = self.config.csd(self.tran_speed());
        let Some(new) = data.get(..16) else { return };
        // FILE_FORMAT_GRP, COPY, PERM, TMP and FILE_FORMAT are in byte 14; the last byte is the CRC.
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
                self.busy_until_ns = self.flash.erase(now_ns, bytes.div_ceil(self.config.au_bytes));
            }
        }
    }
}

impl Card for SdCard {
    fn bus_changed(&mut self, bus: &BusState, now_ns: u64) {
        self.settle(now_ns);
        let was = std::mem::replace(&mut self.bus, *bus);
        if !bus.powered {
            if was.powered {
                self.reset();
                self.voltage = Voltage::High;
                self.flash.power_lost(&mut self.medium, now_ns);
            }
            return;
        }
        if !was.powered {
            self.reset();
            self.voltage = Voltage::High;
            self.lock.power_up();
            self.power = PowerUp::on(now_ns);
        }
        self.power.clock(bus.clock_hz > 0, now_ns);
        self.voltage.bus_changed(&was, bus, now_ns, self.config.voltage_release_ns);
    }

    fn command(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply {
        self.settle(now_ns);
        let mode = self.mode();
        let deaf =
            !mode.hears(&self.bus) || self.voltage.lines_low(now_ns) || !self.power.awake(&self.bus, now_ns);
        if deaf || self.state == State::Ina {
            return Reply::SILENT;
        }
        let mut reply = self.execute(index, arg, now_ns);
        // The host ignores the answer to a tuning command: it only looks at the block.
        if index != 19 && !mode.is_heard(&self.bus) {
            reply.answer = None;
        }
        reply
    }

    fn read_block(&mut self, buffer: &mut [u8], now_ns: u64) -> ReadBlock {
        self.settle(now_ns);
        if self.state != State::Data || self.data_end_ns.is_some() {
            return ReadBlock::Never;
        }
        let (start_ns, len, last) = match &mut self.transfer {
            Transfer::Register { bytes, len } => {
                let bytes = &bytes[..usize::from(*len)];
                let Some(to) = buffer.get_mut(..bytes.len()) else { return ReadBlock::Never };
                to.copy_from_slice(bytes);
                (now_ns, u16::from(*len), true)
            }
            Transfer::Read(read) => {
                match read.next(&mut self.medium, &mut self.flash, buffer, &self.bus, now_ns) {
                    Sent::Block(start_ns) => (start_ns, read.block, read.left == Some(0)),
                    Sent::Nothing(errors) => {
                        self.status.raise(errors);
                        return ReadBlock::Never;
                    }
                }
            }
            _ => return ReadBlock::Never,
        };
        if last {
            let end_ns = start_ns + link::payload_ns(&self.bus, len);
            self.data_end_ns = Some(end_ns);
            if let Some((_, at_ns)) = &mut self.pending_functions {
                *at_ns = end_ns + link::clocks_ns(&self.bus, 8);
            }
        }
        ReadBlock::At { start_ns, crc_ok: self.mode().data_ok(&self.bus) }
    }

    fn write_block(&mut self, data: &[u8], crc_ok: bool, now_ns: u64) -> WriteBlock {
        self.settle(now_ns);
        let no_token = WriteBlock { status: None, busy_until_ns: now_ns };
        if self.state != State::Rcv {
            return no_token;
        }
        let good = crc_ok && self.mode().data_ok(&self.bus);
        let bad_crc = WriteBlock { status: Some(false), busy_until_ns: now_ns };
        match &mut self.transfer {
            Transfer::Write { write, .. } if write.deaf => no_token,
            Transfer::Write { write, single } => {
                let single = *single;
                let outcome = if good {
                    write.take(&mut self.medium, &mut self.flash, data, now_ns)
                } else {
                    Taken::Refused(0)
                };
                match outcome {
                    Taken::More(until_ns) => {
                        self.busy_until_ns = until_ns;
                        WriteBlock { status: Some(true), busy_until_ns: until_ns }
                    }
                    Taken::Last => {
                        let until_ns = self.program(now_ns);
                        WriteBlock { status: Some(true), busy_until_ns: until_ns }
                    }
                    Taken::Refused(errors) => {
                        write.deaf = true;
                        self.status.raise(errors);
                        if single {
                            self.program(now_ns);
                        }
                        if good { no_token } else { bad_crc }
                    }
                }
            }
            Transfer::ProgramCsd | Transfer::Lock => {
                let is_csd = matches!(self.transfer, Transfer::ProgramCsd);
                self.busy_until_ns = now_ns.saturating_add(self.config.flash.register_ns());
                if !good {
                    self.busy_until_ns = now_ns;
                } else if is_csd {
                    self.take_csd(data);
                } else {
                    self.take_lock(data, now_ns);
                }
                self.transfer = Transfer::None;
                self.state = State::Prg;
                WriteBlock { status: Some(good), busy_until_ns: self.busy_until_ns }
            }
            _ => no_token,
        }
    }

    fn busy(&self, now_ns: u64) -> bool {
        self.bus.powered && matches!(self.state, State::Prg | State::Rcv) && now_ns < self.busy_until_ns
    }

    fn switching_voltage(&self, now_ns: u64) -> bool {
        self.bus.powered && self.voltage.lines_low(now_ns)
    }

    fn write_protect_switch(&self) -> bool {
        self.medium.read_only()
    }

    fn peek(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.medium.read(at, buffer)
    }
}
