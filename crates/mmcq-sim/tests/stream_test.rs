//! Tests of the test of open transfers ([`stream_test`]): a right controller passes it, and each
//! mistake of a controller fails it, with the case named.

use crate::cases;
use crate::open_mshc::{self, BOTH};
use crate::open_sdhci::{self, memory};
use crate::timed;
use mmcq::block::{BlockDevice, StreamOutcome, StreamResult, StreamTest, StreamVerdict, stream_test};
use mmcq::engine::{DmaBuf, Error};
use mmcq::host::mshc::OpenTransfers;
use mmcq::host::sdhci::OpenWrites;
use mmcq::task::{Platform, Stack};
use mmcq_sim::mshc::MshcConfig;
use mmcq_sim::sdhci::Mistakes;
use mmcq_sim::slot::Controller;
use mmcq_sim::time::Time;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::Poll;
use timed::one_thread::NOW_NS;

/// What a test of open transfers has told.
pub struct Told {
    pub verdict: Result<StreamVerdict, Error>,
    pub results: Vec<StreamResult>,
}

impl Told {
    /// Returns whether this case has failed.
    pub fn fails(&self, case: &str) -> bool {
        let failed = |result: &&StreamResult| result.to_string().contains("FAILED");
        self.results.iter().filter(failed).any(|result| result.case.to_string() == case)
    }

    /// Returns all results as text.
    pub fn text(&self) -> String {
        let lines: Vec<String> = self.results.iter().map(StreamResult::to_string).collect();
        format!("{:#?}\n{}", self.verdict, lines.join("\n"))
    }
}

/// Executes the test over a model, with `buf` as its buffer.
pub fn told<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    model: &RefCell<impl Controller>,
    time: &Time,
    test: StreamTest,
    buf: DmaBuf,
) -> Told {
    let pause_ends = Cell::new(0);
    let pause = async |ns: u64| {
        pause_ends.set(NOW_NS.get() + ns);
        poll_fn(|_| if NOW_NS.get() < pause_ends.get() { Poll::Pending } else { Poll::Ready(()) }).await;
    };
    let turn = || match pause_ends.get() {
        until_ns if until_ns > time.now() => timed::run_to(stack, model, time, until_ns),
        _ => timed::turn(stack, model, time),
    };
    let mut results = Vec::new();
    let future = stream_test(stack, test, buf, pause, |result| results.push(*result));
    let (verdict, buf) = timed::try_drive(time, turn, future).unwrap();
    assert!(!buf.is_empty());
    Told { verdict, results }
}

/// Fills blocks so that each differs from the one before.
fn fill<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    model: &RefCell<impl Controller>,
    time: &Time,
    lba: u64,
    blocks: u64,
) {
    let mut buf = memory(1000, 0);
    for at in (0..blocks).step_by(1000) {
        for (block, number) in buf.chunks_exact_mut(512).zip(at..) {
            block.fill(number as u8);
            block[..8].copy_from_slice(&number.to_le_bytes());
        }
        let disk = BlockDevice::new(stack);
        let (result, back) = timed::drive(stack, model, time, disk.write(lba + at, buf));
        result.unwrap();
        buf = back;
    }
}

/// Returns what the test of reads or of writes tells on an SDHCI with these mistakes, on so many
/// blocks.
fn on_sdhci(writes: OpenWrites, mistakes: Mistakes, test: fn(u64, u32) -> StreamTest, blocks: u32) -> Told {
    let rig = open_sdhci::Rig::new("sdxc-128g-uhs", writes, mistakes);
    fill(&rig.stack, &rig.model, &rig.time, rig.base, blocks.into());
    told(&rig.stack, &rig.model, &rig.time, test(rig.base, blocks), aligned())
}

/// Blocks of a test in which some case fails.
const SOME: u32 = 2100;

/// Returns a buffer of 512 KiB that is aligned to its size on the bus.
fn aligned() -> DmaBuf {
    memory(1024, 0)
}

#[test]
fn a_right_sdhci_passes() {
    let ways = [(OpenWrites::No, 2), (OpenWrites::Gap, 2), (OpenWrites::Carrier, 0)];
    for (open_writes, not_kept) in cases::some(2, ways) {
        let test = if open_writes == OpenWrites::No { StreamTest::reads } else { StreamTest::writes };
        let told = on_sdhci(open_writes, Mistakes::NONE, test, StreamTest::BLOCKS);
        let verdict = told.verdict.unwrap();
        assert!(verdict.may_be_switched_on(), "{}", told.text());
        assert_eq!((verdict.not_kept, verdict.failed, verdict.left_out), (not_kept, 0, 0), "{}", told.text());
        let first = &told.results[0];
        assert!(first.kib_s(first.open) > 2 * first.kib_s(first.closed), "{first}");
        assert!(first.continued > 250, "{first}");
    }
}

/// Checks each mistake of an SDHCI in a way that it breaks.
#[test]
fn each_mistake_of_an_sdhci_fails_with_the_case_named() {
    let none = Mistakes::NONE;
    let reads = [
        Mistakes { sdma_address_ignored: true, ..none },
        Mistakes { boundary_block_lost: true, ..none },
        Mistakes { boundary_block_repeated: true, ..none },
        Mistakes { boundary_told_early: true, ..none },
    ];
    for mistakes in reads {
        let told = on_sdhci(OpenWrites::No, mistakes, StreamTest::reads, SOME);
        assert!(told.fails("read 4 KiB"), "{mistakes:?}: {}", told.text());
        assert!(!told.verdict.unwrap().may_be_switched_on(), "{mistakes:?}");
    }
    let writes = [
        (OpenWrites::Gap, Mistakes { sdma_address_ignored: true, ..none }),
        (OpenWrites::Gap, Mistakes { boundary_block_lost: true, ..none }),
        (OpenWrites::Gap, Mistakes { boundary_block_repeated: true, ..none }),
        (OpenWrites::Carrier, Mistakes { carried_data_stay: true, ..none }),
        (OpenWrites::Carrier, Mistakes { carried_data_lost: true, ..none }),
    ];
    for (way, mistakes) in writes {
        let told = on_sdhci(way, mistakes, StreamTest::writes, SOME);
        assert!(told.fails("write 4 KiB"), "{mistakes:?}: {}", told.text());
        assert!(!told.verdict.unwrap().may_be_switched_on(), "{mistakes:?}");
    }
}

#[test]
fn a_repeated_block_is_named() {
    let mistakes = Mistakes { boundary_block_repeated: true, ..Mistakes::NONE };
    let told = on_sdhci(OpenWrites::Gap, mistakes, StreamTest::writes, SOME);
    let StreamOutcome::Wrong { lba: Some(lba), holds: Some(other) } = told.results[0].outcome else {
        panic!("{}", told.text());
    };
    assert_eq!(other + 1, lba);
}

#[test]
fn a_card_with_the_same_data_everywhere_proves_nothing() {
    let rig = open_sdhci::Rig::new("sdxc-128g-uhs", OpenWrites::No, Mistakes::NONE);
    let disk = BlockDevice::new(&rig.stack);
    for at in 0..4 {
        let write = disk.write(rig.base + 1024 * at, memory(1024, 0));
        timed::drive(&rig.stack, &rig.model, &rig.time, write).0.unwrap();
    }
    let told = told(&rig.stack, &rig.model, &rig.time, StreamTest::reads(rig.base, 4096), memory(128, 0));
    let verdict = told.verdict.unwrap();
    assert!(!verdict.may_be_switched_on() && verdict.unproven > 0 && verdict.failed == 0, "{}", told.text());
    // What needs more blocks, or a larger buffer, is left out.
    assert!(verdict.left_out >= 4, "{}", told.text());
}

#[test]
fn what_cannot_be_tested_is_refused() {
    let rig = open_mshc::Rig::new((MshcConfig::PCI, "sdhc-16g-hs"), OpenTransfers::NONE);
    let test = |lba| told(&rig.stack, &rig.model, &rig.time, StreamTest::reads(lba, 4096), aligned()).verdict;
    assert_eq!(test(rig.base), Err(Error::Unsupported));
    let rig = open_mshc::Rig::new((MshcConfig::PCI, "sdhc-16g-hs"), BOTH);
    let refused =
        told(&rig.stack, &rig.model, &rig.time, StreamTest::reads(u64::MAX, 4096), aligned()).verdict;
    assert!(matches!(refused, Err(Error::OutOfRange { .. })), "{refused:?}");
}

#[test]
fn a_right_designware_passes_and_each_mistake_fails() {
    let poll = MshcConfig { ignores_poll: true, ..MshcConfig::PCI };
    let carrier = MshcConfig { carries_nothing: true, ..MshcConfig::PCI };
    let all = [
        (MshcConfig::PCI, false, true),
        (MshcConfig::PCI, true, true),
        (poll, false, false),
        (carrier, true, false),
    ];
    for (config, writes, right) in all {
        let rig = open_mshc::Rig::new((config, "sdhc-16g-hs"), BOTH);
        let blocks = 8192;
        fill(&rig.stack, &rig.model, &rig.time, rig.base, u64::from(blocks));
        let test = if writes { StreamTest::writes } else { StreamTest::reads };
        let told = told(&rig.stack, &rig.model, &rig.time, test(rig.base, blocks), aligned());
        let verdict = told.verdict.unwrap();
        assert_eq!(verdict.may_be_switched_on(), right, "{}", told.text());
        assert!(right || told.results[0].to_string().contains("FAILED"), "{}", told.text());
    }
}
