//! Reaction of an eMMC to changes of the bus: power, clock, lines and RST_n.

use std::io;
use std::ops::Range;

use super::super::cut::{self, AtStake, Kept};
use super::super::flash::{Flash, Work};
use super::super::interface::{Interface, Interfaced};
use super::super::link::{self, Mode, PowerUp};
use super::super::quirk::TMP_WRITE_PROTECT;
use super::super::status::{self, State};
use super::super::transfer::{Sent, Taken};
use super::super::trouble::Violation;
use super::super::{BusState, Card, ReadBlock, Reply, WriteBlock};
use super::config::{BOOT_CHOICE, byte};
use super::{Attack, EmmcCard, Partition, Transfer, rpmb};
use crate::faults::Faults;

/// Shortest RST_n pulse that resets the card (tRSTW), in ns.
const RESET_PULSE_NS: u64 = 1000;

impl Interfaced for EmmcCard {
    const TUNING: u8 = 21;

    fn interface(&self) -> &Interface {
        &self.interface
    }

    fn interface_mut(&mut self) -> &mut Interface {
        &mut self.interface
    }

    fn flash_mut(&mut self) -> &mut Flash {
        &mut self.flash
    }

    fn mode(&self) -> Mode {
        self.mode()
    }

    fn settle(&mut self, now_ns: u64) {
        self.settle(now_ns);
    }

    fn lose_cache(&mut self, now_ns: u64) {
        self.flash.cut(&mut self.stores, now_ns, &mut cut::lose);
    }

    fn supply_comes(&mut self, now_ns: u64) {
        self.reset(now_ns);
        self.written = false;
        self.lock.power_up();
        self.protection.power_up();
        // Power-on write protection ends when the power goes off.
        self.ext_csd[usize::from(byte::USER_WP)] &= !1;
        self.ext_csd[usize::from(byte::BOOT_WP)] &= !1;
    }

    fn supply_goes(&mut self, now_ns: u64) {
        self.reset_low_ns = None;
        self.reset(now_ns);
    }

    /// Resets the card at the end of a pulse on RST_n, if EXT_CSD enables this: the pulse acts as a
    /// power cycle. A pulse shorter than [`RESET_PULSE_NS`] has no effect [eMMC 6.15.10].
    fn bus_moved(&mut self, _was: &BusState, now_ns: u64) {
        if self.interface.bus.reset && self.ext_csd[usize::from(byte::RST_N_FUNCTION)] & 3 == 1 {
            self.reset_low_ns.get_or_insert(now_ns);
            return;
        }
        let Some(since_ns) = self.reset_low_ns.take() else { return };
        if now_ns.saturating_sub(since_ns) >= RESET_PULSE_NS {
            self.lose_cache(now_ns);
            self.supply_comes(now_ns);
            self.interface.power = PowerUp::after_reset(now_ns);
            self.interface.power.clock(self.interface.bus.clock_hz > 0, now_ns);
        }
    }

    fn hears_nothing(&self, _now_ns: u64) -> bool {
        self.reset_low_ns.is_some()
    }

    fn execute(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply {
        self.execute(index, arg, now_ns)
    }

    fn take_block(&mut self, data: &[u8], crc_ok: bool, now_ns: u64) -> WriteBlock {
        self.settle(now_ns);
        let no_token = WriteBlock { status: None, busy_until_ns: now_ns };
        if self.interface.state == State::Btst && matches!(self.transfer, Transfer::BusTest) {
            // In a bus test (CMD19) the card does not check a CRC, and sends no CRC status.
            let len = data.len().min(8);
            self.scratch[..len].copy_from_slice(&data[..len]);
            return no_token;
        }
        if self.interface.state != State::Rcv {
            return no_token;
        }
        self.draw(now_ns);
        let good = crc_ok && self.mode().data_ok(&self.interface.bus);
        match &mut self.transfer {
            Transfer::Write { write, .. } if write.deaf => no_token,
            Transfer::Write { write, single } => {
                let single = *single;
                let in_user = self.partition == Partition::User;
                let protected = in_user
                    && (self.protection.covers(write.at, 512) || self.config.quirks.protects(write.at, 512));
                let medium = self.stores.active(self.partition);
                let outcome = match (good, protected) {
                    (false, _) => Taken::Refused(0),
                    (true, true) => Taken::Refused(status::WP_VIOLATION),
                    (true, false) => write.take(medium, &mut self.flash, data, now_ns),
                };
                match outcome {
                    Taken::More(until_ns) => {
                        self.interface.busy_until_ns = until_ns;
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
                        WriteBlock { status: if good { None } else { Some(false) }, busy_until_ns: now_ns }
                    }
                }
            }
            Transfer::Packed => self.take_packed(data, good, now_ns),
            Transfer::RpmbWrite { left, reliable } => {
                let reliable = *reliable;
                if !good {
                    self.transfer = Transfer::None;
                    return WriteBlock { status: Some(false), busy_until_ns: now_ns };
                }
                *left = left.saturating_sub(1);
                let over = *left == 0;
                if let Some(rpmb) = &mut self.rpmb {
                    rpmb.take(data);
                    if over {
                        rpmb.requested(reliable);
                    }
                }
                if over {
                    self.transfer = Transfer::None;
                    self.interface.state = State::Prg;
                    self.interface.busy_until_ns = now_ns.saturating_add(self.config.flash.register_ns());
                }
                WriteBlock { status: Some(true), busy_until_ns: self.interface.busy_until_ns.max(now_ns) }
            }
            Transfer::ProgramCid | Transfer::ProgramCsd | Transfer::Lock => {
                self.interface.busy_until_ns = now_ns;
                if good {
                    self.interface.busy_until_ns = now_ns.saturating_add(self.config.flash.register_ns());
                    self.take_register(data, now_ns);
                }
                self.transfer = Transfer::None;
                self.interface.state = State::Prg;
                WriteBlock { status: Some(good), busy_until_ns: self.interface.busy_until_ns }
            }
            _ => no_token,
        }
    }
}

impl Card for EmmcCard {
    fn bus_changed(&mut self, bus: &BusState, now_ns: u64) {
        self.bus_moves(bus, now_ns);
    }

    fn command(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply {
        self.hears(index, arg, now_ns)
    }

    fn read_block(&mut self, buffer: &mut [u8], now_ns: u64) -> ReadBlock {
        self.settle(now_ns);
        if self.interface.trouble.locked_up {
            return ReadBlock::Never;
        }
        if self.interface.state == State::Btst {
            return self.answer_bus_test(buffer, now_ns);
        }
        if self.interface.state != State::Data || self.interface.data_end_ns.is_some() {
            return ReadBlock::Never;
        }
        self.draw(now_ns);
        let (start_ns, len, last) = match &mut self.transfer {
            Transfer::Register { len } => {
                let Some(to) = buffer.get_mut(..usize::from(*len)) else { return ReadBlock::Never };
                to.copy_from_slice(&self.scratch[..usize::from(*len)]);
                (now_ns, *len, true)
            }
            Transfer::Read(read) => {
                let medium = self.stores.active(self.partition);
                match read.next(medium, &mut self.flash, buffer, &self.interface.bus, now_ns) {
                    Sent::Block(start_ns) => (start_ns, read.block, read.left == Some(0)),
                    Sent::Nothing(errors) => {
                        self.status.raise(errors);
                        return ReadBlock::Never;
                    }
                }
            }
            Transfer::PackedRead => match self.send_packed(buffer, now_ns) {
                Some((start_ns, last)) => (start_ns, 512, last),
                None => return ReadBlock::Never,
            },
            Transfer::RpmbRead { left } => {
                let frame = self.rpmb.as_mut().and_then(rpmb::Rpmb::send);
                let (Some(frame), Some(to)) = (frame, buffer.get_mut(..512)) else {
                    return ReadBlock::Never;
                };
                to.copy_from_slice(&frame);
                *left = left.saturating_sub(1);
                (now_ns.saturating_add(self.config.flash.read_first_ns), 512, *left == 0)
            }
            _ => return ReadBlock::Never,
        };
        if last {
            self.interface.data_end_ns = Some(start_ns + link::payload_ns(&self.interface.bus, len));
        }
        let crc_ok = self.mode().data_ok(&self.interface.bus);
        self.due_dip(now_ns);
        ReadBlock::At { start_ns, crc_ok }
    }

    fn write_block(&mut self, data: &[u8], crc_ok: bool, now_ns: u64) -> WriteBlock {
        self.takes(data, crc_ok, now_ns)
    }

    fn busy(&self, now_ns: u64) -> bool {
        let seen = self.interface.state != State::Dis && self.interface.trouble.shows_busy(now_ns);
        self.interface.bus.powered
            && (seen || self.interface.trouble.stuck)
            && now_ns < self.interface.busy_until_ns
    }

    fn switching_voltage(&self, _now_ns: u64) -> bool {
        false
    }

    fn write_protect_switch(&self) -> bool {
        false
    }

    fn peek(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.stores.user.read(at, buffer)
    }

    fn peek_partition(&mut self, partition: u8, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let medium =
            (partition < 8).then(|| self.stores.get_mut(Partition::from_number(partition))).flatten();
        match medium {
            Some(medium) => medium.read(at, buffer),
            None => Err(io::Error::new(io::ErrorKind::Unsupported, "this card has no such partition")),
        }
    }

    fn set_protected(&mut self, on: bool) {
        self.csd_flags = self.csd_flags & !TMP_WRITE_PROTECT | if on { TMP_WRITE_PROTECT } else { 0 };
    }

    fn is_protected(&self, partition: u8, at: u64, bytes: u64) -> bool {
        self.protects(Partition::from_number(partition), at, bytes)
    }

    fn touched(&self, each: &mut dyn FnMut(u8, Range<u64>)) {
        self.stores.touched(each);
        if let Some(rpmb) = &self.rpmb {
            rpmb.touched(&mut |sectors| each(Partition::Rpmb.number(), sectors));
        }
    }

    fn settings(&self) -> Vec<(&'static str, u8)> {
        let byte = |index: u8| self.ext_csd[usize::from(index)];
        let mut all: Vec<_> = byte::KEPT.iter().map(|&(name, index)| (name, byte(index))).collect();
        all.push(("PARTITION_CONFIG", byte(byte::PARTITION_CONFIG) & BOOT_CHOICE));
        all.push(("the CSD's last flags", self.csd_flags));
        all.push(("a password", self.lock.is_set().into()));
        all.push(("protected groups", self.protection.is_temporary().into()));
        all
    }

    fn set_boot(&mut self, config: u8) {
        let byte = &mut self.ext_csd[usize::from(byte::PARTITION_CONFIG)];
        *byte = *byte & !BOOT_CHOICE | config & BOOT_CHOICE;
    }

    fn fetching_ns(&self) -> u64 {
        self.queue.as_ref().map_or(0, |tasks| tasks.fetching_ns())
    }

    fn take_work(&mut self) -> Work {
        std::mem::take(&mut self.flash.work)
    }

    fn set_faults(&mut self, faults: Faults) {
        self.flash.faults = faults;
        self.flash.journal.follow = true;
    }

    fn at_stake(&mut self, now_ns: u64) -> Vec<AtStake> {
        self.flash.journal.at_stake(now_ns)
    }

    fn cut(&mut self, now_ns: u64, keep: &mut dyn FnMut(&AtStake) -> Kept) {
        self.flash.cut(&mut self.stores, now_ns, keep);
        if crate::plant::any() {
            self.stores.user.lie_at_cut();
        }
        self.bus_changed(&BusState::default(), now_ns);
    }

    fn losses(&self) -> (u64, u64) {
        self.flash.journal.losses
    }

    fn brown_out(&mut self, now_ns: u64) {
        self.dips(now_ns);
    }

    fn spoil(&mut self, sector: u64) {
        self.stores.user.spoil(sector);
    }

    fn attack_rpmb(&mut self, attack: Attack) {
        if let Some(rpmb) = &mut self.rpmb {
            rpmb.attack(attack);
        }
    }

    fn violations(&self) -> &[Violation] {
        self.interface.trouble.violations()
    }
}
