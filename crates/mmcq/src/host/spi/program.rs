//! A phase (a command with its data and busy) as a program, that is, a sequence of exchanges of
//! bytes on the SPI bus: the end of each exchange selects the next one.

use super::blocks::Blocks;
use super::card::{Card, Open};
use super::frame::Input;
use super::line::Line;
use super::port::{Exchange, Port, Progress};
use super::step::{LOOK_FIRST, Patience, Step};
use crate::host::{Auto, Cause, Data, Direction, Done, Fault, Phase, Segment, Stage, StartError};
use crate::spec::command::Resp;
use crate::spec::crc::{crc16, crc16_after};
use crate::spec::response::{R1, Response};

/// Largest number of steps of a command's program (its series of exchanges) that one call executes.
const STEPS_MAX: u32 = 32;
/// Bytes to receive with a CRC when another block follows; most cards send its token within them.
const AHEAD: usize = 6;
/// Number of bytes after the command's exchange within which a card must respond [SD 7.5.1, N_CR].
const ANSWER_LATE: usize = 8;
/// Largest number of tries of CMD0 before its wrong response becomes a failure; also the largest
/// number of tries of CMD59.
const RESETS: u8 = 3;
const BLOCK_TOKEN: u8 = 0xfe;
const BLOCK_OF_SEVERAL_TOKEN: u8 = 0xfc;
const STOP_TOKEN: u8 = 0xfd;
const APP_CMD: u8 = 55;
const READ_OCR: u8 = 58;
const CRC_ON_OFF: u8 = 59;
const STOP_TRANSMISSION: u8 = 12;
/// R1 bit: illegal command.
const ILLEGAL: u8 = 1 << 2;
/// R1 error bits: illegal command, CRC, sequence, address, parameter.
const REFUSED: u8 = 0x7c;
/// Size of CID and CSD in bytes.
const REGISTER_BYTES: usize = 16;

/// The sequence of SPI byte exchanges for the command in progress, its response and its data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program {
    pub index: u8,
    pub arg: u32,
    /// Whether CMD55 goes before the command.
    pub app: bool,
    resp: Resp,
    /// Whether CMD12 or the stop token follows the last block.
    stops: bool,
    step: Step,
    blocks: Option<Blocks>,
    pub response: Response,
    stop: Option<u32>,
    /// Number of repeated polls for a response so far, or of repeated CMD0 in a reset.
    again: u8,
    /// Number of CMD59 that the driver has sent so far before the command in progress.
    tries: u8,
    patience: Patience,
}

enum Turn {
    /// Continue the command in progress when the exchange of bytes that was started has ended.
    Go,
    /// Continue in a later call, because the exchange that was started is long: it transfers a
    /// block, or polls a slow card.
    Later,
    /// The end of the program: the command with its data has ended.
    End,
}

type Outcome = Result<Turn, Cause>;

/// Returns CID or CSD as response words. The last byte is the register's CRC, which is left out.
fn words(bytes: &[u8]) -> Response {
    let mut response = Response::default();
    for (word, four) in response.words.iter_mut().zip(bytes.chunks(4)) {
        *word = four.iter().fold(0, |word, &byte| word << 8 | u32::from(byte));
    }
    response.words[3] &= !0xff;
    response
}

/// Returns whether the byte after a CRC begins with a zero bit. Then the card missed a clock
/// between token and data and has sent the whole block one bit late; the zero is the last bit of
/// the CRC. The comparison of the CRC cannot detect this, because a leading zero bit in the data
/// does not change a CRC.
fn is_shifted(behind: &[u8]) -> bool {
    behind.first().is_some_and(|byte| byte & 0x80 == 0)
}

/// Returns whether the card's line is high (not busy).
fn is_ready<P: Port>(line: &mut Line<P>) -> bool {
    line.card.quiet |= line.is_high();
    line.input = Input::default();
    line.card.quiet
}

impl Program {
    /// Makes the sequence of exchanges on the SPI bus that executes a phase (command, data and
    /// busy). `timeout_ns`: longest time that the card may need for the data or the busy.
    pub fn of(
        phase: &Phase,
        card: &mut Card,
        segments: &[Segment],
        timeout_ns: u64,
    ) -> Result<Program, StartError> {
        let auto = matches!(phase.auto, Auto::None | Auto::Stop | Auto::Open | Auto::Continue);
        if !auto || phase.tuning {
            return Err(StartError::Unsupported);
        }
        let blocks = match phase.data {
            Some(data) => Some(Blocks::of(data, segments)?),
            None => None,
        };
        let mut program = Program {
            index: phase.command.index,
            arg: phase.command.arg,
            app: false,
            resp: phase.command.resp,
            stops: phase.auto == Auto::Stop,
            step: Step::Token,
            blocks,
            response: Response::default(),
            stop: None,
            again: 0,
            tries: 0,
            patience: Patience::of(timeout_ns),
        };
        program.step = match phase.auto {
            Auto::Continue => match (card.open, phase.data) {
                (Some(Open::Read), Some(Data { direction: Direction::Read, .. })) => Step::Token,
                (Some(Open::Write), Some(Data { direction: Direction::Write, .. })) => Step::ReadyToWrite,
                _ => return Err(StartError::Unsupported),
            },
            _ => card.translate(phase, &mut program)?,
        };
        Ok(program)
    }

    /// Returns whether the driver knows the response without an exchange on the SPI bus.
    pub fn is_said(&self) -> bool {
        matches!(self.step, Step::Said | Step::Unheard)
    }

    /// Abandons the program (the exchange with the card) in its present step. Records in `card`
    /// what the card may be left with: an unfinished block, or a CMD18 or CMD25 that was not ended.
    pub fn leave(&self, card: &mut Card) {
        card.quiet = false;
        card.torn |= self.step.tears();
        if let (Step::Command, Some(blocks)) = (self.step, &self.blocks) {
            // The card may have executed this command or the one before; a CMD12 will show it.
            card.open = Some(match blocks.data.direction {
                Direction::Read => Open::Read,
                Direction::Write => Open::Refused,
            });
        }
        if card.open == Some(Open::Write) && self.blocks.is_some() {
            card.open = Some(Open::Refused);
        }
    }

    /// Starts the program's first exchange on the SPI bus; [`run`](Self::run) continues it.
    pub fn begin<P: Port>(&mut self, line: &mut Line<P>, segments: &[Segment]) {
        // No first step of a program ends or fails before an exchange.
        let _ = self.step(line, segments);
    }

    /// Continues the SPI exchanges of the command (with its data) in progress as far as possible
    /// without waiting. Returns the result of the command; `None` if it has not ended.
    pub fn run<P: Port>(&mut self, line: &mut Line<P>, segments: &[Segment]) -> Option<Result<Done, Fault>> {
        for _ in 0..STEPS_MAX {
            let turn = match line.progress() {
                Progress::Going => return None,
                Progress::Failed => Err(Cause::Other),
                Progress::Done => self.step(line, segments),
            };
            match turn {
                Ok(Turn::Go) => {}
                Ok(Turn::Later) => return None,
                Ok(Turn::End) => {
                    return Some(Ok(Done { response: self.response, stop: self.stop, tuned: false }));
                }
                Err(cause) => {
                    self.leave(&mut line.card);
                    let stage = self.step.stage();
                    let response =
                        (stage != Stage::Command && self.step != Step::Ready).then_some(self.response);
                    return Some(Err(Fault { cause, stage, response }));
                }
            }
        }
        None
    }

    fn step<P: Port>(&mut self, line: &mut Line<P>, segments: &[Segment]) -> Outcome {
        match self.step {
            Step::Said => Ok(Turn::End),
            Step::Unheard => {
                self.step = Step::Command;
                Err(Cause::Timeout)
            }
            Step::Ready => {
                // While a read is open, the line may be low, and CMD0 is sent in any state. Before
                // any other command the card must not be busy. That includes CMD12: an earlier
                // CMD12, whose response was lost, may already have stopped a write.
                let at_once = self.index == 0 || line.card.open == Some(Open::Read);
                if !at_once && !is_ready(line) {
                    // CMD13 asks for the state of the card, and a low line already shows it: busy.
                    if self.index == 13 && self.blocks.is_none() && self.again > 0 {
                        self.response = Card::busy();
                        return Ok(Turn::End);
                    }
                    self.again = 1;
                    return self.look(line);
                }
                Ok(self.send(line, if self.app { Step::Prefix } else { Step::Command }))
            }
            Step::Prefix => {
                let Some(r1) = self.answer(line)? else { return Ok(Turn::Go) };
                // Late errors are reported by the command itself, not by CMD55.
                let late = core::mem::take(&mut line.card.late);
                let status = line.card.judge(APP_CMD, r1)?;
                line.card.late = late;
                if r1 & REFUSED != 0 {
                    self.response = Response::short(status);
                    return Ok(Turn::End);
                }
                // The card may be busy after the command.
                line.card.quiet = false;
                self.app = false;
                self.step = Step::Ready;
                Ok(Turn::Go)
            }
            Step::Command if self.index == 0 => self.reset_answered(line),
            Step::Command => match self.answer(line)? {
                Some(r1) => self.answered(line, r1),
                None => Ok(Turn::Go),
            },
            Step::Tail(bytes) => self.tail(line, bytes),
            Step::Ocr => match self.answer(line)? {
                Some(_) => {
                    self.index = READ_OCR;
                    self.step = Step::Tail(4);
                    Ok(Turn::Go)
                }
                None => Ok(Turn::Go),
            },
            Step::CrcOn => match self.answer(line) {
                Ok(None) => Ok(Turn::Go),
                Ok(Some(r1)) if r1 & REFUSED == 0 => Ok(Turn::End),
                // A card that does not know CMD59 works without CRC.
                _ if self.tries >= RESETS => Ok(Turn::End),
                _ => Ok(self.send_crc_on(line)),
            },
            Step::Register => {
                if !line.fetch(REGISTER_BYTES + 3, 0) {
                    return Ok(Turn::Go);
                }
                let bytes = line.bytes();
                let (register, rest) = bytes.split_at_checked(REGISTER_BYTES).unwrap_or_default();
                let (crc, behind) = rest.split_at_checked(2).unwrap_or_default();
                if crc != crc16(register).to_be_bytes() || is_shifted(behind) {
                    return Err(Cause::Crc);
                }
                self.response = words(register);
                Ok(Turn::End)
            }
            Step::ReadyToStop => {
                if !is_ready(line) {
                    return self.look(line);
                }
                line.put(&[0xff, STOP_TOKEN], 8);
                self.step = Step::Stopped;
                Ok(Turn::Go)
            }
            Step::Stopped => {
                line.card.open = None;
                line.card.quiet = false;
                let status = line.card.stopped();
                if self.index == STOP_TRANSMISSION {
                    self.response = Response::short(status);
                } else {
                    self.stop = Some(status);
                }
                Ok(Turn::End)
            }
            Step::StopRead => {
                let Some(r1) = self.answer(line)? else { return Ok(Turn::Go) };
                self.stop = Some(line.card.judge(STOP_TRANSMISSION, r1)?);
                line.card.closed();
                Ok(Turn::End)
            }
            _ => self.move_block(line, segments),
        }
    }

    /// Gives the card more time for its response: receives more bytes.
    fn look<P: Port>(&mut self, line: &mut Line<P>) -> Outcome {
        let bytes = self.patience.look(line.byte_ns).ok_or(Cause::Timeout)?;
        line.more(bytes);
        Ok(if bytes > LOOK_FIRST.into() { Turn::Later } else { Turn::Go })
    }

    fn send<P: Port>(&mut self, line: &mut Line<P>, next: Step) -> Turn {
        self.step = next;
        self.again = 0;
        let (index, arg) = if next == Step::Prefix { (APP_CMD, 0) } else { (self.index, self.arg) };
        // The byte after CMD12 is still a byte that the card was sending, so skip it.
        line.send_frame(index, arg, usize::from(index == STOP_TRANSMISSION));
        Turn::Go
    }

    /// Returns the R1; `None` if the card has not sent it yet, and a poll is in progress.
    ///
    /// Before its R1 the card keeps the line high. A low line means that the card still sends a
    /// block: it has missed the last CMD12, for whose response the driver took a byte of data. Such
    /// a card accepts no command now.
    fn answer<P: Port>(&mut self, line: &mut Line<P>) -> Result<Option<u8>, Cause> {
        let sends = line.card.open == Some(Open::Read);
        if !sends && self.again == 0 && line.was_noisy_in_frame() {
            return Err(Cause::Response);
        }
        while let Some(byte) = line.next() {
            if !sends && byte & 0x80 != 0 && byte != 0xff {
                return Err(Cause::Response);
            }
            if byte & 0x80 == 0 {
                self.again = 0;
                return Ok(Some(byte));
            }
        }
        if self.again > 0 {
            return Err(Cause::Timeout);
        }
        self.again = 1;
        line.more(ANSWER_LATE);
        Ok(None)
    }

    /// Sends CMD59, which switches CRC on, and counts the attempt.
    #[inline(never)]
    fn send_crc_on<P: Port>(&mut self, line: &mut Line<P>) -> Turn {
        line.send_frame(CRC_ON_OFF, 1, 0);
        (self.step, self.again) = (Step::CrcOn, 0);
        self.tries += 1;
        Turn::Go
    }

    /// Reads the response to CMD0. A correct one is followed by CMD59; otherwise CMD0 is sent
    /// again, [`RESETS`] times in total. No response is no fault, since CMD0 has none on the SD
    /// bus: a missing card is found later.
    fn reset_answered<P: Port>(&mut self, line: &mut Line<P>) -> Outcome {
        let low = line.was_low();
        loop {
            match line.next() {
                Some(1) => {
                    return Ok(self.send_crc_on(line));
                }
                Some(byte) if byte & 0x80 != 0 => {}
                answer => {
                    self.again += 1;
                    if self.again < RESETS {
                        line.send_frame(0, 0, 0);
                        return Ok(Turn::Go);
                    }
                    return match answer {
                        None => Ok(Turn::End),
                        Some(_) if low => Err(Cause::LineLow),
                        Some(_) => Err(Cause::Response),
                    };
                }
            }
        }
    }

    fn answered<P: Port>(&mut self, line: &mut Line<P>, r1: u8) -> Outcome {
        let status = line.card.judge(self.index, r1)?;
        self.response = Response::short(status);
        if self.resp == Resp::R1b {
            line.card.quiet = false;
        }
        if r1 & ILLEGAL != 0 && self.blocks.is_some() {
            // No block follows. On the SD bus the bit refers to the command before: the engine
            // finds the bit in the next status.
            line.card.late |= R1::ILLEGAL_COMMAND;
            return Err(Cause::Timeout);
        }
        if r1 & REFUSED != 0 {
            // A card that is ready accepts no second ACMD41, so power-up begins again.
            return if self.index == 41 { Err(Cause::Crc) } else { Ok(Turn::End) };
        }
        match self.index {
            8 | READ_OCR => self.step = Step::Tail(4),
            13 => self.step = Step::Tail(1),
            41 if line.card.ready => {
                line.send_frame(READ_OCR, 0, 0);
                self.step = Step::Ocr;
            }
            41 => {
                self.response = line.card.power_up();
                return Ok(Turn::End);
            }
            9 | 10 if self.resp == Resp::R2 => self.step = Step::Token,
            STOP_TRANSMISSION => {
                line.card.closed();
                return Ok(Turn::End);
            }
            _ => return Ok(self.data_begin(line)),
        }
        self.patience.renew();
        Ok(Turn::Go)
    }

    fn data_begin<P: Port>(&mut self, line: &mut Line<P>) -> Turn {
        let Some(blocks) = &self.blocks else { return Turn::End };
        self.patience.renew();
        let read = blocks.data.direction == Direction::Read;
        if self.index == 18 || self.index == 25 {
            line.card.open = Some(if read { Open::Read } else { Open::Write });
        }
        if read {
            self.step = Step::Token;
        } else {
            self.start_block(line);
        }
        Turn::Go
    }

    fn tail<P: Port>(&mut self, line: &mut Line<P>, bytes: u8) -> Outcome {
        if !line.fetch(bytes.into(), 1) {
            return Ok(Turn::Go);
        }
        let word = (0..bytes).fold(0, |word, _| word << 8 | u32::from(line.next().unwrap_or(0xff)));
        match self.index {
            13 if self.blocks.is_some() => return Ok(self.data_begin(line)),
            13 => self.response.words[0] |= line.card.status(word as u8),
            READ_OCR => self.response = line.card.ocr(word),
            _ => self.response = Response::short(word),
        }
        Ok(Turn::End)
    }

    fn start_block<P: Port>(&mut self, line: &mut Line<P>) {
        let several = line.card.open == Some(Open::Write);
        line.put(&[0xff, if several { BLOCK_OF_SEVERAL_TOKEN } else { BLOCK_TOKEN }], 2);
        line.input = Input::default();
        line.card.quiet = false;
        self.step = Step::Started;
    }

    fn move_block<P: Port>(&mut self, line: &mut Line<P>, segments: &[Segment]) -> Outcome {
        if self.step == Step::Token {
            return self.seek_token(line);
        }
        let Some(blocks) = &mut self.blocks else { return Err(Cause::Other) };
        // Number of bytes to receive after the CRC. After the last block of the phase it is one
        // byte: in these eight clocks no card begins a block [SD 7.5.4, N_AC]. The driver must
        // receive no part of a block that no phase has requested, since the engine may send CMD12
        // instead of requesting it.
        let ahead = if blocks.left > 1 { AHEAD } else { 1 };
        match self.step {
            Step::Block => {
                while blocks.rest_bytes > 0
                    && let Some(byte) = line.next()
                {
                    blocks.cursor.store(segments, byte.into(), 1);
                    blocks.crc = crc16_after(blocks.crc, &[byte]);
                    blocks.rest_bytes -= 1;
                }
                if blocks.rest_bytes == 0 {
                    self.step = Step::Check;
                    return Ok(Turn::Go);
                }
                let rest = blocks.cursor.piece(segments, blocks.rest_bytes).ok_or(Cause::Other)?;
                line.exchange(Exchange::Receive(rest));
                self.step = Step::Rest;
                Ok(Turn::Later)
            }
            Step::Rest => {
                line.more(2 + ahead);
                // The CPU checks the block during that exchange.
                let crc = blocks.crc;
                let bytes = core::mem::take(&mut blocks.rest_bytes);
                let crc = blocks.cursor.with_bytes(segments, bytes, |bytes| crc16_after(crc, bytes));
                blocks.crc = crc.ok_or(Cause::Other)?;
                self.step = Step::Check;
                Ok(Turn::Go)
            }
            Step::Check => {
                if !line.fetch(3, ahead - 1) {
                    return Ok(Turn::Go);
                }
                let crc = u16::from_be_bytes([line.next().unwrap_or(0), line.next().unwrap_or(0)]);
                blocks.left = blocks.left.saturating_sub(1);
                let (right, left) = (crc == blocks.crc && !is_shifted(line.bytes()), blocks.left);
                self.step = if right { Step::Token } else { Step::Accept };
                if !right {
                    return Err(Cause::Crc);
                }
                if left > 0 {
                    self.patience.renew();
                    return Ok(Turn::Go);
                }
                if self.stops && line.card.open == Some(Open::Read) {
                    line.send_frame(STOP_TRANSMISSION, 0, 1);
                    (self.step, self.again) = (Step::StopRead, 0);
                    return Ok(Turn::Go);
                }
                Ok(Turn::End)
            }
            Step::ReadyToWrite => {
                if !is_ready(line) {
                    return self.look(line);
                }
                self.start_block(line);
                Ok(Turn::Go)
            }
            Step::Started => {
                let bytes = u32::from(blocks.data.block_size);
                let block = blocks.cursor.piece(segments, bytes).ok_or(Cause::Other)?;
                line.exchange(Exchange::Send(block));
                let crc = blocks.cursor.with_bytes(segments, bytes, |bytes| crc16_after(0, bytes));
                blocks.crc = crc.ok_or(Cause::Other)?;
                self.step = Step::Sent;
                Ok(Turn::Later)
            }
            Step::Sent => {
                line.put_crc(blocks.crc);
                (self.step, self.again) = (Step::Accept, 0);
                Ok(Turn::Go)
            }
            _ => self.accept(line),
        }
    }

    fn seek_token<P: Port>(&mut self, line: &mut Line<P>) -> Outcome {
        while let Some(byte) = line.next() {
            match byte {
                // No token yet; some cards hold the line low after a command.
                0xff | 0 => {}
                BLOCK_TOKEN => {
                    self.step = match &mut self.blocks {
                        Some(blocks) => {
                            (blocks.rest_bytes, blocks.crc) = (blocks.data.block_size.into(), 0);
                            Step::Block
                        }
                        None => Step::Register,
                    };
                    return Ok(Turn::Go);
                }
                token => {
                    // No block follows a token with an error.
                    self.step = Step::Accept;
                    if token & 0xf0 != 0 {
                        return Err(Cause::EndBit);
                    }
                    line.card.note_token(token);
                    return Err(Cause::Response);
                }
            }
        }
        self.look(line)
    }

    /// Reads the card's data response to a block [SD 7.3.3.1], and selects the next step. The data
    /// response covers only the CRC; CMD13 shows later whether the card has programmed the block.
    fn accept<P: Port>(&mut self, line: &mut Line<P>) -> Outcome {
        while let Some(byte) = line.next() {
            match (byte, byte >> 1 & 7) {
                (0xff, _) => {}
                (_, _) if byte & 0x11 != 1 => return Err(Cause::EndBit),
                (_, 2) => {
                    let left = self.blocks.as_mut().map_or(0, |blocks| {
                        blocks.left = blocks.left.saturating_sub(1);
                        blocks.left
                    });
                    self.patience.renew();
                    // The card is busy now, or has already finished.
                    line.card.quiet = line.is_high();
                    self.step = match left {
                        0 if self.stops && line.card.open == Some(Open::Write) => Step::ReadyToStop,
                        0 => return Ok(Turn::End),
                        _ => Step::ReadyToWrite,
                    };
                    return Ok(Turn::Go);
                }
                (_, 5) => return Err(Cause::Crc),
                _ => {
                    line.card.late |= R1::ERROR;
                    return Err(Cause::Response);
                }
            }
        }
        if self.again > 0 {
            return Err(Cause::Timeout);
        }
        self.again = 1;
        line.more(ANSWER_LATE);
        Ok(Turn::Go)
    }
}
