//! Task descriptors of the command queue engine, as they are in memory.

use super::bits::DIRECT_SLOT;

const VALID: u32 = 1;
const END: u32 = 1 << 1;
const INT: u32 = 1 << 2;
const ACT: u32 = 0x38;
const ACT_TASK: u32 = 0x28;
const QUEUE_BARRIER: u32 = 1 << 14;

/// What the task of a slot does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The task transfers data, by CMD46 or CMD47.
    Data {
        read: bool,
        blocks: u16,
        /// Argument of the CMD44 that describes the task: direction, number of blocks and flags.
        how: u32,
        /// Argument of CMD45 for the task.
        address: u32,
    },
    /// The task sends a command that the driver has chosen (direct command).
    Direct {
        index: u8,
        arg: u32,
        /// Whether the response is an R1 or an R1b; otherwise the command has no response.
        answered: bool,
        /// Whether the response is an R1b.
        busy: bool,
        /// Whether the command waits until the data lines are idle.
        waits: bool,
    },
}

/// A parsed task descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    pub work: Work,
    /// Whether the completion of the task interrupts at once (bit Int).
    pub interrupts: bool,
    /// Whether the task is a barrier: executed after all tasks before it, and before all tasks
    /// after it.
    pub barrier: bool,
}

impl Task {
    /// Parses the task descriptor `raw` of a slot. `direct`: the driver has enabled direct commands
    /// in slot 31. `Err` says what is wrong with the descriptor.
    pub fn parse(slot: u8, direct: bool, raw: u64) -> Result<Task, &'static str> {
        let (low, high) = (raw as u32, (raw >> 32) as u32);
        if low & VALID == 0 {
            return Err("a doorbell of a task descriptor that is not valid");
        }
        if low & ACT != ACT_TASK || low & END == 0 {
            return Err("a task descriptor without the attributes of one");
        }
        let work = if direct && slot == DIRECT_SLOT {
            let response = low >> 23 & 3;
            if response == 1 {
                return Err("a direct command with a reserved response type");
            }
            Work::Direct {
                index: (low >> 16 & 0x3f) as u8,
                arg: high,
                answered: response != 0,
                busy: response == 3,
                waits: low >> 22 & 1 == 0,
            }
        } else {
            let bit = |from: u32, to: u32| (low >> from & 1) << to;
            let blocks = (low >> 16) as u16;
            if blocks == 0 {
                return Err("a task of no blocks");
            }
            Work::Data {
                read: low >> 12 & 1 == 1,
                blocks,
                how: bit(15, 31)
                    | bit(12, 30)
                    | bit(11, 29)
                    | (low >> 7 & 0xf) << 25
                    | bit(6, 24)
                    | bit(13, 23)
                    | u32::from(slot) << 16
                    | u32::from(blocks),
                address: high,
            }
        };
        Ok(Task { work, interrupts: low & INT != 0, barrier: low & QUEUE_BARRIER != 0 })
    }
}

/// Place of the transfer descriptors of a task, as the descriptor after the task descriptor gives
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// The transfer descriptors are in a list at this address.
    List(u64),
    /// The descriptor after the task descriptor is the only transfer descriptor.
    Here,
}

impl Link {
    /// Parses the descriptor that follows the task descriptor; `None` if it is not valid. `wide`:
    /// addresses have 64 bits.
    pub fn parse(raw: &[u8; 16], wide: bool) -> Option<Link> {
        let word = |at: usize| u32::from_le_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        let head = word(0);
        if head & VALID == 0 {
            return None;
        }
        match head & ACT {
            0x30 => {
                let high = if wide { u64::from(word(8)) << 32 } else { 0 };
                Some(Link::List(u64::from(word(4)) | high))
            }
            0x20 => Some(Link::Here),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_says_what_goes_into_cmd44() {
        // Reliable write, direction write, tagged data, context 5, forced programming, priority: 8
        // blocks.
        let raw = 0x0000_1234_0008_0000 | 1 << 15 | 1 << 13 | 1 << 11 | 5 << 7 | 1 << 6 | 0x2b;
        let task = Task::parse(3, true, raw).unwrap();
        let how = 1 << 31 | 1 << 29 | 5 << 25 | 1 << 24 | 1 << 23 | 3 << 16 | 8;
        assert_eq!(task.work, Work::Data { read: false, blocks: 8, how, address: 0x1234 });
        assert!(!task.interrupts && !task.barrier);
        let read = Task::parse(3, true, 0x0001_0000 | 1 << 14 | 1 << 12 | 0x2f).unwrap();
        assert_eq!(read.work, Work::Data { read: true, blocks: 1, how: 0x4003_0001, address: 0 });
        assert!(read.interrupts && read.barrier);
    }

    #[test]
    fn slot_31_is_a_command_where_it_is_one() {
        // CMD6 with an R1b response.
        let raw = 0x0320_0100_0000_0000 | 3 << 23 | 6 << 16 | 0x402f;
        let direct = Task::parse(31, true, raw).unwrap();
        let work = Work::Direct { index: 6, arg: 0x0320_0100, answered: true, busy: true, waits: true };
        assert_eq!((direct.work, direct.barrier), (work, true));
        assert!(matches!(Task::parse(31, false, raw).unwrap().work, Work::Data { .. }));
        assert!(Task::parse(31, true, 1 << 23 | 0x2b).is_err());
    }

    #[test]
    fn what_is_no_task_is_refused() {
        for raw in [0, 0x0001_002a, 0x0001_0029, 0x0001_0023, 0x2b] {
            assert!(Task::parse(0, false, raw).is_err(), "{raw:#x}");
        }
    }
}
