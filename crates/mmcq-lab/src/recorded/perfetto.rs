//! Reads the block events in a trace of Perfetto: `block_bio_queue`, `block_rq_issue` and
//! `block_rq_complete` of ftrace, in Perfetto's protobuf.
//!
//! Each bundle of events is from one CPU, and the bundles are in any order. So the events of the
//! whole file are read and sorted first; no other format needs this.

use super::devices::Devices;
use super::programs::Names;
use super::words::letters;
use super::{Event, Moment, Op, Reading, Record, What};
use crate::fio::{ParseError, Place};
use prost::Message;
use std::io::{BufRead, Read};

/// First byte of each packet of a trace file: tag of field 1 with a length.
const PACKET: u8 = 0x0a;
/// Length in bytes of the longest packet that is read.
const PACKET_BYTES_MAX: u64 = 64 << 20;
/// Largest number of events in a trace that is read.
const EVENTS_MAX: usize = 1 << 25;
/// Size in bytes of the blocks in which the events give addresses and lengths.
const BLOCK: u64 = 512;

/// The fields of a trace packet that this program uses. The field numbers are those of
/// `trace_packet.proto`.
#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(message, optional, tag = "1")]
    ftrace_events: Option<Bundle>,
    #[prost(bytes = "vec", optional, tag = "50")]
    compressed_packets: Option<Vec<u8>>,
}

/// Events of one CPU; field numbers as in `ftrace_event_bundle.proto`.
#[derive(Clone, PartialEq, Message)]
struct Bundle {
    #[prost(message, repeated, tag = "2")]
    event: Vec<FtraceEvent>,
}

/// Event of ftrace; field numbers as in `ftrace_event.proto`.
#[derive(Clone, PartialEq, Message)]
struct FtraceEvent {
    #[prost(uint64, optional, tag = "1")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "2")]
    pid: Option<u32>,
    #[prost(message, optional, tag = "45")]
    block_rq_issue: Option<RqIssue>,
    #[prost(message, optional, tag = "119")]
    block_bio_queue: Option<BioQueue>,
    #[prost(message, optional, tag = "125")]
    block_rq_complete: Option<RqComplete>,
}

/// Event block_rq_issue; field numbers as in `block.proto`.
#[derive(Clone, PartialEq, Message)]
struct RqIssue {
    #[prost(uint64, optional, tag = "1")]
    dev: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    sector: Option<u64>,
    #[prost(uint32, optional, tag = "3")]
    nr_sector: Option<u32>,
    #[prost(string, optional, tag = "5")]
    rwbs: Option<String>,
    #[prost(string, optional, tag = "6")]
    comm: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct BioQueue {
    #[prost(uint64, optional, tag = "1")]
    dev: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    sector: Option<u64>,
    #[prost(uint32, optional, tag = "3")]
    nr_sector: Option<u32>,
    #[prost(string, optional, tag = "4")]
    rwbs: Option<String>,
    #[prost(string, optional, tag = "5")]
    comm: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct RqComplete {
    #[prost(uint64, optional, tag = "1")]
    dev: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    sector: Option<u64>,
    #[prost(uint32, optional, tag = "3")]
    nr_sector: Option<u32>,
    #[prost(string, optional, tag = "5")]
    rwbs: Option<String>,
}

/// An event of a request (arrival, dispatch or completion), with its fields.
struct Told {
    moment: Moment,
    dev: u64,
    sector: u64,
    count: u32,
    rwbs: String,
    comm: String,
}

impl FtraceEvent {
    fn told(self) -> Option<Told> {
        if let Some(RqIssue { dev, sector, nr_sector, rwbs, comm }) = self.block_rq_issue {
            return Some(Told::of(Moment::Issued, (dev, sector, nr_sector), rwbs, comm));
        }
        if let Some(BioQueue { dev, sector, nr_sector, rwbs, comm }) = self.block_bio_queue {
            return Some(Told::of(Moment::Queued, (dev, sector, nr_sector), rwbs, comm));
        }
        let RqComplete { dev, sector, nr_sector, rwbs } = self.block_rq_complete?;
        Some(Told::of(Moment::Completed, (dev, sector, nr_sector), rwbs, None))
    }
}

impl Told {
    fn of(
        moment: Moment,
        (dev, sector, count): (Option<u64>, Option<u64>, Option<u32>),
        rwbs: Option<String>,
        comm: Option<String>,
    ) -> Self {
        Told {
            moment,
            dev: dev.unwrap_or_default(),
            // The kernel gives u64::MAX as the place of a flush.
            sector: sector.filter(|sector| *sector != u64::MAX).unwrap_or_default(),
            count: count.unwrap_or_default(),
            rwbs: rwbs.unwrap_or_default(),
            comm: comm.unwrap_or_default(),
        }
    }
}

/// Returns the name of a device from its number as programs see it: the 12 bits of the major number
/// are between two parts of the minor number.
fn device(dev: u64) -> String {
    format!("{},{}", dev >> 8 & 0xfff, dev & 0xff | dev >> 12 & 0xf_ff00)
}

/// Returns whether `head`, the start of a file, is that of a trace of Perfetto. A packet begins
/// with the same byte as a text whose first line is empty, so the whole packet is checked.
pub(super) fn is_one(head: &[u8]) -> bool {
    let is_text = std::str::from_utf8(head).is_ok_and(|text| !text.contains('\0'));
    let Some((&PACKET, mut rest)) = head.split_first() else { return false };
    let Some(bytes) = length(&mut rest).ok().flatten().and_then(|bytes| usize::try_from(bytes).ok()) else {
        return false;
    };
    match rest.get(..bytes) {
        Some(packet) => {
            let next = rest.get(bytes).copied();
            bytes > 0 && next.is_none_or(|byte| byte == PACKET) && Packet::decode(packet).is_ok()
        }
        // The packet is longer than the part of the file that is checked.
        None => !is_text && bytes as u64 <= PACKET_BYTES_MAX,
    }
}

/// Reads the length of a packet as a varint: seven bits per byte, the lowest first. `None`: the
/// file has ended, or the varint is longer than ten bytes.
fn length(input: &mut impl Read) -> std::io::Result<Option<u64>> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let mut byte = [0];
        if input.read(&mut byte)? == 0 {
            return Ok(None);
        }
        value |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] & 0x80 == 0 {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// Trace of Perfetto, whose events are read all at once.
pub(super) struct Perfetto {
    name: String,
    input: Box<dyn BufRead>,
    /// Offset in the file of the next packet.
    at: u64,
    moment: Moment,
    devices: Devices,
    names: Names,
    /// All events of the file, the latest first; `None`: the file has not been read yet.
    events: Option<Vec<Event>>,
}

impl Perfetto {
    /// Makes a reader of the trace file `name`, whose bytes come from `input`. `reading`: the
    /// options, such as the only device to read.
    pub(super) fn new(name: String, input: Box<dyn BufRead>, reading: &Reading) -> Self {
        let (devices, names) = (Devices::new(reading.device.clone()), Names::default());
        Perfetto { name, input, at: 0, moment: reading.moment, devices, names, events: None }
    }

    fn place(&self) -> Place {
        Place::Whole(format!("{}: byte {}", self.name, self.at))
    }

    fn wrong(&self, why: impl Into<String>) -> ParseError {
        ParseError::new(&self.place(), why)
    }

    /// Reads the next packet of the file. `None`: the file has ended.
    fn packet(&mut self) -> Result<Option<Packet>, ParseError> {
        let mut first = [0];
        let got = self.input.read(&mut first).map_err(|error| self.wrong(error.to_string()))?;
        if got == 0 {
            return Ok(None);
        }
        if first != [PACKET] {
            return Err(self.wrong(format!("{:#04x}: expected a packet ({PACKET:#04x})", first[0])));
        }
        let bytes = length(&mut self.input).map_err(|error| self.wrong(error.to_string()))?;
        let bytes = bytes.ok_or_else(|| self.wrong("truncated packet: expected its length"))?;
        if bytes > PACKET_BYTES_MAX {
            return Err(self.wrong(format!("packet of {bytes} bytes: expected at most {PACKET_BYTES_MAX}")));
        }
        let mut packet = Vec::new();
        let got = Read::take(&mut self.input, bytes).read_to_end(&mut packet);
        let got = got.map_err(|error| self.wrong(error.to_string()))? as u64;
        if got < bytes {
            return Err(self.wrong(format!("truncated packet: {got} of {bytes} bytes")));
        }
        let decoded = Packet::decode(&packet[..]).map_err(|error| self.wrong(error.to_string()))?;
        let size = 1 + prost::encoding::encoded_len_varint(bytes) as u64 + bytes;
        self.at += size;
        Ok(Some(decoded))
    }

    /// Reads all events of the file and sorts them by time.
    fn all(&mut self) -> Result<Vec<Event>, ParseError> {
        let mut events = Vec::new();
        loop {
            let place = self.place();
            let Some(packet) = self.packet()? else { break };
            if packet.compressed_packets.is_some() {
                let why = "compressed packets; expected a trace without: `traceconv decompress_packets`";
                return Err(ParseError::new(&place, why));
            }
            for event in packet.ftrace_events.into_iter().flat_map(|bundle| bundle.event) {
                let (at_ns, pid) = (event.timestamp.unwrap_or_default(), event.pid.unwrap_or_default());
                let what = event.told().map(|told| self.what(at_ns, pid, told)).transpose();
                let what = what.map_err(|why| ParseError::new(&place, why))?.flatten();
                if events.len() == EVENTS_MAX && what.is_some() {
                    return Err(ParseError::new(&place, format!("more than {EVENTS_MAX} events")));
                }
                events.extend(what.map(|what| Event { at_ns, place: place.clone(), what }));
            }
        }
        // Events with equal times stay in the order of the file.
        events.sort_by_key(|event| event.at_ns);
        events.reverse();
        Ok(events)
    }

    fn what(&mut self, at_ns: u64, process: u32, told: Told) -> Result<Option<What>, String> {
        let begins = told.moment == self.moment;
        if !begins && told.moment != Moment::Completed {
            return Ok(None);
        }
        let Some((op, flush_first, durable)) = letters(&told.rwbs) else { return Ok(None) };
        let offset = told.sector.checked_mul(BLOCK);
        let offset = offset.ok_or_else(|| format!("sector {}: expected at most 2^55", told.sector))?;
        let bytes = u64::from(told.count) * BLOCK;
        let Some(device) = self.devices.number(&device(told.dev)) else { return Ok(None) };
        if !begins {
            return Ok(Some(What::Ends { device, offset, bytes }));
        }
        let (op, flush_first) = match bytes {
            0 if op == Op::Flush || flush_first => (Op::Flush, false),
            // Commands that bypass the block layer have no length.
            0 => return Ok(None),
            _ => (op, flush_first),
        };
        let program = self.names.of(&told.comm);
        Ok(Some(What::Begins(Record {
            at_ns,
            op,
            durable,
            flush_first,
            device,
            offset,
            bytes,
            process,
            program,
            took_ns: None,
        })))
    }
}

impl Iterator for Perfetto {
    type Item = Result<Event, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.events.is_none() {
            match self.all() {
                Ok(events) => self.events = Some(events),
                Err(error) => {
                    self.events = Some(Vec::new());
                    return Some(Err(error));
                }
            }
        }
        self.events.as_mut()?.pop().map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_devices_are_those_of_programs() {
        assert_eq!(device(0xb300), "179,0");
        assert_eq!(device(0xb308), "179,8");
        assert_eq!(device(259 << 8 | 0x05 | 0x10 << 12), "259,5");
        assert_eq!(device(8 << 8 | 0x01 | 0x100 << 12), "8,257");
    }

    #[test]
    fn a_text_is_no_trace() {
        assert!(!is_one(b""));
        assert!(!is_one(b"\n"));
        assert!(!is_one(b"\nfio version 2 iolog\n"));
        assert!(!is_one(b"\n\n# tracer: nop\n"));
        assert!(!is_one(&[PACKET]));
        assert!(!is_one(&[PACKET, 0x80, 0x80]));
        let packet = Packet { ftrace_events: Some(Bundle { event: Vec::new() }), compressed_packets: None };
        let packet = packet.encode_to_vec();
        let mut file = vec![PACKET, packet.len() as u8];
        file.extend(&packet);
        assert!(is_one(&file));
        file.extend(b"x");
        assert!(!is_one(&file));
    }

    /// Returns a file of one packet with a read: its arrival and its completion.
    fn file() -> Vec<u8> {
        let queued = BioQueue {
            dev: Some(0xb300),
            sector: Some(8),
            nr_sector: Some(8),
            rwbs: Some("R".to_owned()),
            comm: Some("app".to_owned()),
        };
        let begin = FtraceEvent {
            timestamp: Some(1),
            pid: Some(7),
            block_bio_queue: Some(queued),
            ..FtraceEvent::default()
        };
        let done =
            RqComplete { dev: Some(0xb300), sector: Some(8), nr_sector: Some(8), rwbs: Some("R".to_owned()) };
        let end = FtraceEvent { timestamp: Some(9), block_rq_complete: Some(done), ..FtraceEvent::default() };
        let bundle = Bundle { event: vec![end, begin] };
        let packet = Packet { ftrace_events: Some(bundle), compressed_packets: None }.encode_to_vec();
        let mut file = vec![PACKET];
        prost::encoding::encode_varint(packet.len() as u64, &mut file);
        file.extend(packet);
        file
    }

    fn read(bytes: Vec<u8>) -> Vec<Result<Event, ParseError>> {
        let input = Box::new(std::io::Cursor::new(bytes));
        Perfetto::new("t".to_owned(), input, &Reading::default()).collect()
    }

    #[test]
    fn events_come_in_the_order_of_time() {
        let events: Vec<Event> = read(file()).into_iter().collect::<Result<_, _>>().unwrap();
        assert_eq!(events.iter().map(|event| event.at_ns).collect::<Vec<_>>(), [1, 9]);
        assert!(matches!(&events[0].what, What::Begins(record) if record.program.as_deref() == Some("app")));
        assert!(matches!(events[1].what, What::Ends { offset: 4096, bytes: 4096, .. }));
    }

    #[test]
    fn no_bytes_can_panic() {
        crate::fuzz::fuzz("no_bytes_of_a_packet_can_panic", 300, |u| {
            let mut bytes = [file(), file()].concat();
            for _ in 0..u.int_in_range(0..=6)? {
                let at = u.choose_index(bytes.len())?;
                match u.int_in_range(0..=2)? {
                    0 => bytes[at] = u.arbitrary()?,
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, u.arbitrary()?),
                }
            }
            is_one(&bytes);
            // No event follows an error.
            let events = read(bytes);
            assert!(events.iter().rev().skip(1).all(Result::is_ok));
            Ok(())
        });
    }
}
