//! The historic ways, on the same driver: six commands for each packet, one after the other,
//! advanced by a thread or by the interrupt.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::host::Priced;
use super::machine::{Handler, Machine};
use mmcq::host::{Auto, Data, Direction, Host, Phase, Segment};
use mmcq::spec::command::sdio::{self as cmd, Amount, Extended};
use mmcq_sim::card::io::type_a::register;
use std::ptr::NonNull;

/// What sends the next command, and what moves the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// A thread; every event of the controller goes through a tasklet first, which also moves the
    /// data.
    ThreadTasklet,
    /// A thread; the interrupt handler moves the data.
    Thread,
    /// The interrupt handler; completion and the function's handler are called from it.
    Async,
    /// A thread that waits for CMD52 in a loop; the interrupt handler moves the data.
    ThreadSpin,
}

/// Bytes of a packet's payload.
const PAYLOAD_BYTES: usize = 2048;
const BLOCK_BYTES: u16 = 512;
/// CCCR INTx.
const INT_PENDING: u32 = 0x05;
/// Between two looks of a spinner.
const LOOK_NS: u64 = 250;
/// Looks at a FIFO that does not change after which its loop is left in any case.
const LOOKS_MAX: u32 = 100;

/// The receive chain.
pub struct Chain {
    host: Priced,
    advance: Advance,
    /// The command on the bus, from 0.
    step: usize,
    /// The thread has a result to look at.
    ended: bool,
    buffer: Box<[u32; PAYLOAD_BYTES / 4]>,
    /// The part of it that the command on the bus fills.
    segment: Option<Segment>,
    /// Packets received.
    pub packets: u64,
    /// Commands that failed.
    pub failures: u64,
}

impl Chain {
    /// A chain on a driver whose card is up, with its interrupt unmasked.
    pub fn new(host: Priced, advance: Advance) -> Self {
        let buffer = Box::new([0; PAYLOAD_BYTES / 4]);
        Chain { host, advance, step: 0, ended: false, buffer, segment: None, packets: 0, failures: 0 }
    }

    fn phase(step: usize) -> Option<Phase> {
        let read53 = |count| {
            cmd::io_rw_extended(Extended {
                write: false,
                function: 1,
                addr: register::DATA,
                increment: false,
                count,
            })
        };
        let data = |block_size, blocks| Some(Data { direction: Direction::Read, block_size, blocks });
        let blocks = PAYLOAD_BYTES as u16 / BLOCK_BYTES;
        let (command, data) = match step {
            0 => (cmd::io_read(0, INT_PENDING), None),
            1 => (cmd::io_read(1, register::INTRD), None),
            2 => (cmd::io_write(1, register::INTRD, 1), None),
            3 => (read53(Amount::Bytes(4)), data(4, 1)),
            4 => (read53(Amount::Blocks(blocks)), data(BLOCK_BYTES, blocks.into())),
            5 => (cmd::io_write(1, register::PC_RRT, 0), None),
            _ => return None,
        };
        Some(Phase { command, data, auto: Auto::None, tuning: false })
    }

    /// Memory for the phase's data, ready for the controller.
    fn map(&mut self, phase: &Phase) {
        let Some(data) = phase.data else { return };
        let ptr = NonNull::from(&mut *self.buffer).cast();
        let len = u32::from(data.block_size) * data.blocks;
        // SAFETY: the buffer is as long as any phase's data, and this driver's until it is
        // unmapped.
        let mut segment = unsafe { Segment::new(ptr, len, 0) };
        match self.host.map(&mut segment, data.direction) {
            Ok(()) => self.segment = Some(segment),
            Err(_) => self.failures += 1,
        }
    }

    /// Sends the next command, or ends the packet.
    fn send(&mut self, m: &mut Machine) {
        match Self::phase(self.step) {
            Some(phase) => {
                self.map(&phase);
                if self.host.start(&phase, self.segment.as_slice(), 0).is_err() {
                    self.failures += 1;
                }
            }
            None => {
                self.step = 0;
                self.packets += 1;
                m.packet();
                self.host.card_irq(true);
            }
        }
    }

    /// Takes what the controller has to say, and moves data as long as they come. True: something
    /// ended, or the card asks.
    fn take(&mut self, m: &mut Machine) -> bool {
        loop {
            let events = self.host.ack(self.segment.as_slice());
            if let Some(result) = events.phase {
                // A response with an error bit, or a fault.
                let good = result.is_ok_and(|done| done.response.r5().errors() == 0);
                self.failures += u64::from(!good);
                if let Some(segment) = self.segment.take() {
                    self.host.unmap(&segment, Direction::Read);
                }
                self.step += 1;
                self.ended = true;
            }
            if events.phase.is_some() || events.card_irq {
                return true;
            }
            if self.host.phase().is_none_or(|phase| phase.data.is_none()) || !self.more(m) {
                return false;
            }
        }
    }

    /// Linux's loop stays while the FIFO is not empty: it empties it at the end of a block only.
    /// True: the controller wants to be looked at.
    fn more(&self, m: &Machine) -> bool {
        if !m.model.has_fifo() {
            return m.line();
        }
        let port = self.host.port();
        let (mut seen, mut same) = (port.fifo_bytes(), 0);
        while seen > 0 && same < LOOKS_MAX {
            if m.line() {
                return true;
            }
            let now = port.fifo_bytes();
            same = if now == seen { same + 1 } else { 0 };
            seen = now;
        }
        m.line()
    }
}

impl Handler for Chain {
    fn irq(&mut self, m: &mut Machine) {
        if self.advance == Advance::ThreadTasklet && self.host.phase().is_some() {
            return m.defer();
        }
        if !self.take(m) {
            return;
        }
        match self.advance {
            Advance::Async => self.send(m),
            _ => m.wake(),
        }
    }

    fn tasklet(&mut self, m: &mut Machine) {
        if self.take(m) {
            m.wake();
        }
        m.listen();
    }

    fn thread(&mut self, m: &mut Machine) {
        self.send(m);
        // A command without data is waited for: 100 us is far beyond the longest.
        while self.advance == Advance::ThreadSpin
            && self.host.phase().is_some_and(|phase| phase.data.is_none())
        {
            if !m.spin(100_000, LOOK_NS) || !self.take(m) {
                break;
            }
            self.send(m);
        }
    }
}
