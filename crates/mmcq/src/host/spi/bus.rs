//! Clock, reset, and recovery of a card that was left in the middle of a transfer.

use super::Spi;
use super::frame::Input;
use super::line::Line;
use super::port::{Exchange, Port, Progress};
use super::step::Patience;
use crate::host::{BusOp, Step, Timing, Width};
use crate::spec::timing::sd as limits;

/// Bytes that give 74 clocks while the card is not selected [SD 6.4.1], with a margin.
const CLOCKS_BYTES: u32 = 12;
/// Number of bytes in one SPI exchange in which the card sends the rest of a block: the driver
/// sends 0xff, and drops what it receives.
const DRAIN_BYTES: u32 = 64;
/// Number of exchanges that drain the card. Together they are longer than a block of 512 bytes with
/// its CRC. The card may be in the middle of such a block, in either direction.
const DRAINS: u8 = 9;
/// Number of rounds in which the driver tries CMD0.
const ROUNDS: u8 = 4;
/// Longest time that a card programs an aborted write, in nanoseconds [SD 4.6.2.2].
const PROGRAM_NS: u64 = 500_000_000;
/// Time after which a bus operation fails, in nanoseconds, for example because an exchange does not
/// end.
const GIVE_UP_NS: u64 = 2_000_000_000;
/// Shortest time between two polls for the end of an SPI exchange, in nanoseconds.
const ASK_NS: u64 = 50_000;

/// Work that the driver does between phases (commands with their data): clock, reset and recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chore {
    what: What,
    rounds: u8,
    patience: Patience,
    /// Whether the supply was switched on, and no clock has run since.
    fresh: bool,
    /// Whether the driver has begun the requested bus operation. Before that, the exchange in
    /// progress must end.
    begun: bool,
    give_up_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Nothing,
    /// Sends the clocks of power-up.
    Clocks,
    /// Sends CMD0.
    Reset,
    Answer,
    /// Receives and drops the bytes of a block that the card may still send; the value is the
    /// number of exchanges left. During power-up the driver then sends stop token and CMD12, which
    /// end an open transfer, and CMD0.
    Drain(u8),
    StopToken,
    /// Waits until the card releases its data line (no busy).
    Busy,
    Stop,
}

impl Chore {
    /// No work. The times are not zero, since a call to clear memory would be longer code.
    pub const NONE: Chore = Chore {
        what: What::Nothing,
        rounds: 0,
        patience: Patience::of(PROGRAM_NS),
        fresh: false,
        begun: false,
        give_up_ns: u64::MAX,
    };

    pub fn is_going(&self) -> bool {
        self.what != What::Nothing
    }

    /// Continues the clock change, reset or recovery under way as far as possible, but polls the
    /// card at most once.
    pub fn go_on<P: Port>(&mut self, line: &mut Line<P>) {
        for _ in 0..2 {
            // Look for the end of the exchange even if nothing follows, because its interrupt stays
            // asserted otherwise.
            if line.progress() == Progress::Going || !self.is_going() {
                return;
            }
            self.what = self.next(line);
        }
    }

    fn next<P: Port>(&mut self, line: &mut Line<P>) -> What {
        match self.what {
            What::Nothing => What::Nothing,
            What::Clocks => {
                line.select(false);
                line.exchange(Exchange::Idle(CLOCKS_BYTES));
                What::Reset
            }
            What::Reset => {
                line.select(true);
                line.send_frame(0, 0, 0);
                What::Answer
            }
            What::Answer => {
                self.rounds = self.rounds.saturating_sub(1);
                if self.rounds == 0 || line.bytes().iter().find(|&&byte| byte & 0x80 == 0) == Some(&1) {
                    line.input = Input::default();
                    return What::Nothing;
                }
                self.drain(line, DRAINS)
            }
            What::Drain(left) if left > 0 => self.drain(line, left),
            // Only the rest of a block was to be drained.
            What::Drain(_) if self.rounds == 0 => What::Nothing,
            What::Drain(_) => {
                line.put(&[0xff, 0xfd], 12);
                What::StopToken
            }
            What::StopToken | What::Busy => {
                let high = line.is_high();
                line.input = Input::default();
                match if high { None } else { self.patience.look(line.byte_ns) } {
                    Some(bytes) => {
                        line.more(bytes);
                        What::Busy
                    }
                    None => {
                        line.send_frame(12, 0, 0);
                        What::Stop
                    }
                }
            }
            What::Stop => {
                line.select(false);
                line.exchange(Exchange::Idle(CLOCKS_BYTES));
                What::Reset
            }
        }
    }

    fn drain<P: Port>(&mut self, line: &mut Line<P>, left: u8) -> What {
        line.select(true);
        line.exchange(Exchange::Idle(DRAIN_BYTES));
        What::Drain(left - 1)
    }

    fn begin(&mut self, what: What, rounds: u8) {
        (self.what, self.rounds, self.patience) = (what, rounds, Patience::of(PROGRAM_NS));
    }
}

impl<P: Port> Spi<P> {
    pub(super) fn step_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        if first {
            // No phase is in progress, or the phase is given up.
            if let Some(program) = self.program.take() {
                program.leave(&mut self.line.card);
            }
            self.chore.begin(What::Nothing, 0);
            self.chore.begun = false;
            self.chore.give_up_ns = now_ns.saturating_add(GIVE_UP_NS);
        }
        if self.line.progress() != Progress::Going && !core::mem::replace(&mut self.chore.begun, true) {
            let step = self.begin_bus(op);
            if step != Step::Done {
                return step;
            }
        }
        self.chore.go_on(&mut self.line);
        if self.chore.begun && !self.chore.is_going() {
            if P::SHARED {
                self.line.select(false);
            }
            Step::Done
        } else if now_ns >= self.chore.give_up_ns {
            self.chore.begin(What::Nothing, 0);
            Step::Failed
        } else {
            self.ask_again(now_ns)
        }
    }

    fn ask_again(&self, now_ns: u64) -> Step {
        let exchange_ns = u64::from(self.line.byte_ns) * u64::from(DRAIN_BYTES);
        Step::Wait(now_ns.saturating_add(exchange_ns.max(ASK_NS)))
    }

    fn begin_bus(&mut self, op: BusOp) -> Step {
        let (line, chore) = (&mut self.line, &mut self.chore);
        match op {
            BusOp::PowerOff => {
                line.select(false);
                line.card = Default::default();
                line.input = Input::default();
            }
            BusOp::PowerOn => chore.fresh = true,
            BusOp::Clock(hz) => {
                line.clock(Some(hz));
                if hz != 0 && hz <= limits::IDENTIFY_MAX_HZ && core::mem::take(&mut chore.fresh) {
                    chore.begin(What::Clocks, ROUNDS);
                }
            }
            BusOp::ResetLines | BusOp::ResetAll => {
                line.input = Input::default();
                line.card.app = false;
                line.card.quiet = false;
                // The card counts its bytes from the selection on, and may have lost count; so
                // deselect it.
                line.select(false);
                if op == BusOp::ResetAll {
                    line.clock(None);
                }
                if !P::SHARED {
                    // Some cards notice only with a clock that they are deselected.
                    line.exchange(Exchange::Idle(1));
                }
                let drains = if core::mem::take(&mut line.card.torn) { DRAINS } else { 0 };
                chore.begin(What::Drain(drains), 0);
            }
            BusOp::Width(Width::W1)
            | BusOp::Timing(Timing::Legacy | Timing::HighSpeed)
            | BusOp::Signal18(false)
            | BusOp::TuneAbort => {}
            BusOp::Width(_) | BusOp::Timing(_) | BusOp::Signal18(true) | BusOp::TuneStart => {
                return Step::Failed;
            }
        }
        Step::Done
    }
}
