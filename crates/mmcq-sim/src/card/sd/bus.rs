//! Reaction of an SD card to changes of the bus: power, clock, lines and voltage.

use std::io;
use std::ops::Range;

use super::super::cut::{self, AtStake, Kept};
use super::super::flash::{Flash, Work};
use super::super::interface::{Interface, Interfaced};
use super::super::link::{self, Mode};
use super::super::quirk::TMP_WRITE_PROTECT;
use super::super::status::{self, State};
use super::super::transfer::{Sent, Taken};
use super::super::trouble::Violation;
use super::super::{BusState, Card, ReadBlock, Reply, WriteBlock};
use super::voltage::Voltage;
use super::{SdCard, Transfer};
use crate::faults::Faults;

impl SdCard {
    /// Sets the signalling back to 3.3 V at power-off, unless a quirk keeps the power on.
    fn fall_to_high(&mut self) {
        let stays = self.config.quirks.stuck_1v8 && self.voltage.is_18();
        if !stays {
            self.voltage = Voltage::High;
            self.voltage_stuck = 0;
        }
    }
}

impl Interfaced for SdCard {
    const TUNING: u8 = 19;

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
        self.flash.cut(&mut self.medium, now_ns, &mut cut::lose);
    }

    fn supply_comes(&mut self, now_ns: u64) {
        self.reset(now_ns);
        self.leave_spi();
        self.fall_to_high();
        self.lock.power_up();
    }

    fn supply_goes(&mut self, now_ns: u64) {
        self.reset(now_ns);
        self.leave_spi();
        self.fall_to_high();
    }

    fn bus_moved(&mut self, was: &BusState, now_ns: u64) {
        let release_ns = self.config.voltage_release_ns.saturating_add(self.voltage_late_ns);
        self.voltage.bus_changed(was, &self.interface.bus, now_ns, release_ns);
    }

    fn hears_nothing(&self, now_ns: u64) -> bool {
        self.voltage.is_deaf(now_ns)
    }

    fn execute(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply {
        self.execute(index, arg, now_ns)
    }

    fn take_block(&mut self, data: &[u8], crc_ok: bool, now_ns: u64) -> WriteBlock {
        self.settle(now_ns);
        let no_token = WriteBlock { status: None, busy_until_ns: now_ns };
        if self.interface.state != State::Rcv {
            return no_token;
        }
        let good = crc_ok && self.mode().data_ok(&self.interface.bus);
        let bad_crc = WriteBlock { status: Some(false), busy_until_ns: now_ns };
        match &mut self.transfer {
            Transfer::Write { write, .. } if write.deaf => no_token,
            Transfer::Write { write, single } => {
                let single = *single;
                let protected = self.config.quirks.protects(write.at, 512);
                let outcome = match (good, protected) {
                    (false, _) => Taken::Refused(0),
                    (true, true) => Taken::Refused(status::WP_VIOLATION),
                    (true, false) => write.take(&mut self.medium, &mut self.flash, data, now_ns),
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
                        if good { no_token } else { bad_crc }
                    }
                }
            }
            Transfer::WriteExtension(place) => {
                let place = *place;
                self.interface.busy_until_ns = now_ns;
                if good {
                    self.interface.busy_until_ns = self.write_extension(place, data, now_ns);
                }
                self.transfer = Transfer::None;
                self.interface.state = State::Prg;
                WriteBlock { status: Some(good), busy_until_ns: self.interface.busy_until_ns }
            }
            Transfer::ProgramCsd | Transfer::Lock => {
                let is_csd = matches!(self.transfer, Transfer::ProgramCsd);
                self.interface.busy_until_ns = now_ns.saturating_add(self.config.flash.register_ns());
                if !good {
                    self.interface.busy_until_ns = now_ns;
                } else if is_csd {
                    self.take_csd(data);
                } else {
                    self.take_lock(data, now_ns);
                }
                self.transfer = Transfer::None;
                self.interface.state = State::Prg;
                WriteBlock { status: Some(good), busy_until_ns: self.interface.busy_until_ns }
            }
            _ => no_token,
        }
    }
}

impl Card for SdCard {
    fn bus_changed(&mut self, bus: &BusState, now_ns: u64) {
        self.bus_moves(bus, now_ns);
    }

    fn command(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply {
        self.hears(index, arg, now_ns)
    }

    fn read_block(&mut self, buffer: &mut [u8], now_ns: u64) -> ReadBlock {
        self.settle(now_ns);
        if self.interface.state != State::Data
            || self.interface.data_end_ns.is_some()
            || self.interface.trouble.locked_up
        {
            return ReadBlock::Never;
        }
        let (start_ns, len, last) = match &mut self.transfer {
            Transfer::Register { bytes, len } => {
                let bytes = &bytes[..usize::from(*len)];
                let Some(to) = buffer.get_mut(..bytes.len()) else { return ReadBlock::Never };
                to.copy_from_slice(bytes);
                (now_ns, u16::from(*len), true)
            }
            Transfer::ReadExtension(bytes) => {
                let Some(to) = buffer.get_mut(..512) else { return ReadBlock::Never };
                to.copy_from_slice(&bytes[..]);
                (now_ns, 512, true)
            }
            Transfer::Read(read) => {
                let end = self.medium.bytes();
                if self.config.quirks.last_block_locks_up && read.is_multiple() && read.at + 512 >= end {
                    self.interface.trouble.violate("a multi-block read of the last sector", now_ns);
                    self.interface.trouble.locked_up = true;
                    return ReadBlock::Never;
                }

                match read.next(&mut self.medium, &mut self.flash, buffer, &self.interface.bus, now_ns) {
                    Sent::Block(start_ns) => {
                        if self.extensions.queue_is_on() && self.config.quirks.command_queue_broken {
                            buffer[..16].fill(0xcc);
                        }
                        (start_ns, read.block, read.left == Some(0))
                    }
                    Sent::Nothing(errors) => {
                        self.status.raise(errors);
                        return ReadBlock::Never;
                    }
                }
            }
            _ => return ReadBlock::Never,
        };
        if last {
            let end_ns = start_ns + link::payload_ns(&self.interface.bus, len);
            self.interface.data_end_ns = Some(end_ns);
            if let Some((_, at_ns)) = &mut self.pending_functions {
                *at_ns = end_ns + link::clocks_ns(&self.interface.bus, 8);
            }
        }
        let crc_ok = self.mode().data_ok(&self.interface.bus);
        self.due_dip(now_ns);
        ReadBlock::At { start_ns, crc_ok }
    }

    fn write_block(&mut self, data: &[u8], crc_ok: bool, now_ns: u64) -> WriteBlock {
        self.takes(data, crc_ok, now_ns)
    }

    fn busy(&self, now_ns: u64) -> bool {
        let seen = matches!(self.interface.state, State::Prg | State::Rcv)
            && self.interface.trouble.shows_busy(now_ns);
        self.interface.bus.powered
            && (seen || self.interface.trouble.stuck)
            && now_ns < self.interface.busy_until_ns
    }

    fn switching_voltage(&self, now_ns: u64) -> bool {
        self.interface.bus.powered && self.voltage.lines_low(now_ns)
    }

    fn lines_low(&self, now_ns: u64) -> u8 {
        match self.switching_voltage(now_ns) {
            true => 0xf,
            false if self.interface.bus.powered && self.voltage.is_18() => self.voltage_stuck,
            false => 0,
        }
    }

    fn write_protect_switch(&self) -> bool {
        self.medium.read_only()
    }

    fn set_protected(&mut self, on: bool) {
        self.csd_flags = self.csd_flags & !TMP_WRITE_PROTECT | if on { TMP_WRITE_PROTECT } else { 0 };
    }

    fn is_protected(&self, _partition: u8, at: u64, bytes: u64) -> bool {
        self.write_protected() || self.config.quirks.protects(at, bytes)
    }

    fn damages_spi(&self) -> bool {
        !self.config.quirks.spi_bytes.is_empty()
    }

    fn spi(&mut self) -> Option<&mut SdCard> {
        self.has_spi().then_some(self)
    }

    fn peek(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.medium.read(at, buffer)
    }

    fn touched(&self, each: &mut dyn FnMut(u8, Range<u64>)) {
        self.medium.touched(&mut |sectors| each(0, sectors));
    }

    fn settings(&self) -> Vec<(&'static str, u8)> {
        vec![("the CSD's last flags", self.csd_flags), ("a password", self.lock.is_set().into())]
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
        self.flash.cut(&mut self.medium, now_ns, keep);
        if crate::plant::any() {
            self.medium.lie_at_cut();
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
        self.medium.spoil(sector);
    }

    fn violations(&self) -> &[Violation] {
        self.interface.trouble.violations()
    }
}
