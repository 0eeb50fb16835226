//! The abstract eMMC of the graph tests, as the bus sees it: its states, partitions and cache, and
//! which request wrote which block.

use crate::choice::Bad;
use crate::judge::Judge;
use mmcq::host::{Auto, Cause, Data, Direction, Done, Fault, Phase, Segment, Stage, Timing};
use mmcq::spec::command::Resp;
use mmcq::spec::response::{R1, Response};

/// Number of blocks in each partition.
pub const BLOCKS: usize = 64;
/// Number of partitions: the user area and the first boot area.
pub const AREAS: usize = 2;
/// A fault in the middle of a transfer lets only the first `blocks / PARTS` blocks of its data
/// through.
const PARTS: u32 = 2;
const RCA: u32 = 1;

/// The content of a block: the number of the request that wrote it, and the partition and block for
/// which it was written. On the bus these are the first four bytes of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag(pub u32);

impl Tag {
    /// Tag of a block that is not in the cache.
    pub const NONE: Tag = Tag(u32::MAX);

    pub const fn new(serial: u8, area: u8, lba: u32) -> Tag {
        Tag((serial as u32) << 24 | (area as u32) << 16 | lba)
    }

    pub const fn serial(self) -> u8 {
        (self.0 >> 24) as u8
    }

    pub const fn place(self) -> (u8, u32) {
        ((self.0 >> 16) as u8, self.0 & 0xffff)
    }
}

/// One tag for each block of each partition.
pub type Blocks = [[Tag; BLOCKS]; AREAS];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    Idle = 0,
    Ready = 1,
    Ident = 2,
    Stby = 3,
    Tran = 4,
    Data = 5,
    Rcv = 6,
    Prg = 7,
}

/// The state of the bus, which may damage the card's responses and data.
#[derive(Clone, Copy)]
pub struct Line {
    /// Whether the host's sampling point is wrong, so that everything that the host receives is
    /// damaged.
    pub garbled: bool,
    pub timing: Timing,
}

#[derive(Clone)]
pub struct Card {
    /// Number of the card, 0 or 1: another card has another number.
    pub identity: u8,
    pub present: bool,
    pub powered: bool,
    pub mute: bool,
    pub stuck: bool,
    pub noise: bool,
    pub state: State,
    pub area: u8,
    pub timing: Timing,
    pub cache_on: bool,
    pub has_cache: bool,
    /// Number of polls after a write that find the card busy.
    pub busy_polls: u8,
    busy: u8,
    cache: Blocks,
    pub media: [Blocks; 2],
    /// Error bits that the next R1 shows.
    error: u32,
    /// Number of CMD0 that the card has received.
    pub initialised: u32,
    open: Option<Direction>,
    next: u32,
    counted: u32,
    erase: (u32, u32),
}

impl Card {
    pub fn new(has_cache: bool) -> Card {
        let mut fresh = [[Tag::NONE; BLOCKS]; AREAS];
        for (area, blocks) in fresh.iter_mut().enumerate() {
            for (lba, block) in blocks.iter_mut().enumerate() {
                *block = Tag::new(0, area as u8, lba as u32);
            }
        }
        Card {
            identity: 0,
            present: true,
            powered: false,
            mute: false,
            stuck: false,
            noise: false,
            state: State::Idle,
            area: 0,
            timing: Timing::Legacy,
            cache_on: false,
            has_cache,
            busy_polls: 0,
            busy: 0,
            cache: [[Tag::NONE; BLOCKS]; AREAS],
            media: [fresh; 2],
            error: 0,
            initialised: 0,
            open: None,
            next: 0,
            counted: 0,
            erase: (0, 0),
        }
    }

    /// Returns what a read of this block on the card `identity` returns.
    pub fn newest(&self, identity: u8, area: u8, lba: u32) -> Tag {
        let cached = self.cache[area as usize][lba as usize];
        match cached != Tag::NONE && identity == self.identity {
            true => cached,
            false => self.media[identity as usize][area as usize][lba as usize],
        }
    }

    /// Loses the card's state and the content of its cache, by CMD0 or by a loss of the supply.
    pub fn lose_state(&mut self, judge: &mut Judge) {
        if self.cache != [[Tag::NONE; BLOCKS]; AREAS] {
            judge.cache_was_lost();
            self.cache = [[Tag::NONE; BLOCKS]; AREAS];
        }
        (self.state, self.area, self.timing) = (State::Idle, 0, Timing::Legacy);
        (self.cache_on, self.stuck, self.error, self.busy) = (false, false, 0, 0);
        (self.open, self.counted) = (None, 0);
    }

    pub fn power(&mut self, on: bool, judge: &mut Judge) {
        if self.powered != on {
            self.lose_state(judge);
            self.mute = false;
        }
        self.powered = on;
    }

    /// Exchanges the card for another one.
    pub fn swap(&mut self, judge: &mut Judge) {
        self.lose_state(judge);
        self.identity = 1 - self.identity;
        (self.mute, self.noise) = (false, false);
    }

    fn status(&mut self) -> u32 {
        let ready = !matches!(self.state, State::Prg) as u32 * R1::READY_FOR_DATA;
        (self.state as u32) << 9 | ready | std::mem::take(&mut self.error)
    }

    fn fault(cause: Cause, stage: Stage) -> Result<Done, Fault> {
        Err(Fault { cause, stage, response: None })
    }

    /// Executes one phase, from its command to the end of busy; `bad` is what goes wrong.
    pub fn execute(
        &mut self,
        phase: &Phase,
        segments: &[Segment],
        bad: Option<Bad>,
        line: Line,
        judge: &mut Judge,
    ) -> Result<Done, Fault> {
        match bad {
            Some(Bad::CommandLost | Bad::BrownOut | Bad::Mute | Bad::Swapped) => {
                return Self::fault(Cause::Timeout, Stage::Command);
            }
            Some(Bad::Gone) => return Self::fault(Cause::Gone, Stage::Command),
            Some(Bad::StatusError) => self.error |= R1::ERROR,
            _ => {}
        }
        if !self.present || !self.powered || self.mute {
            return Self::fault(Cause::Timeout, Stage::Command);
        }
        let is_data = matches!(phase.command.index, 17 | 18 | 24 | 25);
        if bad == Some(Bad::Refused) {
            self.error |= R1::ADDRESS_ERROR;
            let content = self.status();
            return Ok(Done { response: Response::short(content), ..Done::default() });
        }
        let continued = phase.auto == Auto::Continue;
        let Some(response) = (if continued { Some(Response::short(0)) } else { self.command(phase, judge) })
        else {
            return Self::fault(Cause::Timeout, Stage::Command);
        };
        if let (true, Some(data)) = (is_data, phase.data) {
            return self.transfer(phase, data, segments, bad, line, response, judge);
        }
        if let (Some(data), [segment, ..]) = (phase.data, segments) {
            self.register(data, segment);
        }
        if bad == Some(Bad::Stuck) {
            (self.stuck, self.state) = (true, State::Prg);
            if phase.command.resp == Resp::R1b {
                let response = Some(response);
                return Err(Fault { cause: Cause::Timeout, stage: Stage::Busy, response });
            }
        }
        let noisy = self.noise && line.timing == Timing::Hs200 && phase.data.is_some();
        if bad == Some(Bad::ResponseDamaged) || line.garbled && phase.command.resp != Resp::None {
            return Self::fault(Cause::Crc, Stage::Command);
        }
        if phase.data.is_some() && (noisy || bad == Some(Bad::DataDamaged)) {
            let response = Some(response);
            return Err(Fault { cause: Cause::Crc, stage: Stage::Data, response });
        }
        if phase.data.is_some() && bad == Some(Bad::DataMissing) {
            let response = Some(response);
            return Err(Fault { cause: Cause::Timeout, stage: Stage::Data, response });
        }
        if bad == Some(Bad::DmaFault) {
            return Self::fault(Cause::Dma, Stage::Data);
        }
        Ok(Done { response, stop: None, tuned: phase.tuning })
    }

    /// Executes a command without its data. Returns the response; `None`: the card does not
    /// respond.
    fn command(&mut self, phase: &Phase, judge: &mut Judge) -> Option<Response> {
        let (index, arg) = (phase.command.index, phase.command.arg);
        if index == 0 {
            self.initialised += 1;
            self.lose_state(judge);
            return Some(Response::default());
        }
        if self.busy > 0 && index == 13 {
            self.busy -= 1;
            if self.busy == 0 && !self.stuck {
                let response = Response::short(self.status());
                self.state = State::Tran;
                return Some(response);
            }
        }
        let long = |words: [u32; 4]| Some(Response { words });
        match (self.state, index) {
            (State::Idle | State::Ready, 1) => {
                if arg & 0x00ff_ff80 != 0 {
                    self.state = State::Ready;
                }
                return Some(Response::short(0xc0ff_8080));
            }
            (State::Ready, 2) => {
                self.state = State::Ident;
                return long([0x1501_0041 + u32::from(self.identity), 0, 0x100, 0]);
            }
            (State::Ident, 3) => self.state = State::Stby,
            (State::Stby, 9) => return long([0xd027_0032, 0x0f59_03ff, 0xc003_8000, 0x0240_0000]),
            (State::Stby, 7) => self.state = State::Tran,
            (State::Stby | State::Tran | State::Data | State::Rcv | State::Prg, 13) => {
                if arg >> 16 != RCA {
                    return None;
                }
            }
            (State::Data | State::Rcv, 12) => {
                let write = self.state == State::Rcv;
                let response = Response::short(self.status());
                (self.state, self.open, self.counted) = (State::Tran, None, 0);
                if write {
                    self.program();
                }
                return Some(response);
            }
            (State::Tran, 6) => {
                let response = Response::short(self.status());
                self.switch((arg >> 16) as u8, (arg >> 8) as u8);
                return Some(response);
            }
            (State::Tran, 23) => {
                let response = Response::short(self.status());
                self.counted = arg & 0xffff;
                return Some(response);
            }
            (State::Tran, 35) => self.erase.0 = arg,
            (State::Tran, 36) => self.erase.1 = arg,
            (State::Tran, 38) => {
                for lba in self.erase.0..=self.erase.1 {
                    let tag = judge.erases(self.area, lba, self.newest(self.identity, self.area, lba));
                    self.land(lba, tag, true, judge);
                }
                self.program();
            }
            (State::Tran, 8 | 21) => {}
            (State::Tran, 17 | 18 | 24 | 25) => {
                self.next = arg;
                if let Auto::Count(count) = phase.auto {
                    self.counted = count & 0xffff;
                }
            }
            _ => return None,
        }
        let content = self.status();
        Some(Response::short(content))
    }

    /// Makes the card busy after a write, if the engine has to poll for the end of busy.
    fn program(&mut self) {
        if self.busy_polls > 0 && self.state == State::Tran {
            (self.busy, self.state) = (self.busy_polls, State::Prg);
        }
    }

    fn switch(&mut self, index: u8, value: u8) {
        match index {
            32 => self.flush(),
            33 => self.cache_on = value & 1 != 0,
            179 => self.area = value & 7,
            185 => {
                self.timing = match value & 15 {
                    2 => Timing::Hs200,
                    1 => Timing::HighSpeed,
                    _ => Timing::Legacy,
                }
            }
            _ => {}
        }
        if self.busy_polls > 0 {
            self.program();
        }
    }

    fn flush(&mut self) {
        let medium = &mut self.media[self.identity as usize];
        for (area, blocks) in self.cache.iter_mut().enumerate() {
            for (lba, block) in blocks.iter_mut().enumerate() {
                if *block != Tag::NONE {
                    medium[area][lba] = std::mem::replace(block, Tag::NONE);
                }
            }
        }
    }

    fn land(&mut self, lba: u32, tag: Tag, through: bool, judge: &mut Judge) {
        let Some(_) = self.cache.get(self.area as usize).and_then(|area| area.get(lba as usize)) else {
            return judge.violation("a write beyond the partition");
        };
        let before = self.newest(self.identity, self.area, lba);
        judge.landed(self.identity, self.area, lba, tag, before);
        let (area, lba) = (self.area as usize, lba as usize);
        if self.cache_on && !through {
            self.cache[area][lba] = tag;
        } else {
            self.cache[area][lba] = Tag::NONE;
            self.media[self.identity as usize][area][lba] = tag;
        }
    }

    #[allow(clippy::too_many_arguments, reason = "one call, of one phase and all that comes with it")]
    fn transfer(
        &mut self,
        phase: &Phase,
        data: Data,
        segments: &[Segment],
        bad: Option<Bad>,
        line: Line,
        response: Response,
        judge: &mut Judge,
    ) -> Result<Done, Fault> {
        let write = data.direction == Direction::Write;
        let single = matches!(phase.command.index, 17 | 24);
        let open_state = if write { State::Rcv } else { State::Data };
        let counted = self.counted;
        let noisy = self.noise && line.timing == Timing::Hs200;
        if bad == Some(Bad::ResponseDamaged) || line.garbled {
            // The controller stops at the response. So a write sends no data, and the transfer
            // stays open.
            if write || !single {
                (self.state, self.open) = (open_state, Some(data.direction));
            }
            return Self::fault(Cause::Crc, Stage::Command);
        }
        let broken = match bad {
            Some(Bad::DataDamaged) => Some(Cause::Crc),
            Some(Bad::DataMissing) => Some(Cause::Timeout),
            Some(Bad::DmaFault) => Some(Cause::Dma),
            _ if noisy => Some(Cause::Crc),
            _ => None,
        };
        let moved = if broken.is_some() { data.blocks / PARTS } else { data.blocks };
        let programs = bad != Some(Bad::ProgramFails);
        let first = self.next;
        let mut at = first;
        for segment in segments {
            for block in 0..segment.len_bytes() / 512 {
                if at >= first + moved {
                    break;
                }
                // SAFETY: the engine lends the memory from `start` to the end of the phase, and a
                // segment is its length in bytes long.
                let word = unsafe { segment.ptr().add(block as usize * 512).cast::<u32>() };
                if write {
                    // SAFETY: as above; blocks begin at multiples of four.
                    let tag = Tag(unsafe { word.read() });
                    if programs {
                        self.land(at, tag, false, judge);
                    }
                } else if (at as usize) < BLOCKS && (self.area as usize) < AREAS {
                    let tag = self.newest(self.identity, self.area, at);
                    // SAFETY: as above.
                    unsafe { word.write(tag.0) };
                }
                at += 1;
            }
        }
        self.next = first + moved;
        let ends = single || counted == data.blocks || phase.auto == Auto::Stop;
        if !programs {
            self.error |= R1::ERROR;
            if !ends {
                // What is written in an open transfer may be complete before its status is known,
                // as with a cache.
                judge.cache_was_lost();
            }
        }
        if let Some(cause) = broken {
            if !single || write {
                (self.state, self.open) = (open_state, Some(data.direction));
            }
            return Err(Fault { cause, stage: Stage::Data, response: Some(response) });
        }
        let mut done = Done { response, ..Done::default() };
        self.counted = counted.saturating_sub(data.blocks);
        if ends {
            (self.state, self.open, self.counted) = (State::Tran, None, 0);
            if phase.auto == Auto::Stop {
                done.stop = Some(self.status());
            }
            if bad == Some(Bad::Stuck) {
                (self.stuck, self.state) = (true, State::Prg);
                let response = Some(response);
                return Err(Fault { cause: Cause::Timeout, stage: Stage::Data, response });
            }
            if write {
                self.program();
            }
        } else {
            (self.state, self.open) = (open_state, Some(data.direction));
        }
        Ok(done)
    }

    /// Sends the content of EXT_CSD to the host; for a tuning block nothing.
    fn register(&self, data: Data, segment: &Segment) {
        if data.direction == Direction::Write || segment.len_bytes() < 512 {
            return;
        }
        // SAFETY: as in `transfer`.
        let bytes = unsafe { std::slice::from_raw_parts_mut(segment.ptr().as_ptr(), 512) };
        bytes.fill(0);
        bytes[33] = u8::from(self.cache_on);
        bytes[179] = self.area;
        bytes[192] = 8;
        bytes[194] = 2;
        bytes[196] = 0x13;
        bytes[212] = BLOCKS as u8;
        bytes[226] = 1;
        bytes[248] = 10;
        bytes[231] = 0x10;
        if self.has_cache {
            bytes[249] = 64;
        }
    }
}
