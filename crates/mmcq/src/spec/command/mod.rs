//! Commands, and functions that build them [SD 4.7.4], [eMMC 6.10.4], [SDIO 4, 5].
//!
//! This module has the commands that SD and eMMC share. Commands of one standard, or with different
//! arguments, are in [`sd`], [`emmc`] and [`sdio`]. For an application command such as ACMD41, send
//! [`app_cmd`] first, and then the command.
//!
//! The functions mask their arguments to the width of the field. So a value that does not fit loses
//! its upper bits, and never changes the next field. `rca` is always the 16-bit number itself.
//! Block addresses are in blocks of 512 bytes, on cards up to 2 GB in bytes.

pub mod emmc;
mod name;
pub mod sd;
pub mod sdio;

pub use name::name;

/// The form of a response [SD 4.9], [eMMC 6.12].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resp {
    /// The command has no response.
    None,
    /// R1, 48 bits: the card status.
    R1,
    /// R1b, 48 bits: the card status, followed by busy on DAT0.
    R1b,
    /// R2, 136 bits: the CID or the CSD.
    R2,
    /// R3, 48 bits without CRC: the OCR.
    R3,
    /// R4, 48 bits without CRC: the OCR of an I/O card.
    R4,
    /// R5, 48 bits: flags and data of an I/O card (on eMMC: of fast I/O).
    R5,
    /// R6, 48 bits: the RCA that the card publishes.
    R6,
    /// R7, 48 bits: the interface condition.
    R7,
}

/// A command as the host sends it on the CMD line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Command index, 0 to 63.
    pub index: u8,
    /// The 32-bit argument.
    pub arg: u32,
    /// The expected response.
    pub resp: Resp,
}

impl Command {
    /// Makes a command from its parts. Usually the functions of this module make commands.
    pub const fn new(index: u8, arg: u32, resp: Resp) -> Self {
        Command { index: index & 0x3f, arg, resp }
    }

    /// Returns whether the command writes or erases blocks, so that the card's cache may have
    /// changes that are not on the medium yet.
    pub const fn changes_blocks(&self) -> bool {
        matches!(self.index, 24 | 25 | 38 | 47)
    }
}

/// Returns the RCA in its field of the argument.
const fn rca_arg(rca: u16) -> u32 {
    (rca as u32) << 16
}

/// CMD0 `GO_IDLE_STATE`: resets all cards to the state `idle` [SD 4.2.1], [eMMC 6.4.1].
pub const fn go_idle_state() -> Command {
    Command::new(0, 0, Resp::None)
}

/// CMD2 `ALL_SEND_CID`: every unidentified card sends its CID [SD 4.2.2], [eMMC 6.4.4].
pub const fn all_send_cid() -> Command {
    Command::new(2, 0, Resp::R2)
}

/// CMD4 `SET_DSR`: programs the driver stage of all cards [SD 5.5], [eMMC 7.6].
pub const fn set_dsr(dsr: u16) -> Command {
    Command::new(4, rca_arg(dsr), Resp::None)
}

/// CMD7 `SELECT/DESELECT_CARD`: switches the addressed card from `stby` to `tran`, and every other
/// card back [SD 4.3], [eMMC 6.10.4].
///
/// RCA 0 deselects every card, and no card responds. A card that is selected again while it
/// programs holds DAT0 low: R1b.
pub const fn select_card(rca: u16) -> Command {
    Command::new(7, rca_arg(rca), if rca == 0 { Resp::None } else { Resp::R1b })
}

/// CMD9 `SEND_CSD`: the addressed card, in stand-by, sends its CSD [SD 4.7.4], [eMMC 6.10.4].
pub const fn send_csd(rca: u16) -> Command {
    Command::new(9, rca_arg(rca), Resp::R2)
}

/// CMD10 `SEND_CID`: the card with the address `rca`, in stand-by, sends its CID [SD 4.7.4], [eMMC
/// 6.10.4].
pub const fn send_cid(rca: u16) -> Command {
    Command::new(10, rca_arg(rca), Resp::R2)
}

/// CMD12 `STOP_TRANSMISSION` after a write: the card may stay busy programming [SD 4.3.4],
/// [eMMC 6.10.4].
pub const fn stop_transmission() -> Command {
    Command::new(12, 0, Resp::R1b)
}

/// CMD12 `STOP_TRANSMISSION` after a read; the card does not become busy [SD 4.3.3], [eMMC 6.10.4].
pub const fn stop_transmission_read() -> Command {
    Command::new(12, 0, Resp::R1)
}

/// CMD13 `SEND_STATUS`: the addressed card sends its status [SD 4.10.1], [eMMC 6.13].
pub const fn send_status(rca: u16) -> Command {
    Command::new(13, rca_arg(rca), Resp::R1)
}

/// CMD13 with bit 15 set: the response holds the task status of the card's queue, bit n for task n,
/// instead of the card status [SD 4.19], [eMMC 6.6.39].
pub const fn send_queue_status(rca: u16) -> Command {
    Command::new(13, rca_arg(rca) | 1 << 15, Resp::R1)
}

/// CMD15 `GO_INACTIVE_STATE`: the addressed card ignores all commands until the next power cycle
/// [SD 4.2.2], [eMMC 6.4.1].
pub const fn go_inactive_state(rca: u16) -> Command {
    Command::new(15, rca_arg(rca), Resp::None)
}

/// CMD16 `SET_BLOCKLEN`: sets the block length in bytes. On cards over 2 GB it affects only CMD42
/// [SD 4.3.2], [eMMC 6.10.4].
pub const fn set_blocklen(bytes: u32) -> Command {
    Command::new(16, bytes, Resp::R1)
}

/// Returns CMD17, or CMD18 for several blocks; with `write`, CMD24, or CMD25 for several blocks.
/// `addr`: address of the first block, as the card counts it.
#[inline(always)]
pub const fn transfer(write: bool, several: bool, addr: u32) -> Command {
    let first = if write { 24 } else { 17 };
    Command::new(first + several as u8, addr, Resp::R1)
}

/// CMD17 `READ_SINGLE_BLOCK`: reads one block [SD 4.3.3], [eMMC 6.10.4].
pub const fn read_single_block(addr: u32) -> Command {
    Command::new(17, addr, Resp::R1)
}

/// CMD18 `READ_MULTIPLE_BLOCK`: reads blocks until CMD12, or the block count of CMD23 [SD 4.3.3],
/// [eMMC 6.10.4].
pub const fn read_multiple_block(addr: u32) -> Command {
    Command::new(18, addr, Resp::R1)
}

/// CMD23 `SET_BLOCK_COUNT`: sets the length of the CMD18 or CMD25 that follows [SD 4.7.4],
/// [eMMC 6.10.4].
///
/// `reliable` requests a reliable write, which only eMMC has. The count has 16 bits on eMMC, and 32
/// bits on SD. For other flags of eMMC see [`emmc::set_block_count`].
pub const fn set_block_count(blocks: u32, reliable: bool) -> Command {
    let arg = if reliable { 1 << 31 | blocks & 0xffff } else { blocks };
    Command::new(23, arg, Resp::R1)
}

/// CMD24 `WRITE_BLOCK`: writes one block [SD 4.3.4], [eMMC 6.10.4].
pub const fn write_block(addr: u32) -> Command {
    Command::new(24, addr, Resp::R1)
}

/// CMD25 `WRITE_MULTIPLE_BLOCK`: writes blocks until CMD12, or the block count of CMD23 [SD 4.3.4],
/// [eMMC 6.10.4].
pub const fn write_multiple_block(addr: u32) -> Command {
    Command::new(25, addr, Resp::R1)
}

/// CMD27 `PROGRAM_CSD`: writes the programmable bits of the CSD; the host sends 16 bytes of data
/// [SD 4.3.4], [eMMC 6.10.4].
pub const fn program_csd() -> Command {
    Command::new(27, 0, Resp::R1)
}

/// CMD28 `SET_WRITE_PROT`: protects the group that contains the address [SD 4.3.6], [eMMC 6.10.4].
pub const fn set_write_prot(addr: u32) -> Command {
    Command::new(28, addr, Resp::R1b)
}

/// CMD29 `CLR_WRITE_PROT`: ends the protection of the group that contains the address [SD 4.3.6],
/// [eMMC 6.10.4].
pub const fn clr_write_prot(addr: u32) -> Command {
    Command::new(29, addr, Resp::R1b)
}

/// CMD30 `SEND_WRITE_PROT`: the card sends 32 protection bits as 4 bytes of data; the last bit is
/// the group of the address [SD 4.3.6], [eMMC 6.10.4].
pub const fn send_write_prot(addr: u32) -> Command {
    Command::new(30, addr, Resp::R1)
}

/// CMD42 `LOCK_UNLOCK`: sets the password or locks the card; the host sends one block of data
/// [SD 4.3.7], [eMMC 6.6.19].
pub const fn lock_unlock() -> Command {
    Command::new(42, 0, Resp::R1)
}

/// CMD55 `APP_CMD`: the card takes the next command as an application command [SD 4.3.9],
/// [eMMC 6.6.20]. RCA 0 before identification.
pub const fn app_cmd(rca: u16) -> Command {
    Command::new(55, rca_arg(rca), Resp::R1)
}

/// CMD56 `GEN_CMD`: transfers one block of vendor data, from the card if `read` [SD 4.3.9.2],
/// [eMMC 6.6.20].
pub const fn gen_cmd(read: bool) -> Command {
    Command::new(56, read as u32, Resp::R1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_where_the_tables_say() {
        assert_eq!(select_card(0), Command::new(7, 0, Resp::None));
        assert_eq!(select_card(0xb368), Command::new(7, 0xb368_0000, Resp::R1b));
        assert_eq!(send_queue_status(1).arg, 0x0001_8000);
        assert_eq!(set_block_count(8, false).arg, 8);
        assert_eq!(set_block_count(0x0012_0008, false).arg, 0x0012_0008);
        assert_eq!(set_block_count(0x0012_0008, true).arg, 0x8000_0008);
        assert_eq!(gen_cmd(true).arg, 1);
        assert_eq!(stop_transmission().resp, Resp::R1b);
        assert_eq!(stop_transmission_read().resp, Resp::R1);
    }
}
