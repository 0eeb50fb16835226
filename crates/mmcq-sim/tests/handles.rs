//! Tests of several handles for one card: if writes are lost, the next flush of each handle reports
//! the loss, and later flushes do not.

use futures::future::{Either, select};
use mmcq::block::BlockDevice;
use mmcq::card::{Options, bring_up, supervise};
use mmcq::engine::Error;
use mmcq_sim::bench::{Bench, buffer};
use mmcq_sim::faults::{Plan, Point, Strike};
use std::future::Future;
use std::pin::{Pin, pin};

/// Runs a call to its end while the supervisor runs, too. Returns the result of the call.
fn beside<K: Future<Output: std::fmt::Debug>, T>(
    bench: &Bench,
    supervisor: &mut Pin<&mut K>,
    call: impl Future<Output = T>,
) -> T {
    match bench.run(select(pin!(call), supervisor)).unwrap() {
        Either::Left((result, _)) => result,
        Either::Right((event, _)) => panic!("the supervisor has ended: {event:?}"),
    }
}

#[test]
fn each_handle_hears_once_of_what_was_lost_with_the_cache() {
    let bench = Bench::new("emmc-hs200").unwrap();
    let stack = bench.stack();
    let (card, scratch) = bench.run(bring_up(stack, buffer(1), Options::DEFAULT)).unwrap();
    let mut supervisor = pin!(supervise(stack, scratch, Options::DEFAULT, card.unwrap()));
    let (first, second) = (BlockDevice::new(stack), BlockDevice::new(stack));
    let copy = second.clone();
    assert!(first.geometry().unwrap().volatile_cache);
    let written = |device: &BlockDevice<'_, _, 16>, lba| bench.run(device.write(lba, buffer(1))).unwrap().0;
    written(&first, 100).unwrap();
    written(&second, 200).unwrap();
    bench.set_faults(Plan::none().next(Point::Command, &[Strike::BrownOut])).unwrap();
    assert_eq!(beside(&bench, &mut supervisor, first.flush()), Err(Error::CacheLost));
    assert_eq!(
        beside(&bench, &mut supervisor, second.flush()),
        Err(Error::CacheLost),
        "its write is gone, too"
    );
    assert_eq!(
        beside(&bench, &mut supervisor, copy.flush()),
        Err(Error::CacheLost),
        "it was not told, either"
    );
    let later = BlockDevice::new(stack);
    for device in [&first, &second, &copy, &later] {
        assert_eq!(beside(&bench, &mut supervisor, device.flush()), Ok(()), "once is enough");
    }
}
