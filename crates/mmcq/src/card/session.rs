//! What bring-up says to a card, one exchange at a time.

use crate::engine::{DmaBuf, Error, Kind, Output, Request};
use crate::host::{Auto, BusOp, BusyDetect, Data, Direction, Host, Phase};
use crate::spec::command::{self, Command};
use crate::spec::response::{R1, State};
use crate::task::{Lock, Shared};

/// A command and its response; the slowest identification clock needs about a millisecond.
const COMMAND_NS: u64 = 20_000_000;
/// A register read as data.
const REGISTER_NS: u64 = 150_000_000;
/// Between two questions to a busy card.
const BUSY_INTERVAL_NS: u64 = 200_000;

/// A conversation with the card on this bus.
pub(super) struct Session<'a, L: Lock, H: Host, const N: usize> {
    pub shared: &'a Shared<L, H, N>,
    /// Register data come in here; away only while a request has it.
    scratch: DmaBuf,
    /// The card's address; 0 before it has one.
    pub rca: u16,
}

impl<'a, L: Lock, H: Host, const N: usize> Session<'a, L, H, N> {
    pub fn new(shared: &'a Shared<L, H, N>, scratch: DmaBuf) -> Self {
        Session { shared, scratch, rca: 0 }
    }

    pub fn into_scratch(self) -> DmaBuf {
        self.scratch
    }

    pub async fn bus(&self, op: BusOp) -> Result<(), Error> {
        self.shared.bus(op).await
    }

    pub async fn pause(&self, ns: u64) -> Result<(), Error> {
        self.shared.pause(ns).await
    }

    /// A command whose response is read by the caller.
    pub async fn command(&self, command: Command) -> Result<Output, Error> {
        self.shared.command(command, COMMAND_NS).await
    }

    /// A command answered by R1, which must show no error of its own or of what was before.
    pub async fn status_of(&self, command: Command) -> Result<R1, Error> {
        judge(self.command(command).await?)
    }

    /// As [`command`](Self::command), after CMD55.
    pub async fn app_command(&self, command: Command) -> Result<Output, Error> {
        self.app_data(command, None).await
    }

    async fn app_data(&self, command: Command, data: Option<Data>) -> Result<Output, Error> {
        let prefix = Some(command::app_cmd(self.rca));
        self.shared.raw(prefix, command, data, DmaBuf::EMPTY, COMMAND_NS).await.0
    }

    /// A command with R1b, waited for to the end of busy and judged by a status after it.
    pub async fn busy_command(&self, command: Command, timeout_ns: u64) -> Result<(), Error> {
        judge(self.shared.command(command, timeout_ns).await?)?;
        self.wait_ready(timeout_ns).await
    }

    /// As [`busy_command`](Self::busy_command), for a change after which the host must follow before it may ask: no status unless there is no other
    /// way to see the end of busy.
    pub async fn switch_then(&self, command: Command, timeout_ns: u64) -> Result<(), Error> {
        judge(self.shared.command(command, timeout_ns).await?)?;
        match self.shared.with(|engine| engine.host().caps().busy) {
            BusyDetect::Interrupt => Ok(()),
            BusyDetect::Status => self.wait_ready(timeout_ns).await,
            BusyDetect::Level => {
                for _ in 0..=timeout_ns / BUSY_INTERVAL_NS {
                    if !self.shared.with(|engine| engine.host().dat0_busy()) {
                        return Ok(());
                    }
                    self.pause(BUSY_INTERVAL_NS).await?;
                }
                Err(Error::Silent)
            }
        }
    }

    /// Waits until the card is ready. Where the controller has seen the end of busy, that is one CMD13.
    async fn wait_ready(&self, timeout_ns: u64) -> Result<(), Error> {
        let detect = self.shared.with(|engine| engine.host().caps().busy);
        for _ in 0..=timeout_ns / BUSY_INTERVAL_NS {
            if detect != BusyDetect::Level || !self.shared.with(|engine| engine.host().dat0_busy()) {
                let status = self.status_of(command::send_status(self.rca)).await?;
                if status.current_state() != State::Prg {
                    return Ok(());
                }
            }
            self.pause(BUSY_INTERVAL_NS).await?;
        }
        Err(Error::Silent)
    }

    /// Reads `bytes` (at most 512) of register data by a command, or by CMD55 and the command.
    pub async fn register(&mut self, command: Command, app: bool, bytes: u16) -> Result<&[u8], Error> {
        let data = Data { direction: Direction::Read, block_size: bytes, blocks: 1 };
        let prefix = app.then_some(command::app_cmd(self.rca));
        let scratch = core::mem::replace(&mut self.scratch, DmaBuf::EMPTY);
        let (result, scratch) = self.shared.raw(prefix, command, Some(data), scratch, REGISTER_NS).await;
        self.scratch = scratch;
        judge(result?)?;
        self.scratch.get(..usize::from(bytes)).ok_or(Error::Protocol("the scratch memory is lost"))
    }

    /// As [`register`](Self::register), a copy of known size.
    pub async fn register_copy<const B: usize>(
        &mut self,
        command: Command,
        app: bool,
    ) -> Result<[u8; B], Error> {
        let bytes = self.register(command, app, B as u16).await?;
        bytes.try_into().map_err(|_| Error::Protocol("a register has another length"))
    }

    /// Tunes by this command's block of `bytes` [SD 4.2.4.5], [eMMC 6.6.5]: the controller compares, and says when it has found its point.
    pub async fn tune(&self, command: Command, bytes: u16, blocks_max: u32) -> Result<(), Error> {
        self.bus(BusOp::TuneStart).await?;
        let data = Data { direction: Direction::Read, block_size: bytes, blocks: 1 };
        let phase = Phase { command, data: Some(data), auto: Auto::None, tuning: true };
        for _ in 0..blocks_max {
            let kind = Kind::Raw { prefix: None, phase, timeout_ns: REGISTER_NS };
            let done = self.shared.request(Request { kind, buf: DmaBuf::EMPTY }).await.result;
            match done {
                Ok(output) if output.tuned => return Ok(()),
                Ok(_) => {}
                // A block that is lost at a bad sampling point is part of the procedure; a controller that is gone is not.
                Err(Error::Host(_)) => {}
                Err(error) => {
                    self.bus(BusOp::TuneAbort).await?;
                    return Err(error);
                }
            }
        }
        self.bus(BusOp::TuneAbort).await?;
        Err(Error::Protocol("tuning found no sampling point"))
    }
}

/// Errors that any R1 of the bring-up may show; of an SD card, whose bit 7 is reserved, nobody sets `SWITCH_ERROR`.
fn judge(output: Output) -> Result<R1, Error> {
    let status = output.response.r1();
    match status.0 & (R1::OWN | R1::DEFERRED) {
        0 => Ok(status),
        _ => Err(Error::Card(status.0)),
    }
}
