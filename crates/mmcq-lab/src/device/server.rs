//! Serves a client of the device: handles its messages one after the other, and the events of the
//! device between them.

use super::interrupt::Pin;
use super::memory::{GuestMemory, MapError};
use super::pci::{CONFIG_BYTES, ConfigSpace};
use super::protocol::{self, HEADER_BYTES, Header, Request, dma, irqs};
use super::socket::Socket;
use super::{Asked, State};
use mmcq_sim::schedule::Schedule;
use mmcq_sim::sdhci::Sdhci;
use mmcq_sim::slot::Controller;
use mmcq_sim::world::Device;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Number of regions: six base addresses, ROM, configuration, VGA.
const REGIONS: u32 = 9;
const BAR0: u32 = 0;
const CONFIG: u32 = 7;
/// Number of interrupt kinds: pin, MSI, MSI-X, error, device request.
const IRQS: u32 = 5;
const PIN: u32 = 0;
/// Offset of SDHCI's Software Reset register, and its bit that resets everything.
const SOFTWARE_RESET: (u16, u32) = (0x2f, 1);
/// Largest number of controller events that the server handles before it polls the socket again.
const EVENTS_MAX: u32 = 10_000;

/// Longest interval between two checks for actions that another thread requested
/// ([`super::Control`]).
const LOOK: Duration = Duration::from_millis(20);

/// Clock that gives the present virtual time of the controller model.
pub trait Clock {
    /// Returns the time in ns since the clock began.
    fn now_ns(&self) -> u64;

    /// Waits for a message on the socket, at most until the time `until_ns`. Returns false if no
    /// message came before.
    fn wait(&self, socket: &Socket, until_ns: Option<u64>) -> io::Result<bool>;
}

/// Clock by which the model's virtual time equals real time.
pub struct Wall(Instant);

impl Wall {
    /// Makes a clock that counts from now.
    pub fn begin() -> Self {
        Wall(Instant::now())
    }
}

impl Clock for Wall {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn wait(&self, socket: &Socket, until_ns: Option<u64>) -> io::Result<bool> {
        let left = until_ns.map_or(LOOK, |at| Duration::from_nanos(at.saturating_sub(self.now_ns())));
        socket.wait(Some(left.min(LOOK)))
    }
}

/// Reason why a connection ended before the client closed it; its text is one line.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// Reading from or writing to the socket failed.
    #[error("client: {0}")]
    Socket(#[from] io::Error),
    /// The client sent an invalid message; the text says what is wrong.
    #[error("client: {0}")]
    Message(String),
}

/// Answer to a request: a payload, or an error number of `errno.h`.
type Answer = Result<Vec<u8>, i32>;

/// Serves the simulated SDHCI device to one client of the vfio-user protocol, such as QEMU.
pub struct Server<'a, C> {
    socket: Socket,
    model: &'a mut Sdhci,
    schedule: &'a mut Schedule,
    outside: &'a Mutex<State>,
    memory: GuestMemory,
    config: ConfigSpace,
    pin: Pin,
    clock: C,
    /// Whether client and server have agreed on the protocol version.
    greeted: bool,
}

impl<'a, C: Clock> Server<'a, C> {
    /// Makes the server of the client at the other end of `socket`. `config`: the device's
    /// configuration space. The device's DMA uses `memory`. The slot of `model` follows `schedule`,
    /// and the actions that other threads store in `outside`. `clock` gives the model's time.
    pub fn new(
        socket: Socket,
        config: ConfigSpace,
        (model, schedule, outside): (&'a mut Sdhci, &'a mut Schedule, &'a Mutex<State>),
        memory: GuestMemory,
        clock: C,
    ) -> Self {
        memory.set_bus_master(false);
        let pin = Pin::default();
        Server { socket, model, schedule, outside, memory, config, pin, clock, greeted: false }
    }

    /// Serves until the client closes the connection. Releases all memory of the client at the end.
    pub fn run(mut self) -> Result<(), Ended> {
        let result = self.serve();
        self.memory.unmap_all();
        result
    }

    fn serve(&mut self) -> Result<(), Ended> {
        let mut payload = Vec::new();
        loop {
            self.catch_up()?;
            let next = self.model.next_event_ns().into_iter().chain(self.schedule.next_ns()).min();
            if !self.clock.wait(&self.socket, next)? {
                continue;
            }
            let mut raw = [0; HEADER_BYTES];
            let mut descriptors = Vec::new();
            if !self.socket.receive(&mut raw, &mut descriptors)? {
                return Ok(());
            }
            let header = Header::parse(&raw).map_err(Ended::Message)?;
            payload.resize(header.payload_bytes(), 0);
            if !payload.is_empty() && !self.socket.receive(&mut payload, &mut descriptors)? {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            let request = Request::parse(&header, &payload).map_err(Ended::Message)?;
            let answer = self.answer(&header, request, descriptors)?;
            if header.wants_reply() {
                self.socket.send(&match answer {
                    Ok(payload) => header.reply(&payload),
                    Err(errno) => header.refusal(errno),
                })?;
            }
        }
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Executes the events that are due at the controller and in the schedule, and the actions that
    /// another thread requested ([`super::Control`]). Then notifies the client if the interrupt pin
    /// is high.
    fn catch_up(&mut self) -> io::Result<()> {
        let now = self.now_ns();
        let mut events = 0;
        while events < EVENTS_MAX && self.model.advance(now) < now {
            events += 1;
        }
        if self.schedule.next_ns().is_some_and(|at_ns| at_ns <= now) {
            self.schedule.advance(self.model, now);
        }
        for asked in std::mem::take(&mut State::of(self.outside).asked) {
            match asked {
                Asked::Cut => {
                    self.model.set_supply(false, now);
                    self.model.set_supply(true, now);
                }
                Asked::Begin => self.schedule.begin(self.model, now),
                Asked::Swap => _ = self.schedule.swap(self.model, now),
            }
        }
        self.update_pin()
    }

    fn update_pin(&mut self) -> io::Result<()> {
        self.pin.set_level(self.model.irq() && !self.config.interrupt_disabled())
    }

    fn answer(
        &mut self,
        header: &Header,
        request: Request<'_>,
        mut descriptors: Vec<OwnedFd>,
    ) -> Result<Answer, Ended> {
        let greeting = matches!(request, Request::Version { .. });
        if greeting == self.greeted {
            let expected = if greeting { "something else than a second VERSION" } else { "VERSION first" };
            let text = format!("message {} (command {}): expected {expected}", header.id, header.command);
            return Err(Ended::Message(text));
        }
        Ok(match request {
            Request::Version { major: 0, .. } => {
                self.greeted = true;
                Ok(protocol::version())
            }
            Request::Version { major, minor } => {
                return Err(Ended::Message(format!("version {major}.{minor}: expected 0.x")));
            }
            Request::DmaMap { flags, offset, address, bytes } => {
                self.map(flags, offset, address, bytes, descriptors.pop())
            }
            Request::DmaUnmap { flags, address, bytes } => {
                if flags & dma::ALL != 0 {
                    self.memory.unmap_all();
                    Ok(protocol::unmapped(flags, address, bytes))
                } else if self.memory.unmap(address, bytes) {
                    Ok(protocol::unmapped(flags, address, bytes))
                } else {
                    Err(libc::EINVAL)
                }
            }
            Request::DeviceInfo => Ok(protocol::device_info(REGIONS, IRQS)),
            Request::RegionInfo(index @ 0..REGIONS) => {
                Ok(protocol::region_info(index, self.region_bytes(index)))
            }
            Request::IrqInfo(index @ 0..IRQS) => Ok(protocol::irq_info(index, irq_count(index))),
            Request::RegionInfo(_) | Request::IrqInfo(_) => Err(libc::EINVAL),
            Request::SetIrqs { flags, index, start, count, data } => {
                self.set_irqs(flags, (index, start, count), data, descriptors.pop())?
            }
            Request::RegionRead { region, offset, count } => {
                let mut data = vec![0; count];
                match self.read(region, offset, &mut data) {
                    true => {
                        // Reading a register may change the interrupt line.
                        self.update_pin()?;
                        Ok(protocol::access(offset, region, count, &data))
                    }
                    false => Err(libc::EINVAL),
                }
            }
            Request::RegionWrite { region, offset, data } => match self.write(region, offset, data) {
                true => {
                    self.update_pin()?;
                    Ok(protocol::access(offset, region, data.len(), &[]))
                }
                false => Err(libc::EINVAL),
            },
            Request::Reset => {
                self.reset()?;
                Ok(Vec::new())
            }
            Request::Other(_) => Err(libc::ENOTSUP),
        })
    }

    fn map(&self, flags: u32, offset: u64, address: u64, bytes: u64, file: Option<OwnedFd>) -> Answer {
        // A range without a file can be reached only by the client (registers of its own devices).
        // The card controller cannot access it.
        let Some(file) = file else {
            return Ok(Vec::new());
        };
        let allowed = (flags & dma::READ != 0, flags & dma::WRITE != 0);
        match self.memory.map(address, bytes, File::from(file), offset, allowed) {
            Ok(()) => Ok(Vec::new()),
            Err(MapError::Range) => Err(libc::EINVAL),
            Err(MapError::Overlap) => Err(libc::EEXIST),
            Err(MapError::TooMany) => Err(libc::ENOSPC),
        }
    }

    fn set_irqs(
        &mut self,
        flags: u32,
        (index, start, count): (u32, u32, u32),
        data: &[u8],
        signal: Option<OwnedFd>,
    ) -> io::Result<Answer> {
        let end = start.checked_add(count);
        if index >= IRQS || end.is_none_or(|end| end > irq_count(index)) {
            return Ok(Err(libc::EINVAL));
        }
        if index != PIN {
            return Ok(Ok(Vec::new()));
        }
        const DATA: u32 = irqs::DATA_NONE | irqs::DATA_BOOL | irqs::DATA_EVENTFD;
        let concerned = match flags & DATA {
            irqs::DATA_NONE => true,
            irqs::DATA_BOOL if data.len() == count as usize => data.first().is_some_and(|&on| on != 0),
            irqs::DATA_EVENTFD => true,
            _ => return Ok(Err(libc::EINVAL)),
        };
        match (flags & !DATA, flags & DATA) {
            (irqs::TRIGGER, irqs::DATA_EVENTFD) => self.pin.set_signal(signal.map(File::from))?,
            (irqs::TRIGGER, irqs::DATA_NONE) if count == 0 => self.pin.set_signal(None)?,
            (irqs::TRIGGER, _) if concerned && count != 0 => self.pin.test()?,
            (irqs::MASK, irqs::DATA_NONE | irqs::DATA_BOOL) if concerned && count != 0 => self.pin.mask(),
            (irqs::UNMASK, irqs::DATA_NONE | irqs::DATA_BOOL) if concerned && count != 0 => {
                self.pin.unmask()?
            }
            (irqs::TRIGGER | irqs::MASK | irqs::UNMASK, irqs::DATA_NONE | irqs::DATA_BOOL) => {}
            _ => return Ok(Err(libc::EINVAL)),
        }
        Ok(Ok(Vec::new()))
    }

    /// Reads from a region of the device into `data`. Returns false if the region does not allow
    /// this access.
    fn read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> bool {
        match region {
            CONFIG => self.config.read(offset, data, self.model.irq()),
            BAR0 if self.inside_bar(offset, data.len()) => {
                if !self.config.memory_space() {
                    data.fill(0xff);
                    return true;
                }
                let now = self.now_ns();
                for (at, size, part) in pieces(offset, data.len()) {
                    let value = self.model.read(at, size, now).to_le_bytes();
                    data[part.clone()].copy_from_slice(&value[..part.len()]);
                }
                true
            }
            _ => false,
        }
    }

    /// Writes `data` to a region of the device. Returns false if the region does not allow this
    /// access.
    fn write(&mut self, region: u32, offset: u64, data: &[u8]) -> bool {
        match region {
            CONFIG => {
                let known = self.config.write(offset, data);
                self.memory.set_bus_master(self.config.bus_master());
                known
            }
            BAR0 if self.inside_bar(offset, data.len()) => {
                if !self.config.memory_space() {
                    return true;
                }
                let now = self.now_ns();
                for (at, size, part) in pieces(offset, data.len()) {
                    let mut value = [0; 4];
                    value[..part.len()].copy_from_slice(&data[part]);
                    self.model.write(at, size, u32::from_le_bytes(value), now);
                }
                true
            }
            _ => false,
        }
    }

    fn reset(&mut self) -> io::Result<()> {
        let now = self.now_ns();
        let (register, everything) = SOFTWARE_RESET;
        self.model.write(register, 1, everything, now);
        self.config.reset();
        self.memory.set_bus_master(false);
        self.update_pin()
    }

    fn region_bytes(&self, index: u32) -> u64 {
        match index {
            BAR0 => self.config.bar_bytes().into(),
            CONFIG => CONFIG_BYTES as u64,
            _ => 0,
        }
    }

    fn inside_bar(&self, offset: u64, len: usize) -> bool {
        offset.checked_add(len as u64).is_some_and(|end| end <= self.config.bar_bytes().into())
    }
}

fn irq_count(index: u32) -> u32 {
    u32::from(index == PIN)
}

/// Splits an access to the registers into aligned bytes, halfwords and words. Each item has offset,
/// size, and the range of bytes in the access.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u16, u8, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset as usize + done;
        let size = [4, 2, 1].into_iter().find(|&size| at.is_multiple_of(size) && done + size <= len)?;
        let part = done..done + size;
        done += size;
        Some((at as u16, size as u8, part))
    })
}
