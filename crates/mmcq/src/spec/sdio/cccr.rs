//! The CCCR: card common control registers, at 00h to 16h of function 0 [SDIO 6.9].

use crate::spec::{Field, ParseError};

/// Addresses of the registers in function 0.
pub mod reg {
    /// Revisions of the CCCR and of the SDIO specification.
    pub const REVISION: u32 = 0x00;
    /// Revision of the SD specification.
    pub const SD_REVISION: u32 = 0x01;
    /// I/O enable (IOEx): bit x enables function x.
    pub const IO_ENABLE: u32 = 0x02;
    /// I/O ready (IORx): bit x is set when function x is ready.
    pub const IO_READY: u32 = 0x03;
    /// Interrupt enable (IENx): bit x lets function x interrupt; bit 0 enables all interrupts.
    pub const INT_ENABLE: u32 = 0x04;
    /// Interrupt pending (INTx): bit x is set while function x requests attention.
    pub const INT_PENDING: u32 = 0x05;
    /// I/O abort (ASx): number of the function to abort; bit 3 resets all I/O functions.
    pub const ABORT: u32 = 0x06;
    /// Bus interface control: bus width, and pull-up on DAT3.
    pub const INTERFACE: u32 = 0x07;
    /// Card capability: what the card supports.
    pub const CAPABILITY: u32 = 0x08;
    /// First of three bytes with the address of the common CIS.
    pub const CIS: u32 = 0x09;
    /// First of two bytes with the block size of function 0.
    pub const BLOCK_SIZE: u32 = 0x10;
    /// Power control of the card.
    pub const POWER: u32 = 0x12;
    /// Bus speed select: high speed and UHS modes.
    pub const SPEED: u32 = 0x13;
    /// UHS support: UHS modes that the card supports.
    pub const UHS: u32 = 0x14;
    /// Driver strength: driver types A, C, D that the card supports, and the type in use.
    pub const DRIVE: u32 = 0x15;
    /// Interrupt extension: asynchronous interrupt.
    pub const INTERRUPT_EXTENSION: u32 = 0x16;
    /// Last register of the vendor's area; it has no function in the standard, nor in most cards.
    pub const NOTHING: u32 = 0xff;
}

/// [`reg::ABORT`], bit RES: resets all I/O functions.
pub const RESET: u8 = 1 << 3;
/// [`reg::INTERFACE`]: value of the bus width field for four data lines.
pub const WIDTH_4: u8 = 2;
/// [`reg::INTERFACE`]: mask of the bus width field.
pub const WIDTH_MASK: u8 = 3;
/// [`reg::INTERFACE`], bit CD Disable: switches the pull-up on DAT3 off.
pub const DETECT_OFF: u8 = 1 << 7;
/// [`reg::INTERRUPT_EXTENSION`], bit EAI: enables interrupts without a clock.
pub const ASYNC_ON: u8 = 1 << 1;

/// Number of registers in the CCCR.
pub const BYTES: usize = 0x17;

/// Revision of the CCCR's structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Revision {
    /// Revision 1.00.
    V1_00,
    /// Revision 1.10.
    V1_10,
    /// Revision 1.20 (SDIO 2.00): adds power control and high speed.
    V1_20,
    /// Revision 3.00: adds UHS modes and the asynchronous interrupt.
    V3_00,
}

/// The CCCR, decoded. Registers that the card's revision does not have read as "no".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cccr {
    /// Revision of the CCCR's structure.
    pub revision: Revision,
    /// Code of the SDIO revision, 0 to 15: 0 is 1.00, 4 is 3.00.
    pub sdio_revision: u8,
    /// Code of the SD revision, 0 to 15.
    pub sd_revision: u8,
    /// Enabled functions (IOEx), bit x for function x.
    pub io_enable: u8,
    /// Functions that are ready (IORx), bit x for function x.
    pub io_ready: u8,
    /// Functions that may interrupt (IENx), bit x for function x; bit 0 enables all interrupts.
    pub int_enable: u8,
    /// Functions that request attention (INTx), bit x for function x.
    pub int_pending: u8,
    /// Raw byte of bus interface control (07h).
    pub interface: u8,
    /// Raw byte of card capability (08h); the methods decode its bits.
    pub capability: u8,
    /// Address of the common CIS, 24 bits.
    pub cis: u32,
    /// Block size of function 0 in bytes; 0 if it was never set.
    pub block_bytes: u16,
    /// Raw byte of power control (12h).
    pub power: u8,
    /// Raw byte of bus speed select (13h).
    pub speed: u8,
    /// Raw byte of UHS support (14h).
    pub uhs: u8,
    /// Raw byte of driver strength (15h).
    pub drive: u8,
    /// Raw byte of interrupt extension (16h).
    pub interrupt_extension: u8,
}

impl Cccr {
    /// Decodes the registers 00h to 16h. Returns an error only for an unknown revision, since then
    /// the other bytes have no meaning.
    pub fn parse(bytes: &[u8; BYTES]) -> Result<Self, ParseError> {
        let at = |addr: u32| bytes.get(addr as usize).copied().unwrap_or(0);
        let revision = match at(reg::REVISION) & 0xf {
            0 => Revision::V1_00,
            1 => Revision::V1_10,
            2 => Revision::V1_20,
            3 => Revision::V3_00,
            other => {
                return Err(ParseError { field: Field::CccrRevision, value: u32::from(other) });
            }
        };
        let since = |first: Revision, addr| if revision >= first { at(addr) } else { 0 };
        Ok(Cccr {
            revision,
            sdio_revision: at(reg::REVISION) >> 4,
            sd_revision: at(reg::SD_REVISION) & 0xf,
            io_enable: at(reg::IO_ENABLE) & 0xfe,
            io_ready: at(reg::IO_READY) & 0xfe,
            int_enable: at(reg::INT_ENABLE),
            int_pending: at(reg::INT_PENDING) & 0xfe,
            interface: at(reg::INTERFACE),
            capability: at(reg::CAPABILITY),
            cis: little_endian([at(reg::CIS), at(reg::CIS + 1), at(reg::CIS + 2)]),
            block_bytes: u16::from_le_bytes([at(reg::BLOCK_SIZE), at(reg::BLOCK_SIZE + 1)]),
            power: since(Revision::V1_20, reg::POWER),
            speed: since(Revision::V1_20, reg::SPEED),
            uhs: since(Revision::V3_00, reg::UHS),
            drive: since(Revision::V3_00, reg::DRIVE),
            interrupt_extension: since(Revision::V3_00, reg::INTERRUPT_EXTENSION),
        })
    }

    const fn can(&self, bit: u32) -> bool {
        self.capability >> bit & 1 != 0
    }

    /// Returns whether the card executes CMD52 during a data transfer (SDC).
    pub const fn direct_during_data(&self) -> bool {
        self.can(0)
    }

    /// SMB: returns whether CMD53 supports block mode.
    pub const fn multi_block(&self) -> bool {
        self.can(1)
    }

    /// SRW: returns whether the card supports read wait.
    pub const fn read_wait(&self) -> bool {
        self.can(2)
    }

    /// SBS: returns whether the card supports suspend and resume.
    pub const fn suspend(&self) -> bool {
        self.can(3)
    }

    /// S4MI: returns whether the card can interrupt between the blocks of a transfer on four data
    /// lines.
    pub const fn interrupt_between_blocks(&self) -> bool {
        self.can(4)
    }

    /// Returns whether interrupts between blocks are enabled (E4MI).
    pub const fn interrupt_between_blocks_on(&self) -> bool {
        self.can(5)
    }

    /// LSC: returns whether the card is limited to 400 kHz.
    pub const fn low_speed(&self) -> bool {
        self.can(6)
    }

    /// Returns whether the card supports four data lines. Every full-speed card does, and a
    /// low-speed card with the bit 4BLS.
    pub const fn width4(&self) -> bool {
        !self.low_speed() || self.can(7)
    }

    /// SHS: returns whether the card supports high speed.
    pub const fn high_speed(&self) -> bool {
        self.speed & 1 != 0
    }

    /// Returns whether the card supports SDR50 (SSDR50).
    pub const fn sdr50(&self) -> bool {
        self.uhs & 1 != 0
    }

    /// Returns whether the card supports SDR104 (SSDR104).
    pub const fn sdr104(&self) -> bool {
        self.uhs & 2 != 0
    }

    /// Returns whether the card supports DDR50 (SDDR50).
    pub const fn ddr50(&self) -> bool {
        self.uhs & 4 != 0
    }

    /// Returns whether the host can control the card's power (SMPC).
    pub const fn power_control(&self) -> bool {
        self.power & 1 != 0
    }

    /// Returns whether the host allows the card to draw more than 200 mA (EMPC).
    pub const fn power_control_on(&self) -> bool {
        self.power & 2 != 0
    }

    /// Returns the supported driver types A, C and D (SDTA, SDTC, SDTD) in bits 0, 1 and 2; every
    /// card supports type B.
    pub const fn driver_types(&self) -> u8 {
        self.drive & 7
    }

    /// Returns the driver type in use: 0 is B, 1 is A, 2 is C, 3 is D.
    pub const fn driver_type(&self) -> u8 {
        self.drive >> 4 & 3
    }

    /// SAI: returns whether the card supports interrupts without a clock.
    pub const fn async_interrupt(&self) -> bool {
        self.interrupt_extension & 1 != 0
    }
}

/// Returns the number in three bytes, lowest byte first.
pub(super) const fn little_endian(bytes: [u8; 3]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uhs_card() {
        let mut bytes = [0; BYTES];
        bytes[..0x0c].copy_from_slice(&[0x43, 3, 0, 0, 0, 0, 0, 0, 0x1f, 0x00, 0x10, 0x00]);
        bytes[0x12..].copy_from_slice(&[1, 1, 7, 0x17, 1]);
        let cccr = Cccr::parse(&bytes).unwrap();
        assert_eq!((cccr.revision, cccr.sdio_revision, cccr.cis), (Revision::V3_00, 4, 0x1000));
        assert!(cccr.multi_block() && cccr.direct_during_data() && cccr.read_wait() && cccr.suspend());
        assert!(cccr.interrupt_between_blocks() && !cccr.interrupt_between_blocks_on());
        assert!(cccr.width4() && !cccr.low_speed() && cccr.high_speed());
        assert!(cccr.sdr50() && cccr.sdr104() && cccr.ddr50() && cccr.async_interrupt());
        assert_eq!((cccr.driver_types(), cccr.driver_type()), (7, 1));
        assert!(cccr.power_control() && !cccr.power_control_on());
    }

    #[test]
    fn earlier_revisions_have_no_later_registers() {
        let mut bytes = [0xff; BYTES];
        bytes[0] = 0x11;
        let cccr = Cccr::parse(&bytes).unwrap();
        assert!(!cccr.high_speed() && !cccr.sdr50() && !cccr.async_interrupt() && !cccr.power_control());
        bytes[0] = 0x32;
        assert!(Cccr::parse(&bytes).unwrap().high_speed());
        bytes[0] = 0x34;
        assert_eq!(Cccr::parse(&bytes).unwrap_err().value, 4);
    }

    #[test]
    fn low_speed_cards_have_four_lines_only_if_they_say_so() {
        let mut bytes = [0; BYTES];
        bytes[8] = 0x40;
        assert!(!Cccr::parse(&bytes).unwrap().width4());
        bytes[8] = 0xc0;
        assert!(Cccr::parse(&bytes).unwrap().width4());
    }
}
