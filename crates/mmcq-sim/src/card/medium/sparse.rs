//! Sparse memory: a directory of tables of 4 KiB pages.

use super::Fill;

const PAGE: usize = 4096;
const PAGES: usize = 1024;
const TABLE_BYTES: u64 = (PAGE * PAGES) as u64;

#[derive(Debug)]
enum Page {
    Untouched,
    Erased(u8),
    Data(Box<[u8; PAGE]>),
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
    fill: Fill,
}

impl Sparse {
    pub(super) fn new(bytes: u64, fill: Fill) -> Self {
        let count = usize::try_from(bytes.div_ceil(TABLE_BYTES)).unwrap_or(usize::MAX);
        let mut tables = Vec::new();
        tables.resize_with(count, || Table::Untouched);
        Self { tables, fill }
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
                    Page::Data(data) => part.copy_from_slice(&data[offset..offset + len]),
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
                    let mut fresh = Box::new([0u8; PAGE]);
                    match *other {
                        Page::Erased(value) => fresh.fill(value),
                        _ => fill.generate(page_at, &mut fresh[..]),
                    }
                    *other = Page::Data(fresh);
                    match other {
                        Page::Data(stored) => stored,
                        _ => unreachable!("the page was just made"),
                    }
                }
            };
            stored[offset..offset + len].copy_from_slice(&data[done..done + len]);
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

    fn pages(&mut self, table: usize) -> &mut [Page] {
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
                flat[range].fill(value);
            }
            let at = u.int_in_range(0..=bytes - 1)?;
            let mut read = vec![0u8; (bytes - at).min(20_000) as usize];
            sparse.read(at, &mut read);
            assert_eq!(read, flat[at as usize..at as usize + read.len()]);
            let mut all = vec![0u8; bytes as usize];
            sparse.read(0, &mut all);
            assert!(all == flat);
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
    }
}
