//! What the values of a card's flash mean, one line each.

use crate::platform::CARD;

/// Keys of a card's flash without `card.`, each with what its value means.
const MEANINGS: [(&str, &str); 46] = [
    ("flash.read.read_first_us", "from a read command to its first block"),
    ("flash.read.read_next_4k_us", "before each further 4 KiB of a read command"),
    ("flash.read.prefetch_kib", "read ahead of reads that continue the one before: how far"),
    ("flash.read.prefetch_us", "first block of a read that continues the one before"),
    ("flash.read.prefetch_mib_s", "rate at which the flash reads ahead"),
    ("flash.read.page_kib", "reads go by pages of this size"),
    ("flash.read.read_second_page_us", "from the end of a command's first page to its second"),
    ("flash.read.read_gap_ns", "from block to block, in addition to the wire"),
    ("flash.read.read_ahead_kib", "how far an open read goes on while the host pauses"),
    ("flash.read.abort_us", "delay of the next read after a page fetch that a stop interrupted"),
    ("flash.read.reads_ahead_when_counted", "whether reads with a count (CMD23) go on, too"),
    ("flash.write.write_first_us", "busy at the end of a write command"),
    ("flash.write.write_next_4k_us", "further busy for each 4 KiB of a write command"),
    ("flash.write.cache_kib", "size of the write cache"),
    ("flash.write.drain_mib_s", "rate at which the flash is written; after the cliff of an SLC cache"),
    ("flash.write.buffer_kib", "a longer write goes into the cache in pieces of this size"),
    ("flash.write.program_kib", "the flash writes whole pages of this size"),
    ("flash.write.scatter_us", "further busy of a long write that continues nothing"),
    ("flash.write.scatter_from_kib", "length of a write above which scatter_us counts"),
    ("flash.write.close_us", "busy at the end of a write, once all data are in the flash"),
    ("flash.write.reopen_us", "further busy of a write that continues a long run"),
    ("flash.write.reopen_from_kib", "length of a run from which reopen_us counts"),
    ("flash.write.gc_run_kib", "bytes of a run that count as not sequential"),
    ("flash.write.gc_every_mib", "bytes that are not sequential for each stall, evenly"),
    ("flash.write.gc_ms", "length of such a stall"),
    ("flash.write.volatile_open_write", "whether a power cut takes data of an open write"),
    ("flash.cache.program_us", "busy of a write that bypasses the cache, once its data have drained"),
    ("flash.cache.flush_us", "further time of a flush, once the cache has drained"),
    ("flash.erase.erase_first_us", "busy of an erase command"),
    ("flash.erase.erase_next_group_us", "further busy for each erase group"),
    ("flash.spread.seed", "begin of the sequences that decide which commands are delayed"),
    ("flash.spread.read_retry_share", "share of read commands whose first page needs a further try"),
    ("flash.spread.read_retry_us", "time of each further try"),
    ("flash.spread.read_retry_again", "probability that another try follows a try"),
    ("flash.spread.gc_share", "share of write commands that meet garbage collection"),
    ("flash.spread.gc_stall_ms", "time of a garbage collection, added to the busy"),
    ("flash.spread.gc_again", "probability that another collection follows a collection"),
    ("flash.spread.slc_mib", "size of the SLC cache: the cliff comes after it"),
    ("flash.spread.slc_mib_s", "rate at which the flash is written before the cliff"),
    ("flash.spread.slc_free_mib_s", "rate at which an idle card empties the SLC cache; none: never"),
    ("queue.depth", "most tasks of the card's queue"),
    ("queue.units", "parts of the flash that read at the same time"),
    ("queue.buffers", "most tasks that are loaded at a time"),
    ("queue.order", "order in which tasks become ready"),
    ("packed.entry_us", "busy after each entry of a packed write but the last"),
    ("packed.units", "parts of the flash that read the entries of a packed read"),
];

/// Returns what the value of this key means; empty if the list has no such key.
pub(super) fn of(key: &str) -> &'static str {
    let of_card = key.strip_prefix(CARD).unwrap_or_default();
    MEANINGS.iter().find(|(known, _)| *known == of_card).map_or("", |(_, meaning)| meaning)
}

#[cfg(test)]
mod tests {
    use super::super::all;
    use super::*;
    use crate::board::SPREAD;
    use crate::board::card_names;

    #[test]
    fn every_value_of_a_flash_has_a_meaning() {
        for card in card_names() {
            for param in all("generic", Some(card), &[]).unwrap() {
                let is_flash = param.key.strip_prefix(CARD).is_some_and(|key| key.starts_with("flash."));
                assert!(!is_flash || !param.meaning.is_empty(), "{card}: {}", param.key);
            }
        }
    }

    #[test]
    fn a_spread_is_listed_by_every_card_and_named_once() {
        let listed = |card: &str| {
            let all = all("generic", Some(card), &[]).unwrap();
            SPREAD.map(|key| all.iter().filter(|param| param.key == format!("{CARD}{key}")).count())
        };
        assert_eq!(listed("emmc-hs200"), [1; SPREAD.len()]);
        assert_eq!(listed("emmc-th1520"), [1; SPREAD.len()]);
        for (at, (key, _)) in MEANINGS.iter().enumerate() {
            assert!(MEANINGS[..at].iter().all(|(other, _)| other != key), "{key}");
        }
    }
}
