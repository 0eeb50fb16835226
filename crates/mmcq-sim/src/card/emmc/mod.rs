//! eMMC device of the revisions 4.41 to 5.1 [JESD84-B51].

mod bus;
mod commands;
pub(crate) mod config;
pub(crate) mod current;
mod erase;
mod interrupt;
pub(crate) mod packed;
mod protect;
mod queue;
mod rpmb;
mod stores;
mod switch;

use super::cut;
use super::erase_range::EraseRange;
use super::flash::Flash;
use super::interface::Interface;
use super::link::{IDENTIFICATION_HZ, Mode};
use super::lock::{Lock, Outcome};
use super::medium::{Medium, MediumError};
use super::queue::Tasks;
use super::status::{self, State, Status};
use super::transfer::{Read, Write};
use crate::plant::{self, Lie};
use config::{BOOT_CHOICE, EmmcConfig, byte};
use interrupt::Background;
use packed::Pack;
use protect::Protection;
pub use rpmb::Attack;
use rpmb::Rpmb;
pub use stores::Partition;
use stores::Stores;

/// Transfer that is under way on the data lines.
#[derive(Clone, Copy, Debug)]
enum Transfer {
    None,
    /// A single block that the card sends from `scratch`: a register or a tuning block.
    Register {
        len: u16,
    },
    Read(Read),
    Write {
        write: Write,
        single: bool,
    },
    /// The blocks after the CMD25 of a packed command: its header, and the data of packed writes.
    Packed,
    /// The data blocks of a packed read.
    PackedRead,
    /// Frames that the RPMB partition sends, and the number of frames that it still has to send.
    RpmbRead {
        left: u32,
    },
    /// Frames that the RPMB partition receives.
    RpmbWrite {
        left: u32,
        reliable: bool,
    },
    ProgramCid,
    ProgramCsd,
    Lock,
    BusTest,
}

/// What CMD23 has announced: the length and the kind of the next transfer.
#[derive(Clone, Copy, Debug)]
struct Count {
    blocks: u32,
    reliable: bool,
    /// Forced programming: the data bypass the write cache.
    forced: bool,
    /// Whether CMD23 announced a packed command: its first block (the header) describes the
    /// transfers that it contains.
    packed: bool,
}

/// An eMMC device.
#[derive(Debug)]
pub struct EmmcCard {
    config: EmmcConfig,
    stores: Stores,
    rpmb: Option<Rpmb>,
    partition: Partition,
    flash: Flash,
    /// Whether the host has written any data since power-up.
    written: bool,
    /// Number of read commands since the model was made.
    reads: u32,
    /// Extra busy time in ns at the end of the present write.
    extra_busy_ns: u64,
    /// Number of written bytes that background work has already processed.
    background_done_bytes: u64,
    /// The background work that is under way, or the last one.
    background: Background,
    /// Time in ns at which RST_n went low; `None`: RST_n is high.
    reset_low_ns: Option<u64>,
    /// Whether the device was initialised at least once since the model was made.
    was_up: bool,
    lock: Lock,
    protection: Protection,
    ext_csd: [u8; 512],
    /// Byte 14 of the CSD, which holds the write protection and copy flags.
    csd_flags: u8,
    /// Value of HS_TIMING that applies on the bus. After a switch the value changes when the busy
    /// ends.
    timing: u8,
    /// Value of BUS_WIDTH that applies on the bus.
    width: u8,
    interface: Interface,
    status: Status,
    ready_ns: Option<u64>,
    rca: u16,
    block_len: u16,
    count: Option<Count>,
    transfer: Transfer,
    scratch: Box<[u8; 512]>,
    erase: EraseRange,
    /// The command queue; `None`: the device has none.
    queue: Option<Tasks>,
    /// The packed command that is under way, or the last one.
    pack: Pack,
}

impl EmmcCard {
    pub(crate) fn new(config: EmmcConfig, user: Medium) -> Result<Self, MediumError> {
        let stores = Stores::new(&config, user)?;
        let flash = Flash::new(config.flash).with(&config.quirks);
        let rpmb = (config.rpmb_bytes > 0).then(|| Rpmb::new(config.rpmb_bytes));
        let csd_flags = config.quirks.csd_protection.flags();
        let ext_csd = config.ext_csd();
        let queue = config.queue.map(Tasks::new);
        let block_len = config.default_block_len();
        Ok(Self {
            config,
            stores,
            rpmb,
            partition: Partition::User,
            flash,
            written: false,
            reads: 0,
            extra_busy_ns: 0,
            background_done_bytes: 0,
            background: Background::default(),
            reset_low_ns: None,
            was_up: false,
            lock: Lock::default(),
            protection: Protection::default(),
            ext_csd,
            csd_flags,
            timing: 0,
            width: 0,
            interface: Interface::default(),
            status: Status::default(),
            ready_ns: None,
            rca: 1,
            block_len,
            count: None,
            transfer: Transfer::None,
            scratch: Box::new([0; 512]),
            erase: EraseRange::default(),
            queue,
            pack: Pack::default(),
        })
    }

    /// Returns the medium of a partition; `None`: the device does not have this partition.
    #[must_use]
    pub fn store(&self, partition: Partition) -> Option<&Medium> {
        self.stores.get(partition)
    }

    /// Returns the medium of a partition, to read or prepare it without the bus.
    pub fn store_mut(&mut self, partition: Partition) -> Option<&mut Medium> {
        self.stores.get_mut(partition)
    }

    /// Sets the write counter of RPMB.
    pub fn set_rpmb_counter(&mut self, counter: u32) {
        if let Some(rpmb) = &mut self.rpmb {
            rpmb.set_counter(counter);
        }
    }

    /// Gives the card this password: it is locked from its next power-up on.
    pub fn set_password(&mut self, password: &[u8]) {
        self.lock = Lock::with_password(password);
    }

    /// Returns the state of the device (idle, tran, prg ...) at this time.
    pub fn state(&mut self, now_ns: u64) -> State {
        self.settle(now_ns);
        self.interface.state
    }

    /// Resets the device to `idle`, by CMD0 or a power cycle. Some bytes of EXT_CSD survive the
    /// reset.
    fn reset(&mut self, now_ns: u64) {
        use byte::PARTITION_CONFIG;
        // A reset turns the cache off. The standard does not promise that the cached data are
        // written out first [eMMC 6.6.31].
        if self.flash.journal.follows() {
            self.flash.journal.decide(&mut self.stores, now_ns, &mut cut::reset);
        }
        self.flash.journal.volatile = false;
        if let Some(rpmb) = &mut self.rpmb {
            rpmb.reset();
        }
        if std::mem::take(&mut self.was_up) {
            let EmmcConfig { quirks, identity, capacity_bytes, .. } = &mut self.config;
            quirks.come_up_again(identity, capacity_bytes, config::ERASE_GROUP_BYTES);
        }
        let old = std::mem::replace(&mut self.ext_csd, self.config.ext_csd());
        for (_, kept) in byte::KEPT {
            self.ext_csd[usize::from(kept)] = old[usize::from(kept)];
        }
        // A reset keeps the boot bits of PARTITION_CONFIG, and selects the user area.
        self.ext_csd[usize::from(PARTITION_CONFIG)] = old[usize::from(PARTITION_CONFIG)] & BOOT_CHOICE;
        self.partition = Partition::User;
        self.timing = 0;
        self.width = 0;
        self.interface.reset();
        self.status = Status::default();
        self.ready_ns = None;
        self.rca = 1;
        self.block_len = self.config.default_block_len();
        self.count = None;
        self.transfer = Transfer::None;
        self.erase = EraseRange::default();
        self.pack = Pack::default();
        if let Some(queue) = &mut self.queue {
            queue.clear();
        }
    }

    /// Returns the bus settings that the card's present mode needs.
    fn mode(&self) -> Mode {
        let (max_hz, signal18) = match (self.interface.state, self.timing & 0xf) {
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

    /// Brings the state of the device up to this time: ends the busy and the reads that are over by
    /// then, and reports the errors of queued writes.
    fn settle(&mut self, now_ns: u64) {
        if let Some(queue) = &mut self.queue {
            self.status.raise(queue.due(now_ns));
        }
        match self.interface.state {
            State::Data if self.interface.data_end_ns.is_some_and(|end_ns| now_ns >= end_ns) => {
                self.task_ended(self.interface.data_end_ns.unwrap_or(now_ns));
                self.transfer = Transfer::None;
                self.interface.data_end_ns = None;
                self.interface.state = State::Tran;
            }
            State::Prg if now_ns >= self.interface.busy_until_ns => self.programmed(State::Tran),
            State::Dis if now_ns >= self.interface.busy_until_ns => self.programmed(State::Stby),
            _ => {}
        }
    }

    fn programmed(&mut self, state: State) {
        self.interface.state = state;
        self.timing = self.ext_csd[usize::from(byte::HS_TIMING)];
        self.width = self.ext_csd[usize::from(byte::BUS_WIDTH)];
    }

    fn capacity(&self) -> u64 {
        match self.partition {
            Partition::User => self.config.capacity_bytes,
            other => self.store(other).map_or(0, Medium::bytes),
        }
    }

    /// Ends the data of a write and begins programming. Returns the end of busy in ns.
    fn program(&mut self, now_ns: u64) -> u64 {
        let mut busy_ns = now_ns;
        if let Transfer::Packed = self.transfer {
            busy_ns = self.packed_ends(now_ns).max(self.interface.busy_until_ns);
        }
        if let Transfer::Write { mut write, .. } = self.transfer {
            let medium = self.stores.active(self.partition);
            let (until_ns, errors) = write.end(medium, &mut self.flash, now_ns);
            busy_ns = until_ns.max(self.interface.busy_until_ns).saturating_add(self.extra_busy_ns);
            self.written = true;
            match &mut self.queue {
                // The card reports an error of a queued write at the end of programming.
                Some(queue) if !queue.is_empty() => queue.owes(busy_ns, errors),
                _ => self.status.raise(errors),
            }
            if plant::any() && self.partition == Partition::User {
                self.lie_about_partitions();
            }
        }
        self.task_ended(now_ns);
        self.transfer = Transfer::None;
        self.interface.state = State::Prg;
        self.interface.busy_until_ns = busy_ns;
        busy_ns
    }

    /// Changes a block of another partition at a write to the user area. This is a planted bug
    /// ([`crate::plant`]), which the tests must find.
    #[cold]
    fn lie_about_partitions(&mut self) {
        for (lie, partition) in
            [(Lie::ChangesBoot, Partition::Boot(0)), (Lie::ChangesGeneral, Partition::Gp(0))]
        {
            if let Some(medium) = self.stores.get_mut(partition).filter(|_| plant::is(lie)) {
                // The host gets no error for a planted bug.
                let _ = medium.write(0, &[0; 512]);
            }
        }
        if let Some(rpmb) = self.rpmb.as_mut().filter(|_| plant::is(Lie::ChangesRpmb)) {
            rpmb.lie();
        }
    }

    fn take_register(&mut self, data: &[u8], now_ns: u64) {
        match self.transfer {
            // The CID was programmed in the factory, and cannot be programmed again.
            Transfer::ProgramCid => self.status.raise(status::CSD_OVERWRITE),
            Transfer::ProgramCsd => self.take_csd(data),
            Transfer::Lock => match self.lock.apply(data) {
                Outcome::Done => {}
                Outcome::Failed => self.status.raise(status::LOCK_UNLOCK_FAILED),
                Outcome::Erase => {
                    let bytes = self.config.capacity_bytes;
                    if self.stores.user.erase(0, bytes, 0).is_err() {
                        self.status.raise(status::ERROR);
                    }
                    let groups = bytes.div_ceil(config::ERASE_GROUP_BYTES);
                    self.interface.busy_until_ns = self.flash.erase(now_ns, groups);
                }
            },
            _ => {}
        }
    }

    fn take_csd(&mut self, data: &[u8]) {
        let mut now = self.config.csd();
        let Some(new) = data.get(..16) else { return };
        let same = new[..14] == now[..14];
        // The bits COPY and PERM_WRITE_PROTECT can be set, but not cleared.
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
