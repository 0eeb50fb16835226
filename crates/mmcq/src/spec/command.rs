//! Commands and their argument builders [SD 4.7], [eMMC 6.10], [SDIO 4].

/// The form of a response [SD 4.9], [eMMC 6.12].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resp {
    /// No response.
    None,
    /// 48 bits: card status.
    R1,
    /// 48 bits: card status, followed by busy on DAT0.
    R1b,
    /// 136 bits: CID or CSD.
    R2,
    /// 48 bits without CRC: OCR.
    R3,
    /// 48 bits without CRC: SDIO's OCR.
    R4,
    /// 48 bits: SDIO's flags and data (on eMMC: fast I/O).
    R5,
    /// 48 bits: published RCA.
    R6,
    /// 48 bits: interface condition.
    R7,
}

/// One command as it goes over the CMD line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Command index, 0 to 63.
    pub index: u8,
    /// The 32-bit argument.
    pub arg: u32,
    /// The response that the card owes.
    pub resp: Resp,
}

impl Command {
    /// A command from its parts; the builders below are the usual way.
    pub const fn new(index: u8, arg: u32, resp: Resp) -> Self {
        Command { index: index & 0x3f, arg, resp }
    }
}
