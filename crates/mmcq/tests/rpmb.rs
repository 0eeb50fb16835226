//! Tests of the replay-protected area (RPMB) with a small model of it, and with an attacker on the
//! bus.
#![cfg(feature = "rpmb")]

use crate::{one_thread, support};
use hmac::{Hmac, KeyInit, Mac};
use mmcq::card::{Card, Emmc, Family};
use mmcq::engine::{Config, DmaBuf, Error, Irreversible};
use mmcq::host::{Cause, Direction, Timing, Width};
use mmcq::rpmb::{Key, Relay, Rpmb, RpmbError};
use one_thread::{NOW_NS, OneThread, TIMER};
use sha2::Sha256;
use std::cell::RefCell;
use std::rc::Rc;
use support::{TestHost, World, buffer, target};

const KEY: Key = Key(*b"0123456789abcdef0123456789abcdef");
const NONCES: [[u8; 16]; 2] = [[1; 16], [2; 16]];

type Stack = mmcq::task::Stack<(OneThread, TestHost), 4>;

/// A model of the area in the card, and of an attacker on the bus.
#[derive(Default)]
struct Model {
    key: Option<[u8; 32]>,
    counter: u32,
    data: Vec<u8>,
    /// The response frames to the last request.
    answer: Vec<u8>,
    /// Number of authenticated writes that the area has received.
    writes: u32,
    /// Whether the attacker drops the frames of writes.
    swallow: bool,
    /// Index of the byte that the attacker changes in the next response; `None`: no byte.
    forge: Option<usize>,
    /// Response that the attacker sends to the next write in place of the real one.
    replay: Option<Vec<u8>>,
    /// Whether another program writes before the next write.
    rival: bool,
    /// The last real response to a write.
    last_write: Vec<u8>,
}

fn number(frame: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

impl Model {
    fn mac(&self, frames: &[u8]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key.unwrap_or([0; 32])).unwrap();
        for frame in frames.chunks(512) {
            mac.update(&frame[228..]);
        }
        mac.finalize().into_bytes().into()
    }

    fn answer_with(&mut self, kind: u16, result: u16, nonce: &[u8], address: u16) -> Vec<u8> {
        let mut frame = vec![0; 512];
        frame[484..484 + nonce.len()].copy_from_slice(nonce);
        frame[500..504].copy_from_slice(&self.counter.to_be_bytes());
        frame[504..506].copy_from_slice(&address.to_be_bytes());
        frame[508..510].copy_from_slice(&result.to_be_bytes());
        frame[510..512].copy_from_slice(&(kind << 8).to_be_bytes());
        if self.key.is_some() {
            let mac = self.mac(&frame);
            frame[196..228].copy_from_slice(&mac);
        }
        frame
    }

    fn written(&mut self, frames: &[u8]) {
        let last = &frames[frames.len() - 512..];
        let (kind, address) = (number(last, 510), number(last, 504));
        let nonce = last[484..500].to_vec();
        match kind {
            1 => {
                let result = if self.key.is_none() { 0 } else { 1 };
                if self.key.is_none() {
                    self.key = Some(last[196..228].try_into().unwrap());
                }
                self.answer = self.answer_with(1, result, &[], 0);
                self.answer[196..228].fill(0);
            }
            2 => self.answer = self.answer_with(2, if self.key.is_some() { 0 } else { 7 }, &nonce, 0),
            3 => {
                self.writes += 1;
                self.counter += u32::from(std::mem::take(&mut self.rival));
                let counter = u32::from_be_bytes(last[500..504].try_into().unwrap());
                let result = match () {
                    _ if self.key.is_none() => 7,
                    _ if self.mac(frames) != last[196..228] => 2,
                    _ if counter != self.counter => 3,
                    _ => 0,
                };
                if self.swallow {
                    self.answer = vec![0; 512];
                    return;
                }
                if result == 0 {
                    for (n, frame) in frames.chunks(512).enumerate() {
                        let at = (usize::from(address) + n) * 256;
                        self.data[at..at + 256].copy_from_slice(&frame[228..484]);
                    }
                    self.counter += 1;
                }
                self.answer = self.answer_with(3, result, &[], address);
                self.last_write = self.answer.clone();
                if let Some(old) = self.replay.take() {
                    self.answer = old;
                }
            }
            4 => {
                self.answer = self.answer_with(4, 0, &nonce, address);
            }
            _ => {}
        }
    }

    fn asked(&mut self, frames: &mut [u8]) {
        if number(&self.answer, 510) == 4 << 8 {
            // Sends as many frames of data as are requested; the MAC covers all of them.
            let one = self.answer.clone();
            let at = usize::from(number(&one, 504)) * 256;
            for (n, frame) in frames.chunks_mut(512).enumerate() {
                frame.copy_from_slice(&one);
                frame[196..228].fill(0);
                frame[228..484].copy_from_slice(&self.data[at + n * 256..at + (n + 1) * 256]);
            }
            let mac = self.mac(frames);
            let last = frames.len() - 512;
            frames[last + 196..last + 228].copy_from_slice(&mac);
        } else {
            frames[..512].copy_from_slice(&self.answer);
        }
        if let Some(byte) = self.forge.take() {
            frames[byte] ^= 1;
        }
    }
}

struct Rig {
    world: Rc<RefCell<World>>,
    model: Rc<RefCell<Model>>,
    stack: Stack,
}

impl Rig {
    fn new(key: Option<Key>) -> Rig {
        Rig::with_blocks(key, 65_535)
    }

    /// Makes a rig with a host that transfers at most `max_blocks` blocks at a time.
    fn with_blocks(key: Option<Key>, max_blocks: u32) -> Rig {
        let world = World::new(64);
        world.borrow_mut().caps.max_blocks = max_blocks;
        let model = Model { key: key.map(|key| key.0), data: vec![0; 128 * 1024], ..Model::default() };
        let model = Rc::new(RefCell::new(model));
        let area = model.clone();
        world.borrow_mut().rpmb = Some(Box::new(move |direction, frames| match direction {
            Direction::Write => area.borrow_mut().written(frames),
            Direction::Read => area.borrow_mut().asked(frames),
        }));
        let stack = Stack::new(OneThread, TIMER, TestHost::new(&world), Config::DEFAULT);
        stack.with(|engine| engine.set_card_params(Some(target(64))));
        Rig { world, model, stack }
    }

    fn run<F: Future>(&self, future: F) -> F::Output {
        self.stack.block_on(future, |_| NOW_NS.set(NOW_NS.get() + 100_000))
    }

    /// Runs the engine until it is idle; the engine itself switches back to the user area.
    fn rest(&self) {
        for _ in 0..100 {
            if self.stack.with(|engine| engine.is_idle()) {
                return;
            }
            NOW_NS.set(NOW_NS.get() + 100_000);
            self.stack.turn();
        }
        panic!("the engine does not come to rest");
    }

    fn open(&self) -> Rpmb<'_, (OneThread, TestHost), 4> {
        self.open_with(buffer(40, 0))
    }

    fn open_with(&self, mut buf: DmaBuf) -> Rpmb<'_, (OneThread, TestHost), 4> {
        let card = Card {
            family: Family::Emmc(Emmc { revision: 8, cache_bytes: 0, cache_on: false, strength: 0 }),
            cid: [0; 4],
            csd: [0; 4],
            ocr: 0,
            timing: Timing::Legacy,
            width: Width::W8,
            clock_hz: 26_000_000,
            params: target(64),
        };
        // The host does not touch the data of CMD8, so EXT_CSD is what the buffer holds.
        (buf[192], buf[168], buf[166], buf[222]) = (8, 1, 1 << 4, 1);
        self.run(Rpmb::open(&self.stack, &card, buf)).expect("no RPMB")
    }
}

#[test]
fn a_key_is_programmed_once() {
    let rig = Rig::new(None);
    let mut rpmb = rig.open();
    assert_eq!((rpmb.units(), rpmb.write_units_max()), (512, 32));
    assert_eq!(rig.run(rpmb.counter(&KEY, [5; 16])), Err(RpmbError::NoKey));
    let sure = Irreversible::i_know_that_this_cannot_be_undone();
    assert_eq!(rig.run(rpmb.program_key(&KEY, sure)), Ok(()));
    assert_eq!(rig.model.borrow().key, Some(KEY.0));
    assert_eq!(rig.run(rpmb.program_key(&KEY, sure)), Err(RpmbError::Refused(1)));
    assert_eq!(rig.run(rpmb.counter(&KEY, [5; 16])), Ok(0));
    let buf = rpmb.close().unwrap();
    assert!(buf.windows(32).all(|bytes| bytes != KEY.0));
}

#[test]
fn what_was_written_is_read_back() {
    let rig = Rig::new(Some(KEY));
    let mut rpmb = rig.open();
    for (address, units) in [(0u16, 1), (7, 2), (40, 32)] {
        let data: Vec<u8> = (0..units * 256).map(|n| (n % 251) as u8 ^ address as u8).collect();
        rig.run(rpmb.write(&KEY, NONCES, address, &data)).unwrap();
        let mut back = vec![0; data.len()];
        rig.run(rpmb.read(&KEY, [9; 16], address, &mut back)).unwrap();
        assert_eq!(back, data);
    }
    assert_eq!(rig.run(rpmb.counter(&KEY, [3; 16])), Ok(3));
    assert_eq!(
        rig.run(rpmb.write(&KEY, NONCES, 0, &[0; 768])),
        Err(RpmbError::Size { given: 768, most: 32 })
    );
    assert_eq!(
        rig.run(rpmb.write(&KEY, NONCES, 0, &[0; 100])),
        Err(RpmbError::Size { given: 100, most: 32 })
    );
    assert_eq!(rig.model.borrow().writes, 3);
    // One switch there and one back around each exchange, and reliable writes for data alone.
    let counts: Vec<_> = rig.world.borrow().log.iter().filter(|s| s.index == 23).map(|s| s.arg).collect();
    assert_eq!(counts[..5], [1, 1, 1 << 31 | 1, 1, 1]);
    rig.rest();
    assert_eq!(rig.world.borrow().area, 0);
}

/// Tests frames that a program makes and checks itself: a read of the counter, the key, and a write
/// whose result comes in an exchange of its own.
#[test]
fn frames_of_a_program_are_relayed() {
    let rig = Rig::new(None);
    let mut rpmb = rig.open();
    let frame = |kind: u8| {
        let mut frame = vec![0; 512];
        frame[511] = kind;
        frame
    };
    let mut key = frame(1);
    key[196..228].copy_from_slice(&KEY.0);
    let mut frames = [key, frame(5), frame(0xee)].concat();
    let write = Relay { out: 1, reliable: true, ask: true, back: 1 };
    assert_eq!(rig.run(rpmb.relay(write, &mut frames)), Ok(()));
    assert_eq!((number(&frames[1024..], 510), number(&frames[1024..], 508)), (1 << 8, 0));
    assert_eq!(rig.model.borrow().key, Some(KEY.0));

    let mut ask = frame(2);
    ask[484..500].copy_from_slice(&[7; 16]);
    let mut frames = [ask.clone(), frame(0xee)].concat();
    let read = Relay { out: 1, back: 1, ..Relay::default() };
    assert_eq!(rig.run(rpmb.relay(read, &mut frames)), Ok(()));
    assert_eq!(frames[..512], ask, "what was sent is as it was");
    assert_eq!((number(&frames[512..], 510), &frames[512 + 484..512 + 500]), (2 << 8, &[7; 16][..]));
    let counts: Vec<_> = rig.world.borrow().log.iter().filter(|s| s.index == 23).map(|s| s.arg).collect();
    assert_eq!(counts, [1 << 31 | 1, 1, 1, 1, 1]);

    assert_eq!(rig.run(rpmb.relay(Relay { out: 1, ..Relay::default() }, &mut ask.clone())), Ok(()));
    let mut back = frame(0);
    assert_eq!(rig.run(rpmb.relay(Relay { back: 1, ..Relay::default() }, &mut back)), Ok(()));
    assert_eq!(number(&back, 510), 2 << 8);
    rig.rest();
    assert_eq!(rig.world.borrow().area, 0);
}

#[test]
fn a_relayed_exchange_fits_the_memory_and_the_host() {
    let rig = Rig::with_blocks(Some(KEY), 4);
    let mut rpmb = rig.open();
    let refused = RpmbError::Card(Error::Unsupported);
    assert_eq!(rig.run(rpmb.relay(Relay::default(), &mut [])), Err(refused));
    let read = Relay { out: 1, back: 5, ..Relay::default() };
    assert_eq!(rig.run(rpmb.relay(read, &mut [0; 6 * 512])), Err(refused));
    let short = RpmbError::Card(Error::Buffer { needed: 1024, given: 1023 });
    let read = Relay { out: 1, back: 1, ..Relay::default() };
    assert_eq!(rig.run(rpmb.relay(read, &mut [0; 1023])), Err(short));
    assert_eq!(rig.world.borrow().log.iter().filter(|sent| sent.index == 23).count(), 0);
    // The handle still has its memory.
    assert_eq!(rig.run(rpmb.counter(&KEY, [3; 16])), Ok(0));
}

#[test]
fn another_key_is_not_believed() {
    let rig = Rig::new(Some(KEY));
    let mut rpmb = rig.open();
    let other = Key([7; 32]);
    assert_eq!(rig.run(rpmb.counter(&other, [5; 16])), Err(RpmbError::Forged));
    let mut data = [0xee; 256];
    assert_eq!(rig.run(rpmb.read(&other, [5; 16], 0, &mut data)), Err(RpmbError::Forged));
    assert_eq!(data, [0xee; 256], "nothing of it reaches the caller");
}

#[test]
fn any_changed_byte_of_an_answer_is_seen() {
    // MAC, data, nonce, counter, address, result, kind.
    for byte in [196, 227, 228, 483, 484, 499, 500, 503, 505, 509, 510] {
        let rig = Rig::new(Some(KEY));
        let mut rpmb = rig.open();
        rig.model.borrow_mut().forge = Some(byte);
        let counter = rig.run(rpmb.counter(&KEY, [5; 16]));
        assert_eq!(counter, Err(RpmbError::Forged), "byte {byte}");
        rig.model.borrow_mut().forge = Some(byte);
        assert_eq!(
            rig.run(rpmb.read(&KEY, [5; 16], 0, &mut [0; 256])),
            Err(RpmbError::Forged),
            "byte {byte}"
        );
    }
}

#[test]
fn an_answer_that_is_played_back_is_seen_by_its_nonce() {
    let rig = Rig::new(Some(KEY));
    let mut rpmb = rig.open();
    rig.run(rpmb.counter(&KEY, [5; 16])).unwrap();
    let old = rig.model.borrow().answer.clone();
    let model = rig.model.clone();
    rig.world.borrow_mut().rpmb = Some(Box::new(move |direction, frames| match direction {
        Direction::Write => model.borrow_mut().written(frames),
        Direction::Read => frames.copy_from_slice(&old),
    }));
    assert_eq!(rig.run(rpmb.counter(&KEY, [6; 16])), Err(RpmbError::Forged));
}

/// Tests a write whose response is lost: the counter shows whether the write was done. A write
/// consists of these commands: CMD25 and CMD18 for the counter, CMD25 with the data, CMD25 and
/// CMD18 for the result.
#[test]
fn a_lost_answer_is_found_out_by_the_counter() {
    let rig = Rig::new(Some(KEY));
    let mut rpmb = rig.open();
    // The second CMD18 of the call brings the answer.
    rig.world.borrow_mut().strike = Some((18, 1, Cause::Crc));
    assert_eq!(rig.run(rpmb.write(&KEY, NONCES, 3, &[1; 256])), Ok(()));
    assert_eq!((rig.model.borrow().writes, rig.model.borrow().counter), (1, 1), "sent once");
    rig.rest();
    assert_eq!(rig.world.borrow().area, 0);
}

#[test]
fn a_write_that_never_came_is_not_repeated() {
    let rig = Rig::new(Some(KEY));
    let mut rpmb = rig.open();
    // The second CMD25 of the call carries the data.
    rig.world.borrow_mut().strike = Some((25, 1, Cause::Timeout));
    let result = rig.run(rpmb.write(&KEY, NONCES, 3, &[1; 256]));
    assert!(matches!(result, Err(RpmbError::NotWritten(_))), "{result:?}");
    assert_eq!(rig.model.borrow().writes, 0);
    rig.model.borrow_mut().swallow = true;
    let result = rig.run(rpmb.write(&KEY, NONCES, 3, &[1; 256]));
    assert_eq!(result, Err(RpmbError::Forged));
    assert_eq!((rig.model.borrow().writes, rig.model.borrow().counter), (1, 0));
}

#[test]
fn without_the_counter_the_result_is_unknown() {
    let rig = Rig::new(Some(KEY));
    let mut rpmb = rig.open();
    rig.world.borrow_mut().strike = Some((18, 1, Cause::Crc));
    rig.world.borrow_mut().strikes = 2;
    assert_eq!(rig.run(rpmb.write(&KEY, NONCES, 3, &[1; 256])), Err(RpmbError::Ambiguous));
    assert_eq!(rig.model.borrow().writes, 1);
    assert_eq!(rig.run(rpmb.counter(&KEY, [4; 16])), Ok(1));
}

#[test]
fn an_old_answer_to_a_write_does_not_hide_what_happened() {
    let rig = Rig::new(Some(KEY));
    let mut rpmb = rig.open();
    rig.run(rpmb.write(&KEY, NONCES, 3, &[1; 256])).unwrap();
    // A signed answer of the first write instead of the second's: its counter is too low.
    let old = rig.model.borrow().last_write.clone();
    rig.model.borrow_mut().replay = Some(old);
    assert_eq!(rig.run(rpmb.write(&KEY, NONCES, 3, &[2; 256])), Ok(()), "the counter says that it was done");
    assert_eq!((rig.model.borrow().writes, rig.model.borrow().counter), (2, 2));
    assert_eq!(rig.model.borrow().data[768], 2);
}

/// Checks two writers: between the counter and the write of the one, the other writes. The card
/// refuses the write, and the counter that has advanced counts the other's.
#[test]
fn a_refused_write_is_not_ok_because_another_was_counted() {
    let rig = Rig::new(Some(KEY));
    let mut rpmb = rig.open();
    rig.model.borrow_mut().rival = true;
    assert_eq!(rig.run(rpmb.write(&KEY, NONCES, 3, &[1; 256])), Err(RpmbError::Ambiguous));
    assert_eq!((rig.model.borrow().writes, rig.model.borrow().counter), (1, 1));
    assert_eq!(rig.model.borrow().data[768], 0);
    assert_eq!(rig.run(rpmb.write(&KEY, NONCES, 3, &[1; 256])), Ok(()));
}

/// Checks a stack that is suspended between the counter and the write: nothing of the write was
/// begun, and the caller gets the reason.
#[test]
fn a_write_that_the_engine_refuses_is_not_ambiguous() {
    let rig = Rig::new(Some(KEY));
    let mut rpmb = rig.open();
    let write = rpmb.write(&KEY, NONCES, 3, &[1; 256]);
    let result = rig.stack.block_on(write, |_| {
        NOW_NS.set(NOW_NS.get() + 100_000);
        if !rig.model.borrow().answer.is_empty() {
            // The exchange of the counter goes on.
            rig.stack.with(|engine| engine.suspend());
        }
    });
    assert_eq!(result, Err(RpmbError::NotWritten(Error::Suspended)));
    assert_eq!((rig.model.borrow().writes, rig.model.borrow().counter), (0, 0));
}

#[test]
fn an_exchange_is_no_longer_than_the_host_can_move() {
    let rig = Rig::with_blocks(Some(KEY), 8);
    let mut rpmb = rig.open();
    assert_eq!((rpmb.read_units_max(), rpmb.write_units_max()), (8, 8));
    let refused = rig.run(rpmb.read(&KEY, [1; 16], 0, &mut [0; 9 * 256]));
    assert_eq!(refused, Err(RpmbError::Size { given: 9 * 256, most: 8 }));
    let refused = rig.run(rpmb.write(&KEY, NONCES, 0, &[0; 32 * 256]));
    assert_eq!(refused, Err(RpmbError::Size { given: 32 * 256, most: 8 }));
    rig.run(rpmb.read(&KEY, [1; 16], 0, &mut [0; 8 * 256])).unwrap();
    let longest = rig.world.borrow().log.iter().filter(|sent| sent.index == 18).map(|sent| sent.blocks).max();
    assert_eq!(longest, Some(8));
}

/// Tests a future of `program_key` that is dropped (by a time limit, for example): after the
/// controller has released the memory, no memory has the key.
#[test]
fn the_key_of_a_dropped_call_does_not_stay_in_memory() {
    use std::task::{Context, Waker};
    let rig = Rig::new(None);
    let buf = buffer(40, 0);
    let (claim, at, bytes) = (buf.claim(), buf.as_non_null(), buf.len_bytes() as usize);
    let mut rpmb = rig.open_with(buf);
    let sure = Irreversible::i_know_that_this_cannot_be_undone();
    {
        let mut program = Box::pin(rpmb.program_key(&KEY, sure));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(program.as_mut().poll(&mut cx).is_pending());
    }
    for _ in 0..200 {
        NOW_NS.set(NOW_NS.get() + 100_000);
        rig.stack.turn();
    }
    // SAFETY: the memory lives for ever, and nothing writes to it any more.
    let memory = unsafe { std::slice::from_raw_parts(at.as_ptr(), bytes) };
    assert!(memory.windows(32).all(|bytes| bytes != KEY.0), "the key is still there");
    assert_eq!(rpmb.close().map(|buf| buf.claim()), Some(claim), "its owner gets the buffer back");
}
