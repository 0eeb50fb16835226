//! eMMC device [JESD84-B51], as far back as 4.41.

mod commands;
pub(crate) mod config;
mod protect;
mod switch;

use std::io;

use super::flash::Flash;
use super::link::{self, IDENTIFICATION_HZ, Mode, PowerUp};
use super::lock::{Lock, Outcome};
use super::medium::{Fill, Medium, MediumError};
use super::status::{self, State, Status};
use super::transfer::{Read, Sent, Taken, Write};
use super::{BusState, Card, ReadBlock, Reply, WriteBlock};
use config::{EmmcConfig, byte};
use protect::Protection;

/// A partition that PARTITION_CONFIG can select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partition {
    /// The user area.
    User,
    /// Boot partition 1 or 2, counted from 0.
    Boot(u8),
    /// General purpose partition 1 to 4, counted from 0.
    Gp(u8),
}

/// What is under way on the data lines.
#[derive(Clone, Copy, Debug)]
enum Transfer {
    None,
    /// A register or a tuning block: one block out of `scratch`.
    Register {
        len: u16,
    },
    Read(Read),
    Write {
        write: Write,
        single: bool,
    },
    ProgramCid,
    ProgramCsd,
    Lock,
    BusTest,
}

/// CMD23: how long the next transfer is.
#[derive(Clone, Copy, Debug)]
struct Count {
    blocks: u32,
    reliable: bool,
}

/// The groups or sectors chosen by CMD35 and CMD36.
#[derive(Clone, Copy, Debug, Default)]
struct EraseRange {
    start: Option<u64>,
    end: Option<u64>,
}

/// An eMMC device.
#[derive(Debug)]
pub struct EmmcCard {
    config: EmmcConfig,
    user: Medium,
    boot: Vec<Medium>,
    gp: [Option<Medium>; 4],
    partition: Partition,
    flash: Flash,
    lock: Lock,
    protection: Protection,
    ext_csd: [u8; 512],
    /// Byte 14 of the CSD.
    csd_flags: u8,
    /// HS_TIMING and BUS_WIDTH that the interface works with: they change when the switch's busy ends.
    timing: u8,
    width: u8,
    bus: BusState,
    power: PowerUp,
    state: State,
    status: Status,
    ready_ns: Option<u64>,
    rca: u16,
    block_len: u16,
    count: Option<Count>,
    transfer: Transfer,
    scratch: Box<[u8; 512]>,
    data_end_ns: Option<u64>,
    busy_until_ns: u64,
    erase: EraseRange,
}

impl EmmcCard {
    pub(crate) fn new(config: EmmcConfig, mut user: Medium) -> Result<Self, MediumError> {
        user.shorten(config.capacity_bytes);
        let mut boot = Vec::new();
        if config.boot_bytes > 0 {
            boot.push(Medium::sparse(config.boot_bytes, Fill::Zeros)?);
            boot.push(Medium::sparse(config.boot_bytes, Fill::Zeros)?);
        }
        let mut gp = [None, None, None, None];
        for (place, bytes) in gp.iter_mut().zip(config.gp_bytes) {
            if bytes > 0 {
                *place = Some(Medium::sparse(bytes, Fill::Zeros)?);
            }
        }
        let flash = Flash::new(config.flash);
        let ext_csd = config.ext_csd();
        Ok(Self {
            config,
            user,
            boot,
            gp,
            partition: Partition::User,
            flash,
            lock: Lock::default(),
            protection: Protection::default(),
            ext_csd,
            csd_flags: 0,
            timing: 0,
            width: 0,
            bus: BusState::default(),
            power: PowerUp::default(),
            state: State::Idle,
            status: Status::default(),
            ready_ns: None,
            rca: 1,
            block_len: 512,
            count: None,
            transfer: Transfer::None,
            scratch: Box::new([0; 512]),
            data_end_ns: None,
            busy_until_ns: 0,
            erase: EraseRange::default(),
        })
    }

    /// The bytes of a partition, if the device has it.
    #[must_use]
    pub fn store(&self, partition: Partition) -> Option<&Medium> {
        match partition {
            Partition::User => Some(&self.user),
            Partition::Boot(number) => self.boot.get(usize::from(number)),
            Partition::Gp(number) => self.gp.get(usize::from(number))?.as_ref(),
        }
    }

    /// The bytes of a partition, to be prepared or looked at without the bus.
    pub fn store_mut(&mut self, partition: Partition) -> Option<&mut Medium> {
        match partition {
            Partition::User => Some(&mut self.user),
            Partition::Boot(number) => self.boot.get_mut(usize::from(number)),
            Partition::Gp(number) => self.gp.get_mut(usize::from(number))?.as_mut(),
        }
    }

    /// Present state, as a status at this time would show it.
    pub fn state(&mut self, now_ns: u64) -> State {
        self.settle(now_ns);
        self.state
    }

    /// Back to idle: CMD0 or a power cycle. Bytes of EXT_CSD that outlive it are kept.
    fn reset(&mut self) {
        use byte::{
            BKOPS_EN, BOOT_BUS_CONDITIONS, BOOT_CONFIG_PROT, BOOT_WP, PARTITION_CONFIG, RST_N_FUNCTION,
            USER_WP,
        };
        let old = std::mem::replace(&mut self.ext_csd, self.config.ext_csd());
        for kept in [RST_N_FUNCTION, BKOPS_EN, BOOT_CONFIG_PROT, BOOT_BUS_CONDITIONS, USER_WP, BOOT_WP] {
            self.ext_csd[usize::from(kept)] = old[usize::from(kept)];
        }
        // The boot choice stays, the access goes back to the user area.
        self.ext_csd[usize::from(PARTITION_CONFIG)] = old[usize::from(PARTITION_CONFIG)] & 0x78;
        self.partition = Partition::User;
        self.timing = 0;
        self.width = 0;
        self.state = State::Idle;
        self.status = Status::default();
        self.ready_ns = None;
        self.rca = 1;
        self.block_len = 512;
        self.count = None;
        self.transfer = Transfer::None;
        self.data_end_ns = None;
        self.busy_until_ns = 0;
        self.erase = EraseRange::default();
    }

    /// What the bus must be like now.
    fn mode(&self) -> Mode {
        let (max_hz, signal18) = match (self.state, self.timing & 0xf) {
            (State::Idle | State::Ready | State::Ident, _) => (IDENTIFICATION_HZ, None),
            (_, 0) => (26_000_000, None),
            (_, 1) => (52_000_000, None),
            _ => (200_000_000, Some(true)),
        };
        let (width, ddr) = match self.width & 0x0f {
            0 => (1, false),
            1 => (4, false),
            2 => (8, false),
            5 => (4, true),
            _ => (8, true),
        };
        let strobe = self.timing & 0xf == 3 && self.width & 0x80 != 0;
        Mode { max_hz, width, ddr, signal18, strobe }
    }

    /// Lets everything happen that was due.
    fn settle(&mut self, now_ns: u64) {
        match self.state {
            State::Data if self.data_end_ns.is_some_and(|end_ns| now_ns >= end_ns) => {
                self.transfer = Transfer::None;
                self.data_end_ns = None;
                self.state = State::Tran;
            }
            State::Prg if now_ns >= self.busy_until_ns => self.programmed(State::Tran),
            State::Dis if now_ns >= self.busy_until_ns => self.programmed(State::Stby),
            _ => {}
        }
    }

    fn programmed(&mut self, state: State) {
        self.state = state;
        self.timing = self.ext_csd[usize::from(byte::HS_TIMING)];
        self.width = self.ext_csd[usize::from(byte::BUS_WIDTH)];
    }

    fn capacity(&self) -> u64 {
        match self.partition {
            Partition::User => self.config.capacity_bytes,
            other => self.store(other).map_or(0, Medium::bytes),
        }
    }

    /// The data of a write ended: programming begins. Returns the end of busy.
    fn program(&mut self, now_ns: u64) -> u64 {
        let mut busy_ns = now_ns;
        if let Transfer::Write { mut write, .. } = self.transfer {
            let medium = active(&mut self.user, &mut self.boot, &mut self.gp, self.partition);
            let (until_ns, errors) = write.end(medium, &mut self.flash, now_ns);
            busy_ns = until_ns.max(self.busy_until_ns);
            self.status.raise(errors);
        }
        self.transfer = Transfer::None;
        self.state = State::Prg;
        self.busy_until_ns = busy_ns;
        busy_ns
    }

    fn take_register(&mut self, data: &[u8], now_ns: u64) {
        match self.transfer {
            // The CID was written in the factory.
            Transfer::ProgramCid => self.status.raise(status::CSD_OVERWRITE),
            Transfer::ProgramCsd => self.take_csd(data),
            Transfer::Lock => match self.lock.apply(data) {
                Outcome::Done => {}
                Outcome::Failed => self.status.raise(status::LOCK_UNLOCK_FAILED),
                Outcome::Erase => {
                    let bytes = self.config.capacity_bytes;
                    if self.user.erase(0, bytes, 0).is_err() {
                        self.status.raise(status::ERROR);
                    }
                    let groups = bytes.div_ceil(config::ERASE_GROUP_BYTES);
                    self.busy_until_ns = self.flash.erase(now_ns, groups);
                }
            },
            _ => {}
        }
    }

    fn take_csd(&mut self, data: &[u8]) {
        let mut now = self.config.csd();
        let Some(new) = data.get(..16) else { return };
        let same = new[..14] == now[..14];
        // COPY and PERM_WRITE_PROTECT can be set only.
        let gone = self.csd_flags & 0x60 & !new[14];
        now[14] = new[14];
        super::registers::seal(&mut now);
        if same && gone == 0 && new[15] == now[15] {
            self.csd_flags = new[14];
        } else {
            self.status.raise(status::CSD_OVERWRITE);
        }
    }
}

/// The medium of the selected partition; the fields one by one, so that the flash can be borrowed beside it.
fn active<'a>(
    user: &'a mut Medium,
    boot: &'a mut [Medium],
    gp: &'a mut [Option<Medium>; 4],
    partition: Partition,
) -> &'a mut Medium {
    match partition {
        Partition::User => user,
        Partition::Boot(number) => boot.get_mut(usize::from(number)).unwrap_or(user),
        Partition::Gp(number) => gp.get_mut(usize::from(number)).and_then(Option::as_mut).unwrap_or(user),
    }
}

impl Card for EmmcCard {
    fn bus_changed(&mut self, bus: &BusState, now_ns: u64) {
        self.settle(now_ns);
        let was = std::mem::replace(&mut self.bus, *bus);
        if !bus.powered {
            if was.powered {
                self.reset();
                self.flash.power_lost(&mut self.user, now_ns);
            }
            return;
        }
        if !was.powered {
            self.reset();
            self.lock.power_up();
            self.protection.power_up();
            // Power-on protection ends with the power.
            self.ext_csd[usize::from(byte::USER_WP)] &= !1;
            self.ext_csd[usize::from(byte::BOOT_WP)] &= !1;
            self.power = PowerUp::on(now_ns);
        }
        self.power.clock(bus.clock_hz > 0, now_ns);
    }

    fn command(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply {
        self.settle(now_ns);
        let mode = self.mode();
        if !mode.hears(&self.bus) || !self.power.awake(&self.bus, now_ns) || self.state == State::Ina {
            return Reply::SILENT;
        }
        let mut reply = self.execute(index, arg, now_ns);
        // The host ignores the answer to a tuning command: it only looks at the block.
        if index != 21 && !mode.is_heard(&self.bus) {
            reply.answer = None;
        }
        reply
    }

    fn read_block(&mut self, buffer: &mut [u8], now_ns: u64) -> ReadBlock {
        self.settle(now_ns);
        if self.state == State::Btst {
            return self.answer_bus_test(buffer, now_ns);
        }
        if self.state != State::Data || self.data_end_ns.is_some() {
            return ReadBlock::Never;
        }
        let (start_ns, len, last) = match &mut self.transfer {
            Transfer::Register { len } => {
                let Some(to) = buffer.get_mut(..usize::from(*len)) else { return ReadBlock::Never };
                to.copy_from_slice(&self.scratch[..usize::from(*len)]);
                (now_ns, *len, true)
            }
            Transfer::Read(read) => {
                let medium = active(&mut self.user, &mut self.boot, &mut self.gp, self.partition);
                match read.next(medium, &mut self.flash, buffer, &self.bus, now_ns) {
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
            self.data_end_ns = Some(start_ns + link::payload_ns(&self.bus, len));
        }
        ReadBlock::At { start_ns, crc_ok: self.mode().data_ok(&self.bus) }
    }

    fn write_block(&mut self, data: &[u8], crc_ok: bool, now_ns: u64) -> WriteBlock {
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
        let good = crc_ok && self.mode().data_ok(&self.bus);
        match &mut self.transfer {
            Transfer::Write { write, .. } if write.deaf => no_token,
            Transfer::Write { write, single } => {
                let single = *single;
                let in_user = self.partition == Partition::User;
                let protected = in_user && self.protection.covers(write.at, 512);
                let medium = active(&mut self.user, &mut self.boot, &mut self.gp, self.partition);
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

    fn busy(&self, now_ns: u64) -> bool {
        self.bus.powered && self.state != State::Dis && now_ns < self.busy_until_ns
    }

    fn switching_voltage(&self, _now_ns: u64) -> bool {
        false
    }

    fn write_protect_switch(&self) -> bool {
        false
    }

    fn peek(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.user.read(at, buffer)
    }
}
