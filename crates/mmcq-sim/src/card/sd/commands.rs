//! Commands of an SD card in each state [SD 4.7, 4.8].

use super::super::interface::Interfaced;
use super::super::status::{self, State};
use super::super::transfer::{Read, Write};
use super::super::trouble::NEVER_NS;
use super::super::{Answer, Flow, Reply};
use super::config::{Class, Spec};
use super::extension::Place;
use super::voltage::Voltage;
use super::{EraseRange, SdCard, Transfer, functions, tuning};
use crate::faults::{Point, Strike};

/// OCR bits of the voltages 2.7 to 3.6 V.
pub(super) const VOLTAGES: u32 = 0x00ff_8000;

impl SdCard {
    pub(super) fn execute(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply {
        if self.extensions.queue_is_on()
            && let Some(reply) = self.queue_command(index, arg, now_ns)
        {
            return reply;
        }
        let app = std::mem::take(&mut self.app);
        let count = self.count.take();
        // The address bits of CMD22 are for the next command; CMD23 and CMD13 may come in between.
        if !matches!(index, 13 | 17 | 18 | 22..=25 | 32 | 33) {
            self.upper = None;
        }
        self.leave_erase(index);
        if self.lock.locked() && !works_locked(index, app) {
            return self.illegal();
        }
        if app && let Some(reply) = self.application(index, arg, now_ns) {
            return reply;
        }
        self.basic(index, arg, count, now_ns)
    }

    /// Ends a sequence of CMD32, CMD33 and CMD38 if this command does not belong to it.
    pub(super) fn leave_erase(&mut self, index: u8) {
        if !matches!(index, 13 | 22 | 32 | 33 | 38)
            && (self.erase.start.is_some() || self.erase.end.is_some())
        {
            self.erase = EraseRange::default();
            self.status.raise(status::ERASE_RESET);
        }
    }

    fn basic(&mut self, index: u8, arg: u32, count: Option<u32>, now_ns: u64) -> Reply {
        use State::{Data, Dis, Ident, Idle, Ina, Prg, Rcv, Ready, Stby, Tran};
        let addressed = self.rca != 0 && (arg >> 16) as u16 == self.rca;
        match (index, self.interface.state) {
            (0, _) => {
                self.reset(now_ns);
                if self.interface.trouble.stuck {
                    // The card is locked up: it ignores all commands until the power is switched
                    // off.
                    self.interface.trouble.locked_up = true;
                    self.interface.busy_until_ns = NEVER_NS;
                }
                Reply::SILENT
            }
            (2, Ready) => {
                self.interface.state = Ident;
                self.long(self.config.cid())
            }
            (3, Ident | Stby) => self.publish_address(),
            (4, Stby) => Reply::SILENT,
            (6, Tran) if self.config.spec >= Spec::V1_10 => {
                let is_18 = self.voltage.is_18();
                let (bytes, next) = functions::switch(&self.config, self.functions, is_18, arg);
                self.pending_functions = next.map(|next| (next, u64::MAX));
                self.send_register(6, bytes, 64, now_ns)
            }
            (7, Stby) if addressed && self.config.quirks.select_busy_ms > 0 => {
                let mut reply = self.go(7, Prg, now_ns);
                let busy_ns = self.config.quirks.select_busy_ms.saturating_mul(1_000_000);
                reply.busy_until_ns = self.busy_begins(now_ns.saturating_add(busy_ns));
                reply
            }
            (7, Stby) if addressed => self.go(7, Tran, now_ns),
            (7, Dis) if addressed => {
                let mut reply = self.go(7, Prg, now_ns);
                reply.busy_until_ns = Some(self.interface.busy_until_ns);
                reply
            }
            (7, Tran | Data) if !addressed => self.deselect(Stby, now_ns),
            (7, Prg) if !addressed => self.deselect(Dis, now_ns),
            (7, Stby | Dis) => Reply::SILENT,
            (8, Idle) if self.config.spec >= Spec::V2 => {
                if (arg >> 8) & 0xf != 1 {
                    // The card does not support this supply voltage.
                    return Reply::SILENT;
                }
                self.saw_cmd8 = true;
                self.status.valid_command();
                let echo = if self.config.quirks.no_supply_echo { 0xff } else { 0xfff };
                Reply::short(8, arg & echo)
            }
            (9 | 10 | 13 | 15, Stby | Tran | Data | Rcv | Prg | Dis) if !addressed => Reply::SILENT,
            (9, Stby) => {
                let csd = self.csd();
                self.long(csd)
            }
            (10, Stby) => self.long(self.config.cid()),
            (11, Ready) if self.switch_agreed => {
                self.switch_agreed = false;
                let reply = self.r1(11, now_ns);
                self.switch_voltage(reply, now_ns)
            }
            (12, Data) => {
                let beyond = self.reads_past_end();
                let reply = if self.config.quirks.tells_past_end_late {
                    let reply = self.go(12, Tran, now_ns);
                    self.status.raise(beyond);
                    reply
                } else {
                    self.status.raise(beyond);
                    self.go(12, Tran, now_ns)
                };
                self.stop_reading(now_ns);
                self.transfer = Transfer::None;
                self.interface.data_end_ns = None;
                self.pending_functions = None;
                reply
            }
            (12, Rcv) => {
                let mut reply = self.r1(12, now_ns);
                reply.busy_until_ns = Some(self.program(now_ns));
                reply
            }
            (13, Stby | Tran | Data | Rcv | Prg | Dis) => self.r1(13, now_ns),
            (15, Stby | Tran | Data | Rcv | Prg | Dis) => {
                self.transfer = Transfer::None;
                self.interface.state = Ina;
                Reply::SILENT
            }
            (16, Tran) => {
                if (1..=512).contains(&arg) {
                    self.block_len = arg as u16;
                } else {
                    self.status.raise(status::BLOCK_LEN_ERROR);
                }
                self.r1(16, now_ns)
            }
            (17, Tran) => self.read(17, arg, None, now_ns),
            (18, Tran) => self.read(18, arg, count, now_ns),
            (19, Tran) if self.config.quirks.ddr50_tuning_fails && self.functions.0[0] == 4 => {
                self.interface.trouble.violate("tuning in DDR50", now_ns);
                self.status.raise(status::ERROR);
                Reply::SILENT
            }
            (19, Tran) if self.voltage.is_18() => self.send_register(19, tuning::FOUR_LINES, 64, now_ns),
            (22, Tran) if self.config.class == Class::Sduc => {
                self.upper = Some((arg & 0x3f) as u8);
                self.r1(22, now_ns)
            }
            (23, Tran) if self.config.cmd23 => {
                self.count = (arg != 0).then_some(arg);
                self.r1(23, now_ns)
            }
            (24, Tran) => self.write(24, arg, Some(1), now_ns),
            (25, Tran) if self.config.quirks.no_multiple_write => self.illegal(),
            (25, Tran) => self.write(25, arg, count, now_ns),
            (27, Tran) => self.receive(27, Transfer::ProgramCsd, 16, now_ns),
            (32 | 33, Tran) => {
                self.erase_edge(index == 32, arg);
                self.r1(index, now_ns)
            }
            (38, Tran) => self.erase(arg, now_ns),
            (42, Tran) => self.receive(42, Transfer::Lock, self.block_len, now_ns),
            (48, Tran) if self.config.has_extensions() && arg >> 31 == 0 => self.read_extension(arg, now_ns),
            (49, Tran) if self.config.has_extensions() && arg >> 31 == 0 => {
                let place = Place::new(arg, true);
                self.receive(49, Transfer::WriteExtension(place), 512, now_ns)
            }
            (55, Idle | Stby | Tran | Data | Rcv | Prg | Dis) => {
                if (arg >> 16) as u16 != self.rca {
                    return Reply::SILENT;
                }
                self.app = true;
                self.r1(55, now_ns)
            }
            _ => self.illegal(),
        }
    }

    /// Executes the application command ACMD`index` with the argument `arg`. Returns `None` if no
    /// application command has this index; then the card executes the basic command.
    fn application(&mut self, index: u8, arg: u32, now_ns: u64) -> Option<Reply> {
        let reply = match (index, self.interface.state) {
            (6, State::Tran) => {
                match arg & 3 {
                    0 => self.width = 1,
                    2 => self.width = 4,
                    _ => self.status.raise(status::ERROR),
                }
                self.app_r1(index, now_ns)
            }
            (13, State::Tran) => {
                let bytes = self.config.sd_status(self.width);
                self.send_app_register(index, bytes, 64, now_ns)
            }
            (22, State::Tran) => {
                let mut bytes = [0u8; 64];
                bytes[..4].copy_from_slice(&self.well_written.to_be_bytes());
                self.send_app_register(index, bytes, 4, now_ns)
            }
            // ACMD23 only gives a hint: the number of blocks to erase ahead.
            (23 | 42, State::Tran) => self.app_r1(index, now_ns),
            (41, State::Idle) => self.operating_conditions(arg, now_ns),
            (51, State::Tran) => {
                let mut bytes = [0u8; 64];
                bytes[..8].copy_from_slice(&self.config.scr());
                self.send_app_register(index, bytes, 8, now_ns)
            }
            (6 | 13 | 22 | 23 | 41 | 42 | 51, _) => self.illegal(),
            _ => return None,
        };
        Some(reply)
    }

    /// Executes ACMD41: the host gives its supply voltages in `arg`, and the card reports whether
    /// its power-up has ended [SD 4.2.3].
    pub(super) fn operating_conditions(&mut self, arg: u32, now_ns: u64) -> Reply {
        self.status.valid_command();
        let wanted = arg & 0x00ff_ffff;
        if wanted == 0 {
            // An inquiry (ACMD41 without voltages) does not start the power-up.
            self.inquired_ns = Some(now_ns);
            return Reply::ocr(VOLTAGES);
        }
        if wanted & VOLTAGES == 0 {
            self.interface.state = State::Ina;
            return Reply::SILENT;
        }
        let rise_ns = self.config.power_up_ns.saturating_add(self.interface.trouble.late_ns);
        let pause_ns = self.config.quirks.inquiry_pause_us.saturating_mul(1_000);
        if self.inquired_ns.take().is_some_and(|at_ns| now_ns < at_ns.saturating_add(pause_ns)) {
            self.ready_ns = Some(NEVER_NS);
        }
        let ready_ns = *self.ready_ns.get_or_insert(now_ns.saturating_add(rise_ns));
        let block_addressed = self.config.block_addressed();
        let high_capacity = arg >> 30 & 1 == 1 && self.saw_cmd8;
        let huge = self.config.class == Class::Sduc;
        let known = arg >> 27 & 1 == 1 || !huge;
        if now_ns < ready_ns
            || !known
            || self.interface.trouble.never_ready
            || self.config.quirks.never_ready
            || (block_addressed && !high_capacity)
        {
            // A card that the host could not address stays busy in the OCR for ever.
            return Reply::ocr(VOLTAGES);
        }
        let asks_18 = arg >> 24 & 1 == 1;
        self.switch_agreed = asks_18 && self.config.modes.uhs != 0 && !self.voltage.is_18();
        self.interface.state = State::Ready;
        self.was_up = true;
        let ccs = u32::from(block_addressed) << 30;
        let s18a = u32::from(self.switch_agreed) << 24;
        let co2t = u32::from(huge) << 27;
        Reply::ocr(VOLTAGES | 1 << 31 | ccs | co2t | s18a)
    }

    /// Begins a voltage switch after CMD11 was accepted. Faults may strike each of its stages.
    fn switch_voltage(&mut self, reply: Reply, now_ns: u64) -> Reply {
        match self.flash.faults.strike(Point::Voltage) {
            // Fault: the card does not respond and does not switch.
            Some(Strike::Lost) => Reply::SILENT,
            // Fault: the card responds, but does not pull its lines low.
            Some(Strike::Hidden) => reply,
            // Fault: the card never releases the lines.
            Some(Strike::Fail | Strike::Never) => {
                self.voltage = Voltage::Failed;
                reply
            }
            strike => {
                // Fault: the card keeps one of the lines low.
                self.voltage_stuck = if let Some(Strike::Line(line)) = strike { 1 << (line & 3) } else { 0 };
                self.voltage_late_ns = if let Some(Strike::Late(ns)) = strike { ns } else { 0 };
                self.voltage = Voltage::begin(&self.interface.bus, now_ns);
                reply
            }
        }
    }

    /// Returns the CSD as the card sends it at this time.
    pub(super) fn csd(&self) -> [u8; 16] {
        let mut csd = self.config.csd(self.tran_speed());
        csd[14] = self.csd_flags;
        super::super::registers::seal(&mut csd);
        self.config.quirks.falsify_csd(&mut csd);
        csd
    }

    /// Executes CMD3: the card chooses its RCA and sends it.
    fn publish_address(&mut self) -> Reply {
        let seed = (self.config.identity.serial as u16) | 1;
        self.rca = if self.rca == 0 { seed } else { self.rca.wrapping_add(2) };
        let live = self.live();
        let shown = self.status.r1(self.interface.state, live);
        // R6 holds bits 23, 22, 19 and 12:0 of the card status.
        let short = (shown >> 8 & 0xc000) | (shown >> 6 & 0x2000) | (shown & 0x1fff);
        self.interface.state = State::Stby;
        Reply::short(3, u32::from(self.rca) << 16 | short)
    }

    /// Returns OUT_OF_RANGE if the read that CMD12 stops has run ahead to the end of the card;
    /// otherwise 0. Hosts must ignore this bit [SD 4.3.3].
    fn reads_past_end(&self) -> u32 {
        let ahead = self.config.quirks.reads_ahead_blocks.saturating_mul(512);
        match &self.transfer {
            Transfer::Read(read)
                if (self.config.early_out_of_range || ahead > 0)
                    && read.left.is_none()
                    && read.at.saturating_add(ahead) >= self.medium.bytes() =>
            {
                status::OUT_OF_RANGE
            }
            _ => 0,
        }
    }

    /// Stops a read. The flash may continue to fetch a page afterwards.
    fn stop_reading(&mut self, now_ns: u64) {
        if let Transfer::Read(read) = &self.transfer
            && self.interface.data_end_ns.is_none()
        {
            read.stop(&self.medium, &mut self.flash, now_ns);
        }
    }

    fn deselect(&mut self, state: State, now_ns: u64) -> Reply {
        self.status.valid_command();
        self.stop_reading(now_ns);
        self.transfer = Transfer::None;
        self.interface.data_end_ns = None;
        self.pending_functions = None;
        self.interface.state = state;
        Reply::SILENT
    }

    /// Converts the argument of a command with an address to a byte address of the card. `Err` is
    /// the bit of R1 for the error. An SDUC card needs the upper address bits of CMD22 before each
    /// command with an address.
    pub(super) fn block_address(&mut self, arg: u32) -> Result<u64, u32> {
        let upper = self.upper.take();
        match (self.config.class, upper) {
            (Class::Sdsc, _) => Ok(u64::from(arg)),
            (Class::Sduc, None) => Err(status::ADDRESS_ERROR),
            (Class::Sduc, Some(upper)) => Ok((u64::from(upper) << 32 | u64::from(arg)) * 512),
            _ => Ok(u64::from(arg) * 512),
        }
    }

    /// Converts `arg`, the argument of a read or write command, to a byte address of the card, and
    /// checks that the transfer begins inside the card at an allowed address. `Err` is the bit of
    /// R1 for the error.
    fn address(&mut self, arg: u32) -> Result<u64, u32> {
        let len = self.transfer_len();
        let at = self.block_address(arg)?;
        if at.saturating_add(u64::from(len)) > self.config.capacity_bytes {
            return Err(status::OUT_OF_RANGE);
        }
        // A block of an SDSC card must not cross the border of two 512-byte blocks.
        if at % 512 + u64::from(len) > 512 {
            return Err(status::ADDRESS_ERROR);
        }
        Ok(at)
    }

    fn transfer_len(&self) -> u16 {
        if self.config.block_addressed() { 512 } else { self.block_len }
    }

    /// Executes CMD17 or CMD18 (`index`) with the argument `arg`, the address. `left`: the number
    /// of blocks that CMD23 announced; `None`: no CMD23 came before.
    fn read(&mut self, index: u8, arg: u32, left: Option<u32>, now_ns: u64) -> Reply {
        match self.address(arg) {
            Err(errors) => self.refuse(index, errors, now_ns),
            Ok(at) => {
                self.medium.begin();
                let block = self.transfer_len();
                self.reads += 1;
                let late_ns = self.counted(index == 18 && left.is_some(), now_ns);
                let long_ns = self.config.quirks.read_late_ms.saturating_mul(1_000_000);
                let late_ns = if self.reads.is_multiple_of(32) { late_ns.max(long_ns) } else { late_ns };
                let from_ns = now_ns.saturating_add(late_ns);
                let mut reply = self.go(index, State::Data, now_ns);
                reply.flow = Flow::Read { block_size: block };
                self.interface.data_end_ns = None;
                self.transfer = Transfer::Read(match index {
                    17 => Read::single(at, block, &mut self.flash, from_ns),
                    _ => Read::new(at, block, left, &mut self.flash, from_ns),
                });
                reply
            }
        }
    }

    fn write(&mut self, index: u8, arg: u32, left: Option<u32>, now_ns: u64) -> Reply {
        if self.transfer_len() != 512 {
            // The card does not write parts of blocks: WRITE_BL_PARTIAL of the CSD is 0.
            return self.refuse(index, status::BLOCK_LEN_ERROR, now_ns);
        }
        match self.address(arg) {
            Err(errors) => self.refuse(index, errors, now_ns),
            Ok(at) if self.write_protected() || self.config.quirks.protects(at, 512) => {
                self.refuse(index, status::WP_VIOLATION, now_ns)
            }
            Ok(at) => {
                self.medium.begin();
                self.well_written = 0;
                self.interface.busy_until_ns = now_ns;
                self.extra_busy_ns = self.counted(index == 25 && left.is_some(), now_ns);
                self.flash.journal.begin(now_ns);
                let write = Write::new(at, 512, left);
                self.receive(index, Transfer::Write { write, single: index == 24 }, 512, now_ns)
            }
        }
    }

    /// Applies the quirks of cards on which a transfer after CMD23 goes wrong. `counted` says
    /// whether CMD23 came before this transfer. Returns the extra delay of the transfer in ns, or
    /// locks the card up.
    fn counted(&mut self, counted: bool, now_ns: u64) -> u64 {
        if counted && self.config.quirks.cmd23_locks_up {
            self.interface.trouble.violate("a transfer counted by CMD23", now_ns);
            self.interface.trouble.locked_up = true;
        }
        if counted { self.config.quirks.cmd23_late_us.saturating_mul(1_000) } else { 0 }
    }

    pub(super) fn receive(&mut self, index: u8, transfer: Transfer, block_size: u16, now_ns: u64) -> Reply {
        let mut reply = self.go(index, State::Rcv, now_ns);
        reply.flow = Flow::Write { block_size };
        self.transfer = transfer;
        reply
    }

    pub(super) fn send_register(&mut self, index: u8, bytes: [u8; 64], len: u8, now_ns: u64) -> Reply {
        let mut reply = self.go(index, State::Data, now_ns);
        self.interface.data_end_ns = None;
        self.transfer = Transfer::Register { bytes, len };
        reply.flow = Flow::Read { block_size: len.into() };
        reply
    }

    fn send_app_register(&mut self, index: u8, bytes: [u8; 64], len: u8, now_ns: u64) -> Reply {
        let reply = self.app_r1(index, now_ns);
        self.interface.state = State::Data;
        self.interface.data_end_ns = None;
        self.transfer = Transfer::Register { bytes, len };
        Reply { flow: Flow::Read { block_size: len.into() }, ..reply }
    }

    /// Refuses a command: answers R1 with these error bits, sends no data, and stays in its state.
    pub(super) fn refuse(&mut self, index: u8, errors: u32, now_ns: u64) -> Reply {
        self.status.raise(errors);
        self.r1(index, now_ns)
    }

    /// Returns the status bits of clear condition A, which show the present state of the card.
    fn live(&self) -> u32 {
        let locked = if self.lock.locked() { status::CARD_IS_LOCKED } else { 0 };
        let app = if self.app { status::APP_CMD } else { 0 };
        let ready = match self.interface.state {
            State::Prg | State::Dis => 0,
            _ => status::READY_FOR_DATA,
        };
        locked | app | ready | self.config.quirks.status_bits
    }

    pub(super) fn r1(&mut self, index: u8, now_ns: u64) -> Reply {
        let mut live = self.live();
        if self.interface.busy_until_ns > now_ns && self.interface.state == State::Rcv {
            live &= !status::READY_FOR_DATA;
        }
        Reply::short(index, self.status.r1(self.interface.state, live))
    }

    fn app_r1(&mut self, index: u8, now_ns: u64) -> Reply {
        self.app = true;
        let reply = self.r1(index, now_ns);
        self.app = false;
        reply
    }

    pub(super) fn go(&mut self, index: u8, state: State, now_ns: u64) -> Reply {
        let reply = self.r1(index, now_ns);
        self.interface.state = state;
        reply
    }

    fn long(&mut self, register: [u8; 16]) -> Reply {
        self.status.valid_command();
        Reply { answer: Some(Answer::Long(register)), flow: Flow::None, busy_until_ns: None }
    }

    pub(super) fn illegal(&mut self) -> Reply {
        self.status.raise_illegal();
        Reply::SILENT
    }
}

/// Returns whether a locked card accepts the command `index` (an application command if `app`):
/// class 0 and CMD16, CMD42, CMD55, ACMD41 and ACMD42.
fn works_locked(index: u8, app: bool) -> bool {
    match index {
        41 | 42 if app => true,
        _ if app => false,
        0..=16 => index != 6,
        42 | 55 => true,
        _ => false,
    }
}
