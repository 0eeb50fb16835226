//! Commands of an eMMC in each state [eMMC 6.9, 6.10, 6.11].

use super::super::interface::Interfaced;
use super::super::quirk::WornOut;
use super::super::registers::seal;
use super::super::status::{self, State};
use super::super::transfer::{Read, Write};
use super::super::trouble::NEVER_NS;
use super::super::{Answer, Flow, ReadBlock, Reply, tuning};
use super::config::byte;
use super::stores::Partition;
use super::switch::Effect;
use super::{Count, EmmcCard, EraseRange, Transfer};

/// OCR bits of the voltages 1.70 to 1.95 V and 2.7 to 3.6 V.
const VOLTAGES: u32 = 0x00ff_8080;
/// Argument of CMD0 that resets the device to `idle`.
const GO_IDLE: u32 = 0;
/// Argument of CMD0 that resets the device to the state before `idle`.
const GO_PRE_IDLE: u32 = 0xf0f0_f0f0;

impl EmmcCard {
    pub(super) fn execute(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply {
        if self.queue_is_on()
            && let Some(reply) = self.queue_command(index, arg, now_ns)
        {
            return reply;
        }
        let count = self.count.take();
        if !matches!(index, 13 | 35 | 36 | 38) && (self.erase.start.is_some() || self.erase.end.is_some()) {
            self.erase = EraseRange::default();
            self.status.raise(status::ERASE_RESET);
        }
        if self.lock.locked() && !matches!(index, 0..=16 | 42) {
            return self.illegal();
        }
        // For a time after CMD5 the device is still changing to or from sleep.
        let changing =
            now_ns < self.interface.busy_until_ns && matches!(self.interface.state, State::Slp | State::Stby);
        if changing && index != 0 {
            return self.illegal();
        }
        match self.interface.state {
            State::Idle | State::Ready | State::Ident | State::Slp => self.identification(index, arg, now_ns),
            State::Tran => self.transfer_state(index, arg, count, now_ns),
            _ => self.other_states(index, arg, now_ns),
        }
    }

    /// Executes a command before the device is identified, or while it sleeps.
    fn identification(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply {
        match (index, self.interface.state) {
            (0, _) => self.go_idle(arg, now_ns),
            (1, State::Idle) => self.operating_conditions(arg, now_ns),
            (2, State::Ready) => {
                self.interface.state = State::Ident;
                self.long(self.config.cid())
            }
            (3, State::Ident) => {
                let rca = (arg >> 16) as u16;
                if rca == 0 {
                    // RCA 0 deselects all devices, so that no device may have it.
                    return self.illegal();
                }
                self.rca = rca;
                self.go(3, State::Stby)
            }
            (5, State::Slp) if self.addressed(arg) && arg >> 15 & 1 == 0 => {
                self.sleep_or_wake(State::Stby, now_ns)
            }
            _ => self.illegal(),
        }
    }

    /// Executes the command CMD`index` with the argument `arg` while the device is not selected, or
    /// while a transfer or busy is under way.
    fn other_states(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply {
        use State::{Btst, Data, Dis, Ina, Prg, Rcv, Slp, Stby, Tran};
        match (index, self.interface.state) {
            (0, _) => self.go_idle(arg, now_ns),
            (4, Stby) => Reply::SILENT,
            (5, Stby) if self.addressed(arg) && arg >> 15 & 1 == 1 => self.sleep_or_wake(Slp, now_ns),
            (7, Stby) if self.addressed(arg) && self.config.quirks.select_busy_ms > 0 => {
                let mut reply = self.go(7, Prg);
                let busy_ns = self.config.quirks.select_busy_ms.saturating_mul(1_000_000);
                reply.busy_until_ns = self.busy_begins(now_ns.saturating_add(busy_ns));
                reply
            }
            (7, Stby) if self.addressed(arg) => self.go(7, Tran),
            (7, Dis) if self.addressed(arg) => {
                let mut reply = self.go(7, Prg);
                reply.busy_until_ns = Some(self.interface.busy_until_ns);
                reply
            }
            (7, Data) if !self.addressed(arg) => self.deselect(Stby, now_ns),
            (7, Prg) if !self.addressed(arg) => self.deselect(Dis, now_ns),
            (7, Stby | Dis) => Reply::SILENT,
            (5 | 9 | 10 | 13 | 15, _) if !self.addressed(arg) => Reply::SILENT,
            (9, Stby) => {
                let mut csd = self.config.csd();
                csd[14] = self.csd_flags;
                seal(&mut csd);
                self.config.quirks.falsify_csd(&mut csd);
                self.long(csd)
            }
            (10, Stby) => self.long(self.config.cid()),
            (12, Data) => {
                let reply = self.go(12, Tran);
                self.stop_reading(now_ns);
                self.transfer = Transfer::None;
                self.interface.data_end_ns = None;
                reply
            }
            (12, Rcv) => {
                let mut reply = self.r1(12);
                reply.busy_until_ns = Some(self.program(now_ns));
                reply
            }
            (13, Prg | Rcv | Dis) if arg & 1 == 1 => {
                let reply = self.r1(13);
                self.high_priority_interrupt(now_ns);
                reply
            }
            (13, Stby | Data | Rcv | Prg | Dis | Btst) => self.r1(13),
            (14, Btst) => {
                let mut reply = self.r1(14);
                reply.flow = Flow::Read { block_size: self.interface.bus.width.max(4).into() };
                reply
            }
            (15, Stby | Data | Rcv | Prg | Dis | Btst) => {
                self.interface.state = Ina;
                Reply::SILENT
            }
            _ => self.illegal(),
        }
    }

    /// Executes a command in the state `tran`: the device is selected and nothing is under way.
    /// `count`: what a CMD23 directly before has set.
    fn transfer_state(&mut self, index: u8, arg: u32, count: Option<Count>, now_ns: u64) -> Reply {
        let ddr = self.width & 0x0f >= 5;
        let rpmb = self.partition == Partition::Rpmb;
        match index {
            0 => self.go_idle(arg, now_ns),
            6 => self.switch_command(arg, now_ns),
            7 if !self.addressed(arg) => self.deselect(State::Stby, now_ns),
            8 => {
                let live = self.live_ext_csd();
                self.scratch.copy_from_slice(&live);
                self.send_scratch(8, 512)
            }
            13 | 15 if !self.addressed(arg) => Reply::SILENT,
            13 => self.r1(13),
            15 => {
                self.interface.state = State::Ina;
                Reply::SILENT
            }
            16 if !ddr => {
                if (1..=512).contains(&arg) {
                    self.block_len = arg as u16;
                } else {
                    self.status.raise(status::BLOCK_LEN_ERROR);
                }
                self.r1(16)
            }
            17 | 24..=31 | 35 | 36 | 38 if rpmb && index != 25 => self.illegal(),
            18 if rpmb => self.rpmb_read(count),
            25 if rpmb => self.rpmb_write(count),
            17 => self.read(17, arg, None, now_ns),
            18 if count.is_some_and(|count| count.packed) => self.packed_read(arg, count, now_ns),
            18 => self.read(18, arg, count.map(|count| count.blocks), now_ns),
            19 => {
                let mut reply = self.go(19, State::Btst);
                reply.flow = Flow::Write { block_size: self.interface.bus.width.max(4).into() };
                self.scratch.fill(0);
                self.transfer = Transfer::BusTest;
                reply
            }
            21 if self.timing & 0xf == 2 => {
                let len = if self.width == 2 {
                    self.scratch[..128].copy_from_slice(&tuning::eight_lines());
                    128
                } else {
                    self.scratch[..64].copy_from_slice(&tuning::FOUR_LINES);
                    64
                };
                self.send_scratch(21, len)
            }
            23 => {
                let packed = arg >> 30 & 1 == 1;
                if packed && !self.takes_packed(arg) {
                    return self.refuse(23, status::ERROR);
                }
                let blocks = arg & 0xffff;
                self.count = (blocks != 0).then_some(Count {
                    blocks,
                    reliable: arg >> 31 == 1,
                    forced: arg >> 24 & 1 == 1,
                    packed,
                });
                self.r1(23)
            }
            24 => {
                let one = Count { blocks: 1, reliable: false, forced: false, packed: false };
                self.write(24, arg, Some(one), now_ns)
            }
            25 if count.is_some_and(|count| count.packed) => self.packed_write(arg, count, now_ns),
            25 => self.write(25, arg, count, now_ns),
            26 => self.receive(26, Transfer::ProgramCid, 16),
            27 => self.receive(27, Transfer::ProgramCsd, 16),
            28 | 29 => self.protect(index, arg, now_ns),
            30 | 31 => match self.group_address(arg) {
                Err(errors) => self.refuse(index, errors),
                Ok(at) if index == 30 => {
                    let bits = self.protection.bits(at);
                    self.scratch[..4].copy_from_slice(&bits.to_be_bytes());
                    self.send_scratch(30, 4)
                }
                Ok(at) => {
                    let kinds = self.protection.kinds(at);
                    self.scratch[..8].copy_from_slice(&kinds.to_be_bytes());
                    self.send_scratch(31, 8)
                }
            },
            35 | 36 => {
                self.erase_edge(index == 35, arg);
                self.r1(index)
            }
            38 => self.erase_command(arg, now_ns),
            42 if !ddr => self.receive(42, Transfer::Lock, self.block_len),
            _ => self.illegal(),
        }
    }

    fn go_idle(&mut self, arg: u32, now_ns: u64) -> Reply {
        // Any other argument of CMD0 starts the boot operation, which this model ignores.
        if matches!(arg, GO_IDLE | GO_PRE_IDLE) {
            let powers_up = self.ready_ns.is_some_and(|ready_ns| now_ns < ready_ns);
            self.reset(now_ns);
            if powers_up && self.config.quirks.reset_in_power_up_hangs {
                self.interface.trouble.violate("CMD0 to a card that powers up", now_ns);
                self.interface.state = State::Ina;
            }
            if self.interface.trouble.stuck {
                // The card is locked up: it ignores all commands until the power is switched off.
                self.interface.trouble.locked_up = true;
                self.interface.busy_until_ns = NEVER_NS;
            }
        }
        Reply::SILENT
    }

    fn addressed(&self, arg: u32) -> bool {
        (arg >> 16) as u16 == self.rca
    }

    /// Executes CMD1: the host gives its supply voltages, and the device reports whether its
    /// power-up has ended [eMMC 6.4.2].
    fn operating_conditions(&mut self, arg: u32, now_ns: u64) -> Reply {
        self.status.valid_command();
        let sector_mode = if self.config.sector_mode() { 1 << 30 } else { 0 };
        let wanted = arg & 0x00ff_ff80;
        if wanted == 0 {
            if self.config.quirks.reset_in_power_up_hangs {
                self.ready_ns.get_or_insert(now_ns.saturating_add(self.config.power_up_ns));
            }
            if self.config.quirks.inquiry_makes_ready {
                self.interface.state = State::Ready;
            }
            return Reply::ocr(VOLTAGES | sector_mode);
        }
        if wanted & VOLTAGES == 0 {
            self.interface.state = State::Ina;
            return Reply::SILENT;
        }
        let rise_ns = self.config.power_up_ns.saturating_add(self.interface.trouble.late_ns);
        let ready_ns = *self.ready_ns.get_or_insert(now_ns.saturating_add(rise_ns));
        if now_ns < ready_ns || self.interface.trouble.never_ready || self.config.quirks.never_ready {
            return Reply::ocr(VOLTAGES | sector_mode);
        }
        if self.config.sector_mode() && arg >> 29 & 3 != 2 {
            // The host cannot address a device of this capacity.
            self.interface.state = State::Ina;
            return Reply::ocr(VOLTAGES | sector_mode | 1 << 31);
        }
        self.interface.state = State::Ready;
        self.was_up = true;
        Reply::ocr(VOLTAGES | sector_mode | 1 << 31)
    }

    fn sleep_or_wake(&mut self, state: State, now_ns: u64) -> Reply {
        let mut reply = self.go(5, state);
        self.interface.busy_until_ns = now_ns.saturating_add(self.config.sleep_awake_ns);
        reply.busy_until_ns = Some(self.interface.busy_until_ns);
        reply
    }

    /// Stops a read. The flash may continue to fetch a page afterwards.
    fn stop_reading(&mut self, now_ns: u64) {
        if let Transfer::Read(read) = self.transfer
            && self.interface.data_end_ns.is_none()
        {
            let medium = self.stores.active(self.partition);
            read.stop(medium, &mut self.flash, now_ns);
        }
    }

    fn deselect(&mut self, state: State, now_ns: u64) -> Reply {
        self.status.valid_command();
        self.stop_reading(now_ns);
        self.transfer = Transfer::None;
        self.interface.data_end_ns = None;
        self.interface.state = state;
        Reply::SILENT
    }

    fn switch_command(&mut self, arg: u32, now_ns: u64) -> Reply {
        let mut reply = self.go(6, State::Prg);
        let usual_ns = now_ns.saturating_add(self.config.switch_ns);
        let quirks = &self.config.quirks;
        let (needs_write, hangs) = (quirks.flush_needs_write, quirks.flush_hangs);
        let sanitize_ns = quirks.sanitize_ms.saturating_mul(1_000_000);
        self.interface.busy_until_ns = match self.switch(arg) {
            None => {
                self.status.raise(status::SWITCH_ERROR);
                usual_ns
            }
            Some(Effect::Usual) => usual_ns,
            Some(Effect::Background) => usual_ns.saturating_add(self.background_work(now_ns)),
            Some(Effect::Sanitize) => usual_ns.saturating_add(sanitize_ns),
            Some(Effect::Flush) if needs_write && !self.written => {
                self.interface.trouble.violate("a flush with nothing written", now_ns);
                self.status.raise(status::ERROR);
                usual_ns
            }
            Some(Effect::Flush) if hangs => {
                self.interface.trouble.stuck = true;
                NEVER_NS
            }
            Some(Effect::Flush | Effect::CacheOff) => {
                let (done_ns, errors) = self.flash.flush(&mut self.stores, now_ns, usual_ns);
                self.status.raise(errors);
                done_ns
            }
            Some(Effect::Partition(partition)) if partition != self.partition => {
                self.partition = partition;
                now_ns.saturating_add(self.config.partition_switch_ns)
            }
            Some(Effect::Partition(_)) => usual_ns,
        };
        self.flash.journal.volatile = self.ext_csd[usize::from(byte::CACHE_CTRL)] & 1 == 1;
        reply.busy_until_ns = Some(self.interface.busy_until_ns);
        reply
    }

    /// Returns the byte address that a command's argument means. The argument is in sectors on a
    /// card of more than 2 GiB, and in bytes on a smaller one.
    pub(super) fn byte_address(&self, arg: u32) -> u64 {
        if self.config.sector_mode() { u64::from(arg) * 512 } else { u64::from(arg) }
    }

    /// Converts the argument of a read or write command to a byte address of the card, and checks
    /// that the transfer begins inside the card at an allowed address. `Err` is the bit of R1 for
    /// the error.
    pub(super) fn address(&self, arg: u32) -> Result<u64, u32> {
        let at = self.byte_address(arg);
        let len = u64::from(self.transfer_len());
        if at.saturating_add(len) > self.capacity() {
            return Err(status::OUT_OF_RANGE);
        }
        if at % 512 + len > 512 {
            return Err(status::ADDRESS_ERROR);
        }
        Ok(at)
    }

    pub(super) fn transfer_len(&self) -> u16 {
        if self.config.sector_mode() || self.width & 0x0f >= 5 { 512 } else { self.block_len }
    }

    /// Executes CMD17 or CMD18; `left` is the number of blocks that CMD23 announced.
    fn read(&mut self, index: u8, arg: u32, left: Option<u32>, now_ns: u64) -> Reply {
        self.pack.gives_up_read();
        if self.transfer_len() != 512 {
            // The device does not read parts of blocks: READ_BL_PARTIAL of the CSD is 0.
            return self.refuse(index, status::BLOCK_LEN_ERROR);
        }
        match self.address(arg) {
            Err(errors) => self.refuse(index, errors),
            Ok(at) => {
                if let Some(medium) = self.store_mut(self.partition) {
                    medium.begin();
                }
                let mut reply = self.go(index, State::Data);
                reply.flow = Flow::Read { block_size: 512 };
                self.interface.data_end_ns = None;
                self.reads += 1;
                let late_ns = self.counted(index == 18 && left.is_some(), now_ns);
                let long_ns = self.config.quirks.read_late_ms.saturating_mul(1_000_000);
                let late_ns = if self.reads.is_multiple_of(32) { late_ns.max(long_ns) } else { late_ns };
                let from_ns = now_ns.saturating_add(late_ns);
                self.transfer = Transfer::Read(match index {
                    17 => Read::single(at, 512, &mut self.flash, from_ns),
                    _ => Read::new(at, 512, left, &mut self.flash, from_ns),
                });
                reply
            }
        }
    }

    fn write(&mut self, index: u8, arg: u32, count: Option<Count>, now_ns: u64) -> Reply {
        self.pack.gives_up_read();
        if self.transfer_len() != 512 {
            return self.refuse(index, status::BLOCK_LEN_ERROR);
        }
        let at = match self.address(arg) {
            Err(errors) => return self.refuse(index, errors),
            Ok(at) => at,
        };
        if self.write_protected(at, 512) {
            return self.refuse(index, status::WP_VIOLATION);
        }
        if count.is_some_and(|count| count.reliable && !self.config.takes_reliable(at, count.blocks)) {
            return self.refuse(index, status::BLOCK_LEN_ERROR);
        }
        if let Some(medium) = self.store_mut(self.partition) {
            medium.begin();
        }
        self.interface.busy_until_ns = now_ns;
        self.extra_busy_ns = self.counted(index == 25 && count.is_some(), now_ns) + self.neglected_ns();
        self.flash.partition = self.partition.number();
        self.flash.journal.begin(now_ns);
        let mut write = Write::new(at, 512, count.map(|count| count.blocks));
        write.reliable = count.is_some_and(|count| count.reliable);
        write.past_cache = count.is_some_and(|count| count.reliable || count.forced);
        self.receive(index, Transfer::Write { write, single: index == 24 }, 512)
    }

    /// Applies the quirks of cards on which a transfer after CMD23 goes wrong. `counted` says
    /// whether CMD23 came before this transfer. Such a quirk locks the card up, or delays the
    /// transfer by the returned time in ns (0: no delay).
    pub(super) fn counted(&mut self, counted: bool, now_ns: u64) -> u64 {
        if counted && self.config.quirks.cmd23_locks_up {
            self.interface.trouble.violate("a transfer counted by CMD23", now_ns);
            self.interface.trouble.locked_up = true;
        }
        if counted { self.config.quirks.cmd23_late_us.saturating_mul(1_000) } else { 0 }
    }

    /// Executes CMD18 in the RPMB partition. `count`: argument of the CMD23 before it; without
    /// CMD23 the command is illegal.
    fn rpmb_read(&mut self, count: Option<Count>) -> Reply {
        let (Some(count), Some(rpmb)) = (count, &mut self.rpmb) else { return self.illegal() };
        rpmb.asked(count.blocks);
        let mut reply = self.go(18, State::Data);
        reply.flow = Flow::Read { block_size: 512 };
        self.interface.data_end_ns = None;
        self.transfer = Transfer::RpmbRead { left: count.blocks };
        reply
    }

    /// Executes CMD25 in the RPMB partition.
    fn rpmb_write(&mut self, count: Option<Count>) -> Reply {
        let Some(count) = count else { return self.illegal() };
        self.receive(25, Transfer::RpmbWrite { left: count.blocks, reliable: count.reliable }, 512)
    }

    /// Returns whether this byte range of the selected partition is write protected.
    pub(super) fn write_protected(&self, at: u64, bytes: u64) -> bool {
        self.protects(self.partition, at, bytes)
    }

    /// Returns whether this byte range of the partition is write protected.
    pub(super) fn protects(&self, partition: Partition, at: u64, bytes: u64) -> bool {
        let user = partition == Partition::User;
        let boot_wp = self.ext_csd[usize::from(byte::BOOT_WP)] & 0x05 != 0;
        self.csd_flags & 0x30 != 0
            || self.flash.wear.worn_out() == Some(WornOut::ReadOnly)
            || (user && self.config.quirks.protects(at, bytes))
            || self.store(partition).is_some_and(super::Medium::read_only)
            || (user && self.protection.covers(at, bytes))
            || (matches!(partition, Partition::Boot(_)) && boot_wp)
    }

    pub(super) fn receive(&mut self, index: u8, transfer: Transfer, block_size: u16) -> Reply {
        let mut reply = self.go(index, State::Rcv);
        reply.flow = Flow::Write { block_size };
        self.transfer = transfer;
        reply
    }

    fn send_scratch(&mut self, index: u8, len: u16) -> Reply {
        let mut reply = self.go(index, State::Data);
        reply.flow = Flow::Read { block_size: len };
        self.interface.data_end_ns = None;
        self.transfer = Transfer::Register { len };
        reply
    }

    /// Answers CMD14: fills `buffer` with the block in which the first two bits of each line come
    /// back inverted and all other bits are zero. Returns the start of the block.
    pub(super) fn answer_bus_test(&mut self, buffer: &mut [u8], now_ns: u64) -> ReadBlock {
        let lines = usize::from(self.interface.bus.width);
        buffer.fill(0);
        let bytes = (lines / 4).max(1).min(buffer.len());
        let mask = if lines == 1 { 0xc0 } else { 0xff };
        for (to, from) in buffer[..bytes].iter_mut().zip(self.scratch.iter()) {
            *to = !from & mask;
        }
        self.transfer = Transfer::None;
        self.interface.state = State::Tran;
        ReadBlock::At { start_ns: now_ns, crc_ok: true }
    }

    fn group_address(&self, arg: u32) -> Result<u64, u32> {
        let at = self.byte_address(arg);
        if at >= self.capacity() { Err(status::OUT_OF_RANGE) } else { Ok(at) }
    }

    fn protect(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply {
        let at = match self.group_address(arg) {
            Err(errors) => return self.refuse(index, errors),
            Ok(at) => at,
        };
        let mut reply = self.go(index, State::Prg);
        if index == 28 {
            // US_PWR_WP_EN of USER_WP: CMD28 protects until the next power cycle.
            let until_power_off = self.ext_csd[usize::from(byte::USER_WP)] & 1 == 1;
            self.protection.set(at, until_power_off);
        } else if !self.protection.clear(at) {
            self.status.raise(status::ERROR);
        }
        self.interface.busy_until_ns = now_ns.saturating_add(self.config.switch_ns);
        reply.busy_until_ns = Some(self.interface.busy_until_ns);
        reply
    }

    /// Refuses a command: answers R1 with these error bits, sends no data, and stays in its state.
    pub(super) fn refuse(&mut self, index: u8, errors: u32) -> Reply {
        self.status.raise(errors);
        self.r1(index)
    }

    pub(super) fn r1(&mut self, index: u8) -> Reply {
        let locked = if self.lock.locked() { status::CARD_IS_LOCKED } else { 0 };
        let ready = match self.interface.state {
            State::Prg | State::Dis => 0,
            _ => status::READY_FOR_DATA,
        };
        let live = locked | ready | self.exception() | self.config.quirks.status_bits;
        Reply::short(index, self.status.r1(self.interface.state, live))
    }

    pub(super) fn go(&mut self, index: u8, state: State) -> Reply {
        let reply = self.r1(index);
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
