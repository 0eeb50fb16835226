//! Port of the Linux models. It sends the commands of Linux's block driver through mmcq's engine:
//! each request is one raw phase (a command with its data and busy).

use super::elevator::Request;
use super::raw::Raw;
use super::{Ended, Port};
use crate::buffers::Pieces;
use crate::platform::Profile;
use crate::system::System;
use mmcq::board::NoLock;
use mmcq::engine::{CardParams, Completion, DmaBuf, FlushBy};
use mmcq::host::{Auto, Data, Direction, Host, Phase};
use mmcq::spec::command::{self, Command, emmc};
use mmcq::spec::ext_csd::index::FLUSH_CACHE;
use mmcq::task::Stack;

/// Timeout in ns of a command without data.
pub(super) const COMMAND_TIMEOUT_NS: u64 = 20_000_000;

/// Port that sends one operation at a time to the controller through mmcq's engine.
pub struct EnginePort<H: Host> {
    /// Access to mmcq's engine, to which this port gives one raw phase (a command with its data and
    /// busy) for each operation.
    pub raw: Raw<H>,
    target: CardParams,
    memory: Memory,
    /// The request whose data are transferred; `None` during a status poll, a flush, or without an
    /// operation.
    under_way: Option<Request>,
    /// Whether a flush of the card's cache is under way.
    flushing: bool,
    /// Whether Linux's host driver samples DAT0 in the interrupt before it starts a transfer, and
    /// refuses the transfer while DAT0 is low (SDHCI's driver). Other host drivers start the
    /// transfer, and the controller waits.
    looks: bool,
    /// Number of requests that failed.
    pub errors: u64,
}

/// Contiguous buffer for the data of all I/Os of a request.
pub(super) struct Memory {
    pub piece: Option<DmaBuf>,
    owner: Pieces,
}

impl Memory {
    pub(super) fn new(bytes: usize) -> Self {
        let mut owner = Pieces::default();
        Memory { piece: Some(owner.piece(bytes)), owner }
    }

    /// Copies the data of a write from its I/Os into this buffer.
    pub(super) fn gather(&mut self, sys: &System, request: &Request) {
        let (Direction::Write, Some(memory)) = (request.direction, &mut self.piece) else { return };
        let mut at = 0;
        for io in &request.ios {
            memory[at..at + io.bytes()].copy_from_slice(&sys.buffers.get(io.buffer)[io.range()]);
            at += io.bytes();
        }
    }

    /// Takes the buffer back from the controller. If the request was a read and succeeded (`ok`),
    /// copies the data to its I/Os.
    pub(super) fn scatter(&mut self, sys: &mut System, request: &Request, ok: bool, memory: DmaBuf) {
        if ok && request.direction == Direction::Read {
            let mut at = 0;
            for io in &request.ios {
                let bytes = io.bytes();
                sys.buffers.get_mut(io.buffer)[io.range()].copy_from_slice(&memory[at..at + bytes]);
                at += bytes;
            }
        }
        self.piece = Some(memory);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(memory) = self.piece.take() {
            self.owner.free(memory);
        }
    }
}

/// Returns the data command of a request (CMD17, CMD18, CMD24 or CMD25), its data, and the longest
/// time in ns that the card may need.
pub(super) fn data_command(target: &CardParams, request: &Request) -> (Command, Data, u64) {
    let (lba, blocks) = (request.lba as u32, request.blocks);
    let address = if target.block_addressed { lba } else { lba.wrapping_mul(512) };
    let (command, timeout_ns) = match (request.direction, blocks) {
        (Direction::Read, 1) => (command::read_single_block(address), target.read_timeout_ns),
        (Direction::Read, _) => (command::read_multiple_block(address), target.read_timeout_ns),
        (Direction::Write, 1) if !request.durable => (command::write_block(address), target.write_timeout_ns),
        (Direction::Write, _) => (command::write_multiple_block(address), target.write_timeout_ns),
    };
    (command, Data { direction: request.direction, block_size: 512, blocks }, timeout_ns)
}

/// Returns a phase that consists of this command without data.
pub(super) fn alone(command: Command) -> Phase {
    Phase { command, data: None, auto: Auto::None, tuning: false }
}

/// Returns whether the phase succeeded and the card's R1, if it sent one, has no error bit.
pub(super) fn well(completion: &Completion) -> bool {
    let errors = mmcq::spec::response::R1::ERRORS;
    completion.result.is_ok_and(|o| o.response.words[0] & errors == 0)
}

/// Returns the card status (R1) from the response to the request's command.
pub(super) fn status(completion: &Completion) -> u32 {
    completion.result.map_or(0, |o| o.response.words[0])
}

impl<H: Host> EnginePort<H> {
    /// Makes a port of an engine whose card is in the transfer state. `max_bytes`: the largest
    /// request.
    pub fn new(stack: Stack<(NoLock, H, Profile), 1>, target: CardParams, max_bytes: usize) -> Self {
        let memory = Memory::new(max_bytes);
        EnginePort {
            raw: Raw::new(stack),
            target,
            memory,
            under_way: None,
            flushing: false,
            looks: true,
            errors: 0,
        }
    }

    /// Sets by `looks` whether Linux's driver samples DAT0 before a transfer; the default is that
    /// it does.
    #[must_use]
    pub fn looking(self, looks: bool) -> Self {
        EnginePort { looks, ..self }
    }

    fn start(&mut self, sys: &mut System, phase: Phase, timeout_ns: u64, buf: DmaBuf) {
        if let Err(memory) = self.raw.start(sys, phase, timeout_ns, buf) {
            self.errors += 1;
            self.memory.piece = Some(memory);
        }
    }

    fn ended(&mut self, sys: &mut System, completion: Completion) -> Ended {
        if std::mem::take(&mut self.flushing) {
            let ok = well(&completion);
            self.errors += u64::from(!ok);
            return Ended::Flush { ok };
        }
        let Some(request) = self.under_way.take() else { return Ended::Status(status(&completion)) };
        let ok = well(&completion);
        self.errors += u64::from(!ok);
        self.memory.scatter(sys, &request, ok, completion.buf);
        Ended::Transfer { ok }
    }
}

impl<H: Host> Port for EnginePort<H> {
    fn transfer(&mut self, sys: &mut System, request: &Request) {
        self.memory.gather(sys, request);
        let (command, data, timeout_ns) = data_command(&self.target, request);
        let auto_count = self.raw.stack.with(|e| e.caps().auto_count);
        let auto = match data.blocks {
            blocks if request.durable => Auto::Count(command::set_block_count(blocks, true).arg),
            1 => Auto::None,
            _ if self.target.count && auto_count => {
                Auto::Count(command::set_block_count(data.blocks, false).arg)
            }
            _ => Auto::Stop,
        };
        let phase = Phase { command, data: Some(data), auto, tuning: false };
        self.under_way = Some(request.clone());
        let memory = self.memory.piece.take().unwrap_or(DmaBuf::EMPTY);
        self.start(sys, phase, timeout_ns, memory);
    }

    fn status(&mut self, sys: &mut System) {
        let phase = alone(command::send_status(self.target.rca));
        if self.raw.start(sys, phase, COMMAND_TIMEOUT_NS, DmaBuf::EMPTY).is_err() {
            self.errors += 1;
        }
    }

    fn flush(&mut self, sys: &mut System) {
        let FlushBy::EmmcCache { timeout_ns } = self.target.flush else { return };
        let command = emmc::switch(emmc::SwitchMode::WriteByte, FLUSH_CACHE, 1, 0);
        self.flushing = self.raw.start(sys, alone(command), timeout_ns, DmaBuf::EMPTY).is_ok();
        self.errors += u64::from(!self.flushing);
    }

    fn irq(&mut self, sys: &mut System) -> Option<Ended> {
        let completion = self.raw.irq(sys)?;
        Some(self.ended(sys, completion))
    }

    fn busy(&self) -> bool {
        self.looks && self.raw.stack.with(|e| e.dat0_busy())
    }

    fn timer(&mut self, sys: &mut System, number: u64) -> Option<Ended> {
        let completion = self.raw.timer(sys, number)?;
        Some(self.ended(sys, completion))
    }
}
