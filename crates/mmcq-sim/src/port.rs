//! The registers as a driver reaches them: each access happens at a moment and takes time.

use crate::time::Time;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A controller model as its registers see it.
pub trait RegisterFile {
    /// Reads `size` bytes at `offset`, at this time.
    fn read(&mut self, offset: u16, size: u8, now_ns: u64) -> u32;

    /// Writes `size` bytes at `offset`, at this time.
    fn write(&mut self, offset: u16, size: u8, value: u32, now_ns: u64);
}

/// A model's own `read` and `write` are its registers.
macro_rules! register_file {
    ($model:ty) => {
        impl $crate::port::RegisterFile for $model {
            fn read(&mut self, offset: u16, size: u8, now_ns: u64) -> u32 {
                <$model>::read(self, offset, size, now_ns)
            }

            fn write(&mut self, offset: u16, size: u8, value: u32, now_ns: u64) {
                <$model>::write(self, offset, size, value, now_ns);
            }
        }
    };
}
pub(crate) use register_file;

/// Accesses counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

/// Register access to a model for the code that runs at [`Time::now`].
///
/// Every access first lets the model reach now, then acts, then charges its price. Clones share
/// model, time and counters.
pub struct Port<M> {
    /// The controller.
    pub model: Rc<RefCell<M>>,
    /// The time of the code that accesses it.
    pub time: Time,
    /// Price of a read.
    pub read_cost_ns: u64,
    /// Price of a write.
    pub write_cost_ns: u64,
    counters: Rc<Cell<PortCounters>>,
}

impl<M> Clone for Port<M> {
    fn clone(&self) -> Self {
        Port {
            model: self.model.clone(),
            time: self.time.clone(),
            read_cost_ns: self.read_cost_ns,
            write_cost_ns: self.write_cost_ns,
            counters: self.counters.clone(),
        }
    }
}

impl<M: RegisterFile> Port<M> {
    /// Access to `model`, without counts so far.
    pub fn new(model: Rc<RefCell<M>>, time: Time, read_cost_ns: u64, write_cost_ns: u64) -> Self {
        Port { model, time, read_cost_ns, write_cost_ns, counters: Rc::default() }
    }

    /// Accesses so far.
    pub fn counters(&self) -> PortCounters {
        self.counters.get()
    }

    fn read(&self, offset: u16, size: u8) -> u32 {
        let value = self.model.borrow_mut().read(offset, size, self.time.now());
        self.time.charge(self.read_cost_ns);
        let counters = self.counters.get();
        self.counters.set(PortCounters { reads: counters.reads + 1, ..counters });
        value
    }

    fn write(&self, offset: u16, size: u8, value: u32) {
        self.model.borrow_mut().write(offset, size, value, self.time.now());
        self.time.charge(self.write_cost_ns);
        let counters = self.counters.get();
        self.counters.set(PortCounters { writes: counters.writes + 1, ..counters });
    }
}

mmcq::regs_by_width!([M: RegisterFile] Port<M>);
