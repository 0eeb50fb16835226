//! Bluetooth Type-A: HCI packets through a byte FIFO, and a source of packets at a steady rate.

use super::function::Function;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Registers.
pub mod register {
    /// Data: packets are read and written here, with a fixed address.
    pub const DATA: u32 = 0x00;
    /// Read packet control: 0 acknowledges the packet, 1 requests it again.
    pub const PC_RRT: u32 = 0x10;
    /// Write packet control: 1 drops the packet that is being written.
    pub const PC_WRT: u32 = 0x11;
    /// Retry control; 1: retries work.
    pub const RTC: u32 = 0x12;
    /// Interrupt: bit 0; writing 1 clears it.
    pub const INTRD: u32 = 0x13;
    /// Interrupt enable: bit 0.
    pub const EN_INTRD: u32 = 0x14;
    /// Mode.
    pub const MODE: u32 = 0x20;
}

/// Bytes of a header: length (24 bits, little endian, header included) and type.
pub const HEADER_BYTES: usize = 4;
/// Type of ACL data.
pub const ACL: u8 = 2;
/// Most written packets that are kept for inspection.
const KEPT_SENT: usize = 16;

/// Source of packets for the host at a steady rate, from the time that the host enables the
/// interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Bytes of a packet after its header: 4 to 65 531.
    pub payload_bytes: u32,
    /// Time in ns from one packet to the next.
    pub period_ns: u64,
    /// Number of packets; `None`: no end.
    pub packets: Option<u64>,
    /// Packets that the card can buffer; a packet that finds the buffer full is lost.
    pub buffer_packets: usize,
}

/// Counters of the function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets generated, lost ones included.
    pub offered: u64,
    /// Packets read to their end and acknowledged.
    pub delivered: u64,
    /// Packets acknowledged before they were read to their end.
    pub cut_short: u64,
    /// Packets lost because the buffer was full.
    pub overrun: u64,
    /// Packets that the host requested again.
    pub retried: u64,
    /// Acknowledgements and retries when there was no packet.
    pub stray: u64,
    /// Bytes read when there was no packet.
    pub empty_reads: u64,
    /// Times in ns from each assertion of the interrupt to its clearing.
    pub latency_ns: Vec<u64>,
    /// Arrival and acknowledgement time in ns of each delivered packet.
    pub packets_ns: Vec<(u64, u64)>,
    /// Packets written by the host.
    pub sent_count: u64,
    /// The latest packets written by the host, headers included.
    pub sent: VecDeque<Vec<u8>>,
    /// Written packets that the host dropped, or that were too long or too short.
    pub sent_dropped: u64,
}

/// The counters, shared with the test that reads them.
pub type Handle = Rc<RefCell<Counts>>;

/// Returns a packet of the source, header included. Its first four payload bytes are its number;
/// the rest depends on number and place.
#[must_use]
pub fn packet(number: u64, payload_bytes: u32) -> Vec<u8> {
    let length = payload_bytes + HEADER_BYTES as u32;
    let mut bytes = length.to_le_bytes()[..3].to_vec();
    bytes.push(ACL);
    bytes.extend((0..payload_bytes).map(|at| match at {
        0..=3 => (number >> (8 * at)) as u8,
        _ => {
            let mixed = (number << 20 | u64::from(at)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed >> 56) as u8
        }
    }));
    bytes
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    arrived_ns: u64,
    bytes: Vec<u8>,
}

/// The Type-A function.
#[derive(Debug)]
pub struct TypeA {
    source: Source,
    access_ns: u64,
    busy_ns: u64,
    counts: Handle,
    queue: VecDeque<Waiting>,
    /// Bytes already read of the first packet.
    at: usize,
    /// Arrival time in ns of the next packet.
    next_ns: Option<u64>,
    made: u64,
    /// Time in ns since which the interrupt is asserted.
    up_ns: Option<u64>,
    enabled: bool,
    mode: u8,
    control: u8,
    sending: Vec<u8>,
}

impl TypeA {
    /// Makes the function in its state after power-up, with these times in ns to the first block
    /// and after a written block.
    #[must_use]
    pub fn new(source: Source, access_ns: u64, busy_ns: u64) -> Self {
        TypeA {
            source,
            access_ns,
            busy_ns,
            counts: Handle::default(),
            queue: VecDeque::new(),
            at: 0,
            next_ns: None,
            made: 0,
            up_ns: None,
            enabled: false,
            mode: 0,
            control: 0,
            sending: Vec::new(),
        }
    }

    /// Returns the counters, which can be read while a card owns the function.
    #[must_use]
    pub fn counts(&self) -> Handle {
        Rc::clone(&self.counts)
    }

    /// Adds the packets that arrived until now.
    fn settle(&mut self, now_ns: u64) {
        while let Some(at_ns) = self.next_ns.filter(|&at_ns| at_ns <= now_ns) {
            let mut counts = self.counts.borrow_mut();
            counts.offered += 1;
            if self.queue.len() < self.source.buffer_packets {
                if self.queue.is_empty() {
                    self.up_ns.get_or_insert(at_ns);
                }
                let bytes = packet(self.made, self.source.payload_bytes);
                self.queue.push_back(Waiting { number: self.made, arrived_ns: at_ns, bytes });
            } else {
                counts.overrun += 1;
            }
            self.made += 1;
            self.next_ns = self.following(at_ns);
        }
    }

    fn following(&self, at_ns: u64) -> Option<u64> {
        let more = self.source.packets.is_none_or(|packets| self.made < packets);
        more.then(|| at_ns.saturating_add(self.source.period_ns.max(1)))
    }

    fn acknowledge(&mut self, now_ns: u64) {
        let mut counts = self.counts.borrow_mut();
        let Some(first) = self.queue.pop_front() else {
            counts.stray += 1;
            return;
        };
        if self.at < first.bytes.len() {
            counts.cut_short += 1;
        } else {
            counts.delivered += 1;
            counts.packets_ns.push((first.arrived_ns, now_ns));
        }
        self.at = 0;
        if !self.queue.is_empty() {
            self.up_ns.get_or_insert(now_ns);
        }
    }

    fn again(&mut self, now_ns: u64) {
        let mut counts = self.counts.borrow_mut();
        if self.queue.is_empty() {
            counts.stray += 1;
            return;
        }
        counts.retried += 1;
        self.at = 0;
        self.up_ns.get_or_insert(now_ns);
    }

    fn enable(&mut self, on: bool, now_ns: u64) {
        if on && !self.enabled && self.made == 0 && self.next_ns.is_none() {
            self.next_ns = self.following(now_ns);
        }
        self.enabled = on;
    }

    /// Returns the number of the packet that the host would read now.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        self.queue.front().map(|first| first.number)
    }

    /// Returns the length of the packet being written, if all of it is there.
    fn whole(&self) -> Option<usize> {
        let length = self.sending.get(..3)?;
        Some(usize::from(length[0]) | usize::from(length[1]) << 8 | usize::from(length[2]) << 16)
    }
}

impl Function for TypeA {
    fn read(&mut self, address: u32, now_ns: u64) -> u8 {
        self.settle(now_ns);
        match address {
            register::DATA => {
                let Some(first) = self.queue.front() else {
                    self.counts.borrow_mut().empty_reads += 1;
                    return 0;
                };
                // Behind the packet comes padding.
                let byte = first.bytes.get(self.at).copied().unwrap_or(0);
                self.at += 1;
                byte
            }
            register::PC_RRT => self.control,
            register::RTC => 1,
            register::INTRD => self.up_ns.is_some().into(),
            register::EN_INTRD => self.enabled.into(),
            register::MODE => self.mode,
            _ => 0,
        }
    }

    fn write(&mut self, address: u32, value: u8, now_ns: u64) {
        self.settle(now_ns);
        match address {
            // Behind a whole packet comes padding, which falls through.
            register::DATA if self.whole().is_none_or(|whole| self.sending.len() < whole) => {
                self.sending.push(value);
            }
            register::PC_RRT => {
                self.control = value & 1;
                if value & 1 == 0 { self.acknowledge(now_ns) } else { self.again(now_ns) }
            }
            register::PC_WRT if value & 1 != 0 => {
                self.sending.clear();
                self.counts.borrow_mut().sent_dropped += 1;
            }
            register::INTRD if value & 1 != 0 => {
                if let Some(up_ns) = self.up_ns.take() {
                    self.counts.borrow_mut().latency_ns.push(now_ns - up_ns);
                }
            }
            register::EN_INTRD => self.enable(value & 1 != 0, now_ns),
            register::MODE => self.mode = value,
            _ => {}
        }
    }

    fn access_ns(&self) -> u64 {
        self.access_ns
    }

    fn busy_ns(&self) -> u64 {
        self.busy_ns
    }

    fn ended(&mut self, write: bool, _now_ns: u64) {
        if !write {
            return;
        }
        let mut counts = self.counts.borrow_mut();
        match self.whole() {
            Some(whole) if whole < HEADER_BYTES => {
                counts.sent_dropped += 1;
                self.sending.clear();
            }
            Some(whole) if self.sending.len() >= whole => {
                counts.sent_count += 1;
                if counts.sent.len() == KEPT_SENT {
                    counts.sent.pop_front();
                }
                counts.sent.push_back(std::mem::take(&mut self.sending));
            }
            _ => {}
        }
    }

    fn interrupt(&self, now_ns: u64) -> bool {
        let arrives = self.queue.is_empty() && self.next_ns.is_some_and(|at_ns| at_ns <= now_ns);
        self.enabled && (self.up_ns.is_some() || arrives)
    }

    fn next_event_ns(&self, now_ns: u64) -> Option<u64> {
        let down = self.enabled && self.up_ns.is_none() && self.queue.is_empty();
        self.next_ns.filter(|&at_ns| down && at_ns > now_ns)
    }

    fn reset(&mut self, now_ns: u64) {
        self.settle(now_ns);
        let counts = self.counts();
        *self = TypeA { counts, ..TypeA::new(self.source, self.access_ns, self.busy_ns) };
    }
}
