//! The engine without a driver: submits the phases of the Bluetooth Type-A driver in their order,
//! one after the other, and checks no response.

use super::card::{Card, PAYLOAD_BYTES};
use super::steps;
use mmcq::engine::{Config, DmaBuf, Engine, Kind, Request, SlotId};
use mmcq::sdio::bluetooth::HEADER_BYTES;

pub struct Loop {
    engine: Engine<Card, 4>,
    first: u8,
    next: u8,
    id: Option<SlotId>,
    buf: DmaBuf,
    pub packets: u64,
}

impl Loop {
    pub fn new(buf: DmaBuf, fast: bool) -> Self {
        let mut engine = Engine::new(Card::new(), Config::DEFAULT);
        engine.unmask_card_irq();
        let first = u8::from(fast);
        Loop { engine, first, next: first, id: None, buf, packets: 0 }
    }

    pub fn on_irq(&mut self) {
        let work = self.engine.on_irq(0);
        if let Some(id) = self.id.take()
            && let Some(done) = self.engine.take(id)
            && done.buf.len_bytes() > 0
        {
            self.buf = done.buf;
        }
        if !work.card_irq {
            return;
        }
        let kind = match self.next {
            0 => steps::pending(),
            1 => steps::interrupt(),
            2 => steps::clear(),
            3 => return self.submit_data(HEADER_BYTES),
            4 => return self.submit_data(PAYLOAD_BYTES),
            5 => steps::answer(false),
            _ => {
                (self.next, self.packets) = (self.first, self.packets + 1);
                self.engine.take_card_irq();
                return self.engine.unmask_card_irq();
            }
        };
        self.submit(kind, DmaBuf::EMPTY);
    }

    fn submit_data(&mut self, bytes: u32) {
        let buf = core::mem::replace(&mut self.buf, DmaBuf::EMPTY);
        self.submit(steps::data(bytes), buf);
    }

    fn submit(&mut self, kind: Kind, buf: DmaBuf) {
        self.next += 1;
        self.id = Some(self.engine.submit(Request::new(kind, buf), 0).expect("a free slot"));
    }
}
