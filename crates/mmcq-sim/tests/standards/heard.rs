//! A card model that records what the stack sent to it, and that can leave a command unanswered.

use mmcq_sim::card::{BusState, Card, ReadBlock, Reply, Violation, WriteBlock};
use std::cell::RefCell;
use std::rc::Rc;

/// Commands and changes of the bus, oldest first.
#[derive(Default)]
pub struct Log {
    /// Index and argument of each command.
    pub commands: Vec<(u8, u32)>,
    /// The states of the bus (clock, width, timing, voltage), one for each change.
    pub buses: Vec<BusState>,
}

impl Log {
    /// Returns the arguments of all commands with this index.
    pub fn arguments(&self, index: u8) -> Vec<u32> {
        self.commands.iter().filter(|(heard, _)| *heard == index).map(|(_, arg)| *arg).collect()
    }
}

/// A card inside of a wrapper, which records the commands and the bus changes in the log.
pub struct Heard {
    card: Box<dyn Card>,
    log: Rc<RefCell<Log>>,
    deaf_to: Option<u8>,
}

impl Heard {
    /// Wraps this card; the wrapped card does not answer the command `deaf_to`.
    pub fn around(card: Box<dyn Card>, deaf_to: Option<u8>) -> (Box<dyn Card>, Rc<RefCell<Log>>) {
        let log = Rc::new(RefCell::new(Log::default()));
        (Box::new(Heard { card, log: log.clone(), deaf_to }), log)
    }
}

impl Card for Heard {
    fn bus_changed(&mut self, bus: &BusState, now_ns: u64) {
        self.log.borrow_mut().buses.push(*bus);
        self.card.bus_changed(bus, now_ns);
    }

    fn command(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply {
        self.log.borrow_mut().commands.push((index, arg));
        if self.deaf_to == Some(index) {
            return Reply::SILENT;
        }
        self.card.command(index, arg, now_ns)
    }

    fn read_block(&mut self, buffer: &mut [u8], now_ns: u64) -> ReadBlock {
        self.card.read_block(buffer, now_ns)
    }

    fn write_block(&mut self, data: &[u8], crc_ok: bool, now_ns: u64) -> WriteBlock {
        self.card.write_block(data, crc_ok, now_ns)
    }

    fn busy(&self, now_ns: u64) -> bool {
        self.card.busy(now_ns)
    }

    fn switching_voltage(&self, now_ns: u64) -> bool {
        self.card.switching_voltage(now_ns)
    }

    fn violations(&self) -> &[Violation] {
        self.card.violations()
    }
}
