//! Writes the descriptors of a chain (several transfers in one ADMA3 list), starts the chain, and
//! handles its end.

use super::super::events::{ACKNOWLEDGED, RARE, decode};
use super::super::phase::{Automatic, Work};
use super::super::regs::*;
use super::list::Words;
use super::{Adma3, At, ChainList};
use crate::host::{
    Auto, Cause, ChainEvents, ChainFault, Direction, Dma, Events, Fault, Phase, Regs, Segment, Stage,
    StartError,
};
use crate::spec::command::Resp;
use crate::spec::response::Response;
use core::ptr::NonNull;

impl<R: Regs, D: Dma, const DESCRIPTORS: usize, const ENTRIES: usize, const PIECES: usize>
    Adma3<R, D, DESCRIPTORS, ENTRIES, PIECES>
{
    pub(super) fn describe(&mut self, phase: &Phase, segments: &[Segment]) -> Result<(), StartError> {
        let wrong = StartError::Unsupported;
        let caps = self.caps.map_err(|_| wrong)?;
        let (Some(data), Resp::R1, At::Rest) = (&phase.data, phase.command.resp, self.at) else {
            return Err(wrong);
        };
        let bytes = data.blocks.checked_mul(data.block_size.into()).ok_or(wrong)?;
        let fits = bytes > 0 && bytes <= caps.max_bytes && data.blocks <= 0xffff;
        let plain = !phase.tuning && data.block_size <= self.host.model.max_block_bytes;
        let (auto, count, way) = match phase.auto {
            Auto::Count(argument) if self.host.caps.auto_count => {
                (Automatic::Count, argument, MODE_AUTO_CMD23)
            }
            Auto::Stop if self.host.caps.auto_stop => (Automatic::Stop, data.blocks, MODE_AUTO_CMD12),
            _ => return Err(wrong),
        };
        if !fits || !plain || !self.by_dma(segments) || self.count >= caps.entries {
            return Err(wrong);
        }
        let read = if data.direction == Direction::Read { MODE_READ } else { 0 };
        let mode = way
            | read
            | MODE_MULTI
            | MODE_DMA
            | MODE_BLOCK_COUNT
            | MODE_RESPONSE_CHECK
            | MODE_NO_COMMAND_COMPLETE;
        let command = self.host.command_bits(&phase.command) | COMMAND_DATA;
        let words = Words {
            count,
            block: u32::from(data.block_size | BOUNDARY_512K) | data.blocks << 16,
            argument: phase.command.arg,
            command: u32::from(command) << 16 | u32::from(mode),
        };
        let place = usize::from(self.count);
        let form = self.host.model.form;
        let used = self.list.describe(form, &self.host.dma, place, words, segments, bytes).ok_or(wrong)?;
        if let Some((bus, memory)) = self.list.transfer(self.list_bus, place) {
            self.host.dma.sync(bus, NonNull::from(memory).cast(), used);
        }
        self.count += 1;
        self.writes |= data.direction == Direction::Write;
        self.auto = auto;
        Ok(())
    }

    pub(super) fn start_list(&mut self, timeout_ns: u64) -> Result<(), StartError> {
        let (At::Rest, 1.., Ok(_)) = (self.at, self.count, self.caps) else {
            return Err(StartError::Unsupported);
        };
        if !self.host.idle {
            self.host.check_lines(true)?;
        }
        let wide = self.host.model.wide;
        for place in 0..self.count {
            // Each transfer has its own place in the list; only the last one has the End bit.
            let place = usize::from(place);
            self.list.point(wide, place, self.list_bus, place + 1 == usize::from(self.count));
        }
        let used = u32::from(self.count) * ChainList::<ENTRIES, PIECES>::step(wide);
        self.host.dma.sync(self.list_bus, NonNull::from(&mut *self.list).cast(), used as usize);
        self.host.select_adma3();
        self.host.set_timeout(timeout_ns);
        self.host.set_signal(self.host.shadow.base_signal | INT_TRANSFER);
        (self.host.idle, self.at) = (false, At::Runs);
        if self.host.table_bus >> 32 != self.list_bus >> 32 {
            // The controller changes the upper half of the address register itself. A chain that
            // fails leaves its own value there, and no reset of the lines clears it.
            (self.host.shadow.fast_blocks, self.host.shadow.adma_high) = (0, None);
        }
        // Point the ADMA address outside of the list, so that an address left by the last chain is
        // not taken for progress of this one.
        self.host.port.write32(ADMA_ADDRESS, self.host.table_bus as u32);
        self.host.port.write32(ADMA3_ADDRESS, self.list_bus as u32);
        if wide {
            self.host.port.write32(ADMA3_ADDRESS_HIGH, (self.list_bus >> 32) as u32);
        }
        Ok(())
    }

    pub(super) fn take_end(&mut self) -> ChainEvents {
        let mut events = ChainEvents::default();
        let status = self.host.port.read32(INT_STATUS);
        if status == u32::MAX && self.host.present_state().is_none() {
            // A controller that is off the bus accesses no memory.
            if self.at == At::Runs {
                self.at = At::Rest;
                let fault = Fault { cause: Cause::Gone, stage: Stage::Data, response: None };
                events.end = Some(Err(ChainFault { fault, passed: None }));
            }
            return events;
        }
        let auto_status = self.host.auto_status(status);
        if status & ACKNOWLEDGED != 0 {
            self.host.port.write32(INT_STATUS, status & ACKNOWLEDGED);
        }
        if status & RARE != 0 {
            let mut rare = Events::default();
            self.host.take_rare(status, &mut rare);
            (events.card_irq, events.presence, events.retune) = (rare.card_irq, rare.presence, rare.retune);
        }
        if self.at != At::Runs {
            return events;
        }
        // If Transfer Complete is also set, Data Timeout is ignored [SDHC 2.2.17].
        let overruled = if status & INT_TRANSFER != 0 { ERROR_DATA_TIMEOUT } else { 0 };
        let errors = status & ERRORS & self.host.shadow.enable & !overruled;
        if errors != 0 {
            events.end = Some(Err(self.stopped(errors, auto_status)));
        } else if status & INT_TRANSFER != 0 {
            events.end = Some(self.ended());
        }
        events
    }

    /// Checks by two address registers that the controller has executed the whole list, and ends
    /// the chain. A controller that ends the list after an earlier transfer also reports success.
    fn ended(&mut self) -> Result<(), ChainFault> {
        if self.stands_at() != Some((self.count, self.count.wrapping_sub(1))) {
            self.at = At::Stopped;
            let fault = Fault { cause: Cause::Other, stage: Stage::Data, response: None };
            return Err(ChainFault { fault, passed: None });
        }
        (self.at, self.host.idle, self.host.programs) = (At::Rest, true, self.writes);
        Ok(())
    }

    #[cold]
    fn stopped(&mut self, errors: u32, auto_status: u16) -> ChainFault {
        self.at = At::Stopped;
        let (cause, stage) = decode(Work::Adma, self.auto, errors, auto_status);
        let passed = self.behind();
        let unanswered = errors & ERRORS_COMMAND != 0;
        let told = match (stage, cause) {
            _ if unanswered || passed.is_none() => None,
            (Stage::Count | Stage::Stop, Cause::Response) => Some(RESPONSE_3),
            (Stage::Count | Stage::Stop, _) => None,
            _ => Some(RESPONSE_0),
        };
        let response = told.map(|register| Response::short(self.host.port.read32(register)));
        ChainFault { fault: Fault { cause, stage, response }, passed }
    }

    /// Returns where the controller stands in the list: the number of the next integrated
    /// descriptor, and the number of the transfer whose ADMA2 descriptors were read last. Only the
    /// lower halves of the addresses are compared, because the list does not cross 4 GiB.
    fn stands_at(&self) -> Option<(u8, u8)> {
        let step = ChainList::<ENTRIES, PIECES>::step(self.host.model.wide);
        let list = self.host.port.read32(ADMA3_ADDRESS).wrapping_sub(self.list_bus as u32);
        let table = self.host.port.read32(ADMA_ADDRESS);
        let next = u8::try_from(list / step).ok().filter(|_| list.is_multiple_of(step))?;
        Some((next, ChainList::<ENTRIES, PIECES>::transfer_of(self.list_bus, table)?))
    }

    /// Returns the number of transfers that have ended when the list has stopped, from the two
    /// numbers of [`stands_at`](Self::stands_at). Some controllers advance a register when they
    /// read a descriptor, others when its transfer has ended, so the smaller number counts. `None`
    /// if the two numbers contradict each other.
    pub(super) fn behind(&self) -> Option<u8> {
        if self.at == At::Rest {
            return None;
        }
        let (next, last) = self.stands_at()?;
        let together = last < self.count && (next == last || next == last + 1);
        together.then_some(last)
    }
}
