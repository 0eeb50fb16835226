//! Tests that each kind of request that changes the medium counts as a change: a later loss of the
//! cache is reported, a flush is sent, and a write-protected card gets no such request.

use crate::{bench, equipped, support};
use bench::{BLOCKS, Bench, bench};
use equipped::TRIMS;
use mmcq::card::quirk::Quirks;
use mmcq::engine::{Abilities, CardParams, DmaBuf, Erase, Error, FlushBy, Irreversible, Kind, Request};
use mmcq::host::{Auto, BusOp, Phase};
use mmcq::spec::command::{self, Command, Resp, emmc};
use support::{buffer, target};

const CACHE: FlushBy = FlushBy::EmmcCache { timeout_ns: 500_000_000 };

fn cached() -> CardParams {
    target(BLOCKS).flush(CACHE)
}

fn with(quirks: Quirks) -> Bench {
    let mut b = bench();
    b.e.set_card_params(Some(cached().quirks(quirks)));
    b.e.set_abilities(Abilities::NONE.erase(TRIMS));
    b.e.enable_extended_ops();
    b
}

fn raw(command: Command) -> Request {
    let phase = Phase { command, data: None, auto: Auto::None, tuning: false };
    Request::new(Kind::Raw { prefix: None, phase, timeout_ns: 1_000_000 }, DmaBuf::EMPTY)
}

/// Returns a request of each kind that changes blocks, with its name.
fn changes() -> Vec<(&'static str, Request)> {
    let secure = Irreversible::i_know_that_this_cannot_be_undone();
    let erase = |how| Request::new(Kind::Erase { lba: 0, blocks: 16, how }, DmaBuf::EMPTY);
    vec![
        ("write", Request::new(Kind::Write { lba: 0, blocks: 16 }, buffer(16, 0))),
        ("zeroes", Request::new(Kind::Zero { lba: 0, blocks: 16 }, buffer(1, 0))),
        ("erase", erase(Erase::Erase)),
        ("trim", erase(Erase::Trim)),
        ("discard", erase(Erase::Discard)),
        ("secure erase", erase(Erase::SecureErase(secure))),
        ("secure trim", erase(Erase::SecureTrim(secure))),
        ("partition", Request::new(support::partition_access(0x49, 0, 8, 0), buffer(8, 7))),
        ("raw erase", raw(Command::new(38, 0, Resp::R1b))),
        ("raw task", raw(emmc::execute_write_task(0))),
    ]
}

fn flush(b: &mut Bench) -> Result<u32, Error> {
    let id = b.submit(Request::new(Kind::Flush, DmaBuf::EMPTY));
    b.finish(id).result.map(|output| output.bytes)
}

fn changed(quirks: Quirks, request: Request, name: &str) -> Bench {
    let mut b = with(quirks);
    b.world.borrow_mut().areas.insert(1, vec![7; BLOCKS as usize * 512]);
    let id = b.submit(request);
    assert!(b.finish(id).result.is_ok(), "{name}");
    b
}

#[test]
fn a_loss_after_any_change_is_told_by_the_next_flush() {
    for (name, request) in changes() {
        let mut b = changed(Quirks::NONE, request, name);
        let off = b.submit(Request::new(Kind::Bus(BusOp::PowerOff), DmaBuf::EMPTY));
        assert!(b.finish(off).result.is_ok());
        assert_eq!(flush(&mut b), Err(Error::CacheLost), "{name}");
        assert_eq!(flush(&mut b), Ok(0), "{name}: once");
    }
}

#[test]
fn a_flush_after_any_change_reaches_the_card_and_one_after_none_does_not() {
    for (name, request) in changes() {
        let mut b = changed(Quirks::NONE, request, name);
        assert_eq!(flush(&mut b), Ok(0), "{name}");
        let sent = |b: &Bench| {
            b.world.borrow().log.iter().filter(|seen| (seen.index, seen.arg) == equipped::FLUSH).count()
        };
        assert_eq!(sent(&b), 1, "{name}");
        assert_eq!(flush(&mut b), Ok(0), "{name}");
        assert_eq!(sent(&b), 1, "{name}: nothing was changed since");
    }
}

/// Tests requests that change nothing in the cache (a read, CMD13, a write past the cache): after
/// them a loss of the cache is not reported.
#[test]
fn what_changes_nothing_leaves_nothing_to_lose() {
    let read = |lba| Request::new(Kind::Read { lba, blocks: 8 }, buffer(8, 0));
    for request in [read(0), raw(command::send_status(1))] {
        let mut b = changed(Quirks::NONE, request, "no change");
        let off = b.submit(Request::new(Kind::Bus(BusOp::PowerOff), DmaBuf::EMPTY));
        assert!(b.finish(off).result.is_ok());
        assert_eq!(flush(&mut b), Ok(0));
    }
}
