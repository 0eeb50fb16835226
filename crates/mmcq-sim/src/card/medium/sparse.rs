//! Sparse memory: a directory of tables, whose entries are pages of 4 KiB. A page uses memory only
//! for sectors whose content has no short form ([`Short`]).

use super::content::{Bytes, SECTOR, Short};
use super::{Fill, SECTOR_BYTES};
use std::ops::Range;

const PAGE: usize = 4096;
const PAGES: usize = 1024;
const TABLE_BYTES: u64 = (PAGE * PAGES) as u64;
/// Number of sectors in a page of 4 KiB.
const SECTORS: usize = PAGE / SECTOR;

#[derive(Clone, Copy, Debug)]
enum Page {
    Untouched,
    Erased(u8),
    /// The sectors of the page are stored at this index of [`Sparse::pages`].
    Data(u32),
}

#[derive(Clone, Copy, Debug)]
enum Sector {
    /// The sector was never written or erased.
    Untouched,
    Short(Short),
    /// The bytes of the sector are stored at this index of [`Sparse::bytes`].
    Kept(u32),
}

/// Kind of a sector's content. The number that belongs to the kind, such as a word or an index, is
/// in another array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Untouched,
    Word,
    Sequence,
    Kept,
}

/// The sectors of a page in as few bytes as possible: every page costs an access to the computer's
/// main memory, which limits the speed of random writes.
#[derive(Clone, Copy, Debug)]
struct Sectors {
    numbers: [u64; SECTORS],
    kinds: [Kind; SECTORS],
}

impl Sectors {
    fn all(sector: Sector) -> Self {
        let (kind, number) = sector.packed();
        Sectors { numbers: [number; SECTORS], kinds: [kind; SECTORS] }
    }

    #[inline]
    fn get(&self, sector: usize) -> Sector {
        let number = self.numbers[sector];
        match self.kinds[sector] {
            Kind::Untouched => Sector::Untouched,
            Kind::Word => Sector::Short(Short::Word(number)),
            Kind::Sequence => Sector::Short(Short::Sequence(number)),
            Kind::Kept => Sector::Kept(number as u32),
        }
    }

    #[inline]
    fn set(&mut self, at: usize, sector: Sector) {
        (self.kinds[at], self.numbers[at]) = sector.packed();
    }

    fn iter(&self) -> impl Iterator<Item = Sector> {
        (0..SECTORS).map(|sector| self.get(sector))
    }
}

impl Sector {
    #[inline]
    fn packed(self) -> (Kind, u64) {
        match self {
            Sector::Untouched => (Kind::Untouched, 0),
            Sector::Short(Short::Fill(_)) => {
                unreachable!("bytes that are written are never taken for the fill")
            }
            Sector::Short(Short::Word(word)) => (Kind::Word, word),
            Sector::Short(Short::Sequence(state)) => (Kind::Sequence, state),
            Sector::Kept(place) => (Kind::Kept, place.into()),
        }
    }
}

#[derive(Debug)]
enum Table {
    Untouched,
    Erased(u8),
    Pages(Box<[Page]>),
}

#[derive(Debug)]
pub(super) struct Sparse {
    tables: Vec<Table>,
    /// Indexes of the tables in use, in the order in which they were made.
    used: Vec<usize>,
    /// Pages with at least one written sector, in a single vector: one large allocation costs less
    /// than many small ones.
    pages: Vec<Sectors>,
    bytes: Vec<Bytes>,
    /// Indexes of `pages` that are free for reuse.
    free_pages: Vec<u32>,
    /// Indexes of `bytes` that are free for reuse.
    free_bytes: Vec<u32>,
    fill: Fill,
}

/// Returns the content of an erased sector whose bytes read as `value`.
fn erased(value: u8) -> Short {
    Short::Word(u64::from_ne_bytes([value; 8]))
}

/// Stores a value at a free index, and returns the index.
fn put<T>(places: &mut Vec<T>, free: &mut Vec<u32>, what: T) -> u32 {
    match free.pop() {
        Some(place) => {
            places[place as usize] = what;
            place
        }
        None => {
            places.push(what);
            u32::try_from(places.len() - 1).unwrap_or_else(|_| panic!("2 TiB were written"))
        }
    }
}

impl Sparse {
    pub(super) fn new(bytes: u64, fill: Fill) -> Self {
        let count = usize::try_from(bytes.div_ceil(TABLE_BYTES)).unwrap_or(usize::MAX);
        let mut tables = Vec::new();
        tables.resize_with(count, || Table::Untouched);
        Self {
            tables,
            used: Vec::new(),
            pages: Vec::new(),
            bytes: Vec::new(),
            free_pages: Vec::new(),
            free_bytes: Vec::new(),
            fill,
        }
    }

    pub(super) fn fill(&self) -> Fill {
        self.fill
    }

    /// Returns the content of the sector that begins at this byte address.
    fn sector(&self, at: u64) -> Sector {
        let (table, page, offset) = place(at);
        let page = match &self.tables[table] {
            Table::Untouched => Page::Untouched,
            Table::Erased(value) => Page::Erased(*value),
            Table::Pages(pages) => pages[page],
        };
        match page {
            Page::Untouched => Sector::Untouched,
            Page::Erased(value) => Sector::Short(erased(value)),
            Page::Data(place) => self.pages[place as usize].get(offset / SECTOR),
        }
    }

    /// Returns the description (such as "a repeated word") from which the content of the sector at
    /// this byte address can be generated; `None`: the content is stored as bytes.
    pub(super) fn short(&self, at: u64) -> Option<Short> {
        match self.sector(at) {
            Sector::Untouched => Some(Short::Fill(self.fill)),
            Sector::Short(short) => Some(short),
            Sector::Kept(_) => None,
        }
    }

    #[inline]
    pub(super) fn read(&self, at: u64, buffer: &mut [u8]) {
        let mut done = 0;
        while done < buffer.len() {
            let from = at + done as u64;
            let offset = (from % SECTOR_BYTES) as usize;
            let len = (SECTOR - offset).min(buffer.len() - done);
            let part = &mut buffer[done..done + len];
            match self.sector(from - offset as u64) {
                Sector::Untouched => self.fill.generate(from, part),
                Sector::Short(short) => short.part(from - offset as u64, offset, part),
                Sector::Kept(place) => {
                    part.copy_from_slice(&self.bytes[place as usize][offset..offset + len]);
                }
            }
            done += len;
        }
    }

    #[inline]
    pub(super) fn write(&mut self, at: u64, data: &[u8]) {
        let mut done = 0;
        while done < data.len() {
            let from = at + done as u64;
            let offset = (from % SECTOR_BYTES) as usize;
            let len = (SECTOR - offset).min(data.len() - done);
            let part = &data[done..done + len];
            match part.try_into() {
                Ok(whole) => self.write_sector(from, whole),
                Err(_) => {
                    let mut whole = [0; SECTOR];
                    self.read(from - offset as u64, &mut whole);
                    whole[offset..offset + len].copy_from_slice(part);
                    self.write_sector(from - offset as u64, &whole);
                }
            }
            done += len;
        }
    }

    /// Writes the whole sector that begins at byte address `at`.
    #[inline]
    fn write_sector(&mut self, at: u64, data: &Bytes) {
        let (table, page, offset) = place(at);
        let page = self.page(table, page);
        let (sectors, sector) = (&mut self.pages[page as usize], offset / SECTOR);
        match (Short::of(data), sectors.get(sector)) {
            (Some(short), before) => {
                sectors.set(sector, Sector::Short(short));
                if let Sector::Kept(place) = before {
                    self.free_bytes.push(place);
                }
            }
            (None, Sector::Kept(place)) => self.bytes[place as usize] = *data,
            (None, _) => {
                sectors.set(sector, Sector::Kept(put(&mut self.bytes, &mut self.free_bytes, *data)));
            }
        }
    }

    /// Returns the index in `pages` of the page `page` of a table; makes the page if it is missing.
    #[inline]
    fn page(&mut self, table: usize, page: usize) -> u32 {
        self.table(table);
        let Table::Pages(pages) = &mut self.tables[table] else { unreachable!("the table was just made") };
        let fresh = match pages[page] {
            Page::Data(place) => return place,
            Page::Untouched => Sector::Untouched,
            Page::Erased(value) => Sector::Short(erased(value)),
        };
        let place = put(&mut self.pages, &mut self.free_pages, Sectors::all(fresh));
        pages[page] = Page::Data(place);
        place
    }

    pub(super) fn erase(&mut self, at: u64, bytes: u64, value: u8) {
        let mut at = at;
        let end = at + bytes;
        while at < end {
            let (table, page, offset) = place(at);
            let left = end - at;
            if at.is_multiple_of(TABLE_BYTES) && left >= TABLE_BYTES {
                self.use_table(table);
                if let Table::Pages(pages) = std::mem::replace(&mut self.tables[table], Table::Erased(value))
                {
                    pages.iter().for_each(|page| self.free(*page));
                }
                at += TABLE_BYTES;
            } else if offset == 0 && left >= PAGE as u64 {
                self.table(table);
                if let Table::Pages(pages) = &mut self.tables[table] {
                    let before = std::mem::replace(&mut pages[page], Page::Erased(value));
                    self.free(before);
                }
                at += PAGE as u64;
            } else {
                let len = left.min((PAGE - offset) as u64);
                self.write(at, &[value; PAGE][..len as usize]);
                at += len;
            }
        }
    }

    /// Frees the memory that a page (4 KiB of the medium) uses.
    fn free(&mut self, page: Page) {
        let Page::Data(page) = page else { return };
        for sector in self.pages[page as usize].iter() {
            if let Sector::Kept(place) = sector {
                self.free_bytes.push(place);
            }
        }
        self.free_pages.push(page);
    }

    /// Calls `each` with the ranges of all sectors that were ever written or erased.
    pub(super) fn touched(&self, each: &mut dyn FnMut(Range<u64>)) {
        let sectors = SECTORS as u64;
        for &table in &self.used {
            let first = table as u64 * PAGES as u64 * sectors;
            match &self.tables[table] {
                Table::Untouched => {}
                Table::Erased(_) => each(first..first + PAGES as u64 * sectors),
                Table::Pages(pages) => {
                    for (page, first) in pages.iter().zip((first..).step_by(SECTORS)) {
                        match page {
                            Page::Untouched => {}
                            Page::Erased(_) => each(first..first + sectors),
                            Page::Data(place) => {
                                let sectors = self.pages[*place as usize].iter().zip(first..);
                                let touched = sectors.filter(|(s, _)| !matches!(s, Sector::Untouched));
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

    /// Makes sure that the directory has a table of pages at the index `table`. If that whole table
    /// was untouched or erased, its new pages are so too.
    #[inline]
    fn table(&mut self, table: usize) {
        let was = match self.tables[table] {
            Table::Pages(_) => return,
            Table::Erased(value) => Page::Erased(value),
            Table::Untouched => Page::Untouched,
        };
        self.use_table(table);
        self.tables[table] = Table::Pages(vec![was; PAGES].into_boxed_slice());
    }
}

impl Fill {
    /// Returns the fill for another partition of the same card: zeros, or a pattern that differs
    /// from the user area's. Sector `n` of partition `p` gets what this fill has at sector `p << 44
    /// | n`.
    #[must_use]
    pub fn of_partition(self, partition: u8) -> Fill {
        match self {
            Fill::Zeros => Fill::Zeros,
            Fill::Pattern(seed) => Fill::Pattern(seed ^ u64::from(partition) << (44 + 9 - 3)),
        }
    }

    /// Generates the bytes that the range of the medium from byte address `at` on has if it was
    /// never written, as many as `buffer` holds.
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

/// Returns word `index` of the pattern that `seed` selects, made by two multiplications; every word
/// differs.
fn word(seed: u64, index: u64) -> u64 {
    let mixed = (index ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
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
        crate::fuzz::fuzz("a_flat_array_says_the_same", 60, |u| {
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
                // The step erases, writes one repeated byte, or writes bytes that have no short
                // form.
                let kind = u.int_in_range(0..=2)?;
                let odd = kind == 2;
                let data: Vec<u8> = (0..len as usize)
                    .map(|n| if odd { ((n * n) >> 3) as u8 ^ value } else { value })
                    .collect();
                match kind {
                    0 => sparse.erase(at, len, value),
                    _ => sparse.write(at, &data),
                }
                let end = range.end.div_ceil(SECTOR_BYTES as usize);
                if len > 0 {
                    touched[range.start / SECTOR_BYTES as usize..end].fill(true);
                }
                flat[range].copy_from_slice(&data);
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
        });
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
