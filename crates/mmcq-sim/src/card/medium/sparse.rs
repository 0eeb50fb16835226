//! Sparse memory: a directory of tables of 4 KiB pages.

use super::{Fill, SECTOR_BYTES};
use std::ops::Range;

const PAGE: usize = 4096;
const PAGES: usize = 1024;
const TABLE_BYTES: u64 = (PAGE * PAGES) as u64;

#[derive(Debug)]
enum Page {
    Untouched,
    Erased(u8),
    Data(Box<Written>),
}

/// A page that was written, at least in part.
#[derive(Debug)]
struct Written {
    bytes: [u8; PAGE],
    /// A bit for each sector that was written or erased.
    touched: u8,
}

/// Sectors of a page: as many as `touched` has bits.
const SECTORS: u64 = PAGE as u64 / SECTOR_BYTES;
const _: () = assert!(SECTORS == u8::BITS as u64);

#[derive(Debug)]
enum Table {
    Untouched,
    Erased(u8),
    Pages(Box<[Page]>),
}

#[derive(Debug)]
pub(super) struct Sparse {
    tables: Vec<Table>,
    /// Numbers of the tables that are not untouched, in the order in which they came.
    used: Vec<usize>,
    fill: Fill,
}

impl Sparse {
    pub(super) fn new(bytes: u64, fill: Fill) -> Self {
        let count = usize::try_from(bytes.div_ceil(TABLE_BYTES)).unwrap_or(usize::MAX);
        let mut tables = Vec::new();
        tables.resize_with(count, || Table::Untouched);
        Self { tables, used: Vec::new(), fill }
    }

    pub(super) fn fill(&self) -> Fill {
        self.fill
    }

    #[inline]
    pub(super) fn read(&self, at: u64, buffer: &mut [u8]) {
        let mut done = 0;
        while done < buffer.len() {
            let (table, page, offset) = place(at + done as u64);
            let len = (PAGE - offset).min(buffer.len() - done);
            let part = &mut buffer[done..done + len];
            match &self.tables[table] {
                Table::Untouched => self.generate(at + done as u64, part),
                Table::Erased(value) => part.fill(*value),
                Table::Pages(pages) => match &pages[page] {
                    Page::Untouched => self.generate(at + done as u64, part),
                    Page::Erased(value) => part.fill(*value),
                    Page::Data(data) => part.copy_from_slice(&data.bytes[offset..offset + len]),
                },
            }
            done += len;
        }
    }

    #[inline]
    pub(super) fn write(&mut self, at: u64, data: &[u8]) {
        let mut done = 0;
        while done < data.len() {
            let (table, page, offset) = place(at + done as u64);
            let len = (PAGE - offset).min(data.len() - done);
            let fill = self.fill;
            let page_at = at + done as u64 - offset as u64;
            let stored = match &mut self.pages(table)[page] {
                Page::Data(stored) => stored,
                other => {
                    let mut fresh = Box::new(Written { bytes: [0; PAGE], touched: 0 });
                    match *other {
                        Page::Erased(value) => {
                            fresh.bytes.fill(value);
                            fresh.touched = u8::MAX;
                        }
                        // Fresh memory holds zeros.
                        _ if fill == Fill::Zeros => {}
                        _ => fill.generate(page_at, &mut fresh.bytes),
                    }
                    *other = Page::Data(fresh);
                    match other {
                        Page::Data(stored) => stored,
                        _ => unreachable!("the page was just made"),
                    }
                }
            };
            stored.bytes[offset..offset + len].copy_from_slice(&data[done..done + len]);
            stored.touched |= bits(offset, len);
            done += len;
        }
    }

    pub(super) fn erase(&mut self, at: u64, bytes: u64, value: u8) {
        let mut at = at;
        let end = at + bytes;
        while at < end {
            let (table, page, offset) = place(at);
            let left = end - at;
            if at.is_multiple_of(TABLE_BYTES) && left >= TABLE_BYTES {
                self.use_table(table);
                self.tables[table] = Table::Erased(value);
                at += TABLE_BYTES;
            } else if offset == 0 && left >= PAGE as u64 {
                self.pages(table)[page] = Page::Erased(value);
                at += PAGE as u64;
            } else {
                let len = left.min((PAGE - offset) as u64);
                self.write(at, &[value; PAGE][..len as usize]);
                at += len;
            }
        }
    }

    /// Tells of all sectors that were ever written or erased.
    pub(super) fn touched(&self, each: &mut dyn FnMut(Range<u64>)) {
        for &table in &self.used {
            let first = table as u64 * PAGES as u64 * SECTORS;
            match &self.tables[table] {
                Table::Untouched => {}
                Table::Erased(_) => each(first..first + PAGES as u64 * SECTORS),
                Table::Pages(pages) => {
                    for (page, first) in pages.iter().zip((first..).step_by(SECTORS as usize)) {
                        match page {
                            Page::Untouched => {}
                            Page::Erased(_) => each(first..first + SECTORS),
                            Page::Data(data) => {
                                let sectors = (first..first + SECTORS).enumerate();
                                let touched = sectors.filter(|(bit, _)| data.touched >> bit & 1 == 1);
                                touched.for_each(|(_, sector)| each(sector..sector + 1));
                            }
                        }
                    }
                }
            }
        }
    }

    fn use_table(&mut self, table: usize) {
        if matches!(self.tables[table], Table::Untouched) {
            self.used.push(table);
        }
    }

    fn pages(&mut self, table: usize) -> &mut [Page] {
        self.use_table(table);
        let entry = &mut self.tables[table];
        if !matches!(entry, Table::Pages(_)) {
            let was = match *entry {
                Table::Erased(value) => Some(value),
                _ => None,
            };
            let make = |_| was.map_or(Page::Untouched, Page::Erased);
            *entry = Table::Pages((0..PAGES).map(make).collect());
        }
        match entry {
            Table::Pages(pages) => pages,
            _ => unreachable!("the table was just made"),
        }
    }

    fn generate(&self, at: u64, buffer: &mut [u8]) {
        self.fill.generate(at, buffer);
    }
}

impl Fill {
    /// The fill of another partition of the same card: zeros, or other bytes than the user area's. Sector `n` of partition `p` holds what this fill has at
    /// sector `p << 44 | n`.
    #[must_use]
    pub fn of_partition(self, partition: u8) -> Fill {
        match self {
            Fill::Zeros => Fill::Zeros,
            Fill::Pattern(seed) => Fill::Pattern(seed ^ u64::from(partition) << (44 + 9 - 3)),
        }
    }

    /// The bytes at this address if nothing was written there.
    pub fn generate(&self, at: u64, buffer: &mut [u8]) {
        let Fill::Pattern(seed) = *self else {
            buffer.fill(0);
            return;
        };
        let mut word_at = at / 8;
        let skip = (at % 8) as usize;
        let mut rest = buffer;
        if skip != 0 {
            let bytes = word(seed, word_at).to_le_bytes();
            let len = (8 - skip).min(rest.len());
            rest[..len].copy_from_slice(&bytes[skip..skip + len]);
            rest = &mut rest[len..];
            word_at += 1;
        }
        let mut chunks = rest.chunks_exact_mut(8);
        for chunk in &mut chunks {
            chunk.copy_from_slice(&word(seed, word_at).to_le_bytes());
            word_at += 1;
        }
        let tail = chunks.into_remainder();
        let bytes = word(seed, word_at).to_le_bytes();
        tail.copy_from_slice(&bytes[..tail.len()]);
    }
}

/// Two multiplications: different in every word, and cheap.
fn word(seed: u64, index: u64) -> u64 {
    let mixed = (index ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Bits of the sectors of a page in which these bytes are.
fn bits(offset: usize, len: usize) -> u8 {
    let (first, end) = (offset as u64 / SECTOR_BYTES, (offset + len) as u64);
    let count = end.div_ceil(SECTOR_BYTES) - first;
    let ones = if count >= SECTORS { u8::MAX } else { (1 << count) - 1 };
    ones << first
}

fn place(at: u64) -> (usize, usize, usize) {
    let table = (at / TABLE_BYTES) as usize;
    let page = (at / PAGE as u64) as usize % PAGES;
    (table, page, (at % PAGE as u64) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_array_says_the_same() {
        arbtest::arbtest(|u| {
            let bytes = 3 * TABLE_BYTES;
            let fill = Fill::Pattern(7);
            let mut sparse = Sparse::new(bytes, fill);
            let mut flat = vec![0u8; bytes as usize];
            fill.generate(0, &mut flat);
            let mut touched = vec![false; (bytes / SECTOR_BYTES) as usize];
            for _ in 0..u.int_in_range(1..=6)? {
                let at = u.int_in_range(0..=bytes - 1)?;
                let most = if u.ratio(1, 4)? { bytes } else { 9000 };
                let len = u.int_in_range(0..=most.min(bytes - at))?;
                let range = at as usize..(at + len) as usize;
                let value: u8 = u.arbitrary()?;
                if u.arbitrary()? {
                    sparse.erase(at, len, value);
                } else {
                    sparse.write(at, &vec![value; len as usize]);
                }
                let end = range.end.div_ceil(SECTOR_BYTES as usize);
                if len > 0 {
                    touched[range.start / SECTOR_BYTES as usize..end].fill(true);
                }
                flat[range].fill(value);
            }
            let at = u.int_in_range(0..=bytes - 1)?;
            let mut read = vec![0u8; (bytes - at).min(20_000) as usize];
            sparse.read(at, &mut read);
            assert_eq!(read, flat[at as usize..at as usize + read.len()]);
            let mut all = vec![0u8; bytes as usize];
            sparse.read(0, &mut all);
            assert!(all == flat);
            let mut seen = vec![false; touched.len()];
            sparse.touched(&mut |range| seen[range.start as usize..range.end as usize].fill(true));
            assert!(seen == touched);
            Ok(())
        })
        .budget_ms(1500);
    }

    #[test]
    fn pattern_depends_on_the_address_only() {
        let mut whole = [0u8; 512];
        Fill::Pattern(3).generate(1 << 20, &mut whole);
        for start in 0..40usize {
            let mut part = [0u8; 37];
            Fill::Pattern(3).generate((1 << 20) + start as u64, &mut part);
            assert_eq!(part[..], whole[start..start + 37]);
        }
        assert_ne!(whole[..8], whole[8..16]);
        let mut other = [0u8; 512];
        Fill::Pattern(3).of_partition(2).generate(1 << 20, &mut other);
        assert_ne!(whole, other);
        Fill::Pattern(3).generate((2 << 44 | 1 << 11) * 512, &mut whole);
        assert_eq!(whole, other);
    }
}
