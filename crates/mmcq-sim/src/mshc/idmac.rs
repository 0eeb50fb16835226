//! Internal DMA: descriptors in a chain or a ring, and the data transfers that they describe.

use super::Mshc;
use super::bits::{ctrl, des, dma, int, mode};
use crate::faults::{Point, Strike};
use crate::slot::Core;

/// The DMA descriptor in use.
#[derive(Clone, Copy, Debug)]
struct Descriptor {
    place: u64,
    control: u32,
    /// For each of the two buffers: the address of the next byte, and the number of bytes that the
    /// DMA has not used yet.
    buffers: [(u64, u32); 2],
    next: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ready,
    /// The next descriptor belongs to the CPU: the DMA waits for a poll demand.
    Suspended,
    /// The DMA has returned the last descriptor to the CPU.
    Finished,
    /// A bus error occurred; only a reset ends this state.
    Dead,
    /// Fault: a memory access never ends.
    Hangs,
}

#[derive(Debug, Default)]
pub(super) struct Idmac {
    /// Mode register of the DMA.
    pub mode: u32,
    /// Register with the base address of the descriptor list.
    pub base: u64,
    /// Status register of the DMA.
    pub status: u32,
    /// Interrupt enable register of the DMA.
    pub enable: u32,
    /// Address of the next descriptor.
    at: u64,
    state: State,
    current: Option<Descriptor>,
    /// Whether the DMA has not used any descriptor since the data of the command began.
    fresh: bool,
    /// Whether the DMA is inside a list: it has fetched a descriptor since its reset, or since the
    /// end of the last list.
    in_list: bool,
}

impl Idmac {
    /// Resets the DMA: it continues at the base address of the list.
    pub fn rewind(&mut self) {
        (self.at, self.state, self.current) = (self.base, State::Ready, None);
        self.in_list = false;
    }

    /// Sets the base address of the descriptor list. The DMA begins there if it was reset, or has
    /// come to the end of its list. In the middle of a list it keeps its place until a reset.
    pub fn set_base(&mut self, base: u64) {
        self.base = base;
        if !self.in_list {
            self.at = base;
        }
    }

    /// Prepares the DMA for the data of a new command.
    pub fn begin(&mut self) {
        self.fresh = true;
        if self.state == State::Finished {
            self.state = State::Ready;
        }
    }

    /// Handles a poll demand. Returns true if the DMA continues.
    pub fn poll(&mut self) -> bool {
        let waited = self.state == State::Suspended;
        if waited {
            self.state = State::Ready;
        }
        waited
    }

    /// Returns the bus address of the descriptor in use (`which` 0) or of its buffer (1).
    pub fn place(&self, which: u8) -> u32 {
        match (which, &self.current) {
            (0, Some(current)) => current.place as u32,
            (0, None) => self.at as u32,
            (_, Some(current)) => current.buffers[0].0 as u32,
            (_, None) => 0,
        }
    }

    /// Returns what the DMA does, as the status register shows it: 0 idle, 1 suspended, 4 waits for
    /// the FIFO before it reads memory, 5 (if `writes_memory`) waits for the FIFO before it writes
    /// memory.
    pub fn present_state(&self, writes_memory: bool) -> u32 {
        match (self.state, &self.current) {
            (State::Suspended, _) => 1,
            (State::Ready, Some(_)) => 4 + u32::from(writes_memory),
            _ => 0,
        }
    }

    /// Returns the interrupt causes of the DMA that are set and enabled. A DesignWare (`sums`)
    /// interrupts only by its two summary bits, which enabled causes set.
    pub fn pending(&self, sums: bool) -> u32 {
        let causes = self.status & self.enable;
        let sum = |of: u32, sum: u32| if causes & of != 0 { self.enable & sum } else { 0 };
        if sums {
            sum(dma::SENT | dma::RECEIVED, dma::NORMAL)
                | sum(dma::BUS_ERROR | dma::UNAVAILABLE | dma::CARD_ERROR, dma::ABNORMAL)
        } else {
            causes
        }
    }
}

impl Mshc {
    /// Returns whether the internal DMA, and not the CPU, moves the data.
    pub(super) fn by_dma(&self) -> bool {
        let on = self.regs.control & ctrl::DMA != 0;
        let internal = self.config.is_smhc() || self.regs.control & ctrl::INTERNAL_DMA != 0;
        on && internal && self.config.internal_dma
    }

    /// Writes the content of the FIFO to memory, as long as there are descriptors.
    pub(super) fn dma_drains(&mut self, now: u64) {
        let mark = if self.dat.flows() { 4 * (self.regs.threshold >> 16 & 0xfff) as usize } else { 0 };
        while self.fifo.len() > mark && self.descriptor(now) {
            let Some(current) = &mut self.idmac.current else { return };
            let (at, left) = current.buffers[0];
            let above = self.fifo.len().saturating_sub(mark);
            let bytes = self.fifo.front((left as usize).min(above));
            let n = bytes.len();
            if self.memory.device_write(at, bytes).is_err() {
                return self.bus_error();
            }
            self.fifo.drop_front(n);
            self.dma_moved(n as u32, false);
        }
    }

    /// Reads bytes from memory until the FIFO holds `wanted` bytes, as long as there are
    /// descriptors.
    pub(super) fn dma_fills(&mut self, wanted: usize, now: u64) {
        while self.fifo.len() < wanted && self.dat.to_give > 0 && self.descriptor(now) {
            let Some(current) = &mut self.idmac.current else { return };
            let (at, left) = current.buffers[0];
            let n = (left as usize).min(wanted - self.fifo.len()).min(self.dat.to_give);
            if self.fifo.push_with(n, |bytes| self.memory.device_read(at, bytes)).is_err() {
                return self.bus_error();
            }
            self.dat.to_give = self.dat.to_give.saturating_sub(n);
            self.dma_moved(n as u32, true);
            if self.dat.to_give == 0 {
                self.close(true);
            }
        }
    }

    /// Ends the data: the descriptor in use is returned to the CPU even if its buffer has room
    /// left.
    pub(super) fn dma_ends(&mut self) {
        if self.idmac.current.is_some() && !self.idmac.fresh {
            self.close(!self.dat.block.read);
        }
    }

    fn dma_moved(&mut self, bytes: u32, from_memory: bool) {
        self.regs.fifo_bytes = self.regs.fifo_bytes.wrapping_add(bytes);
        self.idmac.fresh = false;
        let Some(current) = &mut self.idmac.current else { return };
        let (at, left) = &mut current.buffers[0];
        *at += u64::from(bytes);
        *left -= bytes;
        if *left > 0 {
            return;
        }
        current.buffers = [current.buffers[1], (0, 0)];
        if current.buffers[0].1 == 0 {
            self.close(from_memory);
        }
    }

    /// Fetches descriptors until one has room in its buffers. Returns whether a descriptor with
    /// room is in use.
    pub(super) fn descriptor(&mut self, now: u64) -> bool {
        let on = self.idmac.mode & mode::ON != 0 && self.by_dma();
        while on && self.idmac.state == State::Ready {
            if self.idmac.current.is_some() {
                return true;
            }
            self.fetch(now);
            if self.idmac.current.is_some_and(|current| current.buffers[0].1 == 0) {
                // A descriptor without bytes goes back to the CPU at once.
                self.close(!self.dat.block.read);
            }
        }
        false
    }

    fn fetch(&mut self, now: u64) {
        match self.strike(Point::Dma, now) {
            Some(Strike::Fail) => return self.bus_error(),
            Some(Strike::Never) => {
                self.idmac.state = State::Hangs;
                return;
            }
            _ => {}
        }
        let place = self.idmac.at;
        self.idmac.in_list = true;
        let mut raw = [0; 32];
        let bytes = self.descriptor_bytes() as usize;
        self.slot.stats.descriptors += 1;
        if self.memory.device_read(place, &mut raw[..bytes]).is_err() {
            return self.bus_error();
        }
        let word =
            |i: usize| u32::from_le_bytes([raw[4 * i], raw[4 * i + 1], raw[4 * i + 2], raw[4 * i + 3]]);
        let control = word(0);
        if control & des::OWN == 0 {
            self.idmac.state = State::Suspended;
            self.idmac.status |= dma::UNAVAILABLE | dma::ABNORMAL;
            return;
        }
        if self.idmac.fresh != (control & des::FIRST != 0) {
            self.slot.violation();
            // The first descriptor of a transfer resets the FIFO.
            if control & des::FIRST != 0 {
                self.fifo.clear();
            }
        }
        let shift = u32::from(self.config.address_shift);
        let (sizes, first, second) = if self.config.wide_dma {
            let long = |i: usize| u64::from(word(i)) | u64::from(word(i + 1)) << 32;
            (word(2), long(4), long(6))
        } else {
            (word(1), u64::from(word(2)) << shift, u64::from(word(3)) << shift)
        };
        let bits = u32::from(self.config.size_bits);
        let mask = (1 << bits) - 1;
        let chained = control & des::CHAINED != 0;
        let full = if self.config.is_smhc() { 1 << bits } else { 0 };
        let size = |size: u32| if size == 0 { full } else { size };
        if first & 3 != 0 {
            self.slot.violation();
        }
        let mut buffers = [(first & !3, size(sizes & mask)), (0, 0)];
        // In a ring, a descriptor can have two buffers.
        if !chained && bits == 13 && sizes >> 13 & mask != 0 {
            buffers[1] = (second & !3, sizes >> 13 & mask);
        }
        let skip = u64::from(self.idmac.mode >> mode::SKIP_SHIFT & 0x1f) * 4;
        let next = match (chained, control & des::END_OF_RING != 0) {
            (true, _) => second & !3,
            (false, true) => self.idmac.base,
            (false, false) => place + self.descriptor_bytes() + skip,
        };
        if buffers[0].1 == 0 && buffers[1].1 > 0 {
            buffers = [buffers[1], (0, 0)];
        }
        self.idmac.current = Some(Descriptor { place, control, buffers, next });
    }

    fn descriptor_bytes(&self) -> u64 {
        if self.config.wide_dma { 32 } else { 16 }
    }

    /// Gives the descriptor in use back to the CPU; `sent`: its data went to the card.
    fn close(&mut self, sent: bool) {
        let Some(current) = self.idmac.current.take() else { return };
        self.idmac.fresh = false;
        let errors = self.regs.raw
            & (int::RESPONSE_ERROR
                | int::RESPONSE_CRC
                | int::RESPONSE_TIMEOUT
                | int::DATA_CRC
                | int::DATA_TIMEOUT
                | int::END_BIT);
        let mut control = current.control & !des::OWN;
        if errors != 0 {
            control |= des::ERROR;
            self.idmac.status |= dma::CARD_ERROR | dma::ABNORMAL;
        }
        if self.memory.device_hand_back(current.place, &control.to_le_bytes()).is_err() {
            return self.bus_error();
        }
        if control & des::NO_INTERRUPT == 0 {
            self.idmac.status |= dma::NORMAL | if sent { dma::SENT } else { dma::RECEIVED };
        }
        self.idmac.at = current.next;
        if control & des::LAST != 0 {
            self.idmac.state = State::Finished;
            self.idmac.in_list = false;
        }
    }

    fn bus_error(&mut self) {
        self.idmac.state = State::Dead;
        self.idmac.status |= dma::BUS_ERROR | dma::ABNORMAL;
    }
}
