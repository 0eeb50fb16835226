//! Commands that only eMMC has, or that mean something else on SD [eMMC 6.10.4].

use super::{Command, Resp, rca_arg};

/// CMD0 with argument 0xf0f0f0f0 `GO_PRE_IDLE_STATE`: back to the boot state [eMMC 6.3.1].
pub const fn go_pre_idle_state() -> Command {
    Command::new(0, 0xf0f0_f0f0, Resp::None)
}

/// CMD0 with argument 0xfffffffa `BOOT_INITIATION`: starts the alternative boot operation
/// [eMMC 6.3.4].
pub const fn boot_initiation() -> Command {
    Command::new(0, 0xffff_fffa, Resp::None)
}

/// CMD1 `SEND_OP_COND`: voltage window in OCR bits 23:7, 0: only inquires; `sector_mode`: the
/// host addresses sectors, which devices over 2 GB need [eMMC 6.4.2].
pub const fn send_op_cond(voltages: u32, sector_mode: bool) -> Command {
    let mode = if sector_mode { 1 << 30 } else { 0 };
    Command::new(1, voltages & 0x00ff_ff80 | mode, Resp::R3)
}

/// CMD3 `SET_RELATIVE_ADDR`: the host assigns the RCA; 0 is reserved [eMMC 6.4.4].
pub const fn set_relative_addr(rca: u16) -> Command {
    Command::new(3, rca_arg(rca), Resp::R1)
}

/// CMD5 `SLEEP_AWAKE`: from stand-by to sleep, or back [eMMC 6.6.21].
pub const fn sleep_awake(rca: u16, sleep: bool) -> Command {
    Command::new(5, rca_arg(rca) | (sleep as u32) << 15, Resp::R1b)
}

/// What CMD6 does to a byte of EXT_CSD [eMMC 6.10.4].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchMode {
    /// Changes the command set; index and value do not matter.
    CommandSet,
    /// Sets the bits that are 1 in the value.
    SetBits,
    /// Clears the bits that are 1 in the value.
    ClearBits,
    /// Writes the value.
    WriteByte,
}

/// CMD6 `SWITCH`: changes one byte of EXT_CSD, or the command set (3 bits) [eMMC 6.10.4].
pub const fn switch(access: SwitchMode, index: u8, value: u8, set: u8) -> Command {
    let arg = (access as u32) << 24 | (index as u32) << 16 | (value as u32) << 8 | (set & 7) as u32;
    Command::new(6, arg, Resp::R1b)
}

/// CMD8 `SEND_EXT_CSD`: 512 bytes, see [`ExtCsd`](crate::spec::ext_csd::ExtCsd) [eMMC 7.4].
pub const fn send_ext_csd() -> Command {
    Command::new(8, 0, Resp::R1)
}

/// CMD12 `STOP_TRANSMISSION` as high-priority interrupt, on devices that use CMD12 for it
/// [eMMC 6.10.4].
pub const fn stop_transmission_hpi(rca: u16) -> Command {
    Command::new(12, rca_arg(rca) | 1, Resp::R1b)
}

/// CMD13 `SEND_STATUS` as high-priority interrupt, on devices that use CMD13 for it [eMMC 6.10.4].
pub const fn send_status_hpi(rca: u16) -> Command {
    Command::new(13, rca_arg(rca) | 1, Resp::R1)
}

/// CMD14 `BUSTEST_R`: the device sends back the pattern of CMD19, inverted [eMMC 6.6.4].
pub const fn bustest_r() -> Command {
    Command::new(14, 0, Resp::R1)
}

/// CMD19 `BUSTEST_W`: the host sends a pattern on all lines [eMMC 6.6.4].
pub const fn bustest_w() -> Command {
    Command::new(19, 0, Resp::R1)
}

/// CMD21 `SEND_TUNING_BLOCK`: 128 bytes with eight lines, 64 with four [eMMC 6.6.5].
pub const fn send_tuning_block() -> Command {
    Command::new(21, 0, Resp::R1)
}

/// Parameters of CMD23 [eMMC 6.10.4].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCount {
    /// Number of blocks; for a packed command the sum of the entries and the header.
    pub blocks: u16,
    /// Reliable write [eMMC 6.10.4].
    pub reliable: bool,
    /// Forced programming: past the cache, to the flash [eMMC 6.6.31].
    pub forced: bool,
    /// Context, 0 (none) to 15 [eMMC 6.10.4].
    pub context: u8,
    /// Data tag [eMMC 6.10.4].
    pub tag: bool,
}

/// CMD23 `SET_BLOCK_COUNT` [eMMC 6.10.4].
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

/// Returns the flags that CMD23 and CMD44 share.
const fn flags_arg(reliable: bool, tag: bool, context: u8, forced: bool) -> u32 {
    (reliable as u32) << 31 | (tag as u32) << 29 | ((context & 0xf) as u32) << 25 | (forced as u32) << 24
}

/// CMD26 `PROGRAM_CID`: 16 bytes of data follow; the manufacturer's, once [eMMC 6.10.4].
pub const fn program_cid() -> Command {
    Command::new(26, 0, Resp::R1)
}

/// CMD31 `SEND_WRITE_PROT_TYPE`: two bits for each of 32 groups, 8 bytes of data [eMMC 6.10.4].
pub const fn send_write_prot_type(addr: u32) -> Command {
    Command::new(31, addr, Resp::R1)
}

/// CMD35 `ERASE_GROUP_START`: first address to erase [eMMC 6.10.4].
pub const fn erase_group_start(addr: u32) -> Command {
    Command::new(35, addr, Resp::R1)
}

/// CMD36 `ERASE_GROUP_END`: last address to erase, inclusive [eMMC 6.10.4].
pub const fn erase_group_end(addr: u32) -> Command {
    Command::new(36, addr, Resp::R1)
}

/// What CMD38 does to the range [eMMC 6.10.4].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmmcErase {
    /// Whole erase groups.
    Erase,
    /// Write blocks; they read as erased.
    Trim,
    /// Write blocks; they may read as anything.
    Discard,
    /// Erase groups, and all copies, before the busy ends.
    SecureErase,
    /// Marks write blocks for the second step.
    SecureTrim1,
    /// Erases what was marked, and all copies.
    SecureTrim2,
}

/// CMD38 `ERASE`: the range of CMD35 and CMD36 [eMMC 6.10.4].
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

/// CMD39 `FAST_IO`: reads an 8-bit register (address 7 bits), or writes `data` [eMMC 6.6.20].
///
/// The standard's R4 carries a CRC here, unlike the SDIO response of that name: its form is that of
/// [`Resp::R5`].
pub const fn fast_io(rca: u16, register: u8, data: Option<u8>) -> Command {
    let write = match data {
        Some(byte) => 1 << 15 | byte as u32,
        None => 0,
    };
    Command::new(39, rca_arg(rca) | ((register & 0x7f) as u32) << 8 | write, Resp::R5)
}

/// CMD40 `GO_IRQ_STATE`: the response comes when the device has an event [eMMC 6.5].
pub const fn go_irq_state() -> Command {
    Command::new(40, 0, Resp::R5)
}

/// The first half of a queued task [eMMC 6.6.39].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmmcTask {
    /// Task number, 0 to 31.
    pub id: u8,
    /// Blocks of 512 bytes.
    pub blocks: u16,
    /// Read from the device, else write.
    pub read: bool,
    /// Executed before simple tasks.
    pub priority: bool,
    /// Reliable write.
    pub reliable: bool,
    /// Forced programming.
    pub forced: bool,
    /// Context, 0 (none) to 15.
    pub context: u8,
    /// Data tag.
    pub tag: bool,
}

/// Puts a task's number, 0 to 31, into bits 20:16.
const fn task_arg(task: u8) -> u32 {
    ((task & 0x1f) as u32) << 16
}

/// CMD44 `QUEUED_TASK_PARAMS`: direction, length, flags and number of a task [eMMC 6.6.39].
pub const fn queued_task_params(task: EmmcTask) -> Command {
    let arg = flags_arg(task.reliable, task.tag, task.context, task.forced)
        | (task.read as u32) << 30
        | (task.priority as u32) << 23
        | task_arg(task.id)
        | task.blocks as u32;
    Command::new(44, arg, Resp::R1)
}

/// CMD45 `QUEUED_TASK_ADDRESS`: the address of the task that CMD44 named [eMMC 6.6.39].
pub const fn queued_task_address(addr: u32) -> Command {
    Command::new(45, addr, Resp::R1)
}

/// CMD46 `EXECUTE_READ_TASK`: data of a ready read task [eMMC 6.6.39].
pub const fn execute_read_task(task: u8) -> Command {
    Command::new(46, task_arg(task), Resp::R1)
}

/// CMD47 `EXECUTE_WRITE_TASK`: data of a ready write task [eMMC 6.6.39].
pub const fn execute_write_task(task: u8) -> Command {
    Command::new(47, task_arg(task), Resp::R1)
}

/// What CMD48 does to the queue [eMMC 6.6.39].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmmcQueueOp {
    /// Discards all tasks.
    DiscardAll,
    /// Discards one task, 0 to 31.
    Discard(u8),
}

/// CMD48 `CMDQ_TASK_MGMT`: takes tasks off the queue [eMMC 6.6.39].
pub const fn cmdq_task_mgmt(op: EmmcQueueOp) -> Command {
    let arg = match op {
        EmmcQueueOp::DiscardAll => 1,
        EmmcQueueOp::Discard(task) => task_arg(task) | 2,
    };
    Command::new(48, arg, Resp::R1b)
}

/// CMD49 `SET_TIME`: 512 bytes with the real time clock's value follow [eMMC 6.6.35].
pub const fn set_time() -> Command {
    Command::new(49, 0, Resp::R1)
}

/// CMD53 `PROTOCOL_RD`: data of a security protocol from the device [eMMC 6.10.4].
pub const fn protocol_rd(specific: u16, protocol: u8) -> Command {
    Command::new(53, rca_arg(specific) | (protocol as u32) << 8, Resp::R1)
}

/// CMD54 `PROTOCOL_WR`: data of a security protocol to the device [eMMC 6.10.4].
pub const fn protocol_wr(specific: u16, protocol: u8) -> Command {
    Command::new(54, rca_arg(specific) | (protocol as u32) << 8, Resp::R1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switch_and_power_arguments() {
        // HS_TIMING (185) := 1, as every host sends it.
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
