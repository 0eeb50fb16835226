//! Starts tasks of the command queue engine, and its direct commands (commands that it sends
//! through slot 31 and that are no tasks).

use super::regs::*;
use super::{At, Cqhci, CqhciQuirks, TaskList};
use crate::host::{Direction, Dma, QueueError, Regs, Segment, Task};
use crate::spec::command::{Command, Resp};

const BLOCK_BYTES: u32 = 512;

impl<R: Regs, D: Dma, const DESCRIPTORS: usize, const PIECES: usize> Cqhci<R, D, DESCRIPTORS, PIECES> {
    /// Checks that the slot exists and is free; returns its bit.
    #[inline]
    fn check_slot(&self, slot: u8) -> Result<u32, QueueError> {
        let bit = 1u32.checked_shl(slot.into()).ok_or(QueueError::Slot(slot))?;
        if self.slots.rung & bit != 0 {
            return Err(QueueError::Occupied(bit));
        }
        Ok(bit)
    }

    #[inline]
    pub(super) fn describe_task(
        &mut self,
        slot: u8,
        task: &Task,
        segments: &[Segment],
    ) -> Result<(), QueueError> {
        match &self.caps {
            Ok(caps) if slot < caps.depth => {}
            Ok(_) => return Err(QueueError::Slot(slot)),
            &Err(why) => return Err(why),
        }
        let bit = self.check_slot(slot)?;
        // An earlier description of the slot is forgotten, even if this one is refused.
        self.slots.prepared &= !bit;
        if task.blocks == 0 || task.context > 15 {
            return Err(QueueError::Unsupported);
        }
        let bytes = u32::from(task.blocks) * BLOCK_BYTES;
        if !self.by_dma(segments) {
            return Err(QueueError::Memory);
        }
        let used =
            self.list.build(&self.form, &self.host.dma, slot, segments, bytes).ok_or(QueueError::Memory)?;
        let way = if task.direction == Direction::Read { TASK_READ } else { 0 };
        // Without coalescing the end of each task interrupts at once; some engines raise the
        // interrupt only for tasks with this bit.
        let tells = if self.coalesces { 0 } else { INT };
        let head = VALID
            | END
            | ACT_TASK
            | tells
            | way
            | task.flags.bits()
            | u32::from(task.context) << TASK_CONTEXT_SHIFT
            | u32::from(task.blocks) << TASK_BLOCKS_SHIFT;
        self.list.describe(&self.form, slot, head, task.address);
        let pieces_at = TaskList::<PIECES>::PIECES_AT + usize::from(slot) * TaskList::<PIECES>::SLOT_BYTES;
        self.sync(pieces_at, used);
        let (at, bytes) = self.form.task_at(slot);
        self.sync(at, bytes);
        self.slots.prepared |= bit;
        Ok(())
    }

    pub(super) fn describe_command(&mut self, command: &Command, barrier: bool) -> Result<(), QueueError> {
        let slot = self.caps?.direct.ok_or(QueueError::Slot(DIRECT_SLOT))?;
        let bit = self.check_slot(slot)?;
        // An earlier description of the slot is forgotten, even if this one is refused.
        self.slots.prepared &= !bit;
        let response = match command.resp {
            Resp::None => COMMAND_BESIDE,
            Resp::R1 => COMMAND_R1 | COMMAND_BESIDE,
            Resp::R1b if self.config.quirks.has(CqhciQuirks::DIRECT_BUSY_BESIDE) => {
                COMMAND_R1B | COMMAND_BESIDE
            }
            Resp::R1b => COMMAND_R1B,
            _ => return Err(QueueError::Unsupported),
        };
        let barrier = if barrier { crate::host::TaskFlags::BARRIER.bits() } else { 0 };
        let index = u32::from(command.index & 0x3f) << TASK_BLOCKS_SHIFT;
        let head = VALID | END | INT | ACT_TASK | barrier | index | response;
        self.list.describe(&self.form, slot, head, command.arg);
        let (at, bytes) = self.form.task_at(slot);
        self.sync(at, bytes);
        self.slots.prepared |= bit;
        Ok(())
    }

    #[inline]
    pub(super) fn ring_doorbells(&mut self, slots: u32) -> u32 {
        let rung = slots & self.slots.prepared;
        if self.at != At::On || rung == 0 {
            return 0;
        }
        self.slots.prepared &= !rung;
        self.slots.rung |= rung;
        self.write(TDBR, rung);
        rung
    }
}
