//! The card information structure: chains of tuples in function 0, 1000h to 17FFFh [SDIO 6.11, 16].
//!
//! [`Walker`] reads a chain one byte at a time: it returns the address of the next byte, and the
//! caller reads that byte by any means. The walker only moves forward, over at most [`TUPLES_MAX`]
//! tuples and [`BYTES_MAX`] bytes, inside of the area that the standard allows. Tuples of code 0
//! are padding and count only as bytes. A link of FFh ends the chain, like CISTPL_END. The walker
//! reads the bodies of CISTPL_VERS_1, CISTPL_MANFID, CISTPL_FUNCID and CISTPL_FUNCE, and skips all
//! others.

use core::fmt;

/// Largest number of tuples in a chain; padding is not counted.
pub const TUPLES_MAX: u8 = 64;
/// Largest number of bytes that are read of one tuple chain (a card information structure, CIS).
pub const BYTES_MAX: u16 = 1024;
/// Addresses at which tuples may be [SDIO 6.11].
pub const AREA: core::ops::Range<u32> = 0x1000..0x1_8000;
/// Largest number of bytes of a body that are stored; later bytes are skipped.
const BODY_MAX: usize = 64;

/// Tuple codes [SDIO 16.2].
pub mod code {
    /// CISTPL_NULL: padding of one byte, without a link.
    pub const NULL: u8 = 0x00;
    /// CISTPL_CHECKSUM: checksum of the chain.
    pub const CHECKSUM: u8 = 0x10;
    /// CISTPL_VERS_1: revision, and texts such as manufacturer and product.
    pub const VERS_1: u8 = 0x15;
    /// CISTPL_ALTSTR: texts in another language.
    pub const ALTSTR: u8 = 0x16;
    /// CISTPL_MANFID: manufacturer and product.
    pub const MANFID: u8 = 0x20;
    /// CISTPL_FUNCID: kind of function.
    pub const FUNCID: u8 = 0x21;
    /// CISTPL_FUNCE: extension with the parameters of the card or of a function.
    pub const FUNCE: u8 = 0x22;
    /// CISTPL_SDIO_STD: parameters of a standard interface.
    pub const SDIO_STD: u8 = 0x91;
    /// CISTPL_END: end of the chain of tuples.
    pub const END: u8 = 0xff;
}

/// Link tuples of PC Cards, which continue a chain at another address; SDIO does not allow them.
const LONG_LINKS: [u8; 4] = [0x02, 0x06, 0x11, 0x12];

/// Why a chain of tuples cannot be used.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CisFault {
    /// The CIS pointer in the CCCR or FBR, or a link, points outside of [`AREA`].
    Outside,
    /// A tuple continues the chain at another address, which SDIO does not allow.
    LongLink,
    /// The chain has more than [`TUPLES_MAX`] tuples.
    Tuples,
    /// The chain has more than [`BYTES_MAX`] bytes.
    Bytes,
    /// Reading the chain took longer than its reader allows.
    Time,
    /// The body of a tuple is too short for its fields.
    Short {
        /// Number of bytes in the body.
        bytes: u8,
        /// Smallest number of bytes in the body that contains all fields of this tuple that are
        /// read.
        needed: u8,
    },
    /// The largest block size of the function is 0.
    BlockSize,
    /// The chain has no CISTPL_FUNCE, which every function must have.
    NoExtension,
}

/// Error in a chain of tuples (the card information structure of a card or function): the place and
/// the fault.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CisError {
    /// Number of the function; 0 for the common CIS.
    pub function: u8,
    /// Address of the tuple with the fault.
    pub addr: u32,
    /// Code of the tuple with the fault.
    pub tuple: u8,
    /// Why the chain cannot be used.
    pub fault: CisFault,
}

impl fmt::Display for CisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CisError { function, addr, tuple, fault } = self;
        write!(f, "CIS of function {function}, tuple {tuple:#04x} at {addr:#07x}: ")?;
        match fault {
            CisFault::Outside => write!(f, "leaves {:#07x} to {:#07x}", AREA.start, AREA.end - 1),
            CisFault::LongLink => f.write_str("it links elsewhere, which SDIO does not have"),
            CisFault::Tuples => write!(f, "one more than the {TUPLES_MAX} tuples expected at most"),
            CisFault::Bytes => write!(f, "more than the {BYTES_MAX} bytes expected at most"),
            CisFault::Time => f.write_str("reading the tuples takes too long"),
            CisFault::Short { bytes, needed } => {
                write!(f, "its body has {bytes} bytes, expected at least {needed}")
            }
            CisFault::BlockSize => f.write_str("its largest block has 0 bytes, expected at least 1"),
            CisFault::NoExtension => f.write_str("the chain ends without a CISTPL_FUNCE"),
        }
    }
}

impl core::error::Error for CisError {}

/// Contents of CISTPL_MANFID: manufacturer and product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manufacturer {
    /// Manufacturer code (TPLMID_MANF).
    pub vendor: u16,
    /// Product code (TPLMID_CARD).
    pub product: u16,
}

/// Contents of CISTPL_FUNCE type 0: parameters of the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardExtension {
    /// Block size of function 0 in bytes (TPLFE_FN0_BLK_SIZE); 0 if the card declares none.
    pub block_bytes: u16,
    /// Fastest clock in hertz (TPLFE_MAX_TRAN_SPEED); `None` for a reserved code.
    pub max_clock_hz: Option<u32>,
}

/// Contents of CISTPL_FUNCE type 1: parameters of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionExtension {
    /// Whether the function can wake the host (TPLFE_FUNCTION_INFO bit 0).
    pub wakes: bool,
    /// Revision of the standard interface (TPLFE_STD_IO_REV).
    pub standard_revision: u8,
    /// Serial number (TPLFE_CARD_PSN).
    pub serial: u32,
    /// Size of the code storage area in bytes (TPLFE_CSA_SIZE).
    pub csa_bytes: u32,
    /// Raw byte of the code storage area's properties (TPLFE_CSA_PROPERTY).
    pub csa_property: u8,
    /// Largest block size in bytes (TPLFE_MAX_BLK_SIZE), at least 1.
    pub max_block_bytes: u16,
    /// Voltage window of the function (TPLFE_OCR).
    pub ocr: u32,
    /// Currents in milliamperes: least, average and largest in operation, then in standby
    /// (TPLFE_OP_MIN_PWR, OP_AVG_PWR, OP_MAX_PWR, SB_MIN_PWR, SB_AVG_PWR, SB_MAX_PWR).
    pub power_ma: [u8; 6],
    /// Least and best bandwidth in kilobytes per second (TPLFE_MIN_BW, TPLFE_OPT_BW).
    pub bandwidth: [u16; 2],
    /// Longest time until an enabled function is ready, in nanoseconds (TPLFE_ENABLE_TIMEOUT_VAL);
    /// `None` if it is 0, and in tuples of SDIO 1.00.
    pub enable_timeout_ns: Option<u64>,
}

/// Contents of CISTPL_VERS_1: at most 62 bytes of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionTexts {
    /// Major and minor revision (TPLLV1_MAJOR, TPLLV1_MINOR).
    pub revision: (u8, u8),
    bytes: [u8; BODY_MAX],
    len: u8,
}

impl VersionTexts {
    /// Returns the undecoded bytes of the tuple CISTPL_VERS_1 after the two bytes of its revision.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(2..usize::from(self.len)).unwrap_or(&[])
    }

    /// Returns the texts in their order (manufacturer, product, ...), in the card's character
    /// encoding.
    pub fn texts(&self) -> impl Iterator<Item = &[u8]> {
        let all = self.bytes().split(|&byte| byte == 0xff).next().unwrap_or(&[]);
        all.split(|&byte| byte == 0).filter(|text| !text.is_empty())
    }
}

/// Contents of a chain of tuples (the CIS of the card or of a function), as far as [`Walker`]
/// stores them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cis {
    /// Manufacturer and product (CISTPL_MANFID), if the chain has them.
    pub manufacturer: Option<Manufacturer>,
    /// Kind of function (TPLFID_FUNCTION of CISTPL_FUNCID); 0Ch for SDIO.
    pub function_id: Option<u8>,
    /// Parameters of the card; only in the common CIS.
    pub card: Option<CardExtension>,
    /// Parameters of the function; only in a function's CIS.
    pub function: Option<FunctionExtension>,
    /// Revision and texts (CISTPL_VERS_1), if the chain has them.
    pub version: Option<VersionTexts>,
    /// Number of tuples that were skipped, because they are a vendor's or of no use here.
    pub skipped: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Code,
    Link,
    /// Reads the body of a tuple: index of the next byte, and length of the body.
    Body(u8, u8),
    End,
}

/// Reads one chain of tuples; see the module's description.
#[derive(Clone, Debug)]
pub struct Walker {
    function: u8,
    step: Step,
    /// Address of the next byte to read.
    at: u32,
    tuple: u8,
    tuple_at: u32,
    tuples: u8,
    bytes: u16,
    body: [u8; BODY_MAX],
    cis: Cis,
}

impl Walker {
    /// Begins to read the chain of tuples of this function (0: the common CIS) at address
    /// `pointer`.
    pub fn new(function: u8, pointer: u32) -> Result<Self, CisError> {
        let walker = Walker {
            function,
            step: Step::Code,
            at: pointer,
            tuple: code::NULL,
            tuple_at: pointer,
            tuples: 0,
            bytes: 0,
            body: [0; BODY_MAX],
            cis: Cis::default(),
        };
        if AREA.contains(&pointer) { Ok(walker) } else { walker.fail(CisFault::Outside) }
    }

    /// Returns the address of the next byte to read, in function 0; `None` at the end of the chain.
    pub fn wants(&self) -> Option<u32> {
        (self.step != Step::End).then_some(self.at)
    }

    /// Returns the error for this fault in the tuple that is being read.
    pub fn error(&self, fault: CisFault) -> CisError {
        CisError { function: self.function, addr: self.tuple_at, tuple: self.tuple, fault }
    }

    fn fail<T>(&self, fault: CisFault) -> Result<T, CisError> {
        Err(self.error(fault))
    }

    /// Accepts the byte that the caller has read from [`wants`](Self::wants).
    pub fn give(&mut self, byte: u8) -> Result<(), CisError> {
        match self.step {
            Step::Code => {
                (self.tuple, self.tuple_at) = (byte, self.at);
                if byte == code::END {
                    self.step = Step::End;
                    return Ok(());
                }
                if byte == code::NULL {
                    return self.advance(1);
                }
                if self.tuples == TUPLES_MAX {
                    return self.fail(CisFault::Tuples);
                }
                self.tuples += 1;
                if LONG_LINKS.contains(&byte) {
                    return self.fail(CisFault::LongLink);
                }
                self.step = Step::Link;
                self.advance(1)
            }
            Step::Link => {
                if byte == code::END {
                    // The tuple has no body.
                    self.step = Step::End;
                    return Ok(());
                }
                // Add one: the next tuple's code must fit into the area too.
                if self.at + 1 + u32::from(byte) >= AREA.end {
                    return self.fail(CisFault::Outside);
                }
                let kept = matches!(self.tuple, code::VERS_1 | code::MANFID | code::FUNCID | code::FUNCE);
                if !kept {
                    self.cis.skipped += 1;
                    self.step = Step::Code;
                    return self.advance(1 + u32::from(byte));
                }
                self.step = Step::Body(0, byte);
                if byte == 0 {
                    self.keep(0)?;
                }
                self.advance(1)
            }
            Step::Body(have, length) => {
                if let Some(place) = self.body.get_mut(usize::from(have)) {
                    *place = byte;
                }
                let have = have.saturating_add(1);
                self.step = Step::Body(have, length);
                if have < length && usize::from(have) < BODY_MAX {
                    return self.advance(1);
                }
                self.keep(have)?;
                self.advance(1 + u32::from(length.saturating_sub(have)))
            }
            Step::End => Ok(()),
        }
    }

    /// Moves forward by `by` bytes; an error if that leaves the area or exceeds the limits.
    fn advance(&mut self, by: u32) -> Result<(), CisError> {
        self.at = self.at.saturating_add(by);
        self.bytes = self.bytes.saturating_add(1);
        if !AREA.contains(&self.at) {
            return self.fail(CisFault::Outside);
        }
        if self.bytes >= BYTES_MAX {
            return self.fail(CisFault::Bytes);
        }
        Ok(())
    }

    /// Decodes the body of a tuple, and stores its fields. `length` is the length of the body, of
    /// which at most [`BODY_MAX`] bytes were read into `self.body`.
    fn keep(&mut self, length: u8) -> Result<(), CisError> {
        self.step = Step::Code;
        let body = &self.body;
        let at = |place: usize| body.get(place).copied().unwrap_or(0);
        let two = |place| u16::from_le_bytes([at(place), at(place + 1)]);
        let four = |place| u32::from_le_bytes([at(place), at(place + 1), at(place + 2), at(place + 3)]);
        let extension = (length > 0).then_some(at(0));
        let needed = match (self.tuple, extension) {
            (code::MANFID, _) => 4,
            (code::VERS_1, _) => 2,
            (code::FUNCE, Some(0)) if self.function == 0 => 4,
            (code::FUNCE, Some(1)) if self.function != 0 => 14,
            _ => 1,
        };
        if length < needed {
            return self.fail(CisFault::Short { bytes: length, needed });
        }
        match (self.tuple, extension) {
            (code::MANFID, _) => {
                self.cis.manufacturer = Some(Manufacturer { vendor: two(0), product: two(2) });
            }
            (code::FUNCID, _) => self.cis.function_id = Some(at(0)),
            (code::VERS_1, _) => {
                self.cis.version = Some(VersionTexts { revision: (at(0), at(1)), bytes: *body, len: length });
            }
            (code::FUNCE, Some(0)) if self.function == 0 => {
                self.cis.card =
                    Some(CardExtension { block_bytes: two(1), max_clock_hz: transfer_speed_hz(at(3)) });
            }
            (code::FUNCE, Some(1)) if self.function != 0 => {
                // Fields beyond the end of a shorter body belong to later revisions, and read as 0.
                let field = |place: usize, bytes: usize| usize::from(length) >= place + bytes;
                let timeout = if field(28, 2) { u64::from(two(28)) } else { 0 };
                let extension = FunctionExtension {
                    wakes: at(1) & 1 != 0,
                    standard_revision: at(2),
                    serial: four(3),
                    csa_bytes: four(7),
                    csa_property: at(11),
                    max_block_bytes: two(12),
                    ocr: if field(14, 4) { four(14) } else { 0 },
                    power_ma: if field(18, 6) {
                        [at(18), at(19), at(20), at(21), at(22), at(23)]
                    } else {
                        [0; 6]
                    },
                    bandwidth: if field(24, 4) { [two(24), two(26)] } else { [0; 2] },
                    enable_timeout_ns: (timeout > 0).then_some(timeout * 10_000_000),
                };
                if extension.max_block_bytes == 0 {
                    return self.fail(CisFault::BlockSize);
                }
                self.cis.function = Some(extension);
            }
            _ => self.cis.skipped += 1,
        }
        Ok(())
    }

    /// Returns the contents of the chain, when [`wants`](Self::wants) returns `None`. The chain of
    /// a function must contain the function's largest block size.
    pub fn finish(self) -> Result<Cis, CisError> {
        if self.function != 0 && self.cis.function.is_none() {
            return self.fail(CisFault::NoExtension);
        }
        Ok(self.cis)
    }
}

/// Returns TPLFE_MAX_TRAN_SPEED in hertz; `None` for a reserved code. The code has a unit and a
/// factor, as in the CSD [SD 5.3.2].
fn transfer_speed_hz(code: u8) -> Option<u32> {
    const TENTHS: [u32; 16] = [0, 10, 12, 13, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 70, 80];
    const UNIT_HZ: [u32; 4] = [10_000, 100_000, 1_000_000, 10_000_000];
    let tenths = TENTHS.get(usize::from(code >> 3 & 0xf)).copied()?;
    let unit_hz = UNIT_HZ.get(usize::from(code & 7)).copied()?;
    (tenths > 0 && code & 0x80 == 0).then_some(tenths * unit_hz)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    /// Reads the tuple chain `bytes` of function `function` (0: the card), as if it began at
    /// address 1000h; all addresses after it read as FFh.
    fn walk(function: u8, bytes: &[u8]) -> Result<Cis, CisError> {
        let mut walker = Walker::new(function, 0x1000)?;
        let mut reads = 0;
        while let Some(at) = walker.wants() {
            walker.give(*bytes.get(at as usize - 0x1000).unwrap_or(&0xff))?;
            reads += 1;
            assert!(reads <= BYTES_MAX);
        }
        walker.finish()
    }

    #[test]
    fn the_common_chain_of_a_card() {
        let chain = [
            0x21, 2, 0x0c, 0, 0x22, 4, 0, 0x00, 0x02, 0x32, 0x80, 3, 9, 9, 9, 0x20, 4, 0x92, 0x02, 0x21,
            0x43, //
            0x15, 9, 1, 1, b'A', b'b', 0, b'C', 0, 0xff, 0xff, 0, 0xff,
        ];
        let cis = walk(0, &chain).unwrap();
        assert_eq!(cis.manufacturer, Some(Manufacturer { vendor: 0x0292, product: 0x4321 }));
        assert_eq!(cis.function_id, Some(0x0c));
        assert_eq!(cis.card, Some(CardExtension { block_bytes: 512, max_clock_hz: Some(25_000_000) }));
        let version = cis.version.unwrap();
        assert_eq!(version.revision, (1, 1));
        assert_eq!(version.texts().collect::<std::vec::Vec<_>>(), [&b"Ab"[..], b"C"]);
        assert_eq!((cis.skipped, cis.function), (1, None));
    }

    fn function_chain(max_block: u16, length: usize) -> std::vec::Vec<u8> {
        let mut body = [0; 42];
        body[..3].copy_from_slice(&[1, 1, 0x10]);
        body[3..7].copy_from_slice(&0x1234_5678u32.to_le_bytes());
        body[12..14].copy_from_slice(&max_block.to_le_bytes());
        body[28..30].copy_from_slice(&25u16.to_le_bytes());
        let mut chain = std::vec![0x22, length as u8];
        chain.extend(&body[..length]);
        chain.push(0xff);
        chain
    }

    #[test]
    fn a_functions_chain() {
        let told = walk(1, &function_chain(512, 42)).unwrap().function.unwrap();
        assert_eq!((told.max_block_bytes, told.serial, told.wakes), (512, 0x1234_5678, true));
        assert_eq!(told.enable_timeout_ns, Some(250_000_000));
        let old = walk(1, &function_chain(64, 28)).unwrap().function.unwrap();
        assert_eq!((old.max_block_bytes, old.enable_timeout_ns), (64, None));
    }

    #[test]
    fn a_link_of_ff_ends_the_chain() {
        let chain = [0x21, 2, 0x0c, 0, 0x20, 4, 0x92, 0x02, 0x21, 0x43, 0x80, 0xff, 0x11, 4];
        let cis = walk(0, &chain).unwrap();
        assert_eq!((cis.function_id, cis.manufacturer.map(|m| m.vendor)), (Some(0x0c), Some(0x292)));
    }

    #[test]
    fn padding_counts_as_bytes_only() {
        let mut chain = std::vec![0x21, 2, 0x0c, 0];
        chain.extend([0; 900]);
        chain.extend([0x20, 4, 0x92, 0x02, 0x21, 0x43, 0xff]);
        assert_eq!(walk(0, &chain).unwrap().manufacturer.map(|m| m.product), Some(0x4321));
    }

    #[test]
    fn a_common_block_size_of_0_is_harmless() {
        let cis = walk(0, &[0x22, 4, 0, 0, 0, 0x32, 0x20, 4, 0x92, 0x02, 0x21, 0x43, 0xff]).unwrap();
        assert_eq!((cis.card.map(|card| card.block_bytes), cis.manufacturer.is_some()), (Some(0), true));
    }

    #[test]
    fn hostile_chains_name_tuple_and_address() {
        let fault = |function, bytes: &[u8]| walk(function, bytes).unwrap_err();
        let short = fault(1, &function_chain(512, 13));
        assert_eq!(short.fault, CisFault::Short { bytes: 13, needed: 14 });
        assert_eq!(fault(1, &function_chain(0, 42)).fault, CisFault::BlockSize);
        assert_eq!(fault(1, &[0xff]).fault, CisFault::NoExtension);
        let without = fault(1, &[0x21, 2, 0x0c, 0, 0x22, 0xff]);
        assert_eq!((without.fault, without.addr, without.tuple), (CisFault::NoExtension, 0x1004, 0x22));
        assert_eq!(
            std::format!("{short}"),
            "CIS of function 1, tuple 0x22 at 0x01000: its body has 13 bytes, expected at least 14"
        );
        assert_eq!(fault(0, &[0; 2000]).fault, CisFault::Bytes);
        assert_eq!(fault(0, &[0x80, 0].repeat(1000)).fault, CisFault::Tuples);
        assert_eq!(fault(0, &[0x15, 254].repeat(4000)).fault, CisFault::Bytes);
        assert_eq!(fault(0, &[0x11, 4, 0, 0, 0, 0]).fault, CisFault::LongLink);
        assert_eq!(fault(0, &[0x20, 3, 0, 0, 0]).fault, CisFault::Short { bytes: 3, needed: 4 });
        for pointer in [0, 0xfff, 0x1_8000, 0x1_ffff, 0xff_ffff] {
            assert_eq!(Walker::new(1, pointer).unwrap_err().fault, CisFault::Outside);
        }
    }

    #[test]
    fn a_chain_does_not_leave_its_area() {
        for (at, bytes) in [(AREA.end - 1, &[0x80][..]), (AREA.end - 4, &[0x80, 2]), (AREA.end - 1, &[0])] {
            let mut walker = Walker::new(0, at).unwrap();
            let result = bytes.iter().try_for_each(|&byte| walker.give(byte));
            assert_eq!(result.unwrap_err().fault, CisFault::Outside);
        }
    }

    #[test]
    fn clock_codes() {
        assert_eq!(transfer_speed_hz(0x32), Some(25_000_000));
        assert_eq!(transfer_speed_hz(0x5a), Some(50_000_000));
        assert_eq!(transfer_speed_hz(0x0b), Some(100_000_000));
        assert_eq!([transfer_speed_hz(0), transfer_speed_hz(0x0c), transfer_speed_hz(0xff)], [None; 3]);
    }
}
