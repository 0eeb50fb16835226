//! Machine (an engine with its driver, controller and card) of a disk that is exported over the
//! network; the card is in a real reader of this computer, accessed through VFIO.

use super::machine::{Machine, SLOTS, Step};
use mmcq::engine::{Completion, DmaBuf, Erase, Error, Request, SlotId, SlotSet};
use mmcq_vfio::{PIECE_BYTES, Reader};
use std::time::Duration;

const _: () = assert!(mmcq_vfio::SLOTS <= SLOTS);

/// The reader, whose card is in the state `tran` and whose engine is set up for this card.
pub struct Real(pub Reader);

impl Machine for Real {
    fn blocks(&self) -> u64 {
        self.0.card().map_or(0, |card| card.params.sectors)
    }

    fn buffer_bytes_max(&self) -> u64 {
        PIECE_BYTES.into()
    }

    fn buffer(&mut self, _: usize) -> Option<DmaBuf> {
        self.0.buffer()
    }

    fn free(&mut self, buffer: DmaBuf) {
        self.0.give_back(buffer);
    }

    fn submit(&mut self, request: Request) -> Result<SlotId, (Error, Request)> {
        let now_ns = self.0.now_ns();
        self.0.stack().with(|engine| engine.submit(request, now_ns))
    }

    fn take(&mut self, id: SlotId) -> Option<Completion> {
        self.0.stack().with(|engine| engine.take(id))
    }

    fn discarding(&self) -> Option<(Erase, u64)> {
        self.0.stack().with(|engine| {
            let erase = &engine.abilities().erase;
            erase.discarding().map(|how| (how, erase.grain_blocks(how).into()))
        })
    }

    fn step(&mut self) -> Result<Step, String> {
        match self.0.due() {
            Duration::ZERO => self.0.poll().map(Step::Done).map_err(|e| e.to_string()),
            due => Ok(Step::Wait(due)),
        }
    }

    fn idle(&self) -> Option<Duration> {
        Some(self.0.due())
    }

    fn listen(&mut self, mut tell: Box<dyn FnMut() -> bool + Send>) {
        let interrupt = self.0.interrupt();
        std::thread::spawn(move || {
            // If waiting for the interrupt fails, this thread ends. The engine then finds its
            // completions by its deadlines.
            while let Ok(came) = interrupt.wait(None) {
                if came && !tell() {
                    return;
                }
            }
        });
    }

    fn interrupted(&mut self) -> Result<SlotSet, String> {
        self.0.interrupted().map_err(|e| e.to_string())
    }

    fn power_cut(&mut self) -> Result<u64, String> {
        Err("the supply of a real card is not cut from here".to_owned())
    }
}
