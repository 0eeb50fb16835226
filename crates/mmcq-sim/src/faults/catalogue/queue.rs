//! Chapter F of the catalogue: queue and software.

use super::{Entry, campaign, entry, test};

pub(super) const ENTRIES: &[Entry] = &[
    entry(
        "F1",
        "A completion for a tag that is free, a second one, or none",
        "a tag carries its generation; what does not fit is counted and ignored",
        &[test("tag_reuse")],
    ),
    entry(
        "F2",
        "A request fails while others are in flight",
        "no client is told before the controller is quiet; the order behind it stays",
        &[test("fail_in_queue")],
    ),
    entry(
        "F3",
        "A future is dropped in the middle of DMA",
        "the slot keeps the buffer until the controller is idle",
        &[test("drop_future")],
    ),
    entry(
        "F4",
        "A waker is lost, a poll comes for nothing or after the end, two tasks wait for one",
        "the state decides and is looked at again after every registration",
        &[test("lost_waker")],
    ),
    entry(
        "F5",
        "A request starves, or waits behind less urgent ones",
        "a documented bound on how many may overtake it",
        &[test("starvation")],
    ),
    entry(
        "F6",
        "A flush overtakes a write, durability is ignored, overlapping requests change places",
        "the checker sees it; bugs planted on purpose show that it does",
        &[test("planted_order")],
    ),
    entry(
        "F7",
        "A partition switch or RPMB between queued requests",
        "a section of its own; the partition is restored, or the request fails",
        &[campaign("partition")],
    ),
    entry(
        "F8",
        "No slot or no memory is left",
        "fixed pools; the caller is told to come again",
        &[test("pool_of_one")],
    ),
    entry(
        "F9",
        "Buffers that are misaligned, empty, too long or in pieces of one byte",
        "refused or copied, never a panic",
        &[test("odd_buffers")],
    ),
];
