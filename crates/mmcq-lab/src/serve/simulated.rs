//! Machine of an export that is simulated: board, controller and card in virtual time.

use super::machine::{Machine, SLOTS, Step};
use crate::board::{Board, BoardError, Price};
use crate::buffers::Pieces;
use crate::platform::Platform;
use mmcq::engine::{Completion, DmaBuf, Erase, Error, Request, SlotId};
use mmcq_sim::card::Medium;
use mmcq_sim::world::Device;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Description of the simulated machine whose card the server offers to its clients.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Board of the machine.
    pub platform: Platform,
    /// Name of a card that replaces the board's own; `None`: the board's own.
    pub card: Option<String>,
    /// Path of the image file with the card's content.
    pub image: PathBuf,
    /// Whether the server may write to the image.
    pub writable: bool,
    /// Whether the machine's virtual time is slowed down to real time.
    pub paced: bool,
}

impl Setup {
    fn board(&self) -> Result<Board<SLOTS>, BoardError> {
        let medium = Medium::image(&self.image, !self.writable)?;
        let board = Board::new(&self.platform, self.card.as_deref(), Some(medium), Price::Nothing)?;
        board.enable_extended_ops().map_err(|error| BoardError::BringUp {
            platform: self.platform.name.clone(),
            card: self.card.clone().unwrap_or_else(|| self.platform.card.clone()),
            error,
            hint: "",
        })?;
        Ok(board)
    }
}

/// Simulated board with its card, which `mmcq serve` exports as a block device.
pub struct Simulated {
    setup: Setup,
    board: Board<SLOTS>,
    pieces: Pieces,
    /// A moment in real time, and the machine's virtual time in ns at that moment.
    origin: (Instant, u64),
}

impl Simulated {
    /// Builds the machine of this description, and brings its card up.
    pub fn new(setup: Setup) -> Result<Self, BoardError> {
        let board = setup.board()?;
        let origin = (Instant::now(), board.time.now());
        Ok(Simulated { setup, board, pieces: Pieces::default(), origin })
    }

    /// Makes the engine initialise its card again, as after a power loss.
    #[cfg(test)]
    pub fn initialise_again(&self) -> Result<(), String> {
        self.board.initialise_again()
    }

    /// Returns the virtual time in ns that corresponds to the present real time. The machine waits
    /// if it is ahead of this time.
    fn real_ns(&self) -> u64 {
        let elapsed = u64::try_from(self.origin.0.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.origin.1.saturating_add(elapsed)
    }
}

impl Machine for Simulated {
    fn blocks(&self) -> u64 {
        self.board.card.params.sectors
    }

    fn buffer_bytes_max(&self) -> u64 {
        u64::MAX
    }

    fn buffer(&mut self, bytes: usize) -> Option<DmaBuf> {
        Some(self.pieces.piece(bytes))
    }

    fn free(&mut self, buffer: DmaBuf) {
        self.pieces.free(buffer);
    }

    fn submit(&mut self, request: Request) -> Result<SlotId, (Error, Request)> {
        let now_ns = self.board.time.now();
        self.board.stack.with(|engine| engine.submit(request, now_ns))
    }

    fn take(&mut self, id: SlotId) -> Option<Completion> {
        self.board.stack.with(|engine| engine.take(id))
    }

    fn discarding(&self) -> Option<(Erase, u64)> {
        self.board.stack.with(|engine| {
            let erase = &engine.abilities().erase;
            erase.discarding().map(|how| (how, erase.grain_blocks(how).into()))
        })
    }

    fn step(&mut self) -> Result<Step, String> {
        let controller = &mut self.board.controller;
        let work = if controller.irq() {
            let now_ns = self.board.time.now();
            self.board.stack.with(|engine| engine.on_irq(now_ns))
        } else {
            let deadline = self.board.stack.with(|engine| engine.next_deadline_ns());
            let now_ns = self.board.time.now();
            let Some(next_ns) = [deadline, controller.next_event_ns()].into_iter().flatten().min() else {
                return Err("the machine stands still with requests under way".to_owned());
            };
            let next_ns = next_ns.max(now_ns);
            let real_ns = self.real_ns();
            if self.setup.paced && next_ns > real_ns {
                return Ok(Step::Wait(Duration::from_nanos(next_ns - real_ns)));
            }
            let reached = self.board.controller.advance(next_ns);
            self.board.time.set(reached.max(now_ns));
            if self.board.controller.irq() {
                return Ok(Step::Done(0));
            }
            let now_ns = self.board.time.now();
            self.board.stack.with(|engine| engine.poll(now_ns))
        };
        Ok(Step::Done(work.completed))
    }

    fn resume(&mut self) {
        if self.setup.paced {
            self.board.time.set(self.board.time.now().max(self.real_ns()));
        }
    }

    fn power_cut(&mut self) -> Result<u64, String> {
        let now_ns = self.board.time.now();
        let lost = self.board.controller.power_cut(now_ns);
        // The content is in the image, so the new card has all that the old card had stored.
        self.board = self.setup.board().map_err(|e| e.to_string())?;
        self.origin = (Instant::now(), self.board.time.now());
        Ok(lost)
    }
}
