//! Commands that only SD memory cards have, or that have another meaning on eMMC [SD 4.7.4].
//!
//! Commands with the name ACMD are application commands: send [`app_cmd`](super::app_cmd) first.

use super::{Command, Resp};

/// CMD3 `SEND_RELATIVE_ADDR`: the card publishes a new RCA [SD 4.2.2].
pub const fn send_relative_addr() -> Command {
    Command::new(3, 0, Resp::R6)
}

/// A function group of CMD6 [SD 4.3.10].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Group 1, access mode: 0 SDR12, 1 SDR25 (high speed), 2 SDR50, 3 SDR104, 4 DDR50.
    AccessMode,
    /// Group 2, command system: 0 default, 1 eCommerce, 3 OTP, 4 ASSD, 14 vendor.
    CommandSystem,
    /// Group 3, driver strength: 0 type B, 1 type A, 2 type C, 3 type D.
    DriverStrength,
    /// Group 4, power limit: 0 0.72 W, 1 1.44 W, 2 2.16 W, 3 2.88 W, 4 1.80 W.
    PowerLimit,
    /// Group 5, reserved.
    Group5,
    /// Group 6, reserved.
    Group6,
}

impl Group {
    /// All six function groups, in the order of their numbers.
    pub const ALL: [Group; 6] = [
        Group::AccessMode,
        Group::CommandSystem,
        Group::DriverStrength,
        Group::PowerLimit,
        Group::Group5,
        Group::Group6,
    ];

    /// Returns the number of this function group of CMD6 in the standard, 1 to 6.
    pub const fn number(self) -> u8 {
        self as u8 + 1
    }
}

/// The argument of CMD6: the function to check or to select in each group [SD 4.3.10.2].
///
/// A group that is not named keeps its present function (0xf).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchFunc(u32);

impl SwitchFunc {
    /// Mode 0: CMD6 only checks what the switch would do.
    pub const CHECK: SwitchFunc = SwitchFunc(0x00ff_ffff);
    /// Mode 1: CMD6 switches the functions.
    pub const SET: SwitchFunc = SwitchFunc(0x80ff_ffff);

    /// Selects function `function` of one group: 0 is the default, 15 changes nothing.
    pub const fn with(self, group: Group, function: u8) -> Self {
        let shift = 4 * group as u32;
        SwitchFunc(self.0 & !(0xf << shift) | ((function & 0xf) as u32) << shift)
    }

    /// Returns the 32-bit argument of CMD6.
    pub const fn arg(self) -> u32 {
        self.0
    }
}

/// CMD6 `SWITCH_FUNC`: the card returns a status of 64 bytes, see
/// [`SwitchStatus`](crate::spec::switch::SwitchStatus) [SD 4.3.10].
pub const fn switch_func(functions: SwitchFunc) -> Command {
    Command::new(6, functions.arg(), Resp::R1)
}

/// CMD8 `SEND_IF_COND`: `supply` is the voltage code (1 = 2.7 to 3.6 V, 2 = low voltage). `pattern`
/// is any byte, usually 0xaa; the card echoes it [SD 4.3.13].
pub const fn send_if_cond(supply: u8, pattern: u8) -> Command {
    Command::new(8, ((supply & 0xf) as u32) << 8 | pattern as u32, Resp::R7)
}

/// CMD11 `VOLTAGE_SWITCH`: begins the switch of the signal lines to 1.8 V [SD 4.2.4.2].
pub const fn voltage_switch() -> Command {
    Command::new(11, 0, Resp::R1)
}

/// CMD19 `SEND_TUNING_BLOCK`: the card sends the 64 bytes of
/// [`TUNING_64`](crate::spec::timing::TUNING_64) [SD 4.2.4.5].
pub const fn send_tuning_block() -> Command {
    Command::new(19, 0, Resp::R1)
}

/// CMD20 `SPEED_CLASS_CONTROL`: sends a control code (4 bits) and its parameter (28 bits)
/// [SD 4.13].
pub const fn speed_class_control(control: u8, detail: u32) -> Command {
    Command::new(20, ((control & 0xf) as u32) << 28 | detail & 0x0fff_ffff, Resp::R1b)
}

/// CMD22 `ADDRESS_EXTENSION`: sends bits 37:32 of the block address of the next command, only for
/// SDUC [SD 4.20].
pub const fn address_extension(upper: u8) -> Command {
    Command::new(22, (upper & 0x3f) as u32, Resp::R1)
}

/// CMD32 `ERASE_WR_BLK_START`: sets the first block to erase; `addr` is its address as the card
/// counts it [SD 4.3.5].
pub const fn erase_wr_blk_start(addr: u32) -> Command {
    Command::new(32, addr, Resp::R1)
}

/// CMD33 `ERASE_WR_BLK_END`: sets the last block to erase, inclusive [SD 4.3.5].
pub const fn erase_wr_blk_end(addr: u32) -> Command {
    Command::new(33, addr, Resp::R1)
}

/// The operation of CMD38 on the blocks [SD 4.3.5.1].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SdErase {
    /// Erases the blocks. They then read as all 0 or all 1, see [`Scr`](crate::spec::scr::Scr).
    Erase,
    /// Discards the blocks. They may then read as anything.
    Discard,
    /// Erases the full user area logically (FULE).
    Fule,
}

/// CMD38 `ERASE`: erases the range of CMD32 and CMD33 [SD 4.3.5].
pub const fn erase(kind: SdErase) -> Command {
    let arg = match kind {
        SdErase::Erase => 0,
        SdErase::Discard => 1,
        SdErase::Fule => 2,
    };
    Command::new(38, arg, Resp::R1b)
}

/// The operation of CMD43 on the queue [SD 4.19].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SdQueueOp {
    /// Aborts all tasks.
    AbortAll,
    /// Aborts one task, 0 to 31.
    Abort(u8),
}

/// CMD43 `Q_MANAGEMENT`: removes tasks from the card's queue [SD 4.19].
pub const fn q_management(op: SdQueueOp) -> Command {
    let arg = match op {
        SdQueueOp::AbortAll => 1,
        SdQueueOp::Abort(task) => task_arg(task) | 2,
    };
    Command::new(43, arg, Resp::R1b)
}

/// Returns a task's number, 0 to 31, in bits 20:16.
const fn task_arg(task: u8) -> u32 {
    ((task & 0x1f) as u32) << 16
}

/// The first half of a queued task's description, for CMD44 [SD 4.19].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SdTask {
    /// Task number, 0 to 31.
    pub id: u8,
    /// Number of blocks of 512 bytes.
    pub blocks: u16,
    /// Whether the task reads from the card; otherwise it writes.
    pub read: bool,
    /// Whether the card executes the task before tasks of simple priority.
    pub priority: bool,
    /// Bits 37:32 of the block address, only for SDUC.
    pub address_upper: u8,
}

/// CMD44 `Q_TASK_INFO_A`: sends direction, length and number of a task [SD 4.19].
pub const fn q_task_info_a(task: SdTask) -> Command {
    let arg = (task.read as u32) << 30
        | ((task.address_upper & 0x3f) as u32) << 24
        | (task.priority as u32) << 23
        | task_arg(task.id)
        | task.blocks as u32;
    Command::new(44, arg, Resp::R1)
}

/// CMD45 `Q_TASK_INFO_B`: sends the block address of the task that the last CMD44 named [SD 4.19].
pub const fn q_task_info_b(addr: u32) -> Command {
    Command::new(45, addr, Resp::R1)
}

/// CMD46 `Q_RD_TASK`: the card sends the data of a read task that is ready [SD 4.19].
pub const fn q_rd_task(task: u8) -> Command {
    Command::new(46, task_arg(task), Resp::R1)
}

/// CMD47 `Q_WR_TASK`: the host sends the data of a write task that is ready [SD 4.19].
pub const fn q_wr_task(task: u8) -> Command {
    Command::new(47, task_arg(task), Resp::R1)
}

/// An address in the extension registers [SD 5.7.1].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extension {
    /// Whether the address is in I/O space; otherwise it is in memory space.
    pub io: bool,
    /// Function number, 0 to 15.
    pub function: u8,
    /// Number of a page of 512 bytes, 0 to 255.
    pub page: u8,
    /// Offset within the page in bytes, 0 to 511.
    pub offset: u16,
}

impl Extension {
    const fn arg(self) -> u32 {
        (self.io as u32) << 31
            | ((self.function & 0xf) as u32) << 27
            | (self.page as u32) << 18
            | ((self.offset & 0x1ff) as u32) << 9
    }
}

/// Returns a length from 1 to 512 in the standard's code: the length minus one, in 9 bits.
const fn less_one(count: u16) -> u32 {
    (count.wrapping_sub(1) & 0x1ff) as u32
}

/// CMD48 `READ_EXTR_SINGLE`: the card sends one block of 512 bytes, of which `bytes` (1 to 512) are
/// valid [SD 5.7.2.1].
pub const fn read_extr_single(at: Extension, bytes: u16) -> Command {
    Command::new(48, at.arg() | less_one(bytes), Resp::R1)
}

/// CMD49 `WRITE_EXTR_SINGLE`: the host sends one block of 512 bytes, of which `bytes` (1 to 512)
/// are valid [SD 5.7.2.2].
pub const fn write_extr_single(at: Extension, bytes: u16) -> Command {
    Command::new(49, at.arg() | less_one(bytes), Resp::R1)
}

/// CMD49 `WRITE_EXTR_SINGLE` in mask mode: changes the bits of one byte that are set in `mask`
/// [SD 5.7.2.2].
pub const fn write_extr_masked(at: Extension, mask: u8) -> Command {
    Command::new(49, at.arg() | 1 << 26 | mask as u32, Resp::R1)
}

/// CMD58 `READ_EXTR_MULTI`: reads 1 to 512 units of 512 bytes, or of 32 KiB if `large`
/// [SD 5.7.2.4].
pub const fn read_extr_multi(at: Extension, large: bool, units: u16) -> Command {
    Command::new(58, at.arg() | (large as u32) << 26 | less_one(units), Resp::R1)
}

/// CMD59 `WRITE_EXTR_MULTI`: writes `units` (1 to 512) units of 512 bytes, or of 32 KiB if `large`,
/// to the extension registers from the address `at` on [SD 5.7.2.5].
pub const fn write_extr_multi(at: Extension, large: bool, units: u16) -> Command {
    Command::new(59, at.arg() | (large as u32) << 26 | less_one(units), Resp::R1)
}

/// ACMD6 `SET_BUS_WIDTH`: selects four data lines if `four`, else one [SD 4.3.9].
pub const fn set_bus_width(four: bool) -> Command {
    Command::new(6, if four { 2 } else { 0 }, Resp::R1)
}

/// ACMD13 `SD_STATUS`: the card sends 64 bytes, see [`Ssr`](crate::spec::ssr::Ssr) [SD 4.10.2].
pub const fn sd_status() -> Command {
    Command::new(13, 0, Resp::R1)
}

/// ACMD22 `SEND_NUM_WR_BLOCKS`: the card sends 4 bytes (SDUC: 8), the number of blocks of the last
/// write that were written without an error [SD 4.3.4].
pub const fn send_num_wr_blocks() -> Command {
    Command::new(22, 0, Resp::R1)
}

/// ACMD23 `SET_WR_BLK_ERASE_COUNT`: number of blocks to erase before a multi-block write, 23 bits
/// [SD 4.3.4].
pub const fn set_wr_blk_erase_count(blocks: u32) -> Command {
    Command::new(23, blocks & 0x007f_ffff, Resp::R1)
}

/// The host's parameters in ACMD41 [SD 4.2.3.1].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OcrRequest {
    /// Voltage window of the host, OCR bits 23:15; 0 only inquires the OCR.
    pub voltages: u32,
    /// Whether the host supports cards over 2 GB (HCS). Set it only after a valid response to CMD8.
    pub hcs: bool,
    /// Whether the card may use full power during start-up: 150 mA (XPC).
    pub xpc: bool,
    /// Whether the host requests 1.8 V on the signal lines (S18R).
    pub s18r: bool,
    /// Whether the host supports cards over 2 TB (HO2T).
    pub ho2t: bool,
}

impl OcrRequest {
    /// Request that only inquires the OCR and does not start the power-up.
    pub const INQUIRY: OcrRequest =
        OcrRequest { voltages: 0, hcs: false, xpc: false, s18r: false, ho2t: false };

    /// Returns the 32-bit argument of ACMD41.
    pub const fn arg(self) -> u32 {
        self.voltages & 0x00ff_8000
            | (self.hcs as u32) << 30
            | (self.xpc as u32) << 28
            | (self.ho2t as u32) << 27
            | (self.s18r as u32) << 24
    }
}

/// ACMD41 `SD_SEND_OP_COND`: starts the card's power-up; the host repeats it until the card is
/// ready [SD 4.2.3].
pub const fn sd_send_op_cond(request: OcrRequest) -> Command {
    Command::new(41, request.arg(), Resp::R3)
}

/// ACMD42 `SET_CLR_CARD_DETECT`: connects or disconnects the 50 kOhm pull-up on DAT3 [SD 4.3.9].
pub const fn set_clr_card_detect(connect: bool) -> Command {
    Command::new(42, connect as u32, Resp::R1)
}

/// ACMD51 `SEND_SCR`: the card sends 8 bytes, see [`Scr`](crate::spec::scr::Scr) [SD 5.6].
pub const fn send_scr() -> Command {
    Command::new(51, 0, Resp::R1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switch_arguments() {
        // The two arguments that every host sends: check high speed, then switch to high speed.
        assert_eq!(switch_func(SwitchFunc::CHECK.with(Group::AccessMode, 1)).arg, 0x00ff_fff1);
        assert_eq!(switch_func(SwitchFunc::SET.with(Group::AccessMode, 1)).arg, 0x80ff_fff1);
        assert_eq!(SwitchFunc::SET.with(Group::PowerLimit, 0x13).arg(), 0x80ff_3fff);
        assert_eq!(Group::ALL.map(Group::number), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn operating_condition_arguments() {
        assert_eq!(sd_send_op_cond(OcrRequest::INQUIRY).arg, 0);
        let all = OcrRequest { voltages: 0xffff_ffff, hcs: true, xpc: true, s18r: true, ho2t: true };
        assert_eq!(sd_send_op_cond(all).arg, 0x59ff_8000);
        assert_eq!(send_if_cond(1, 0xaa).arg, 0x1aa);
    }

    #[test]
    fn extension_arguments() {
        let at = Extension { io: false, function: 2, page: 3, offset: 0x105 };
        assert_eq!(read_extr_single(at, 512).arg, 2 << 27 | 3 << 18 | 0x105 << 9 | 511);
        assert_eq!(write_extr_masked(at, 0x01).arg, 2 << 27 | 1 << 26 | 3 << 18 | 0x105 << 9 | 1);
        assert_eq!(read_extr_multi(Extension::default(), true, 1).arg, 1 << 26);
    }

    #[test]
    fn queue_arguments() {
        let task = SdTask { id: 31, blocks: 0xffff, read: true, priority: true, address_upper: 0x3f };
        assert_eq!(q_task_info_a(task).arg, 0x7f9f_ffff);
        assert_eq!(q_management(SdQueueOp::AbortAll).arg, 1);
        assert_eq!(q_management(SdQueueOp::Abort(5)).arg, 5 << 16 | 2);
        assert_eq!(q_rd_task(0xff).arg, 0x001f_0000);
    }
}
