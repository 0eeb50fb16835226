//! Tests with little room for DMA mappings: waiting requests may use all of it, but the request
//! whose turn it is always gets a mapping, above all a request of the recovery.

use crate::lane::{Driver, Machine};
use crate::rig;
use mmcq::card::Options;
use mmcq::engine::{Error, RecoveryStep};
use mmcq::sched::{Fifo, Queued};
use mmcq_sim::memory::MemoryConfig;
use mmcq_sim::sdhci::SdhciConfig;
use rig::Rig;

const MS: u64 = 1_000_000;

/// Returns a rig whose controller can map only this many bytes of memory.
fn cramped(name: &str, bytes: u64) -> Rig {
    let sees = MemoryConfig { end: MemoryConfig::BITS32.base + bytes, ..MemoryConfig::BITS32 };
    let emmc = name.contains("emmc");
    let rig = Rig::within(sees, rig::card(name), emmc, SdhciConfig::GENERIC_4_20, Options::DEFAULT);
    rig.keep();
    rig
}

/// Submits fifteen requests at once, with a brown-out of the card if `ill`. Returns the errors.
fn errors(rig: &Rig, blocks: u32, writes: bool, ill: bool) -> Vec<Error> {
    let ids: Vec<_> = (0..15)
        .map(|n| if writes { rig.write(1000 * n, blocks, 7) } else { rig.read(1000 * n, blocks) })
        .collect();
    rig.ills.borrow_mut().brown_out = ill;
    rig.finish(&ids, 60_000 * MS).into_iter().filter_map(|done| done.result.err()).collect()
}

#[test]
fn recovery_gets_a_mapping_although_the_queue_holds_all() {
    for kib in [12, 14, 16] {
        let rig = cramped("emmc-51-full", kib * 1024);
        assert_eq!(errors(&rig, 1, false, true), [], "{kib} KiB, {:?}", rig.trace());
        assert_eq!(rig.taken(RecoveryStep::Dead), 0);
    }
}

/// Checks that every request gets its mapping when its turn comes, even if there is room for the
/// mapping of only one request.
#[test]
fn whatever_waits_gets_its_mapping_when_its_turn_has_come() {
    for name in ["emmc-51-full", "sdhc-16g-hs"] {
        for (blocks, writes) in [(1, false), (8, false), (1, true), (8, true)] {
            for ill in [false, true] {
                // The room is enough for the driver's table, the supervisor's block, and 4 KiB for
                // the requests.
                for bytes in (0x2800..0x5000).step_by(0x200) {
                    let rig = cramped(name, bytes);
                    let found = errors(&rig, blocks, writes, ill);
                    let what = format!("{name}, {bytes} bytes, {blocks} blocks, writes {writes}, ill {ill}");
                    assert_eq!(found, [], "{what}: {:?}", rig.trace());
                    rig.checked();
                }
            }
        }
    }
}

/// Checks a card's queue that holds all mappings: a request that finds none waits until a task ends.
#[test]
fn tasks_on_the_card_give_their_mappings_to_the_next_requests() {
    for bytes in (0x3000..0x8000).step_by(0x800) {
        let sees = MemoryConfig { end: MemoryConfig::BITS32.base + bytes, ..MemoryConfig::BITS32 };
        let machine =
            Machine::<Driver, _, 16>::seeing(sees, "emmc-queue", true, Queued(Fifo)).with_emmc_queue();
        assert!(machine.depth > 4);
        for _ in 0..4 {
            let ids: Vec<_> = (0..16).map(|n| (machine.read(1000 * n, 0).0, None)).collect();
            assert_eq!(machine.finish(&ids), 0, "{bytes} bytes");
        }
    }
}
