//! Compact list of a trace's requests while the trace is read.

use super::{Op, Record};
use std::collections::HashMap;
use std::sync::Arc;

/// Number of requests in a chunk of memory. A chunk is freed as soon as all its requests were taken
/// out.
const CHUNK: usize = 1 << 14;
/// Unit in bytes of all offsets and lengths in the list.
const BLOCK: u64 = 512;
/// Number of bits of the operation, which has the lowest bits of the field `place`. Two flags
/// follow, then the block number.
const OP_BITS: u32 = 2;
/// Flag in the field `place`: the write is complete only when it is on the medium.
const DURABLE: u64 = 1 << OP_BITS;
/// Flag in the field `place`: the cache must be flushed before the request.
const FLUSH_FIRST: u64 = 2 << OP_BITS;
/// Number of bits below the block number in the field `place`.
const PLACE_BITS: u32 = OP_BITS + 2;
/// Flag in a 32-bit field: the other bits are not the number itself but its index in the list
/// `large`.
const LARGE: u32 = 1 << 31;
/// Value of a time field that means "no time".
const NONE: u32 = u32::MAX;

const OPS: [Op; 4] = [Op::Read, Op::Write, Op::Flush, Op::Discard];

/// One I/O of a recording, packed into 28 bytes.
#[derive(Clone, Copy)]
struct Packed {
    /// Time of the I/O in ns, as two halves, so that there is no padding between the fields.
    at_ns: [u32; 2],
    /// Block number, flags and operation of the I/O, as two halves.
    place: [u32; 2],
    blocks: u32,
    took_ns: u32,
    /// Index in the list of combinations of process, device and program that made I/Os.
    who: u32,
}

fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

fn whole([low, high]: [u32; 2]) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// Process, device and program of a request.
type Who = (u32, u32, Option<Arc<str>>);

/// List of requests whose offsets and lengths are whole blocks.
#[derive(Default)]
pub(super) struct Records {
    chunks: Vec<Vec<Packed>>,
    count: usize,
    /// Numbers that are too large for the 31 bits of a [`Packed`] field; the field has the index of
    /// its number in this list.
    large: Vec<u64>,
    who: Vec<Who>,
    known: HashMap<Who, u32>,
    /// Times in ns of the first and the last request; `None`: the list is empty.
    span_ns: Option<(u64, u64)>,
    /// Time in ns of the request that was added last. If no added request is earlier than the one
    /// before, the list is sorted.
    newest_ns: u64,
    mixed: bool,
}

impl Records {
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns the times in ns of the first and the last request; `None`: the list is empty.
    pub fn span_ns(&self) -> Option<(u64, u64)> {
        self.span_ns
    }

    pub fn push(&mut self, record: &Record) {
        let at_ns = record.at_ns;
        let (first, last) = self.span_ns.unwrap_or((at_ns, at_ns));
        self.span_ns = Some((first.min(at_ns), last.max(at_ns)));
        self.mixed |= at_ns < self.newest_ns;
        self.newest_ns = at_ns;
        let who = (record.process, record.device, record.program.clone());
        let next = self.who.len() as u32;
        let number = match self.known.get(&who) {
            Some(known) => *known,
            None => {
                self.who.push(who.clone());
                self.known.insert(who, next);
                next
            }
        };
        let op = OPS.iter().position(|op| *op == record.op).unwrap_or_default() as u64;
        let flags =
            if record.durable { DURABLE } else { 0 } | if record.flush_first { FLUSH_FIRST } else { 0 };
        let place = (record.offset / BLOCK) << PLACE_BITS | flags | op;
        let packed = Packed {
            at_ns: halves(at_ns),
            place: halves(place),
            blocks: self.small(record.bytes / BLOCK),
            took_ns: record.took_ns.map_or(NONE, |took_ns| self.small(took_ns)),
            who: number,
        };
        match self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK) {
            Some(chunk) => chunk.push(packed),
            None => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(packed);
                self.chunks.push(chunk);
            }
        }
        self.count += 1;
    }

    /// Records the end, at the time `at_ns`, of the request with this index. Returns true if its
    /// end was not known before.
    pub fn ended(&mut self, number: usize, at_ns: u64) -> bool {
        let Some(old) = self.chunks.get(number / CHUNK).and_then(|chunk| chunk.get(number % CHUNK)).copied()
        else {
            return false;
        };
        let took_ns = self.small(at_ns.saturating_sub(whole(old.at_ns)));
        self.chunks[number / CHUNK][number % CHUNK].took_ns = took_ns;
        old.took_ns == NONE
    }

    /// Returns all requests, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = Record> {
        self.chunks.iter().flatten().map(|packed| self.record(packed))
    }

    /// Takes all requests out of the list, in the order of their times.
    pub fn drain(&mut self) -> impl Iterator<Item = Record> {
        if self.mixed {
            let mut all = self.chunks.concat();
            all.sort_by_key(|packed| whole(packed.at_ns));
            self.chunks = vec![all];
        }
        let chunks = std::mem::take(&mut self.chunks);
        chunks.into_iter().flatten().map(|packed| self.record(&packed))
    }

    fn record(&self, packed: &Packed) -> Record {
        let (place, took) = (whole(packed.place), packed.took_ns);
        let (process, device, program) = self.who.get(packed.who as usize).cloned().unwrap_or_default();
        Record {
            at_ns: whole(packed.at_ns),
            op: OPS[(place & ((1 << OP_BITS) - 1)) as usize],
            durable: place & DURABLE != 0,
            flush_first: place & FLUSH_FIRST != 0,
            device,
            offset: (place >> PLACE_BITS) * BLOCK,
            bytes: self.number(packed.blocks) * BLOCK,
            process,
            program,
            took_ns: (took != NONE).then(|| self.number(took)),
        }
    }

    fn small(&mut self, number: u64) -> u32 {
        if number < u64::from(LARGE) {
            return number as u32;
        }
        self.large.push(number);
        LARGE | (self.large.len() as u32 - 1)
    }

    fn number(&self, small: u32) -> u64 {
        if small & LARGE == 0 {
            return small.into();
        }
        self.large.get((small & !LARGE) as usize).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_by_time() {
        crate::fuzz::fuzz("what_goes_in_comes_out_by_time", 200, |u| {
            let (mut records, mut all) = (Records::default(), Vec::<Record>::new());
            let numbers = [0, 1, 7, 1 << 20, (1 << 31) - 1, 1 << 31, 1 << 32, 1 << 51];
            let sorted = u.arbitrary()?;
            let mut newest_ns = 0;
            for _ in 0..u.int_in_range(0..=30)? {
                let later_ns = *u.choose(&numbers)?;
                newest_ns = if sorted { newest_ns + later_ns } else { later_ns };
                let took_ns = if u.arbitrary()? { Some(*u.choose(&numbers)?) } else { None };
                let record = Record {
                    at_ns: newest_ns,
                    op: *u.choose(&OPS)?,
                    durable: u.arbitrary()?,
                    flush_first: u.arbitrary()?,
                    device: u.int_in_range(0..=2)?,
                    offset: *u.choose(&numbers)? * BLOCK,
                    bytes: *u.choose(&numbers)? * BLOCK,
                    process: u.int_in_range(0..=3)?,
                    program: if u.arbitrary()? {
                        Some(u.choose(&["app", "jbd2"])?.to_owned().into())
                    } else {
                        None
                    },
                    took_ns,
                };
                records.push(&record);
                all.push(record);
                if u.ratio(1, 4)? {
                    let number = u.choose_index(all.len())?;
                    let at_ns = *u.choose(&numbers)?;
                    assert_eq!(records.ended(number, at_ns), all[number].took_ns.is_none());
                    all[number].took_ns = Some(at_ns.saturating_sub(all[number].at_ns));
                }
            }
            assert!(!records.ended(all.len(), 0));
            assert_eq!((records.len(), records.iter().collect::<Vec<_>>()), (all.len(), all.clone()));
            all.sort_by_key(|record| record.at_ns);
            let span = all.first().zip(all.last()).map(|(first, last)| (first.at_ns, last.at_ns));
            assert_eq!(records.span_ns(), span);
            assert_eq!(records.drain().collect::<Vec<_>>(), all);
            Ok(())
        });
    }

    #[test]
    fn a_request_takes_few_bytes_and_chunks_follow_each_other() {
        assert_eq!(size_of::<Packed>(), 28);
        let mut records = Records::default();
        let record = |number: u64| Record {
            at_ns: number,
            op: Op::Write,
            durable: false,
            flush_first: false,
            device: 0,
            offset: number * BLOCK,
            bytes: 4096,
            process: 1,
            program: None,
            took_ns: None,
        };
        let count = 2 * CHUNK as u64 + 1;
        (0..count).for_each(|number| records.push(&record(number)));
        assert!(records.ended(CHUNK, 1 << 20) && records.large.is_empty());
        assert!(records.chunks.iter().all(|chunk| chunk.capacity() == CHUNK) && records.chunks.len() == 3);
        let ended = |number: u64| (number == CHUNK as u64).then_some((1 << 20) - number);
        let mut left = 0..count;
        let same = |found: Record| {
            left.next().is_some_and(|number| found == Record { took_ns: ended(number), ..record(number) })
        };
        assert!(records.drain().all(same) && left.is_empty());
    }
}
