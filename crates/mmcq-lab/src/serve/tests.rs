//! Tests the disk on a machine whose engine itself notices that the card has lost its cache, as in
//! a reader.

use super::disk::{Disk, Job, Message, Op, Outcome, map_of};
use super::machine::{Machine, Step};
use super::simulated::{Setup, Simulated};
use crate::platform::Platform;
use mmcq::engine::{Completion, DmaBuf, Erase, Error, Kind, Request, SlotId};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Event that happens at the test machine before its next request.
enum Dip {
    /// The machine initialises the card again, which loses its cache.
    Cache,
    /// The machine fails, as a reader does when its card is taken out.
    Machine,
    /// The server is asked to stop.
    Server(Sender<Message>),
}

/// Test machine with a cache that loses data. A trim writes zeros into this cache, as on a card
/// without trim.
struct Dipping {
    machine: Simulated,
    dips: Receiver<Dip>,
    ended: bool,
}

impl Machine for Dipping {
    fn blocks(&self) -> u64 {
        self.machine.blocks()
    }

    fn buffer_bytes_max(&self) -> u64 {
        // Buffer size as in a reader, so larger requests go in pieces.
        128 << 10
    }

    fn buffer(&mut self, bytes: usize) -> Option<DmaBuf> {
        self.machine.buffer(bytes)
    }

    fn free(&mut self, buffer: DmaBuf) {
        self.machine.free(buffer);
    }

    fn submit(&mut self, mut request: Request) -> Result<SlotId, (Error, Request)> {
        if let Kind::Zero { lba, blocks } = request.kind {
            assert!(request.buf.iter().all(|&byte| byte == 0));
            request.kind = Kind::Write { lba, blocks };
        }
        match self.dips.try_recv() {
            Ok(Dip::Cache) => self.machine.initialise_again().unwrap(),
            Ok(Dip::Machine) => self.ended = true,
            Ok(Dip::Server(disk)) => disk.send(Message::Stop).unwrap(),
            Err(_) => {}
        }
        self.machine.submit(request)
    }

    fn take(&mut self, id: SlotId) -> Option<Completion> {
        self.machine.take(id)
    }

    fn discarding(&self) -> Option<(Erase, u64)> {
        self.machine.discarding()
    }

    fn step(&mut self) -> Result<Step, String> {
        if self.ended { Err("the card was taken out".to_owned()) } else { self.machine.step() }
    }

    fn power_cut(&mut self) -> Result<u64, String> {
        self.machine.power_cut()
    }
}

/// A disk in its own thread, and the channel by which its clients send messages.
struct Export {
    disk: Sender<Message>,
    dip: Sender<Dip>,
    server: Option<std::thread::JoinHandle<Result<(), String>>>,
    _folder: tempfile::TempDir,
}

impl Export {
    fn new(clients: u64) -> Export {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("card.img");
        std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let (disk, messages) = channel();
        let (dip, dips) = channel();
        let server = std::thread::spawn(move || {
            let extents = map_of(&image).unwrap();
            let platform = Platform::load("hsq-sprd").unwrap();
            let setup = Setup { platform, card: None, image, writable: true, paced: false };
            let machine = Dipping { machine: Simulated::new(setup).unwrap(), dips, ended: false };
            Disk::new(Box::new(machine), extents).run(&messages, &|_| ())
        });
        (0..clients).for_each(|client| disk.send(Message::Came(client)).unwrap());
        Export { disk, dip, server: Some(server), _folder: folder }
    }

    fn ask(&self, client: u64, op: Op) -> Outcome {
        let (told, outcome) = channel();
        let done = Box::new(move |outcome| told.send(outcome).unwrap());
        self.disk.send(Message::Job(Job { client, op, done })).unwrap();
        let outcome = outcome.recv().unwrap();
        if matches!(outcome, Outcome::Lost(_)) {
            self.disk.send(Message::RefusalWritten(client)).unwrap();
        }
        outcome
    }

    fn write(&self, client: u64, bytes: usize, durable: bool) -> bool {
        matches!(self.ask(client, Op::Write { offset: 0, data: vec![1; bytes], durable }), Outcome::Done)
    }

    fn flush(&self, client: u64) -> bool {
        matches!(self.ask(client, Op::Flush), Outcome::Done)
    }

    /// Asks for the status of the first piece and reads it. Returns whether the piece is reported
    /// as a hole, and how many of its bytes are not zero.
    fn hole(&self) -> (bool, usize) {
        let Outcome::Extents(ranges) = self.ask(0, Op::Status { offset: 0, length: PIECE, one: true }) else {
            panic!("no map")
        };
        let Outcome::Data(data) = self.ask(0, Op::Read { offset: 0, length: PIECE }) else {
            panic!("no data")
        };
        (ranges == [(PIECE, true)], data.iter().filter(|&&byte| byte != 0).count())
    }
}

/// Size in bytes of a piece of the map of holes.
const PIECE: u32 = 64 << 10;

impl Export {
    /// Stops the disk and returns its result.
    fn end(mut self) -> Result<(), String> {
        // A disk whose machine has failed does not receive the message.
        let _ = self.disk.send(Message::Stop);
        self.server.take().unwrap().join().unwrap()
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            self.disk.send(Message::Stop).unwrap();
            let ended = server.join();
            assert!(matches!(ended, Ok(Ok(()))) || std::thread::panicking(), "{ended:?}");
        }
    }
}

/// Checks that a server reports at its end the losses of which no client was told: the next server
/// does not know of them.
#[test]
fn a_server_that_ends_says_which_losses_no_client_has_heard_of() {
    let untold = |connections| {
        format!(
            "acknowledged writes are lost, and {connections} of the connections that made them may not know"
        )
    };
    let cut = |export: &Export| export.disk.send(Message::PowerCut).unwrap();
    let left = |client| Message::Left { client, in_order: false };

    let export = Export::new(2);
    assert!(export.write(0, 4096, false) && export.write(1, 4096, false));
    cut(&export);
    assert_eq!(export.end(), Err(untold(2)), "both are here, and have not flushed");

    let export = Export::new(2);
    assert!(export.write(0, 4096, false));
    export.disk.send(left(0)).unwrap();
    cut(&export);
    assert!(!export.flush(1), "each connection is told");
    assert_eq!(export.end(), Err(untold(1)), "it went away before the loss, and no heir has come");

    let export = Export::new(1);
    assert!(export.write(0, 4096, false));
    cut(&export);
    assert!(!export.flush(0));
    assert_eq!(export.end(), Ok(()), "told");

    let export = Export::new(1);
    assert!(export.write(0, 4096, false) && export.flush(0));
    cut(&export);
    assert_eq!(export.end(), Ok(()), "nothing was lost");
}

#[test]
fn a_server_whose_card_goes_says_what_was_not_flushed() {
    for (flushed, expected) in [
        (true, "the card was taken out"),
        (false, "the card was taken out; acknowledged writes that were not flushed may be lost"),
    ] {
        let export = Export::new(1);
        assert!(export.write(0, 4096, false) && (!flushed || export.flush(0)));
        export.dip.send(Dip::Machine).unwrap();
        let op = Op::Read { offset: 0, length: 512 };
        let job = Job { client: 0, op, done: Box::new(drop) };
        export.disk.send(Message::Job(job)).unwrap();
        assert_eq!(export.end(), Err(expected.to_owned()));
    }
}

/// Checks that the server's last flush waits for all pieces of the writes under way, since a flush
/// covers only earlier writes.
#[test]
fn a_write_under_way_when_the_server_ends_is_flushed_with_the_others() {
    let export = Export::new(1);
    export.dip.send(Dip::Server(export.disk.clone())).unwrap();
    assert!(export.write(0, 2 << 20, false), "it was under way, and is not refused");
    assert_eq!(export.end(), Ok(()), "nothing that was acknowledged is left without a flush");
}

/// Checks that every connection is told of a lost cache, although the engine reports it only once,
/// to the first flush.
#[test]
fn a_lost_cache_is_told_to_every_connection() {
    let export = Export::new(2);
    assert!(export.write(0, 4096, false));
    export.dip.send(Dip::Cache).unwrap();
    assert_eq!([1, 1, 0, 0].map(|client| export.flush(client)), [false, true, false, true]);
    // The loss is reported to a durable write first; each flush after it is refused all the same.
    assert!(export.write(0, 4096, false));
    export.dip.send(Dip::Cache).unwrap();
    assert_eq!([(); 2].map(|()| export.write(1, 512, true)), [false, true]);
    assert_eq!([0, 0, 1, 1].map(|client| export.flush(client)), [false, true, false, true]);
}

#[test]
fn a_client_that_comes_back_hears_of_a_lost_cache() {
    let export = Export::new(2);
    assert!(export.write(0, 4096, false));
    export.disk.send(Message::Left { client: 0, in_order: false }).unwrap();
    export.dip.send(Dip::Cache).unwrap();
    assert!(!export.flush(1));
    for (client, flushed) in [(2, [false, true]), (3, [true, true])] {
        export.disk.send(Message::Came(client)).unwrap();
        assert_eq!([(); 2].map(|()| export.flush(client)), flushed, "{client}");
    }
}

#[test]
fn zeros_that_a_loss_takes_back_are_no_holes() {
    let export = Export::new(1);
    let zeros = |durable| {
        let op = Op::Zeros { offset: 0, length: PIECE, hole: true, durable };
        assert!(matches!(export.ask(0, op), Outcome::Done));
        assert_eq!(export.hole(), (true, 0));
    };
    let data = || assert!(export.write(0, PIECE as usize, false) && export.flush(0));
    for by_itself in [true, false] {
        let lose = || match by_itself {
            true => export.dip.send(Dip::Cache).unwrap(),
            false => export.disk.send(Message::PowerCut).unwrap(),
        };
        let mut back = 0;
        for _ in 0..8 {
            data();
            zeros(false);
            lose();
            assert!(!export.flush(0));
            let (hole, there) = export.hole();
            assert!(!hole, "{there} bytes are not zero");
            back += usize::from(there > 0);
            data();
            zeros(true);
            lose();
            assert!(export.flush(0));
            assert_eq!(export.hole(), (true, 0));
        }
        // Zeros must be taken back at least once if the power fails; a card that is only
        // initialised again may keep them.
        assert!(by_itself || back > 0, "no zeros were taken back: the test shows nothing");
    }
}
