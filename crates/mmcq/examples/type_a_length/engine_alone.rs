//! Nothing but the engine: the same phases in the same order, from a list; no response is looked at.

use super::card::{Card, PAYLOAD_BYTES};
use super::steps;
use mmcq::engine::{Config, DmaBuf, Engine, Kind, Request, SlotId};
use mmcq::sdio::bluetooth::HEADER_BYTES;

pub struct Loop {
    engine: Engine<Card, 4>,
    kinds: Vec<Kind>,
    next: usize,
    id: Option<SlotId>,
    buf: DmaBuf,
    pub packets: u64,
}

impl Loop {
    pub fn new(buf: DmaBuf, fast: bool) -> Self {
        let mut engine = Engine::new(Card::new(), Config::DEFAULT);
        engine.unmask_card_irq();
        let mut kinds = vec![
            steps::pending(),
            steps::interrupt(),
            steps::clear(),
            steps::data(HEADER_BYTES),
            steps::data(PAYLOAD_BYTES),
            steps::answer(false),
        ];
        if fast {
            kinds.remove(0);
        }
        Loop { engine, kinds, next: 0, id: None, buf, packets: 0 }
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
        let Some(&kind) = self.kinds.get(self.next) else {
            (self.next, self.packets) = (0, self.packets + 1);
            self.engine.take_card_irq();
            return self.engine.unmask_card_irq();
        };
        self.next += 1;
        let data = matches!(kind, Kind::Io { phase, .. } if phase.data.is_some());
        let buf = if data { core::mem::replace(&mut self.buf, DmaBuf::EMPTY) } else { DmaBuf::EMPTY };
        self.id = Some(self.engine.submit(Request::new(kind, buf), 0).expect("a free slot"));
    }
}
