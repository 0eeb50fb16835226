//! The device as the bus sees it.

use std::io;
use std::ops::Range;

use super::super::cut::{self, AtStake, Kept};
use super::super::link::{self, PowerUp};
use super::super::status::{self, State};
use super::super::transfer::{Sent, Taken};
use super::super::trouble::Violation;
use super::super::{BusState, Card, ReadBlock, Reply, WriteBlock};
use super::config::{BOOT_CHOICE, byte};
use super::{Attack, EmmcCard, Partition, Transfer, rpmb};
use crate::faults::Faults;

impl EmmcCard {
    /// The supply comes up, or is back after a dip.
    fn power_on(&mut self, now_ns: u64) {
        self.reset(now_ns);
        self.written = false;
        self.lock.power_up();
        self.protection.power_up();
        // Power-on protection ends with the power.
        self.ext_csd[usize::from(byte::USER_WP)] &= !1;
        self.ext_csd[usize::from(byte::BOOT_WP)] &= !1;
        self.power = PowerUp::on(now_ns);
        self.power.clock(self.bus.clock_hz > 0, now_ns);
    }

    /// The device becomes busy; what the host sees of it.
    fn busy_begins(&mut self, until_ns: u64) -> Option<u64> {
        let (until_ns, seen_ns) = self.trouble.busy(&self.flash.faults, until_ns);
        self.busy_until_ns = until_ns;
        seen_ns
    }

    /// A dip of the supply that was due; true if there was one.
    fn dip(&mut self, now_ns: u64) -> bool {
        let dips = std::mem::take(&mut self.flash.dips) | std::mem::take(&mut self.trouble.dips);
        if dips {
            self.brown_out(now_ns);
        }
        dips
    }

    fn take_block(&mut self, data: &[u8], crc_ok: bool, now_ns: u64) -> WriteBlock {
        self.settle(now_ns);
        let no_token = WriteBlock { status: None, busy_until_ns: now_ns };
        if self.state == State::Btst && matches!(self.transfer, Transfer::BusTest) {
            // No CRC is looked at in a bus test, and no status is sent.
            let len = data.len().min(8);
            self.scratch[..len].copy_from_slice(&data[..len]);
            return no_token;
        }
        if self.state != State::Rcv {
            return no_token;
        }
        self.draw(now_ns);
        let good = crc_ok && self.mode().data_ok(&self.bus);
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
                        WriteBlock { status: if good { None } else { Some(false) }, busy_until_ns: now_ns }
                    }
                }
            }
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
                    self.state = State::Prg;
                    self.busy_until_ns = now_ns.saturating_add(self.config.flash.register_ns());
                }
                WriteBlock { status: Some(true), busy_until_ns: self.busy_until_ns.max(now_ns) }
            }
            Transfer::ProgramCid | Transfer::ProgramCsd | Transfer::Lock => {
                self.busy_until_ns = now_ns;
                if good {
                    self.busy_until_ns = now_ns.saturating_add(self.config.flash.register_ns());
                    self.take_register(data, now_ns);
                }
                self.transfer = Transfer::None;
                self.state = State::Prg;
                WriteBlock { status: Some(good), busy_until_ns: self.busy_until_ns }
            }
            _ => no_token,
        }
    }
}

impl Card for EmmcCard {
    fn bus_changed(&mut self, bus: &BusState, now_ns: u64) {
        self.settle(now_ns);
        let was = std::mem::replace(&mut self.bus, *bus);
        if !bus.powered {
            if was.powered {
                self.flash.cut(&mut self.stores, now_ns, &mut cut::lose);
                self.reset(now_ns);
            }
            return;
        }
        if !was.powered {
            self.trouble.power_up(&self.flash.faults);
            self.power_on(now_ns);
        }
        self.power.clock(bus.clock_hz > 0, now_ns);
    }

    fn command(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply {
        self.settle(now_ns);
        let mode = self.mode();
        let deaf = self.trouble.locked_up || self.state == State::Ina;
        if deaf || !mode.hears(&self.bus) || !self.power.awake(&self.bus, now_ns) {
            return Reply::SILENT;
        }
        let mut reply = self.execute(index, arg, now_ns);
        // Selected again: that busy began before.
        if index != 7
            && let Some(until_ns) = reply.busy_until_ns.filter(|&until_ns| until_ns > now_ns)
        {
            reply.busy_until_ns = self.busy_begins(until_ns);
        }
        if self.dip(now_ns) {
            reply.busy_until_ns = None;
        }
        // The host ignores the answer to a tuning command: it only looks at the block.
        if index != 21 && !mode.is_heard(&self.bus) {
            reply.answer = None;
        }
        reply
    }

    fn read_block(&mut self, buffer: &mut [u8], now_ns: u64) -> ReadBlock {
        self.settle(now_ns);
        if self.trouble.locked_up {
            return ReadBlock::Never;
        }
        if self.state == State::Btst {
            return self.answer_bus_test(buffer, now_ns);
        }
        if self.state != State::Data || self.data_end_ns.is_some() {
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
                match read.next(medium, &mut self.flash, buffer, &self.bus, now_ns) {
                    Sent::Block(start_ns) => (start_ns, read.block, read.left == Some(0)),
                    Sent::Nothing(errors) => {
                        self.status.raise(errors);
                        return ReadBlock::Never;
                    }
                }
            }
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
            self.data_end_ns = Some(start_ns + link::payload_ns(&self.bus, len));
        }
        let crc_ok = self.mode().data_ok(&self.bus);
        self.dip(now_ns);
        ReadBlock::At { start_ns, crc_ok }
    }

    fn write_block(&mut self, data: &[u8], crc_ok: bool, now_ns: u64) -> WriteBlock {
        if self.trouble.locked_up {
            return WriteBlock { status: None, busy_until_ns: now_ns };
        }
        let mut taken = self.take_block(data, crc_ok, now_ns);
        if taken.status == Some(true) && taken.busy_until_ns > now_ns {
            taken.busy_until_ns = self.busy_begins(taken.busy_until_ns).unwrap_or(now_ns);
        }
        if self.dip(now_ns) {
            taken.busy_until_ns = now_ns;
        }
        taken
    }

    fn busy(&self, now_ns: u64) -> bool {
        let seen = self.state != State::Dis && self.trouble.shows_busy(now_ns);
        self.bus.powered && (seen || self.trouble.stuck) && now_ns < self.busy_until_ns
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
        if self.bus.powered {
            self.flash.cut(&mut self.stores, now_ns, &mut cut::lose);
            self.power_on(now_ns);
        }
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
        self.trouble.violations()
    }
}
