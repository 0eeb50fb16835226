//! Bluetooth Type-A: HCI packets through a byte FIFO, and a source of packets at a steady rate.

use super::function::Function;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Register addresses of a Type-A function.
pub mod register {
    /// Data register: the host reads and writes packets here, with a fixed address.
    pub const DATA: u32 = 0x00;
    /// Read packet control register: writing 0 acknowledges the packet, writing 1 requests it
    /// again.
    pub const PC_RRT: u32 = 0x10;
    /// Write packet control register: writing 1 drops the packet that is being written.
    pub const PC_WRT: u32 = 0x11;
    /// Retry control register: reads as 1 if retries work.
    pub const RTC: u32 = 0x12;
    /// Interrupt register: bit 0 is the interrupt; writing 1 clears it.
    pub const INTRD: u32 = 0x13;
    /// Interrupt enable register; bit 0 enables the interrupt.
    pub const EN_INTRD: u32 = 0x14;
    /// Mode register: the model stores what the host writes, without an effect.
    pub const MODE: u32 = 0x20;
}

/// Number of bytes in a packet header: length (24 bits, little endian, header included) and type.
pub const HEADER_BYTES: usize = 4;
/// Packet type of ACL data.
pub const ACL: u8 = 2;
/// Largest number of written packets that are stored for inspection.
const KEPT_SENT: usize = 16;

/// A source of packets for the host at a steady rate. The source starts when the host enables the
/// interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Number of bytes in a packet after its header: 4 to 65 531.
    pub payload_bytes: u32,
    /// Time in ns from one packet to the next.
    pub period_ns: u64,
    /// Number of packets that the source makes; `None`: no end.
    pub packets: Option<u64>,
    /// Number of packets that the card can buffer; a packet that finds the buffer full is lost.
    pub buffer_packets: usize,
}

/// Counters of a Type-A function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of packets that the source has made, including lost ones.
    pub offered: u64,
    /// Number of packets that the host read to their end and acknowledged.
    pub delivered: u64,
    /// Number of packets that the host acknowledged before it had read all of their bytes.
    pub cut_short: u64,
    /// Number of packets lost because the buffer was full.
    pub overrun: u64,
    /// Number of times that the host requested a packet again.
    pub retried: u64,
    /// Number of acknowledgements and retry requests that came while the buffer held no packet.
    pub stray: u64,
    /// Number of bytes that the host read while the buffer held no packet.
    pub empty_reads: u64,
    /// Time in ns from each rise of the interrupt until the host cleared it.
    pub latency_ns: Vec<u64>,
    /// Arrival and acknowledgement time in ns of each delivered packet.
    pub packets_ns: Vec<(u64, u64)>,
    /// Number of packets that the host wrote.
    pub sent_count: u64,
    /// The latest packets that the host wrote, with their headers.
    pub sent: VecDeque<Vec<u8>>,
    /// Number of written packets that were dropped: by the host while it wrote them, or by the
    /// function because the length in the header was less than the header.
    pub sent_dropped: u64,
}

/// The counters of the function, shared with the test that reads them.
pub type Handle = Rc<RefCell<Counts>>;

/// Returns packet `number` of the source, header included. Its first four payload bytes are the
/// number; the other bytes depend on the number and their position.
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

/// The Bluetooth Type-A function: a byte FIFO for HCI packets.
#[derive(Debug)]
pub struct TypeA {
    source: Source,
    access_ns: u64,
    busy_ns: u64,
    counts: Handle,
    queue: VecDeque<Waiting>,
    /// Number of bytes of the first packet in the buffer that the host has already read.
    at: usize,
    /// Arrival time in ns of the next packet; `None`: no packet will come.
    next_ns: Option<u64>,
    made: u64,
    /// Time in ns at which the interrupt rose; `None`: the interrupt is not set.
    up_ns: Option<u64>,
    enabled: bool,
    mode: u8,
    control: u8,
    sending: Vec<u8>,
}

impl TypeA {
    /// Makes the function in its state after power-up. `source`: the packets for the host.
    /// `access_ns` is the time in ns to the first block of a read, `busy_ns` the busy time in ns
    /// after each written block.
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

    /// Returns the counters of the function; they can be read while a card owns it.
    #[must_use]
    pub fn counts(&self) -> Handle {
        Rc::clone(&self.counts)
    }

    /// Adds to the card's buffer all packets that have arrived from the source by the time
    /// `now_ns`. A packet that finds the buffer full is lost, and is counted as an overrun.
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

    /// Returns the length in bytes, with header, of the packet that the host is writing; `None`
    /// until the three bytes of its length field have come.
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
                // Reads beyond the packet's end return padding.
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
            // Bytes beyond the end of a whole packet are padding, which the function ignores.
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
