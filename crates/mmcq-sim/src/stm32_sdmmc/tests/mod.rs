//! Tests of the SDMMC model with scripted cards and with card models. They use only registers.
//! Comments name the source of each fact: sections are those of RM0399, the reference manual of the
//! H745 and H755.

mod busy;
mod commands;
mod embassy;
mod errors;
mod idma;
mod interrupts;
mod power;
mod random;
mod transfers;
mod voltage;

use super::{Stm32Sdmmc, Stm32SdmmcConfig};
use crate::card::Card;
use crate::faults::{Faults, Plan, Point, Strike};
use crate::memory::ShadowMemory;
use crate::sdhci::tests::rig::{CID, Mapped, TestCard, pattern};
use crate::slot::Controller;
use crate::world::Device;
use mmcq::host::Direction;

pub(super) const POWER: u16 = 0x00;
pub(super) const CLKCR: u16 = 0x04;
pub(super) const ARG: u16 = 0x08;
pub(super) const CMD: u16 = 0x0c;
pub(super) const RESPCMD: u16 = 0x10;
pub(super) const RESP1: u16 = 0x14;
pub(super) const DTIMER: u16 = 0x24;
pub(super) const DLEN: u16 = 0x28;
pub(super) const DCTRL: u16 = 0x2c;
pub(super) const DCOUNT: u16 = 0x30;
pub(super) const STA: u16 = 0x34;
pub(super) const ICR: u16 = 0x38;
pub(super) const MASK: u16 = 0x3c;
pub(super) const FIFOTHR: u16 = 0x44;
pub(super) const IDMACTRL: u16 = 0x50;
pub(super) const IDMABSIZE: u16 = 0x54;
pub(super) const IDMABASE0: u16 = 0x58;
pub(super) const IDMABASE1: u16 = 0x5c;
pub(super) const IDMALAR: u16 = 0x64;
pub(super) const IDMABAR: u16 = 0x68;
pub(super) const FIFO: u16 = 0x80;

// Bits of the status register STA.
pub(super) const CCRCFAIL: u32 = 1 << 0;
pub(super) const DCRCFAIL: u32 = 1 << 1;
pub(super) const CTIMEOUT: u32 = 1 << 2;
pub(super) const DTIMEOUT: u32 = 1 << 3;
pub(super) const TXUNDERR: u32 = 1 << 4;
pub(super) const RXOVERR: u32 = 1 << 5;
pub(super) const CMDREND: u32 = 1 << 6;
pub(super) const CMDSENT: u32 = 1 << 7;
pub(super) const DATAEND: u32 = 1 << 8;
pub(super) const DHOLD: u32 = 1 << 9;
pub(super) const DBCKEND: u32 = 1 << 10;
pub(super) const DABORT: u32 = 1 << 11;
pub(super) const DPSMACT: u32 = 1 << 12;
pub(super) const CPSMACT: u32 = 1 << 13;
pub(super) const TXFIFOHE: u32 = 1 << 14;
pub(super) const RXFIFOHF: u32 = 1 << 15;
pub(super) const TXFIFOF: u32 = 1 << 16;
pub(super) const RXFIFOF: u32 = 1 << 17;
pub(super) const TXFIFOE: u32 = 1 << 18;
pub(super) const RXFIFOE: u32 = 1 << 19;
pub(super) const LEVELS: u32 = TXFIFOHE | RXFIFOHF | TXFIFOF | RXFIFOF | TXFIFOE | RXFIFOE;
pub(super) const BUSYD0: u32 = 1 << 20;
pub(super) const BUSYD0END: u32 = 1 << 21;
pub(super) const SDIOIT: u32 = 1 << 22;
pub(super) const VSWEND: u32 = 1 << 25;
pub(super) const CKSTOP: u32 = 1 << 26;
pub(super) const IDMATE: u32 = 1 << 27;
pub(super) const IDMABTC: u32 = 1 << 28;

// Bits of the command register CMD.
pub(super) const TRANS: u32 = 1 << 6;
pub(super) const STOP: u32 = 1 << 7;
pub(super) const NONE: u32 = 0;
pub(super) const SHORT: u32 = 1 << 8;
pub(super) const NO_CRC: u32 = 2 << 8;
pub(super) const LONG: u32 = 3 << 8;
pub(super) const ENABLE: u32 = 1 << 12;
pub(super) const HOLD: u32 = 1 << 13;

// Values of DCTRL: blocks of 512 bytes.
pub(super) const READ: u32 = 9 << 4 | 1 << 1;
pub(super) const WRITE: u32 = 9 << 4;
pub(super) const OPEN: u32 = 3 << 2;
pub(super) const FIFORST: u32 = 1 << 13;

/// Value of CLKCR: 10 MHz from 200 MHz, and 4 lines.
pub(super) const SLOW: u32 = 10 | 1 << 14;
/// Bit of CLKCR: flow control.
pub(super) const FLOW: u32 = 1 << 17;

/// Test bench that accesses registers as a driver does.
pub(super) struct Rig {
    pub host: Stm32Sdmmc,
    pub memory: ShadowMemory,
    pub now: u64,
    pub card: TestCard,
}

impl Rig {
    /// Makes a test bench after reset, with a scripted card.
    pub fn cold(config: Stm32SdmmcConfig) -> Rig {
        let card = TestCard::new();
        Rig::with(config, ShadowMemory::default(), Box::new(card.clone()), card)
    }

    /// Makes a test bench after reset, with this card.
    pub fn of(config: Stm32SdmmcConfig, card: Box<dyn Card>) -> Rig {
        Rig::with(config, ShadowMemory::default(), card, TestCard::new())
    }

    fn with(config: Stm32SdmmcConfig, memory: ShadowMemory, inside: Box<dyn Card>, card: TestCard) -> Rig {
        config.check().unwrap();
        let host = Stm32Sdmmc::new(config, memory.clone(), Some(inside));
        Rig { host, memory, now: 1_000, card }
    }

    /// Writes the power states power-cycle, off and on [58.6.7], waits for the first 74 clocks, and
    /// sets this CLKCR.
    pub fn power_up(&mut self, clkcr: u32) {
        self.w(POWER, 2);
        self.now += 1_000_000;
        self.w(POWER, 0);
        self.now += 1_000_000;
        self.w(CLKCR, 250);
        self.w(POWER, 3);
        self.now += 200_000;
        self.w(CLKCR, clkcr);
        self.w(DTIMER, u32::MAX);
        self.now += 2_000_000;
    }

    /// Makes a test bench that is ready: 10 MHz, 4 lines, with these flow control bits.
    pub fn warm(config: Stm32SdmmcConfig, flow: u32) -> Rig {
        let mut rig = Rig::cold(config);
        rig.power_up(SLOW | flow);
        rig
    }

    /// Sets the faults that strike the next events at a point.
    pub fn next(&mut self, point: Point, strikes: &[Strike]) {
        self.host.set_faults(Faults::new(Plan::none().next(point, strikes)));
    }

    pub fn r(&mut self, offset: u16) -> u32 {
        self.host.read(offset, 4, self.now)
    }

    pub fn w(&mut self, offset: u16, value: u32) {
        self.host.write(offset, 4, value, self.now);
    }

    /// Clears all flags, and writes a command.
    pub fn start(&mut self, command: u32, arg: u32) {
        self.w(ICR, u32::MAX);
        self.w(ARG, arg);
        self.w(CMD, ENABLE | command);
    }

    /// Returns STA. With the IDMA on, the bits of the FIFO level are left out, since a driver does
    /// not use them.
    pub fn sta(&mut self) -> u32 {
        let levels = if self.r(IDMACTRL) & 1 != 0 { LEVELS } else { 0 };
        self.r(STA) & !levels
    }

    /// Advances the model to its next event.
    pub fn step(&mut self) {
        self.now = self.host.next_event_ns().expect("something is to happen").max(self.now);
        self.host.advance(self.now);
    }

    /// Waits until one of these flags is set. Returns [`sta`](Self::sta).
    pub fn until(&mut self, flags: u32) -> u32 {
        for _ in 0..100_000 {
            let status = self.sta();
            if status & flags != 0 {
                return status;
            }
            self.step();
        }
        panic!("STA never showed {flags:#x}: {:#x}", self.r(STA));
    }

    /// Sends a command with a short response, by polling. Returns the content of the response.
    pub fn command(&mut self, index: u32, arg: u32) -> u32 {
        self.start(SHORT | index, arg);
        let status = self.until(CMDREND | CCRCFAIL | CTIMEOUT);
        assert_eq!(status & (CMDREND | CCRCFAIL | CTIMEOUT), CMDREND, "CMD{index}");
        self.r(RESP1)
    }

    /// Sets DCTRL and the data length for a transfer of this number of bytes.
    pub fn prepare(&mut self, dctrl: u32, bytes: u32) {
        self.w(DLEN, bytes);
        self.w(DCTRL, dctrl);
    }

    /// Sets up the IDMA with a single buffer.
    pub fn buffer(&mut self, at: u64) {
        self.w(IDMABASE0, at as u32);
        self.w(IDMACTRL, 1);
    }

    /// Returns mapped memory with zeros for a read.
    pub fn to_read(&self, bytes: usize) -> Mapped {
        Mapped::new(&self.memory, vec![0; bytes], Direction::Read)
    }

    /// Returns mapped memory with these bytes for a write.
    pub fn to_write(&self, bytes: Vec<u8>) -> Mapped {
        Mapped::new(&self.memory, bytes, Direction::Write)
    }

    /// Reads words from the FIFO until it is empty, and appends their bytes to `got`.
    pub fn drain(&mut self, got: &mut Vec<u8>) {
        while self.r(STA) & (DPSMACT | RXFIFOE) == DPSMACT {
            got.extend(self.r(FIFO).to_le_bytes());
        }
    }

    pub fn violations(&self) -> u64 {
        self.host.protocol_violations()
    }

    /// Returns what the scripted card holds from this block on.
    pub fn stored(&self, block: usize, bytes: usize) -> Vec<u8> {
        self.card.0.borrow().blocks[block * 512..block * 512 + bytes].to_vec()
    }
}
