//! Tests of the scheduler that sends reads before older writes.

use super::bounds::check_reads_first;
use super::server::{Client, Event, FAST, Random, serve};
use super::{some_clients, some_server};
use crate::fuzz;
use mmcq::host::Direction::Read;
use mmcq::sched::{Any, ReadsFirst};

#[test]
fn reads_go_first_up_to_the_limit_of_each_write() {
    let mut limited = 0;
    fuzz::fuzz("reads_go_first_up_to_the_limit_of_each_write", 400, |u| {
        let seed: u64 = u.arbitrary()?;
        let r = &mut Random(seed);
        let (clients, server) = (some_clients(r), some_server(r));
        let log = serve(&mut ReadsFirst::new(), &clients, server, seed);
        assert!(log == serve(&mut Any::<8>::ReadsFirst(ReadsFirst::new()), &clients, server, seed));
        let checked = check_reads_first(&log);
        limited += checked.unwrap_or_else(|e| panic!("{seed}: {e}"));
        Ok(())
    });
    assert!(limited > 1000, "the limit has sent only {limited} writes");
}

/// Tests that a reader with one request at a time waits for at most one write, and that two reads
/// of equal length go before each write of a writer if many reads wait.
#[test]
fn a_reader_waits_for_one_write_and_a_writer_for_two_reads() {
    let writer = Client { writes: 100, think_ns: 1..=1, ..Client::reader(1, 16, 400, 8) };
    let sent = |depth| {
        let reader = Client { think_ns: 1..=1, ..Client::reader(0, depth, 400, 8) };
        let log = serve(&mut ReadsFirst::new(), &[reader, writer.clone()], FAST, 1);
        let ways = log.iter().filter_map(|event| match event {
            Event::Sent(_, w, ..) => Some(if w.direction == Read { 'r' } else { 'w' }),
            _ => None,
        });
        ways.collect::<String>()
    };
    let (one, many) = (sent(1), sent(16));
    // Not counted: the beginning and the end, where only one of the two has requests.
    assert!(one[20..600].contains("rwrwrw") && !one[20..600].contains("ww"), "{one}");
    assert!(many[30..500].contains("rrwrrwrrw") && !many[30..500].contains("rrr"), "{many}");
}
