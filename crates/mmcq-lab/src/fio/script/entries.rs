//! Compact list of a script's requests. A script is a list of requests that a worker executes, such
//! as a recorded trace, which has millions of them.

use super::{Entry, Op, When};

/// Unit in bytes of the offsets and lengths in the compact form.
const BLOCK: u64 = 512;
/// How many bits of an element of `places` hold the operation; they are its lowest bits.
const OP_BITS: u32 = 3;
/// Number of bits of an element of `places` that hold the time code: when the request may start
/// ([`AT_ONCE`] and the like). They are above the bits of the operation, and below those of the
/// block number.
const WHEN_BITS: u32 = 2;
/// Operation code of a request that does not fit the compact form, and is stored whole in `odd`.
const ODD: u64 = 7;
/// Value of an element of `dues`, the start times of requests, for a request without a time.
const NONE: u64 = u64::MAX;

/// Value of the time code, which says when a request starts: at once, without waiting for anything.
const AT_ONCE: u64 = 0;
/// Time code of a request that starts at the time that the trace gives, counted from the start of
/// the run.
const WHEN_DUE: u64 = 1;
/// Time code of a request that starts some time after the start of the previous one.
const AFTER_START: u64 = 2;
/// Time code of a request that starts some time after the end of another one.
const AFTER_END: u64 = 3;

/// The requests of a script in the order in which they start. A request needs 12 bytes of memory.
/// It needs 20 if some requests have a time at which they should start, and 28 if some also wait
/// for the end of another request.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    /// For each request, its block number, with bits for operation and time. A request that is
    /// stored in `odd` has its index there instead.
    places: Vec<u64>,
    /// Length of each request in blocks of 512 bytes.
    blocks: Vec<u32>,
    /// For each request, the time in ns at which it should start if nothing delays it; empty while
    /// no request has such a time.
    dues: Vec<u64>,
    /// For each request, the index of the request whose end it waits for (only with [`AFTER_END`]),
    /// and the delay in ns; empty while no request waits.
    waits: Vec<(u32, u32)>,
    /// Requests that do not fit the compact form.
    odd: Vec<Entry>,
}

/// Adds a value to a list that stays empty while all values are `usual`. `before`: number of values
/// that were added before, including the usual ones.
fn add<T: Copy + PartialEq>(list: &mut Vec<T>, before: usize, usual: T, value: T) {
    if list.is_empty() && value != usual {
        list.resize(before, usual);
    }
    if before == list.len() && (before > 0 || value != usual) {
        list.push(value);
    }
}

impl Entries {
    /// Returns the number of requests in the list.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether the list has no requests.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Adds a request at the end of the list.
    pub fn push(&mut self, entry: Entry) {
        let packed = Packed::of(&entry).unwrap_or_else(|| {
            self.odd.push(entry);
            let place = (self.odd.len() as u64 - 1) << (OP_BITS + WHEN_BITS) | ODD;
            Packed { place, blocks: 0, due: NONE, wait: (0, 0) }
        });
        let before = self.len();
        self.places.push(packed.place);
        self.blocks.push(packed.blocks);
        add(&mut self.dues, before, NONE, packed.due);
        add(&mut self.waits, before, (0, 0), packed.wait);
    }

    /// Returns the request with this index, from 0; `None`: the list is shorter.
    pub fn get(&self, number: usize) -> Option<Entry> {
        let place = *self.places.get(number)?;
        let op = place & ((1 << OP_BITS) - 1);
        if op == ODD {
            return self.odd.get((place >> (OP_BITS + WHEN_BITS)) as usize).copied();
        }
        let due = self.dues.get(number).copied().filter(|due| *due != NONE);
        let (before, gap_ns) = self.waits.get(number).copied().unwrap_or_default();
        let when = match place >> OP_BITS & ((1 << WHEN_BITS) - 1) {
            WHEN_DUE => When::At(due.unwrap_or_default()),
            AFTER_START => When::AfterStart(gap_ns.into()),
            AFTER_END => When::AfterEnd(before, gap_ns.into()),
            _ => When::AtOnce,
        };
        let op = *OPS.get(op as usize)?;
        let (offset, bytes) =
            ((place >> (OP_BITS + WHEN_BITS)) * BLOCK, u64::from(*self.blocks.get(number)?) * BLOCK);
        Some(Entry { op, offset, bytes, when, due })
    }

    /// Returns all requests of the list, in order.
    pub fn iter(&self) -> impl Iterator<Item = Entry> {
        (0..self.len()).filter_map(|number| self.get(number))
    }

    /// Frees spare memory of the list, to which no more requests will be added.
    pub fn shrink_to_fit(&mut self) {
        self.places.shrink_to_fit();
        self.blocks.shrink_to_fit();
        self.dues.shrink_to_fit();
        self.waits.shrink_to_fit();
    }
}

const OPS: [Op; 5] = [Op::Read, Op::Write, Op::WriteDurable, Op::Flush, Op::Discard];

struct Packed {
    place: u64,
    blocks: u32,
    due: u64,
    wait: (u32, u32),
}

impl Packed {
    /// Packs a request into the compact form. Returns `None` if a value is too large, or not a
    /// multiple of 512 bytes.
    fn of(entry: &Entry) -> Option<Self> {
        let op = OPS.iter().position(|op| *op == entry.op)? as u64;
        let (when, wait) = match entry.when {
            When::AtOnce => (AT_ONCE, (0, 0)),
            When::At(at_ns) if Some(at_ns) == entry.due => (WHEN_DUE, (0, 0)),
            When::At(_) => return None,
            When::AfterStart(gap_ns) => (AFTER_START, (0, u32::try_from(gap_ns).ok()?)),
            When::AfterEnd(before, gap_ns) => (AFTER_END, (before, u32::try_from(gap_ns).ok()?)),
        };
        let whole = entry.offset.is_multiple_of(BLOCK) && entry.bytes.is_multiple_of(BLOCK);
        let (block, due) = (entry.offset / BLOCK, entry.due.unwrap_or(NONE));
        // An ideal time that equals `NONE` cannot be stored compactly.
        let fits = whole && block >> (u64::BITS - OP_BITS - WHEN_BITS) == 0 && entry.due != Some(NONE);
        let place = block << (OP_BITS + WHEN_BITS) | when << OP_BITS | op;
        let blocks = u32::try_from(entry.bytes / BLOCK).ok()?;
        fits.then_some(Packed { place, blocks, due, wait })
    }
}

impl FromIterator<Entry> for Entries {
    fn from_iter<I: IntoIterator<Item = Entry>>(entries: I) -> Self {
        let mut all = Entries::default();
        entries.into_iter().for_each(|entry| all.push(entry));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out() {
        crate::fuzz::fuzz("what_goes_in_comes_out", 300, |u| {
            let (mut packed, mut all) = (Entries::default(), Vec::new());
            let times = [0, 1, u64::from(u32::MAX), 1 << 32, u64::MAX - 1, u64::MAX];
            for _ in 0..u.int_in_range(0..=20)? {
                let due = if u.arbitrary()? { Some(*u.choose(&times)?) } else { None };
                let gap_ns = *u.choose(&times)?;
                let when = match u.int_in_range(0..=4)? {
                    0 => When::AtOnce,
                    1 => When::At(gap_ns),
                    2 => due.map_or(When::AtOnce, When::At),
                    3 => When::AfterStart(gap_ns),
                    _ => When::AfterEnd(u.arbitrary()?, gap_ns),
                };
                let sizes = [0, 1, 512, 4096, 33_553_920, 1 << 41, u64::MAX];
                let (offset, bytes) = (*u.choose(&sizes)?, *u.choose(&sizes)?);
                let entry = Entry { op: *u.choose(&OPS)?, offset, bytes, when, due };
                packed.push(entry);
                all.push(entry);
            }
            assert_eq!(packed.iter().collect::<Vec<_>>(), all);
            assert_eq!((packed.len(), packed.get(all.len())), (all.len(), None));
            Ok(())
        });
    }

    #[test]
    fn a_request_takes_few_bytes() {
        let bytes = |when: fn(u32) -> (When, Option<u64>)| {
            let mut all: Entries = (0..1000)
                .map(|number| {
                    let (when, due) = when(number);
                    Entry { op: Op::Read, offset: u64::from(number) << 30, bytes: 65_535 * 512, when, due }
                })
                .collect();
            all.shrink_to_fit();
            assert!(all.odd.is_empty());
            8 * (all.places.capacity() + all.dues.capacity() + all.waits.capacity())
                + 4 * all.blocks.capacity()
        };
        assert_eq!(bytes(|_| (When::AtOnce, None)), 12_000);
        assert_eq!(bytes(|number| (When::At(number.into()), Some(number.into()))), 20_000);
        assert_eq!(bytes(|number| (When::AfterEnd(number, 7_000_000), Some(3 << 40))), 28_000);
    }
}
