//! The controller of the [`Card`](super::card): phases, and chains.

use super::card::{BLOCKS, Card, Trouble};
use mmcq::host::{
    Auto, BusOp, BusyDetect, Caps, Cause, ChainCaps, ChainError, ChainEvents, ChainFault, ChainHost,
    Direction, DmaError, Events, Fault, Host, Phase, Segment, Stage, StartError, Step,
};
use mmcq::spec::response::{R1, Response};
use std::cell::RefCell;
use std::rc::Rc;

const BYTES: usize = 512;

pub struct CardHost {
    pub card: Rc<RefCell<Card>>,
    caps: Caps,
}

impl CardHost {
    pub fn new(card: &Rc<RefCell<Card>>) -> Self {
        CardHost { card: card.clone(), caps: card.borrow().caps }
    }
}

// SAFETY: memory is touched in `ack` alone, inside the segments of the phase that it ends.

unsafe impl Host for CardHost {
    const CONTINUES: bool = true;
    const EARLY_R1: bool = true;

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn map(&mut self, segment: &mut Segment, _: Direction) -> Result<(), DmaError> {
        segment.set_bus(segment.ptr().as_ptr() as u64);
        self.card.borrow_mut().mapped.push((segment.bus() as usize, segment.len_bytes()));
        Ok(())
    }

    fn unmap(&mut self, segment: &Segment, _: Direction) {
        let mapped = &mut self.card.borrow_mut().mapped;
        let at = mapped.iter().position(|&m| m == (segment.bus() as usize, segment.len_bytes()));
        mapped.remove(at.expect("unmapped what was never mapped"));
    }

    fn start(&mut self, phase: &Phase, segments: &[Segment], _: u64) -> Result<(), StartError> {
        let mut card = self.card.borrow_mut();
        assert!(card.running.is_none(), "{phase:?} started while {:?} runs", card.running);
        if card.resetting {
            return Err(StartError::CommandLine);
        }
        for s in segments {
            let inside = |&(at, len): &(usize, u32)| {
                s.bus() as usize >= at && s.bus() as usize + s.len_bytes() as usize <= at + len as usize
            };
            assert!(card.mapped.iter().any(inside), "segment is not mapped");
        }
        if let Some(data) = phase.data {
            let bytes: u32 = segments.iter().map(|s| s.len_bytes()).sum();
            assert_eq!(bytes, data.blocks * BYTES as u32, "segments do not make up the data");
            assert!(data.blocks <= self.caps.max_blocks, "more blocks than the controller takes");
            assert!(card.busy == 0 || card.lost, "data command to a busy card");
        }
        let nth = card.phases + 1;
        if card.plan.get(&nth) == Some(&Trouble::NoStart) {
            card.plan.remove(&nth);
            return Err(StartError::CommandLine);
        }
        card.phases = nth;
        if card.logs {
            let trouble = card.plan.get(&nth).copied();
            let (index, arg) = (phase.command.index, phase.command.arg);
            let blocks = phase.data.map_or(0, |data| data.blocks);
            card.say(|| format!("{nth}: CMD{index} {arg:#x} {blocks} {:?} {trouble:?}", phase.auto));
        }
        (card.running, card.looked, card.told) = (Some(*phase), false, 0);
        Ok(())
    }

    fn early_r1(&mut self) -> Option<u32> {
        let mut card = self.card.borrow_mut();
        let phase = card.running.filter(|phase| phase.data.is_some() && phase.auto != Auto::Continue)?;
        if !card.slow || !card.looked || card.lost || card.silent {
            return None;
        }
        // The end of the phase has the same R1 again.
        if card.told == 0 {
            card.told = card.r1(false);
            card.say(|| format!("early R1 of CMD{}", phase.command.index));
            card.heard(true);
        }
        Some(card.told)
    }

    fn ack(&mut self, segments: &[Segment]) -> Events {
        let mut card = self.card.borrow_mut();
        let presence = std::mem::take(&mut card.presence);
        let mut events = Events { presence, ..Events::default() };
        card.late = false;
        if card.silent || card.resetting || !card.present {
            return events;
        }
        let Some(phase) = card.running else { return events };
        let nth = card.phases;
        if card.slow && !card.looked && phase.data.is_some() && !card.plan.contains_key(&nth) {
            card.looked = true;
            return events;
        }
        let trouble = card.plan.get(&nth).copied();
        if trouble == Some(Trouble::Late) {
            card.plan.remove(&nth);
            card.late = true;
            return events;
        }
        match trouble {
            Some(Trouble::Brownout(false)) => {
                card.lose();
                card.lost = true;
            }
            Some(Trouble::Dropped(at)) => card.drop_one(at),
            Some(Trouble::Evicted(of)) => {
                for at in 0..BLOCKS {
                    if (at as u8).wrapping_add(of) % 2 == 0 {
                        card.medium[at] = card.seen[at];
                        card.volatile[at] = false;
                    }
                }
            }
            Some(Trouble::Retune) => events.retune = true,
            _ => {}
        }
        if let Some(Trouble::Silent(executed)) = trouble {
            if executed {
                let _ = card.execute(&phase, segments, None, self.caps.busy);
                card.heard(false);
            }
            card.silent = true;
            return events;
        }
        card.running = None;
        events.phase = Some(card.execute(&phase, segments, trouble, self.caps.busy));
        let heard = match &events.phase {
            Some(Ok(_)) => true,
            Some(Err(fault)) => fault.response.is_some(),
            None => false,
        };
        card.heard(heard);
        if trouble == Some(Trouble::Brownout(true)) {
            let before = std::mem::take(&mut card.notes);
            card.lose();
            card.lost = true;
            card.later = std::mem::replace(&mut card.notes, before);
        }
        events
    }

    fn chain(&mut self) -> Option<&mut dyn ChainHost> {
        Some(self)
    }

    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        let mut card = self.card.borrow_mut();
        if matches!(op, BusOp::ResetLines | BusOp::ResetAll) {
            if first {
                card.resetting = true;
                return Step::Wait(now_ns + 1_000);
            }
            card.resetting = false;
            (card.running, card.silent, card.late, card.passed) = (None, false, false, None);
            card.say(|| format!("{op:?}"));
        }
        Step::Done
    }

    fn dat0_busy(&self) -> bool {
        let mut card = self.card.borrow_mut();
        let busy = card.busy > 0;
        card.busy = card.busy.saturating_sub(1);
        card.rest();
        busy
    }

    fn present(&self) -> bool {
        self.card.borrow().present
    }
}

// SAFETY: as for the host.
unsafe impl ChainHost for CardHost {
    fn chain_caps(&mut self) -> Result<ChainCaps, ChainError> {
        if self.caps.busy != BusyDetect::Interrupt {
            return Err(ChainError::Transfer);
        }
        Ok(ChainCaps::NONE.entries(8).max_segments(8).max_bytes(65_536))
    }

    fn begin_chain(&mut self) -> bool {
        let mut card = self.card.borrow_mut();
        if card.passed.is_some() {
            return false;
        }
        card.chain.clear();
        true
    }

    fn describe_transfer(&mut self, phase: &Phase, segments: &[Segment]) -> Result<(), StartError> {
        let segments = segments.iter().map(|s| (s.ptr(), s.len_bytes())).collect();
        self.card.borrow_mut().chain.push((*phase, segments));
        Ok(())
    }

    fn start_chain(&mut self, _: u64) -> Result<(), StartError> {
        let mut card = self.card.borrow_mut();
        assert!(card.running.is_none() && card.passed.is_none());
        if card.resetting {
            return Err(StartError::CommandLine);
        }
        card.passed = Some(0);
        Ok(())
    }

    fn ack_chain(&mut self) -> ChainEvents {
        let mut card = self.card.borrow_mut();
        let presence = std::mem::take(&mut card.presence);
        let mut events = ChainEvents { presence, ..ChainEvents::default() };
        card.late = false;
        let Some(passed) = card.passed else { return events };
        if card.silent || card.resetting || !card.present {
            return events;
        }
        let nth = card.phases + 1;
        card.phases = nth;
        let (phase, memory) = card.chain[usize::from(passed)].clone();
        // SAFETY: memory that the engine lends until the chain ends.
        let segments: Vec<Segment> =
            memory.iter().map(|&(at, len)| unsafe { Segment::new(at, len, 0) }).collect();
        let mut trouble = card.plan.get(&nth).copied();
        let (index, arg) = (phase.command.index, phase.command.arg);
        card.say(|| format!("{nth}: link {passed}, CMD{index} {arg:#x} {:?} {trouble:?}", phase.auto));
        match trouble {
            Some(Trouble::Silent(_)) => {
                card.silent = true;
                return events;
            }
            Some(Trouble::Brownout(_)) => {
                card.lose();
                card.lost = true;
            }
            Some(Trouble::Dropped(at)) => card.drop_one(at),
            _ => {}
        }
        let bad = card.errors != 0;
        if bad {
            trouble = Some(Trouble::Data(0, Cause::Response, true));
        }
        let result = card.execute(&phase, &segments, trouble, self.caps.busy);
        let fault = match result {
            Err(mut fault) => {
                if bad {
                    fault.stage = Stage::Command;
                }
                Some(fault)
            }
            Ok(done) => (done.stop.unwrap_or(0) & R1::ERRORS != 0).then_some(Fault {
                cause: Cause::Response,
                stage: Stage::Stop,
                response: done.stop.map(Response::short),
            }),
        };
        card.heard(fault.is_none_or(|fault| fault.response.is_some()));
        if let Some(fault) = fault {
            let named = !card.draw().is_multiple_of(3);
            events.end = Some(Err(ChainFault { fault, passed: named.then_some(passed) }));
            card.passed = None;
        } else if usize::from(passed) + 1 == card.chain.len() {
            events.end = Some(Ok(()));
            card.passed = None;
        } else {
            card.passed = Some(passed + 1);
        }
        events
    }

    fn passed(&mut self) -> Option<u8> {
        self.card.borrow().passed
    }
}
