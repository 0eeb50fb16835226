//! Commands of an I/O card in each state [SDIO 3.2 to 3.4, 4, 5].

use super::super::{Answer, Flow, Reply};
use super::registers::capability;
use super::transfer::Transfer;
use super::{IoCard, State};

/// Flags of R5, in bits 15:8 of its content.
pub(super) mod flag {
    pub const ILLEGAL: u8 = 0x40;
    pub const ERROR: u8 = 0x08;
    pub const FUNCTION_NUMBER: u8 = 0x02;
    pub const OUT_OF_RANGE: u8 = 0x01;
    /// Value of IO_CURRENT_STATE in R5: the I/O part is in the state CMD (command).
    pub const STATE_CMD: u8 = 0x10;
    /// Value of IO_CURRENT_STATE in R5: the I/O part is in the state TRN (transfer).
    pub const STATE_TRN: u8 = 0x20;
}

/// State bits in the R1 of a card without memory: CURRENT_STATE is 15.
const R1_STATE: u32 = 15 << 9;
/// Bit ILLEGAL_COMMAND in the R1 of a card without memory.
const R1_ILLEGAL: u32 = 1 << 22;

impl IoCard {
    pub(super) fn execute(&mut self, index: u8, arg: u32, memory: &Reply, now_ns: u64) -> Reply {
        let addressed = self.rca != 0 && (arg >> 16) as u16 == self.rca;
        self.calm_down();
        match (index, self.state) {
            // Only the memory part executes CMD0.
            (0, _) => Reply::SILENT,
            (3, State::Init | State::Stby) if self.is_up(now_ns) => self.take_address(memory),
            (5, State::Init) => self.operating_conditions(arg, now_ns),
            (7, State::Stby) if addressed => {
                self.state = State::Cmd;
                self.r1(7)
            }
            (7, State::Cmd) if !addressed => {
                self.abandon(now_ns);
                self.state = State::Stby;
                Reply::SILENT
            }
            (7, State::Cmd) if self.transfer.is_none() => self.r1(7),
            (7, State::Stby) => Reply::SILENT,
            (11, State::Init) if self.switch_agreed || memory.answer.is_some() => {
                self.switch_agreed = false;
                self.leaves_3v3(now_ns);
                self.r1(11)
            }
            (15, State::Stby | State::Cmd) if !addressed => Reply::SILENT,
            (15, State::Stby | State::Cmd) => {
                self.abandon(now_ns);
                self.state = State::Ina;
                Reply::SILENT
            }
            (19, State::Cmd) if self.voltage.is_18() && self.transfer.is_none() => {
                self.tuning = true;
                Reply { flow: Flow::Read { block_size: 64 }, ..self.r1(19) }
            }
            (52, State::Cmd) => self.direct(arg, now_ns),
            (53, State::Cmd) if self.transfer.is_none() => self.extended(arg, now_ns),
            // A command that the memory part has answered is legal.
            _ if memory.answer.is_some() => Reply::SILENT,
            _ => {
                self.illegal = true;
                Reply::SILENT
            }
        }
    }

    fn is_up(&self, now_ns: u64) -> bool {
        !self.trouble.never_ready && self.ready_ns.is_some_and(|ready_ns| now_ns >= ready_ns)
    }

    /// Executes CMD5: the host gives its supply voltages, and the card reports whether its power-up
    /// has ended [SDIO 3.2].
    fn operating_conditions(&mut self, arg: u32, now_ns: u64) -> Reply {
        self.illegal = false;
        let wanted = arg & 0x00ff_ffff;
        if wanted != 0 && wanted & self.config.ocr == 0 {
            self.state = State::Ina;
            return Reply::SILENT;
        }
        if wanted != 0 {
            let rise_ns = self.config.power_up_ns.saturating_add(self.trouble.late_ns);
            self.ready_ns.get_or_insert(now_ns.saturating_add(rise_ns));
        }
        let up = self.is_up(now_ns);
        if up && wanted != 0 {
            self.switch_agreed = arg >> 24 & 1 != 0 && self.config.uhs != 0 && !self.voltage.is_18();
        }
        let content = u32::from(up) << 31
            | (self.slots.len() as u32) << 28
            | u32::from(self.memory.is_some()) << 27
            | u32::from(up && self.switch_agreed) << 24
            | self.config.ocr & 0x00ff_ffff;
        Reply::ocr(content)
    }

    /// Executes CMD3: the I/O part and the memory part of the card get the same address.
    fn take_address(&mut self, memory: &Reply) -> Reply {
        if let Some(Answer::Short { content, .. }) = memory.answer {
            self.rca = (content >> 16) as u16;
        } else {
            self.rca = if self.rca == 0 { self.config.rca } else { self.rca.wrapping_add(2).max(1) };
        }
        let illegal = u32::from(std::mem::take(&mut self.illegal)) << 14;
        self.state = State::Stby;
        Reply::short(3, u32::from(self.rca) << 16 | illegal)
    }

    fn r1(&mut self, index: u8) -> Reply {
        let illegal = if std::mem::take(&mut self.illegal) { R1_ILLEGAL } else { 0 };
        Reply::short(index, R1_STATE | illegal)
    }

    fn r5(&mut self, index: u8, flags: u8, data: u8) -> Reply {
        let illegal = if std::mem::take(&mut self.illegal) { flag::ILLEGAL } else { 0 };
        let state = if self.transfer.is_some() { flag::STATE_TRN } else { flag::STATE_CMD };
        Reply::short(index, u32::from(flags | illegal | state) << 8 | u32::from(data))
    }

    /// Returns the error flags (R5) of an access to `span` addresses of function `number` from
    /// `address` on; `None`: the access is allowed.
    fn fault(&self, number: usize, address: u32, span: u32, now_ns: u64) -> Option<u8> {
        let addresses = match number.checked_sub(1).map(|place| self.slots.get(place)) {
            None => super::function::ADDRESSES,
            Some(None) => return Some(flag::FUNCTION_NUMBER),
            Some(Some(slot)) if slot.sick.gone => return Some(flag::FUNCTION_NUMBER),
            Some(Some(slot)) if !slot.ready(now_ns) => return Some(flag::ERROR),
            Some(Some(slot)) => slot.function.addresses(),
        };
        (address.saturating_add(span) > addresses).then_some(flag::OUT_OF_RANGE)
    }

    pub(super) fn read_byte(&mut self, number: usize, address: u32, now_ns: u64) -> u8 {
        match number.checked_sub(1).and_then(|place| self.slots.get_mut(place)) {
            None => self.read_zero(address, now_ns),
            Some(slot) if slot.sick.missing > 0 => {
                slot.sick.missing -= 1;
                0xff
            }
            Some(slot) => slot.function.read(address, now_ns),
        }
    }

    pub(super) fn write_byte(&mut self, number: usize, address: u32, value: u8, now_ns: u64) {
        match number.checked_sub(1).and_then(|place| self.slots.get_mut(place)) {
            None => self.write_zero(address, value, now_ns),
            Some(slot) => slot.function.write(address, value, now_ns),
        }
    }

    /// Executes CMD52, which reads or writes one register byte of a function [SDIO 5.1].
    fn direct(&mut self, arg: u32, now_ns: u64) -> Reply {
        let (write, number, raw) = (arg >> 31 != 0, (arg >> 28 & 7) as usize, arg >> 27 & 1 != 0);
        let (address, value) = (arg >> 9 & 0x1_ffff, arg as u8);
        let abort = write && number == 0 && address == 0x06;
        // The SDC bit in CCCR 08h allows CMD52 during data of the I/O part and of the memory part.
        let moving = self.transfer.is_some() || self.memory_is_moving(now_ns);
        if moving && !abort && self.config.capabilities & capability::DIRECT == 0 {
            self.illegal = true;
            return Reply::SILENT;
        }
        if let Some(flags) = self.fault(number, address, 1, now_ns) {
            return self.r5(52, flags, 0);
        }
        if let Some(flags) = self.strike_function(number, address, !write, now_ns) {
            return self.r5(52, flags, 0);
        }
        if abort {
            return self.abort(value, now_ns);
        }
        if !write
            && number == 0
            && let Some(flags) = self.before_reading_zero(address, now_ns)
        {
            return self.r5(52, flags, 0);
        }
        if !write {
            let value = self.read_byte(number, address, now_ns);
            return self.r5(52, 0, value);
        }
        self.write_byte(number, address, value, now_ns);
        let shown = if raw { self.read_byte(number, address, now_ns) } else { value };
        self.r5(52, 0, shown)
    }

    /// Executes a write to CCCR 06h: ASx aborts a transfer, RES resets the I/O part [SDIO 6.9].
    fn abort(&mut self, value: u8, now_ns: u64) -> Reply {
        if value & 8 != 0 {
            let reply = self.r5(52, 0, value);
            self.reset(now_ns);
            return reply;
        }
        if self.transfer.as_ref().is_some_and(|transfer| transfer.number == usize::from(value & 7)) {
            self.end_transfer(now_ns);
        }
        self.r5(52, 0, value)
    }

    /// Ends a transfer because the host deselects the card during it.
    fn abandon(&mut self, now_ns: u64) {
        if self.transfer.is_some() {
            self.end_transfer(now_ns);
        }
    }

    /// Executes CMD53, which starts a data transfer of a function. `arg` has function, direction,
    /// mode, address and count [SDIO 5.3].
    fn extended(&mut self, arg: u32, now_ns: u64) -> Reply {
        let (write, number) = (arg >> 31 != 0, (arg >> 28 & 7) as usize);
        let (blocks, increment) = (arg >> 27 & 1 != 0, arg >> 26 & 1 != 0);
        let (address, count) = (arg >> 9 & 0x1_ffff, arg & 0x1ff);
        let (most, block) = match number.checked_sub(1).and_then(|place| self.slots.get(place)) {
            None => (self.config.max_block_bytes, self.registers.block_bytes),
            Some(slot) => (slot.config.max_block_bytes, slot.block_bytes),
        };
        let (size, left) = match (blocks, count) {
            (false, 0) => (512, Some(1)),
            (false, count) => (count as u16, Some(1)),
            (true, 0) => (block, None),
            (true, count) => (block, Some(count)),
        };
        let span = if increment { u32::from(size) * left.unwrap_or(1) } else { 1 };
        if let Some(flags) = self.fault(number, address, span, now_ns) {
            return self.r5(53, flags, 0);
        }
        if blocks && (size == 0 || self.config.capabilities & capability::MULTI_BLOCK == 0) {
            return self.r5(53, flag::ERROR, 0);
        }
        if size > most {
            return self.r5(53, flag::OUT_OF_RANGE, 0);
        }
        if let Some(flags) = self.strike_function(number, address, !write, now_ns) {
            return self.r5(53, flags, 0);
        }
        if self.stumbles((!blocks).then_some(size), block, now_ns) {
            return self.r5(53, flag::ERROR, 0);
        }
        let wait_ns = number
            .checked_sub(1)
            .and_then(|place| self.slots.get(place))
            .map_or(0, |s| s.function.access_ns());
        let mut reply = self.r5(53, 0, 0);
        let first_ns = now_ns.saturating_add(wait_ns);
        self.transfer =
            Some(Transfer { number, write, increment, address, size, left, first_ns, end_ns: None });
        reply.flow = if write { Flow::Write { block_size: size } } else { Flow::Read { block_size: size } };
        reply
    }
}
