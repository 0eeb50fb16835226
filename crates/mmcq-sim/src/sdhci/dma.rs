//! DMA of blocks to memory and from memory: SDMA [SDHC 1.4, 2.2.1] and ADMA2 [SDHC 1.13].

use super::Sdhci;
use super::bits::{cap, host2, int};
use crate::faults::{Point, Strike};
use crate::slot::Core;

/// Number of descriptors without data in a row after which the table counts as endless. ADMA then
/// never transfers another byte.
const MAX_IDLE_DESCRIPTORS: u32 = 1024;

/// Value of the ADMA engine's state in register 54h (ADMA Error Status): the engine fetches a
/// descriptor.
const ST_FDS: u8 = 1;
/// Value of the ADMA engine's state in register 54h: the engine transfers data.
const ST_TFR: u8 = 3;
/// Bit of register 54h: the lengths in the table do not fit the blocks.
const LENGTH_MISMATCH: u8 = 1 << 2;

/// Bit Valid in the attributes of a descriptor.
const VALID: u32 = 1;
/// Bit End in the attributes of a descriptor.
const END: u32 = 1 << 1;
/// Bit Int in the attributes of a descriptor: DMA interrupt after this descriptor.
const INT: u32 = 1 << 2;
/// Mask of the field Act (kind of the descriptor) in the attributes of a descriptor.
const ACT: u32 = 0x38;
/// Value of the field Act: the descriptor transfers data.
const TRAN: u32 = 0x20;
/// Value of the field Act: the descriptor points to another table.
const LINK: u32 = 0x30;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Engine {
    #[default]
    Off,
    /// The driver has selected a DMA engine that this controller does not have.
    Missing,
    Sdma,
    /// ADMA2; the value is the length of a descriptor in bytes: 8, 12 or 16.
    Adma2(u8),
}

#[derive(Debug, Default)]
pub(super) struct Dma {
    engine: Engine,
    /// Whether SDMA has stopped at a boundary and waits for the host.
    held: bool,
    /// Whether DMA never continues: the ADMA table is endless, or a memory access never ends (a
    /// fault).
    stuck: bool,
    /// Fault that strikes the present segment.
    strike: Option<Strike>,
    /// Whether SDMA has begun a segment (the bytes up to the next SDMA boundary) and has not
    /// reached its end.
    begun: bool,
    /// Data of the block before the last stop of SDMA at a boundary, only with a controller mistake
    /// that loses or repeats the next block. `None` when that next block was handled.
    stopped_after: Option<Vec<u8>>,
    /// Address of the next descriptor in a task's list; `None`: register 58h has the address.
    list: Option<u64>,
    /// Address of the next byte that the present descriptor transfers.
    address: u64,
    /// Number of bytes that the present descriptor has not transferred yet.
    left: u32,
    int: bool,
    last: bool,
    /// Whether the last descriptor of the table is used up.
    ended: bool,
}

impl Dma {
    pub fn held(&self) -> bool {
        self.held || self.stuck
    }

    pub fn ended(&self) -> bool {
        self.ended
    }

    pub fn stop(&mut self) {
        *self = Dma::default();
    }
}

/// Result of moving a block to memory or from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    All,
    /// Only a part of the block was moved; the other bytes have to wait.
    Held,
    /// An error has ended the transfer.
    Failed,
}

/// An ADMA error; the value goes to register 54h.
struct AdmaError(u8);

impl Sdhci {
    /// Begins the DMA of a command's data with the engine (SDMA or ADMA2) that the registers
    /// select.
    pub(super) fn dma_begin(&mut self) {
        if self.dma.list.is_some() {
            // The task of the command queue engine has set the address of its list before.
            return;
        }
        let v4 = self.regs.version4();
        let wide = v4 && self.regs.host2 & host2::ADDRESS_64 != 0;
        let engine = match (self.regs.host1 >> 3 & 3, v4) {
            (0, _) if self.config.has(cap::SDMA) => Engine::Sdma,
            (2 | 3, true) if self.config.has(cap::ADMA2) => {
                let wide_ok = !wide || self.config.has(cap::ADDRESS_64_V4);
                if wide_ok { Engine::Adma2(if wide { 16 } else { 8 }) } else { Engine::Missing }
            }
            (2, false) if self.config.has(cap::ADMA2) => Engine::Adma2(8),
            (3, false) if self.config.has(cap::ADMA2) && self.config.has(cap::ADDRESS_64_V3) => {
                Engine::Adma2(12)
            }
            _ => Engine::Missing,
        };
        if engine == Engine::Missing {
            self.violation("a DMA engine that the controller does not have [SDHC 2.2.10]");
        }
        self.regs.adma_error = 0;
        self.dma = Dma { engine, ..Dma::default() };
    }

    /// Makes the DMA use the list of transfer descriptors of a task; `list` is the list's bus
    /// address, `bytes` the length of one descriptor.
    pub(super) fn dma_is_at(&mut self, list: u64, bytes: u8) {
        self.regs.adma_error = 0;
        self.dma = Dma { engine: Engine::Adma2(bytes), list: Some(list), ..Dma::default() };
    }

    /// Moves the remaining bytes of the present block between the lines and memory. Returns whether
    /// all bytes were moved, some must wait, or an error has ended the transfer.
    pub(super) fn dma_move(&mut self, now: u64) -> Moved {
        match self.dma.engine {
            Engine::Sdma => self.sdma_move(now),
            Engine::Adma2(_) if self.config.mistakes.adma_fails => self.adma_failed(AdmaError(ST_FDS), now),
            Engine::Adma2(bytes) => match self.adma_move(bytes, now) {
                Ok(moved) => moved,
                Err(error) => self.adma_failed(error, now),
            },
            Engine::Missing => self.adma_failed(AdmaError(ST_FDS), now),
            Engine::Off => Moved::Held,
        }
    }

    /// Checks after the last block of a transfer that the ADMA table has no further data.
    pub(super) fn dma_finish(&mut self, now: u64) -> Moved {
        let Engine::Adma2(bytes) = self.dma.engine else { return Moved::All };
        match self.adma_tail(bytes, now) {
            Ok(moved) => moved,
            Err(error) => self.adma_failed(error, now),
        }
    }

    fn adma_failed(&mut self, error: AdmaError, now: u64) -> Moved {
        self.regs.adma_error = error.0;
        self.data_error(int::ADMA, now);
        Moved::Failed
    }

    /// Copies `n` bytes of the block, from its byte `offset` on, to memory at `address` (a read) or
    /// from there (a write). Returns false for a bus error.
    fn dma_copy(&mut self, address: u64, n: usize) -> bool {
        let at = self.dat.offset;
        let mistakes = self.config.mistakes;
        let lost = if mistakes.odd_bytes_lost { n % 4 } else { 0 };
        let read = self.dat.read;
        let before = self.dma.stopped_after.take_if(|_| !self.dma.held);
        let skipped = before.is_some() && mistakes.boundary_block_lost;
        if skipped && read {
            self.dat.offset += n;
            return true;
        }
        let address = address + if skipped { self.dat.block as u64 } else { 0 };
        let repeated = before.filter(|_| mistakes.boundary_block_repeated);
        let Some(part) = self.dat.block_bytes().get_mut(at..at + n - lost) else { return false };
        let repeat = |part: &mut [u8]| {
            if let Some(bytes) = repeated.as_ref().and_then(|block| block.get(at..at + part.len())) {
                part.copy_from_slice(bytes);
            }
        };
        let result = if read {
            repeat(part);
            self.memory.device_write(address, part)
        } else {
            let result = self.memory.device_read(address, part);
            repeat(part);
            result
        };
        self.dat.offset += n;
        result.is_ok()
    }

    fn sdma_move(&mut self, now: u64) -> Moved {
        let v4 = self.regs.version4();
        let boundary = 4096u64 << (self.regs.block_size >> 12 & 7);
        while let Some(rest) = self.dat.rest() {
            if !self.dma.held && !std::mem::replace(&mut self.dma.begun, true) {
                self.dma.strike = self.strike(Point::Dma, now);
                // SDMA cannot report that a memory access failed, so it stops for ever.
                self.dma.stuck = matches!(self.dma.strike, Some(Strike::Fail | Strike::Never));
            }
            if self.dma.held() {
                return Moved::Held;
            }
            let address = if v4 { self.regs.adma_address } else { self.regs.argument2.into() };
            let n = rest.min((boundary - address % boundary) as usize);
            // SDMA cannot report a bus error; the memory model has recorded it.
            self.dma_copy(address, n);
            let next = address.wrapping_add(n as u64);
            if v4 {
                self.regs.adma_address = next;
            } else {
                self.regs.argument2 = next as u32;
            }
            let goes_on = self.dat.rest().is_some() || self.dat.more_blocks();
            let early = self.config.mistakes.boundary_told_early && self.dat.read;
            if early && (next + self.dat.block as u64).is_multiple_of(boundary) {
                self.dma_news(now);
            }
            if next % boundary == 0 && goes_on {
                self.dma.held = true;
                self.dma.begun = false;
                if !early {
                    self.dma_news(now);
                }
                let mistakes = self.config.mistakes;
                if mistakes.boundary_block_lost || mistakes.boundary_block_repeated {
                    self.dma.stopped_after = Some(self.dat.block_bytes().to_vec());
                }
            }
        }
        Moved::All
    }

    /// Continues a transfer that SDMA has stopped at a boundary, after a write to the SDMA address
    /// register.
    pub(super) fn sdma_restart(&mut self, now: u64) {
        let heard = !self.config.mistakes.sdma_address_ignored;
        if self.dma.engine == Engine::Sdma && self.dma.held && heard {
            self.dma.held = false;
            self.dma_goes_on(now);
        }
    }

    fn adma_move(&mut self, bytes: u8, now: u64) -> Result<Moved, AdmaError> {
        while let Some(rest) = self.dat.rest() {
            if !self.adma_data(bytes, now)? {
                // The table ended before the data did, or it is endless.
                return if self.dma.stuck {
                    Ok(Moved::Held)
                } else {
                    Err(AdmaError(LENGTH_MISMATCH | ST_TFR))
                };
            }
            let n = rest.min(self.dma.left as usize);
            let address = self.dma.address;
            if !self.dma_copy(address, n) {
                return Err(AdmaError(ST_TFR));
            }
            self.dma.address = address.wrapping_add(n as u64);
            self.dma.left -= n as u32;
            if self.dma.left == 0 {
                self.descriptor_done(now);
            }
        }
        // Without a block count only the table shows where the transfer ends, so the next
        // descriptor is fetched now.
        if self.dat.endless() {
            self.adma_data(bytes, now)?;
        }
        Ok(if self.dma.stuck { Moved::Held } else { Moved::All })
    }

    fn descriptor_done(&mut self, now: u64) {
        if self.dma.int {
            self.dma_news(now);
        }
        self.dma.ended = self.dma.last;
    }

    /// Raises the DMA interrupt (SDMA boundary, or descriptor with the attribute Int), unless a
    /// fault delays or loses it.
    fn dma_news(&mut self, now: u64) {
        match self.dma.strike.take() {
            Some(Strike::Lost) => {}
            Some(Strike::Late(ns)) => self.raise_after(ns, int::DMA, now),
            _ => self.raise(int::DMA, now),
        }
    }

    fn adma_tail(&mut self, bytes: u8, now: u64) -> Result<Moved, AdmaError> {
        if self.adma_data(bytes, now)? {
            return Err(AdmaError(LENGTH_MISMATCH | ST_TFR));
        }
        Ok(if self.dma.stuck { Moved::Held } else { Moved::All })
    }

    /// Makes sure that the present ADMA2 descriptor has data left: otherwise fetches descriptors,
    /// each `bytes` bytes long, until one has data. Returns false at the end of the table, and if
    /// the DMA is stuck.
    fn adma_data(&mut self, bytes: u8, now: u64) -> Result<bool, AdmaError> {
        let mut idle = 0;
        while self.dma.left == 0 {
            if self.dma.ended || self.dma.stuck {
                return Ok(false);
            }
            idle += 1;
            if idle > MAX_IDLE_DESCRIPTORS {
                self.dma.stuck = true;
                self.violation("descriptors without end that move nothing [SDHC 1.13]");
                return Ok(false);
            }
            self.dma.strike = self.strike(Point::Dma, now);
            match self.dma.strike {
                Some(Strike::Fail) => return Err(AdmaError(ST_FDS)),
                Some(Strike::Never) => self.dma.stuck = true,
                _ => self.fetch(bytes, now)?,
            }
        }
        Ok(true)
    }

    /// Reads and executes one ADMA2 descriptor, whose length is `bytes`.
    fn fetch(&mut self, bytes: u8, now: u64) -> Result<(), AdmaError> {
        let bytes = if self.config.mistakes.wide_descriptors_short { 8 } else { bytes };
        let wide = bytes > 8;
        let mut raw = [0u8; 16];
        let at = self.dma.list.unwrap_or(self.regs.adma_address) & if wide { u64::MAX } else { 0xffff_ffff };
        if at & 3 != 0 {
            self.violation("a descriptor that is not aligned to 4 bytes [SDHC 1.13]");
        }
        let at = at & !3;
        self.slot.stats.descriptors += 1;
        if self.memory.device_read(at, &mut raw[..usize::from(bytes)]).is_err() {
            return Err(AdmaError(ST_FDS));
        }
        let word = |i: usize| u32::from_le_bytes([raw[i], raw[i + 1], raw[i + 2], raw[i + 3]]);
        let head = word(0);
        if head & VALID == 0 {
            return Err(AdmaError(ST_FDS));
        }
        let high = if wide { u64::from(word(8)) << 32 } else { 0 };
        let address = u64::from(word(4)) | high;
        self.next_descriptor_is(at.wrapping_add(bytes.into()));
        self.dma.int = head & INT != 0;
        self.dma.last = head & END != 0;
        match head & ACT {
            TRAN => {
                let align = u64::from(self.config.adma_align.max(1));
                if address % align != 0 {
                    self.violation("data of a descriptor that are not aligned [SDHC 1.13]");
                }
                self.dma.address = address - address % align;
                self.dma.left = self.length(head);
            }
            LINK => {
                self.next_descriptor_is(address);
                self.descriptor_done(now);
            }
            _ => self.descriptor_done(now),
        }
        Ok(())
    }

    fn next_descriptor_is(&mut self, at: u64) {
        *self.dma.list.as_mut().unwrap_or(&mut self.regs.adma_address) = at;
    }

    /// Returns the length in bytes in `head`, the first word of a transfer descriptor; a length of
    /// 0 means the largest one [SDHC 1.13.3].
    fn length(&self, head: u32) -> u32 {
        let low = head >> 16;
        if low == 0 && self.config.mistakes.zero_length_moves_nothing {
            return 0;
        }
        if self.regs.host2 & host2::LENGTH_26 == 0 {
            return if low == 0 { 0x1_0000 } else { low };
        }
        match (head >> 6 & 0x3ff) << 16 | low {
            0 => 0x400_0000,
            n => n,
        }
    }
}
