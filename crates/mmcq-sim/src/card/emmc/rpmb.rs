//! Replay protected memory block [eMMC 6.6.22].
//!
//! Frames of 512 bytes go in by CMD25 and come out by CMD18. Numbers are big-endian. An
//! authentication code is the HMAC-SHA256 over the last 284 bytes of every frame of a message, one
//! after the other.

use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::collections::BTreeSet;
use std::ops::Range;

use super::super::medium::SECTOR_BYTES;

const MAC: std::ops::Range<usize> = 196..228;
const DATA: std::ops::Range<usize> = 228..484;
const NONCE: std::ops::Range<usize> = 484..500;
const COUNTER: std::ops::Range<usize> = 500..504;
const ADDRESS: std::ops::Range<usize> = 504..506;
const COUNT: std::ops::Range<usize> = 506..508;
const RESULT: std::ops::Range<usize> = 508..510;
const KIND: std::ops::Range<usize> = 510..512;

/// Type of an RPMB request: program the key. A response has the type of its request in its high
/// byte.
const PROGRAM_KEY: u16 = 1;
/// Type of an RPMB request: read the write counter.
const READ_COUNTER: u16 = 2;
/// Type of an RPMB request: authenticated write.
const WRITE: u16 = 3;
/// Type of an RPMB request: authenticated read.
const READ: u16 = 4;
/// Type of an RPMB request: read the result of the request before.
const READ_RESULT: u16 = 5;

/// Result code of an RPMB request: general failure.
const GENERAL_FAILURE: u16 = 1;
/// Result code of an RPMB request: the authentication code is wrong.
const AUTHENTICATION_FAILURE: u16 = 2;
/// Result code of an RPMB request: the write counter in the request is wrong.
const COUNTER_FAILURE: u16 = 3;
/// Result code of an RPMB request: the address is out of range.
const ADDRESS_FAILURE: u16 = 4;
/// Result code of an RPMB request: no key has been programmed.
const NO_KEY: u16 = 7;
/// Flag in a result code: the write counter has reached its largest value.
const EXPIRED: u16 = 0x80;

const BLOCK: usize = 256;

type Frame = [u8; 512];

/// Simulated attack on the bus between host and device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// The attacker replaces the next response by the response before it.
    Replay,
    /// The attacker damages the authentication code of the next response.
    ForgedMac,
    /// The attacker changes the data of the next response.
    ForgedData,
    /// The attacker removes the next response.
    DroppedAnswer,
    /// The attacker removes the next authenticated write: the device does not get it, and sends no
    /// response.
    DroppedWrite,
}

/// The RPMB and its protocol state.
#[derive(Debug)]
pub(super) struct Rpmb {
    data: Vec<u8>,
    /// Numbers of the RPMB's 512-byte sectors that were written.
    written: BTreeSet<u64>,
    key: Option<[u8; 32]>,
    counter: u32,
    /// Frames of the request that is being received.
    incoming: Vec<Frame>,
    /// Frames that wait to be sent, in reverse order: the next one is at the end.
    outgoing: Vec<Frame>,
    /// The last valid request of the host.
    request: Option<Frame>,
    /// Response that a request READ_RESULT will get; `None`: there is no result to read.
    result: Option<Frame>,
    /// Frames that the card sent as its last RPMB response.
    sent: Vec<Frame>,
    attack: Option<Attack>,
}

impl Rpmb {
    pub(super) fn new(bytes: u64) -> Self {
        Rpmb {
            data: vec![0; bytes as usize],
            written: BTreeSet::new(),
            key: None,
            counter: 0,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            request: None,
            result: None,
            sent: Vec::new(),
            attack: None,
        }
    }

    pub(super) fn attack(&mut self, attack: Attack) {
        self.attack = Some(attack);
    }

    pub(super) fn set_counter(&mut self, counter: u32) {
        self.counter = counter;
    }

    /// Resets the protocol state; key, counter and data stay.
    pub(super) fn reset(&mut self) {
        self.incoming.clear();
        self.outgoing.clear();
        self.request = None;
        self.result = None;
    }

    fn code<'a>(&self, frames: impl IntoIterator<Item = &'a Frame>) -> [u8; 32] {
        let key = self.key.unwrap_or_default();
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&key) else { return [0; 32] };
        for frame in frames {
            mac.update(&frame[DATA.start..]);
        }
        mac.finalize().into_bytes().into()
    }

    /// Stores a frame that the host has written, as the next frame of an RPMB request.
    pub(super) fn take(&mut self, frame: &[u8]) {
        if let Ok(frame) = frame.try_into() {
            self.incoming.push(frame);
        }
    }

    /// Executes a request whose frames are complete. With `reliable`, CMD23 announced a reliable
    /// write.
    pub(super) fn requested(&mut self, reliable: bool) {
        let frames = std::mem::take(&mut self.incoming);
        let (Some(first), Some(last)) = (frames.first(), frames.last()) else { return };
        self.outgoing.clear();
        let kind = number(first, &KIND);
        match kind {
            PROGRAM_KEY => {
                let outcome = match self.key {
                    _ if !reliable => GENERAL_FAILURE,
                    Some(_) => GENERAL_FAILURE,
                    None => {
                        let mut key = [0; 32];
                        key.copy_from_slice(&first[MAC]);
                        self.key = Some(key);
                        0
                    }
                };
                let mut answer = answer(PROGRAM_KEY, outcome);
                answer[MAC].fill(0);
                self.result = Some(answer);
            }
            WRITE => {
                if self.attack == Some(Attack::DroppedWrite) {
                    self.attack = None;
                    self.result = None;
                    return;
                }
                let address = number(first, &ADDRESS);
                let outcome = self.write(&frames, last, address, reliable);
                let mut answer = answer(WRITE, outcome | self.expired());
                answer[ADDRESS].copy_from_slice(&address.to_be_bytes());
                answer[COUNTER].copy_from_slice(&self.counter.to_be_bytes());
                let code = self.code([&answer]);
                answer[MAC].copy_from_slice(&code);
                self.result = Some(answer);
            }
            READ_COUNTER | READ | READ_RESULT => self.request = Some(*first),
            _ => {
                self.request = None;
                self.result = Some(answer(kind, GENERAL_FAILURE));
            }
        }
    }

    fn expired(&self) -> u16 {
        if self.counter == u32::MAX { EXPIRED } else { 0 }
    }

    fn write(&mut self, frames: &[Frame], last: &Frame, address: u16, reliable: bool) -> u16 {
        let counter = u32::from_be_bytes([last[500], last[501], last[502], last[503]]);
        let from = usize::from(address) * BLOCK;
        let to = from + frames.len() * BLOCK;
        if self.key.is_none() {
            return NO_KEY;
        }
        if !reliable || usize::from(number(last, &COUNT)) != frames.len() || self.counter == u32::MAX {
            return GENERAL_FAILURE;
        }
        if to > self.data.len() {
            return ADDRESS_FAILURE;
        }
        if self.code(frames)[..] != last[MAC] {
            return AUTHENTICATION_FAILURE;
        }
        if counter != self.counter {
            return COUNTER_FAILURE;
        }
        for (to, frame) in self.data[from..to].chunks_mut(BLOCK).zip(frames) {
            to.copy_from_slice(&frame[DATA]);
        }
        self.written.extend(from as u64 / SECTOR_BYTES..(to as u64).div_ceil(SECTOR_BYTES));
        self.counter += 1;
        0
    }

    /// Changes the first block of the RPMB without a request. This is a planted bug
    /// ([`crate::plant`]), which the tests must find.
    #[cold]
    pub(super) fn lie(&mut self) {
        self.data[0] ^= 1;
        self.written.insert(0);
    }

    /// Calls `each` with the ranges of sectors that were written, or with all sectors if the key is
    /// programmed.
    pub(super) fn touched(&self, each: &mut dyn FnMut(Range<u64>)) {
        match self.key {
            Some(_) => each(0..self.data.len() as u64 / SECTOR_BYTES),
            None => self.written.iter().for_each(|&sector| each(sector..sector + 1)),
        }
    }

    /// Prepares the response frames for a CMD18 that reads this number of blocks.
    pub(super) fn asked(&mut self, blocks: u32) {
        self.outgoing.clear();
        let Some(request) = self.request.take() else { return };
        let mut message = match number(&request, &KIND) {
            READ_RESULT => vec![self.result.take().unwrap_or_else(|| answer(READ_RESULT, GENERAL_FAILURE))],
            READ_COUNTER => {
                let outcome = if self.key.is_none() { NO_KEY } else { self.expired() };
                let mut frame = answer(READ_COUNTER, outcome);
                frame[COUNTER].copy_from_slice(&self.counter.to_be_bytes());
                frame[NONCE].copy_from_slice(&request[NONCE]);
                let code = self.code([&frame]);
                frame[MAC].copy_from_slice(&code);
                vec![frame]
            }
            _ => self.read(&request, blocks),
        };
        self.interfere(&mut message);
        message.reverse();
        self.outgoing = message;
    }

    fn read(&self, request: &Frame, blocks: u32) -> Vec<Frame> {
        let address = number(request, &ADDRESS);
        let from = usize::from(address) * BLOCK;
        let blocks = (blocks as usize).clamp(1, 0xffff);
        let outcome = match self.data.get(from..from + blocks * BLOCK) {
            _ if self.key.is_none() => NO_KEY,
            Some(_) => self.expired(),
            None => ADDRESS_FAILURE,
        };
        let mut frames = Vec::new();
        for n in 0..blocks {
            let mut frame = answer(READ, outcome);
            let at = from + n * BLOCK;
            if let (Some(data), true) = (self.data.get(at..at + BLOCK), outcome & 0x7f == 0) {
                frame[DATA].copy_from_slice(data);
            }
            frame[NONCE].copy_from_slice(&request[NONCE]);
            frame[ADDRESS].copy_from_slice(&address.to_be_bytes());
            frame[COUNT].copy_from_slice(&(blocks as u16).to_be_bytes());
            frames.push(frame);
        }
        let code = self.code(&frames);
        if let Some(last) = frames.last_mut() {
            last[MAC].copy_from_slice(&code);
        }
        frames
    }

    fn interfere(&mut self, message: &mut Vec<Frame>) {
        let honest = message.clone();
        match self.attack {
            Some(Attack::Replay) if !self.sent.is_empty() => *message = self.sent.clone(),
            Some(Attack::ForgedMac) => message.iter_mut().for_each(|frame| frame[MAC.start] ^= 1),
            Some(Attack::ForgedData) => message.iter_mut().for_each(|frame| frame[DATA.start] ^= 1),
            Some(Attack::DroppedAnswer) => message.clear(),
            Some(Attack::DroppedWrite) | None => {
                self.sent = honest;
                return;
            }
            Some(Attack::Replay) => {}
        }
        self.attack = None;
        self.sent = honest;
    }

    /// Removes and returns the next frame of the response; `None` if there is no further frame.
    pub(super) fn send(&mut self) -> Option<Frame> {
        self.outgoing.pop()
    }
}

fn number(frame: &Frame, range: &std::ops::Range<usize>) -> u16 {
    u16::from_be_bytes([frame[range.start], frame[range.start + 1]])
}

fn answer(kind: u16, outcome: u16) -> Frame {
    let mut frame = [0; 512];
    frame[KIND].copy_from_slice(&(kind << 8).to_be_bytes());
    frame[RESULT].copy_from_slice(&outcome.to_be_bytes());
    frame
}
