//! Models of the historic Linux drivers that the public discussion SDIO compared, on top of mmcq's
//! host driver. For each packet they send six commands, one after the other, from a thread or from
//! the interrupt.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::host::Priced;
use super::machine::{Handler, Machine};
use mmcq::host::{Auto, Data, Direction, Host, Phase, Segment};
use mmcq::spec::command::sdio::{self as cmd, Amount, Extended};
use mmcq_sim::card::io::type_a::register;
use std::ptr::NonNull;

/// Contexts in which the driver sends the next command and transfers the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// A thread sends commands. A tasklet handles every event of a command, and also transfers the
    /// data.
    ThreadTasklet,
    /// A thread sends commands; the interrupt handler transfers the data.
    Thread,
    /// The interrupt handler sends commands, handles their ends, and calls the handler of the
    /// card's function.
    Async,
    /// A thread sends commands and polls for the end of each CMD52; the interrupt handler transfers
    /// the data.
    ThreadSpin,
}

/// Bytes of a packet's payload.
const PAYLOAD_BYTES: usize = 2048;
const BLOCK_BYTES: u16 = 512;
/// CCCR register of pending interrupts (INTx).
const INT_PENDING: u32 = 0x05;
/// Interval in ns at which a spinning thread polls the controller's interrupt line.
const LOOK_NS: u64 = 250;
/// Number of polls without new data in the FIFO after which the interrupt handler leaves its loop.
const LOOKS_MAX: u32 = 100;

/// Commands that the driver sends for each packet.
pub struct Plan {
    /// The commands of one packet, sent one after the other.
    pub phases: Vec<Phase>,
    /// Interval in ns at which the driver polls for packets. The first command then reads a
    /// register, where 0 means that there is no packet. `None`: the card interrupts.
    pub poll_ns: Option<u64>,
}

impl Plan {
    /// Returns the six commands by which the driver receives one packet from the Bluetooth Type-A
    /// function.
    pub fn type_a() -> Self {
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
        let steps = [
            (cmd::io_read(0, INT_PENDING), None),
            (cmd::io_read(1, register::INTRD), None),
            (cmd::io_write(1, register::INTRD, 1), None),
            (read53(Amount::Bytes(4)), data(4, 1)),
            (read53(Amount::Blocks(blocks)), data(BLOCK_BYTES, blocks.into())),
            (cmd::io_write(1, register::PC_RRT, 0), None),
        ];
        let phase = |(command, data)| Phase { command, data, auto: Auto::None, tuning: false };
        Plan { phases: steps.map(phase).to_vec(), poll_ns: None }
    }

    fn bytes_max(&self) -> usize {
        let bytes = |phase: &Phase| phase.data.map_or(0, |data| u32::from(data.block_size) * data.blocks);
        self.phases.iter().map(bytes).max().unwrap_or(0) as usize
    }
}

/// A driver that sends the commands of a packet one after the other.
pub struct Chain {
    host: Priced,
    advance: Advance,
    plan: Plan,
    /// Index, from 0, of the command that is on the bus, in the plan of the packet's commands.
    step: usize,
    /// Time in ns of the next poll; `None`: the driver does not poll.
    look_ns: Option<u64>,
    looks: bool,
    /// Whether the last poll found no packet.
    nothing: bool,
    /// Whether a command has ended whose result the thread still has to handle.
    ended: bool,
    buffer: Box<[u32]>,
    /// DMA memory of the command on the bus, with its direction; `None`: the command has no data,
    /// or no command is on the bus.
    segment: Option<(Segment, Direction)>,
    /// Number of packets that the driver has received.
    pub packets: u64,
    /// Number of commands that failed.
    pub failures: u64,
}

impl Chain {
    /// Makes the driver that sends the commands of each packet one after the other, on a card that
    /// is up. The driver waits for the card's interrupt, or polls from `now_ns` on.
    pub fn new(host: Priced, advance: Advance, plan: Plan, now_ns: u64) -> Self {
        let buffer = vec![0; plan.bytes_max().div_ceil(4)].into_boxed_slice();
        let look_ns = plan.poll_ns.map(|poll_ns| now_ns + poll_ns);
        Chain {
            host,
            advance,
            plan,
            step: 0,
            look_ns,
            looks: false,
            nothing: false,
            ended: false,
            buffer,
            segment: None,
            packets: 0,
            failures: 0,
        }
    }

    /// Maps DMA memory for the data of the command that `phase` describes.
    fn map(&mut self, phase: &Phase) {
        let Some(data) = phase.data else { return };
        let ptr = NonNull::from(&mut *self.buffer).cast();
        let len = u32::from(data.block_size) * data.blocks;
        // SAFETY: the buffer is as long as any phase's data, and this driver's until it is
        // unmapped.
        let mut segment = unsafe { Segment::new(ptr, len, 0) };
        match self.host.map(&mut segment, data.direction) {
            Ok(()) => self.segment = Some((segment, data.direction)),
            Err(_) => self.failures += 1,
        }
    }

    /// Sends the next command of the packet under way. After the last command, ends the packet;
    /// after a poll that found no packet, waits for the next poll.
    fn send(&mut self, m: &mut Machine) {
        if std::mem::take(&mut self.nothing) {
            (self.step, self.looks) = (0, false);
            return;
        }
        if self.step == self.plan.phases.len() {
            self.step = 0;
            self.packets += 1;
            m.packet();
            // A driver that polls goes on until a poll finds no packet.
            if self.plan.poll_ns.is_none() {
                return self.host.card_irq(true);
            }
        }
        let phase = self.plan.phases[self.step];
        self.map(&phase);
        if self.host.start(&phase, segments(&self.segment), 0).is_err() {
            self.failures += 1;
        }
    }

    /// Handles the controller's events, and transfers data while the FIFO has some. Returns true if
    /// a command has ended or the card interrupts.
    fn take(&mut self, m: &mut Machine) -> bool {
        loop {
            let events = self.host.ack(segments(&self.segment));
            if let Some(result) = events.phase {
                // A response with an error bit, or a fault.
                let r5 = result.ok().map(|done| done.response.r5());
                let good = r5.filter(|r5| r5.errors() == 0).map(|r5| r5.data());
                self.failures += u64::from(good.is_none());
                self.nothing = self.plan.poll_ns.is_some() && self.step == 0 && good == Some(0);
                if let Some((segment, direction)) = self.segment.take() {
                    self.host.unmap(&segment, direction);
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

    /// Returns true if the controller must be polled again. As in Linux, the driver stays in its
    /// loop while the FIFO is not empty, although it empties the FIFO only at the end of a block.
    fn more(&self, m: &Machine) -> bool {
        let writes = matches!(self.segment, Some((_, Direction::Write)));
        if !m.model.has_fifo() || writes {
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

/// Returns the DMA memory of the command on the bus as a list; empty: the command has no data.
fn segments(segment: &Option<(Segment, Direction)>) -> &[Segment] {
    segment.as_ref().map_or(&[], |(segment, _)| std::slice::from_ref(segment))
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
        // Waits for the end of a command without data. 100 us is much more than the longest takes.
        while self.advance == Advance::ThreadSpin
            && self.host.phase().is_some_and(|phase| phase.data.is_none())
        {
            if !m.spin(100_000, LOOK_NS) || !self.take(m) {
                break;
            }
            self.send(m);
        }
    }

    fn alarm_ns(&self) -> Option<u64> {
        self.look_ns.filter(|_| !self.looks)
    }

    fn alarm(&mut self, m: &mut Machine) {
        let (Some(at_ns), Some(poll_ns)) = (self.look_ns, self.plan.poll_ns) else { return };
        let late = m.time.now().saturating_sub(at_ns) / poll_ns;
        self.look_ns = Some(at_ns + (late + 1) * poll_ns);
        self.looks = true;
        match self.advance {
            Advance::Async => self.send(m),
            _ => m.wake(),
        }
    }
}
