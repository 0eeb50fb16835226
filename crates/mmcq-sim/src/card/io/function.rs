//! The trait for the behaviour of an I/O function, and a simple function for tests.

use std::collections::VecDeque;

/// Number of addresses in a function's register space: 17 bits [SDIO 5.1].
pub const ADDRESSES: u32 = 0x2_0000;

/// Behaviour of an I/O function when the host accesses its registers.
///
/// The card handles the enable bits, the interrupt enables and the formats of CMD52 and CMD53. The
/// function only gets reads and writes of single bytes. Times are absolute and never decrease.
pub trait Function {
    /// Returns the number of register addresses; accesses beyond are out of range.
    fn addresses(&self) -> u32 {
        ADDRESSES
    }

    /// Reads a register byte, with the side effects that a read has.
    fn read(&mut self, address: u32, now_ns: u64) -> u8;

    /// Writes a register byte.
    fn write(&mut self, address: u32, value: u8, now_ns: u64);

    /// Returns the shortest time in ns from a read command to its first block.
    fn access_ns(&self) -> u64 {
        0
    }

    /// Returns the busy time in ns after each written block.
    fn busy_ns(&self) -> u64 {
        0
    }

    /// Handles the end of a CMD53, which was a write if `write`: all data were transferred, or the
    /// host aborted it.
    fn ended(&mut self, write: bool, now_ns: u64) {
        let _ = (write, now_ns);
    }

    /// Returns whether the function requests an interrupt.
    fn interrupt(&self, now_ns: u64) -> bool;

    /// Returns the next time in ns after `now_ns` at which [`Function::interrupt`] changes by
    /// itself; `None`: it does not change.
    fn next_event_ns(&self, now_ns: u64) -> Option<u64>;

    /// Resets the function to its state after power-up, because it was disabled or the card was
    /// reset.
    fn reset(&mut self, now_ns: u64);
}

/// Register addresses of [`Loopback`].
pub mod loopback {
    /// FIFO register: bytes are read back in the order in which they were written; an empty FIFO
    /// reads as zero.
    pub const FIFO: u32 = 0x00;
    /// FIFO count register: number of bytes in the FIFO; a larger number than 255 reads as 255.
    pub const COUNT: u32 = 0x04;
    /// Interrupt register: bit 0 is the interrupt. A write sets or clears it at once.
    pub const INTERRUPT: u32 = 0x08;
    /// Timer register: writing n sets the interrupt after n microseconds.
    pub const TIMER_US: u32 = 0x0c;
    /// First address of the memory, which goes up to the function's last address.
    pub const MEMORY: u32 = 0x100;
    /// Size in bytes of the memory that starts at [`MEMORY`].
    pub const MEMORY_BYTES: u32 = 0x2000;
    /// Capacity of the FIFO in bytes; the function drops further bytes.
    pub const FIFO_BYTES: usize = 0x1_0000;
}

/// A test function with a FIFO, memory, and an interrupt that the host sets by a register.
#[derive(Debug)]
pub struct Loopback {
    fifo: VecDeque<u8>,
    memory: Vec<u8>,
    interrupt: bool,
    due_ns: Option<u64>,
    access_ns: u64,
    busy_ns: u64,
}

impl Loopback {
    /// Makes the function in its state after power-up. `access_ns` is the time to the first block
    /// of a read, `busy_ns` the busy time after each written block.
    #[must_use]
    pub fn new(access_ns: u64, busy_ns: u64) -> Self {
        Loopback {
            fifo: VecDeque::new(),
            memory: vec![0; loopback::MEMORY_BYTES as usize],
            interrupt: false,
            due_ns: None,
            access_ns,
            busy_ns,
        }
    }

    fn place(address: u32) -> Option<usize> {
        address.checked_sub(loopback::MEMORY).map(|at| at as usize)
    }
}

impl Function for Loopback {
    fn addresses(&self) -> u32 {
        loopback::MEMORY + loopback::MEMORY_BYTES
    }

    fn read(&mut self, address: u32, now_ns: u64) -> u8 {
        match address {
            loopback::FIFO => self.fifo.pop_front().unwrap_or(0),
            loopback::COUNT => self.fifo.len().min(255) as u8,
            loopback::INTERRUPT => self.interrupt(now_ns).into(),
            _ => Self::place(address).and_then(|at| self.memory.get(at).copied()).unwrap_or(0),
        }
    }

    fn write(&mut self, address: u32, value: u8, now_ns: u64) {
        match address {
            loopback::FIFO if self.fifo.len() < loopback::FIFO_BYTES => self.fifo.push_back(value),
            loopback::INTERRUPT => (self.interrupt, self.due_ns) = (value & 1 != 0, None),
            loopback::TIMER_US => self.due_ns = Some(now_ns.saturating_add(u64::from(value) * 1_000)),
            _ => {
                if let Some(byte) = Self::place(address).and_then(|at| self.memory.get_mut(at)) {
                    *byte = value;
                }
            }
        }
    }

    fn access_ns(&self) -> u64 {
        self.access_ns
    }

    fn busy_ns(&self) -> u64 {
        self.busy_ns
    }

    fn interrupt(&self, now_ns: u64) -> bool {
        self.interrupt || self.due_ns.is_some_and(|due| now_ns >= due)
    }

    fn next_event_ns(&self, now_ns: u64) -> Option<u64> {
        self.due_ns.filter(|&due| !self.interrupt && due > now_ns)
    }

    fn reset(&mut self, _now_ns: u64) {
        *self = Loopback::new(self.access_ns, self.busy_ns);
    }
}
