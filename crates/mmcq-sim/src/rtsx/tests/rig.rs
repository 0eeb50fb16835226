//! Test bench: a card reader chip with a scripted card. The tests access registers as a driver
//! does.

use crate::card::Card;
use crate::faults::{Faults, Plan, Point, Strike};
use crate::memory::ShadowMemory;
use crate::rtsx::bits::{card, clk, dma, int, pads, phy, sd, window as w};
use crate::rtsx::{Rtsx, RtsxConfig};
pub use crate::sdhci::tests::rig::{CID, Mapped, TestCard, pattern};
use crate::slot::Controller;
use crate::world::Device;
use mmcq::host::Direction;

pub const DONE: u32 = int::CMD_DONE | int::TRANS_OK;
pub const FAILED: u32 = int::CMD_DONE | int::TRANS_FAIL;
pub const DATA: u32 = int::DATA_DONE | int::TRANS_OK;

/// Value of CFG2: the command has no response.
pub const R0: u8 = 0x04;
/// Value of CFG2: the command has an R1.
pub const R1: u8 = 0x01;
/// Value of CFG2: the command has an R1b.
pub const R1B: u8 = 0x09;
/// Value of CFG2: the command has an R2.
pub const R2: u8 = 0x02;
/// Value of CFG2: the command has an R3.
pub const R3: u8 = 0x05;

/// Transfer mode in TRANSFER: written blocks without a command.
pub const WRITE_3: u8 = 0x01;
/// Transfer mode in TRANSFER: read blocks without a command.
pub const READ_3: u8 = 0x05;
/// Transfer mode in TRANSFER: a command without data.
pub const COMMAND: u8 = 0x08;
/// Transfer mode in TRANSFER: a command and written blocks.
pub const WRITE_2: u8 = 0x0a;
/// Transfer mode in TRANSFER: a command and one read block in the ping-pong buffer.
pub const NORMAL_READ: u8 = 0x0c;
/// Transfer mode in TRANSFER: a command and read blocks.
pub const READ_2: u8 = 0x0e;
/// Transfer mode in TRANSFER: a tuning command and its block.
pub const TUNING: u8 = 0x0f;

/// Makes a READ entry of a host command list for this register. (`wr` makes a WRITE entry, `ck` a
/// CHECK entry.)
pub fn rd(register: u16) -> u32 {
    u32::from(register & 0x3fff) << 16
}
pub fn wr(register: u16, mask: u8, data: u8) -> u32 {
    1 << 30 | rd(register) | u32::from(mask) << 8 | u32::from(data)
}
pub fn ck(register: u16, mask: u8, data: u8) -> u32 {
    2 << 30 | rd(register) | u32::from(mask) << 8 | u32::from(data)
}
pub fn ended() -> u32 {
    ck(sd::TRANSFER, sd::END | sd::IDLE, sd::END | sd::IDLE)
}

pub struct Rig {
    pub host: Rtsx,
    pub card: TestCard,
    pub memory: ShadowMemory,
    pub now: u64,
    /// Command list that was started last. It stays mapped until the next list starts.
    list: Option<Mapped>,
    /// SG table that was started last. It stays mapped until the next table starts.
    table: Option<Mapped>,
}

impl Rig {
    /// Makes a test bench without power, with all interrupts enabled.
    pub fn cold(config: RtsxConfig) -> Self {
        let card = TestCard::new();
        Self::with_card(config, card.clone(), Box::new(card))
    }

    pub fn with_card(config: RtsxConfig, card: TestCard, inside: Box<dyn Card>) -> Self {
        let memory = ShadowMemory::default();
        let host = Rtsx::new(config, memory.clone(), Some(inside));
        let mut rig = Rig { host, card, memory, now: 0, list: None, table: None };
        rig.w(w::BIER, u32::MAX);
        rig
    }

    /// Makes a test bench with power and clock: SDR104, 4 lines, 208 MHz, phases that work.
    pub fn warm(config: RtsxConfig) -> Self {
        let mut rig = Self::cold(config);
        rig.power_up();
        rig.low_voltage(true);
        rig.run(2_000_000);
        rig.set(sd::CFG1, 0xff, sd::MODE_SD30 | 1);
        rig.clock(206, 0x10);
        rig.phase(clk::VPTX, 1);
        rig.phase(clk::VPRX, 12);
        assert_eq!((rig.host.bus().clock_hz, rig.host.bus().sample_error), (208_000_000, 0));
        rig.assert_clean();
        rig
    }

    /// Powers the card up in the steps of a driver: identification clock, power, outputs, first
    /// clocks.
    pub fn power_up(&mut self) {
        self.set(card::SHARE_MODE, 0x0f, card::SHARE_SD);
        self.set(card::SELECT, 7, card::SELECT_SD);
        self.set(sd::CFG1, 0xff, 0x80);
        self.clock(118, 0x30);
        self.set(card::CLK_EN, 4, 4);
        self.pulls(true);
        self.set(card::PWR_CTL, 3, 2);
        self.run(5_000_000);
        self.set(card::PWR_CTL, 3, 0);
        self.set(pads::GATE, pads::GATE_MASK, pads::GATE_MASK);
        self.set(card::OE, 4, 4);
        self.set(sd::BUS_STAT, sd::TOGGLE, sd::TOGGLE);
        self.run(2_000_000);
        self.set(sd::BUS_STAT, sd::TOGGLE, 0);
    }

    /// Pulls CMD and DAT of an RTS5249 up or down.
    pub fn pulls(&mut self, up: bool) {
        let values = if up { [0x66, 0xaa, 0xe9, 0xaa] } else { [0x66, 0x55, 0xd5, 0x55] };
        for (at, value) in (pads::PULL1..).zip(values) {
            self.set(at, 0xff, value);
        }
    }

    /// Sets the voltage and the drive strength of an RTS5249's pads.
    pub fn low_voltage(&mut self, low: bool) {
        for (address, value) in [(0x11, 0x3c02u16), (0x08, if low { 0x4ca4 } else { 0x4fe4 })] {
            let [first, second] = value.to_le_bytes();
            self.set(phy::DATA, 0xff, first);
            self.set(phy::DATA + 1, 0xff, second);
            self.set(phy::ADDRESS, 0xff, address);
            self.set(phy::CTL, 0xff, phy::START | phy::WRITE);
        }
        for at in pads::DRIVE {
            self.set(at, 0xff, if low { 0xb3 } else { 0x96 });
        }
    }

    pub fn clock(&mut self, n: u8, divider: u8) {
        self.set(clk::CLK_CTL, 1, 1);
        self.set(clk::SSC_CTL1, 0x80, 0);
        self.set(clk::SSC_DIV_N_0, 0xff, n);
        self.set(clk::CLK_DIV, 0x70, divider);
        self.set(clk::SSC_CTL1, 0x80, 0x80);
        self.run(130_000);
        self.set(clk::CLK_CTL, 1, 0);
    }

    pub fn phase(&mut self, register: u16, phase: u8) {
        self.set(clk::CLK_CTL, 1, 1);
        self.set(register, 0x5f, phase);
        self.set(register, 0x5f, phase | clk::PHASE_NOT_RESET);
        self.set(clk::CLK_CTL, 1, 0);
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

    /// Reads an internal register by an immediate access.
    pub fn get(&mut self, register: u16) -> u8 {
        self.access(w::START | rd(register))
    }
    pub fn set(&mut self, register: u16, mask: u8, data: u8) {
        let told = self.access(w::START | w::WRITE | rd(register) | u32::from(mask) << 8 | u32::from(data));
        assert_eq!(told & mask, data & mask, "write of {register:#x} is verified");
    }
    fn access(&mut self, value: u32) -> u8 {
        self.w(w::HAIMR, value);
        for _ in 0..1024 {
            let value = self.r(w::HAIMR);
            if value & w::START == 0 {
                return value as u8;
            }
            self.now += 50;
        }
        panic!("HAIMR stays busy");
    }

    /// Advances the model by this time, whether interrupts come or not.
    pub fn run(&mut self, ns: u64) {
        let until = self.now + ns;
        while self.host.advance(until) < until {}
        self.now = until;
    }

    /// Waits until all these bits of BIPR (pending interrupts), or a failure, are set, and clears
    /// the set bits. Returns all bits that were set.
    pub fn wait_for(&mut self, bits: u32) -> u32 {
        let mut seen = 0;
        for _ in 0..10 {
            if !self.host.irq() {
                self.now = self.host.advance(self.now + 10_000_000_000);
            }
            let pending = self.r(w::BIPR) & int::LATCHED;
            seen |= pending;
            self.w(w::BIPR, pending);
            if pending == 0 || seen & bits == bits || seen & int::TRANS_FAIL != 0 {
                break;
            }
        }
        seen
    }

    pub fn start_list(&mut self, entries: &[u32], flags: u32) {
        let bytes = entries.iter().flat_map(|e| e.to_le_bytes()).collect::<Vec<_>>();
        let n = bytes.len() as u32;
        let list = Mapped::new(&self.memory, bytes, Direction::Write);
        self.w(w::HCBAR, list.bus as u32);
        self.w(w::HCBCTLR, w::START | flags | n);
        self.list = Some(list);
    }

    pub fn run_list(&mut self, entries: &[u32]) -> u32 {
        self.start_list(entries, 0);
        self.wait_for(int::CMD_DONE)
    }

    /// Starts the DMA with an SG table for a buffer; each entry has address, length and low bits.
    pub fn trigger(&mut self, entries: &[(u64, u32, u32)], to_memory: bool) {
        let bytes = entries
            .iter()
            .flat_map(|&(at, n, low)| (at << 32 | u64::from(n) << 12 | u64::from(low)).to_le_bytes())
            .collect();
        let table = Mapped::new(&self.memory, bytes, Direction::Write);
        self.w(w::HDBAR, table.bus as u32);
        let direction = if to_memory { w::TO_MEMORY } else { 0 };
        self.w(w::HDBCTLR, w::START | w::ADMA | direction);
        self.table = Some(table);
    }

    pub fn mapped(&self, bytes: usize) -> Mapped {
        Mapped::new(&self.memory, vec![0; bytes], Direction::Read)
    }

    pub fn card_bytes(&self, block: usize, bytes: usize) -> Vec<u8> {
        self.card.0.borrow().blocks[block * 512..block * 512 + bytes].to_vec()
    }

    /// Sends a command without data. Returns the bits of BIPR (pending interrupts) that are set
    /// afterwards.
    pub fn command(&mut self, index: u8, arg: u32, response: u8) -> u32 {
        let mut list = token(index, arg, response);
        list.push(wr(card::DATA_SOURCE, 1, 1));
        list.extend([wr(sd::TRANSFER, 0xff, COMMAND | sd::START), ended()]);
        self.run_list(&list)
    }

    /// Returns index and content of the last response.
    pub fn response(&mut self) -> (u8, u32) {
        let content = (1..5).fold(0, |all, i| all << 8 | u32::from(self.get(sd::CMD0 + i)));
        (self.get(sd::CMD0), content)
    }

    /// Clears everything after a failure. The transfer is stopped first: a block that comes after
    /// the flush would stay in the ring buffer.
    pub fn clear_error(&mut self) {
        self.w(w::HCBCTLR, w::STOP);
        self.w(w::HDBCTLR, w::STOP);
        self.set(card::STOP, 0x44, 0x44);
        self.set(dma::CTL, dma::RESET, dma::RESET);
        self.set(dma::RBCTL, dma::FLUSH, dma::FLUSH);
        assert_eq!(self.get(sd::TRANSFER) & 0xb0, sd::IDLE);
    }

    /// Starts a read through the ring buffer; the DMA starts `late_ns` after the list. Returns the
    /// bits of BIPR (pending interrupts) that are set at the end.
    pub fn read(&mut self, command: Option<(u8, u32)>, buffer: &Mapped, late_ns: u64) -> u32 {
        let bytes = buffer.cpu.len() as u32;
        let mode = if command.is_some() { READ_2 } else { READ_3 };
        let mut list = command.map_or(vec![wr(sd::CFG2, 0xff, R0)], |(index, arg)| token(index, arg, R1));
        list.extend(data_set_up(bytes, true));
        list.extend([wr(sd::TRANSFER, 0xff, mode | sd::START), ended()]);
        self.start_list(&list, 0);
        self.run(late_ns);
        self.trigger(&[(buffer.bus, bytes, 0x23)], true);
        self.wait_for(DONE | DATA)
    }

    pub fn write(&mut self, command: Option<(u8, u32)>, data: &[u8], flags: u8) -> u32 {
        let buffer = Mapped::new(&self.memory, data.to_vec(), Direction::Write);
        let bytes = data.len() as u32;
        let mode = if command.is_some() { WRITE_2 } else { WRITE_3 };
        let none = vec![wr(sd::CFG2, 0xff, R0 | flags)];
        let mut list = command.map_or(none, |(index, arg)| token(index, arg, R1 | flags));
        list.extend(data_set_up(bytes, false));
        list.extend([wr(sd::TRANSFER, 0xff, mode | sd::START), ended()]);
        self.start_list(&list, 0);
        self.trigger(&[(buffer.bus, bytes, 0x23)], false);
        self.wait_for(DONE | DATA)
    }

    /// Checks that neither the driver nor the chip has broken a rule.
    pub fn assert_clean(&self) {
        assert_eq!(self.memory.violations(), Vec::<String>::new());
        assert_eq!(self.host.protocol_violations(), 0);
    }
}

/// Returns the entries of a host command list that set the command registers and the response type.
pub fn token(index: u8, arg: u32, response: u8) -> Vec<u32> {
    let mut list = vec![wr(sd::CMD0, 0xff, 0x40 | index)];
    list.extend((1..).zip(arg.to_be_bytes()).map(|(i, byte)| wr(sd::CMD0 + i, 0xff, byte)));
    list.push(wr(sd::CFG2, 0xff, response));
    list
}

/// Returns the entries of a host command list that set byte and block counts, DMA and ring buffer.
pub fn data_set_up(bytes: u32, from_card: bool) -> Vec<u32> {
    let [low, high] = ((bytes / 512) as u16).to_le_bytes();
    let mut list = vec![
        wr(sd::BYTE_CNT, 0xff, 0),
        wr(sd::BYTE_CNT + 1, 0xff, 2),
        wr(sd::BLOCK_CNT, 0xff, low),
        wr(sd::BLOCK_CNT + 1, 0xff, high),
        wr(dma::IRQSTAT0, dma::DONE, dma::DONE),
    ];
    list.extend((0..).zip(bytes.to_le_bytes()).map(|(i, byte)| wr(dma::COUNT + i, 0xff, byte)));
    let direction = if from_card { dma::FROM_CARD } else { 0 };
    list.push(wr(dma::CTL, 0x33, 0x20 | direction | dma::ENABLE));
    list.push(wr(card::DATA_SOURCE, 1, 0));
    list
}
