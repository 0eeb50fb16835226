//! Commands that only eMMC has, or that have another meaning on SD [eMMC 6.10.4].

use super::{Command, Resp, rca_arg};

/// CMD0 with argument 0xf0f0f0f0 `GO_PRE_IDLE_STATE`: resets the device to its boot state
/// [eMMC 6.3.1].
pub const fn go_pre_idle_state() -> Command {
    Command::new(0, 0xf0f0_f0f0, Resp::None)
}

/// CMD0 with argument 0xfffffffa `BOOT_INITIATION`: starts the alternative boot operation
/// [eMMC 6.3.4].
pub const fn boot_initiation() -> Command {
    Command::new(0, 0xffff_fffa, Resp::None)
}

/// CMD1 `SEND_OP_COND`: sends the voltage window in OCR bits 23:7; 0 only inquires the OCR.
/// `sector_mode` says that the host uses sector addresses, which devices over 2 GB need
/// [eMMC 6.4.2].
pub const fn send_op_cond(voltages: u32, sector_mode: bool) -> Command {
    let mode = if sector_mode { 1 << 30 } else { 0 };
    Command::new(1, voltages & 0x00ff_ff80 | mode, Resp::R3)
}

/// CMD3 `SET_RELATIVE_ADDR`: the host assigns the RCA; 0 is reserved [eMMC 6.4.4].
pub const fn set_relative_addr(rca: u16) -> Command {
    Command::new(3, rca_arg(rca), Resp::R1)
}

/// CMD5 `SLEEP_AWAKE`: switches the device from stand-by to sleep, or back [eMMC 6.6.21].
pub const fn sleep_awake(rca: u16, sleep: bool) -> Command {
    Command::new(5, rca_arg(rca) | (sleep as u32) << 15, Resp::R1b)
}

/// The operation of CMD6 on a byte of EXT_CSD [eMMC 6.10.4].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchMode {
    /// Changes the command set; CMD6 ignores index and value.
    CommandSet,
    /// Sets the bits that are 1 in the value.
    SetBits,
    /// Clears the bits that are 1 in the value.
    ClearBits,
    /// Writes the value into the byte.
    WriteByte,
}

/// CMD6 `SWITCH`: changes one byte of EXT_CSD, or the command set (3 bits) [eMMC 6.10.4].
pub const fn switch(access: SwitchMode, index: u8, value: u8, set: u8) -> Command {
    let arg = (access as u32) << 24 | (index as u32) << 16 | (value as u32) << 8 | (set & 7) as u32;
    Command::new(6, arg, Resp::R1b)
}

/// CMD8 `SEND_EXT_CSD`: the device sends the 512 bytes of [`ExtCsd`](crate::spec::ext_csd::ExtCsd)
/// [eMMC 7.4].
pub const fn send_ext_csd() -> Command {
    Command::new(8, 0, Resp::R1)
}

/// CMD12 `STOP_TRANSMISSION` as high-priority interrupt (HPI) to the device with the address `rca`,
/// on devices that use CMD12 for it [eMMC 6.10.4].
pub const fn stop_transmission_hpi(rca: u16) -> Command {
    Command::new(12, rca_arg(rca) | 1, Resp::R1b)
}

/// CMD13 `SEND_STATUS` as high-priority interrupt (HPI) to the device with the address `rca`, on
/// devices that use CMD13 for it [eMMC 6.10.4].
pub const fn send_status_hpi(rca: u16) -> Command {
    Command::new(13, rca_arg(rca) | 1, Resp::R1)
}

/// CMD14 `BUSTEST_R`: the device sends back the pattern of CMD19, inverted [eMMC 6.6.4].
pub const fn bustest_r() -> Command {
    Command::new(14, 0, Resp::R1)
}

/// CMD19 `BUSTEST_W`: the host sends a test pattern on all data lines [eMMC 6.6.4].
pub const fn bustest_w() -> Command {
    Command::new(19, 0, Resp::R1)
}

/// CMD21 `SEND_TUNING_BLOCK`: the device sends 128 bytes on eight data lines, 64 on four
/// [eMMC 6.6.5].
pub const fn send_tuning_block() -> Command {
    Command::new(21, 0, Resp::R1)
}

/// Parameters of CMD23 [eMMC 6.10.4].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCount {
    /// Number of blocks; for a packed command the sum of all entries and the header.
    pub blocks: u16,
    /// Whether the write is reliable: a power failure leaves old or new data [eMMC 6.10.4].
    pub reliable: bool,
    /// Forced programming: whether the device writes the data to the flash, not only to its cache
    /// [eMMC 6.6.31].
    pub forced: bool,
    /// Context ID, 1 to 15; 0 for none [eMMC 6.10.4].
    pub context: u8,
    /// Data tag: whether the device keeps the data in its faster part [eMMC 6.10.4].
    pub tag: bool,
}

/// CMD23 `SET_BLOCK_COUNT`: length and flags of the CMD18 or CMD25 that follows [eMMC 6.10.4].
pub const fn set_block_count(count: BlockCount) -> Command {
    Command::new(
        23,
        flags_arg(count.reliable, count.tag, count.context, count.forced) | count.blocks as u32,
        Resp::R1,
    )
}

/// CMD23 `SET_BLOCK_COUNT` for a packed command; the flags are then in the entries of its header
/// [eMMC 6.6.29].
pub const fn set_packed_count(blocks: u16) -> Command {
    Command::new(23, 1 << 30 | blocks as u32, Resp::R1)
}

/// Returns the argument bits of the flags that CMD23 and CMD44 share: reliable write (`reliable`,
/// bit 31), data tag (`tag`, bit 29), context ID (`context`, bits 28:25, 0 for none), forced
/// programming (`forced`, bit 24).
const fn flags_arg(reliable: bool, tag: bool, context: u8, forced: bool) -> u32 {
    (reliable as u32) << 31 | (tag as u32) << 29 | ((context & 0xf) as u32) << 25 | (forced as u32) << 24
}

/// CMD26 `PROGRAM_CID`: the manufacturer writes the CID, which is possible only one time; 16 bytes
/// of data follow [eMMC 6.10.4].
pub const fn program_cid() -> Command {
    Command::new(26, 0, Resp::R1)
}

/// CMD31 `SEND_WRITE_PROT_TYPE`: the device sends two protection bits for each of 32 groups, 8
/// bytes of data [eMMC 6.10.4].
pub const fn send_write_prot_type(addr: u32) -> Command {
    Command::new(31, addr, Resp::R1)
}

/// CMD35 `ERASE_GROUP_START`: sets the first address to erase [eMMC 6.10.4].
pub const fn erase_group_start(addr: u32) -> Command {
    Command::new(35, addr, Resp::R1)
}

/// CMD36 `ERASE_GROUP_END`: sets the last address to erase, inclusive [eMMC 6.10.4].
pub const fn erase_group_end(addr: u32) -> Command {
    Command::new(36, addr, Resp::R1)
}

/// The operation of CMD38 on the range [eMMC 6.10.4].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmmcErase {
    /// Erases whole erase groups.
    Erase,
    /// Trims write blocks, which then read as erased.
    Trim,
    /// Discards write blocks, which may then read as anything.
    Discard,
    /// Erases erase groups and all copies of their data, before the busy ends.
    SecureErase,
    /// Marks write blocks for the second step of a secure trim.
    SecureTrim1,
    /// Erases the marked write blocks and all copies of their data.
    SecureTrim2,
}

/// CMD38 `ERASE`: erases the range of CMD35 and CMD36 [eMMC 6.10.4].
pub const fn erase(kind: EmmcErase) -> Command {
    let arg = match kind {
        EmmcErase::Erase => 0,
        EmmcErase::Trim => 1,
        EmmcErase::Discard => 3,
        EmmcErase::SecureErase => 0x8000_0000,
        EmmcErase::SecureTrim1 => 0x8000_0001,
        EmmcErase::SecureTrim2 => 0x8000_8000,
    };
    Command::new(38, arg, Resp::R1b)
}

/// CMD39 `FAST_IO`: reads an 8-bit register (address 7 bits), or writes `data` to it [eMMC 6.6.20].
///
/// The standard calls the response R4. It has a CRC, unlike SDIO's R4, so its form is [`Resp::R5`].
pub const fn fast_io(rca: u16, register: u8, data: Option<u8>) -> Command {
    let write = match data {
        Some(byte) => 1 << 15 | byte as u32,
        None => 0,
    };
    Command::new(39, rca_arg(rca) | ((register & 0x7f) as u32) << 8 | write, Resp::R5)
}

/// CMD40 `GO_IRQ_STATE`: the device sends the response when it has an event [eMMC 6.5].
pub const fn go_irq_state() -> Command {
    Command::new(40, 0, Resp::R5)
}

/// The first half of a queued task's description, for CMD44 [eMMC 6.6.39].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmmcTask {
    /// Task number, 0 to 31.
    pub id: u8,
    /// Number of blocks of 512 bytes.
    pub blocks: u16,
    /// Whether the task reads from the device; otherwise it writes.
    pub read: bool,
    /// Whether the device executes the task before tasks of simple priority.
    pub priority: bool,
    /// Whether the write is reliable: a power failure leaves old or new data.
    pub reliable: bool,
    /// Forced programming: whether the device writes the data to the flash, not only to its cache.
    pub forced: bool,
    /// Context ID, 1 to 15; 0 for none.
    pub context: u8,
    /// Data tag: whether the device keeps the data in its faster part.
    pub tag: bool,
}

/// Returns a task's number, 0 to 31, in bits 20:16.
const fn task_arg(task: u8) -> u32 {
    ((task & 0x1f) as u32) << 16
}

/// CMD44 `QUEUED_TASK_PARAMS`: sends direction, length, flags and number of a task [eMMC 6.6.39].
pub const fn queued_task_params(task: EmmcTask) -> Command {
    let arg = flags_arg(task.reliable, task.tag, task.context, task.forced)
        | (task.read as u32) << 30
        | (task.priority as u32) << 23
        | task_arg(task.id)
        | task.blocks as u32;
    Command::new(44, arg, Resp::R1)
}

/// CMD45 `QUEUED_TASK_ADDRESS`: sends the address of the task that the last CMD44 named
/// [eMMC 6.6.39].
pub const fn queued_task_address(addr: u32) -> Command {
    Command::new(45, addr, Resp::R1)
}

/// CMD46 `EXECUTE_READ_TASK`: the device sends the data of a read task that is ready [eMMC 6.6.39].
pub const fn execute_read_task(task: u8) -> Command {
    Command::new(46, task_arg(task), Resp::R1)
}

/// CMD47 `EXECUTE_WRITE_TASK`: the host sends the data of a write task that is ready [eMMC 6.6.39].
pub const fn execute_write_task(task: u8) -> Command {
    Command::new(47, task_arg(task), Resp::R1)
}

/// The operation of CMD48 on the queue [eMMC 6.6.39].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmmcQueueOp {
    /// Discards all tasks.
    DiscardAll,
    /// Discards one task, 0 to 31.
    Discard(u8),
}

/// CMD48 `CMDQ_TASK_MGMT`: removes tasks from the device's queue [eMMC 6.6.39].
pub const fn cmdq_task_mgmt(op: EmmcQueueOp) -> Command {
    let arg = match op {
        EmmcQueueOp::DiscardAll => 1,
        EmmcQueueOp::Discard(task) => task_arg(task) | 2,
    };
    Command::new(48, arg, Resp::R1b)
}

/// CMD49 `SET_TIME`: the host sends 512 bytes with the value of the real-time clock [eMMC 6.6.35].
pub const fn set_time() -> Command {
    Command::new(49, 0, Resp::R1)
}

/// CMD53 `PROTOCOL_RD`: the device sends data of the security protocol with the number `protocol`.
/// `specific` is a field whose meaning that protocol defines [eMMC 6.10.4].
pub const fn protocol_rd(specific: u16, protocol: u8) -> Command {
    Command::new(53, rca_arg(specific) | (protocol as u32) << 8, Resp::R1)
}

/// CMD54 `PROTOCOL_WR`: the host sends data of the security protocol with the number `protocol`.
/// `specific` is a field whose meaning that protocol defines [eMMC 6.10.4].
pub const fn protocol_wr(specific: u16, protocol: u8) -> Command {
    Command::new(54, rca_arg(specific) | (protocol as u32) << 8, Resp::R1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switch_and_power_arguments() {
        // Writes 1 to HS_TIMING (185), as every host sends it.
        assert_eq!(switch(SwitchMode::WriteByte, 185, 1, 0).arg, 0x03b9_0100);
        assert_eq!(switch(SwitchMode::SetBits, 175, 1, 1).arg, 0x01af_0101);
        assert_eq!(sleep_awake(1, true).arg, 0x0001_8000);
        assert_eq!(send_op_cond(0x00ff_8080, true).arg, 0x40ff_8080);
        assert_eq!(send_op_cond(0, false).arg, 0);
        assert_eq!(stop_transmission_hpi(1).arg, 0x0001_0001);
        assert_eq!(fast_io(1, 0x12, Some(0x34)).arg, 0x0001_9234);
        assert_eq!(fast_io(1, 0x12, None).arg, 0x0001_1200);
    }

    #[test]
    fn count_and_task_arguments() {
        let count = BlockCount { blocks: 8, reliable: true, forced: true, context: 0x1f, tag: true };
        assert_eq!(set_block_count(count).arg, 0xbf00_0008);
        assert_eq!(set_packed_count(9).arg, 0x4000_0009);
        let task = EmmcTask { id: 3, blocks: 8, read: true, priority: true, ..EmmcTask::default() };
        assert_eq!(queued_task_params(task).arg, 0x4083_0008);
        assert_eq!(cmdq_task_mgmt(EmmcQueueOp::DiscardAll).arg, 1);
        assert_eq!(cmdq_task_mgmt(EmmcQueueOp::Discard(3)).arg, 0x0003_0002);
        assert_eq!(execute_write_task(3).arg, 0x0003_0000);
        assert_eq!(protocol_rd(0x1234, 0x56).arg, 0x1234_5600);
    }
}
