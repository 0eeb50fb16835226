//! A scripted host for tests: it drives the bus, advances the time by the wire time of each token,
//! and checks every answer.

use crate::card::{Answer, BusState, Card, Flow, ReadBlock, Reply, WriteBlock};

pub(crate) struct Host<C> {
    pub(crate) card: C,
    pub(crate) bus: BusState,
    pub(crate) now_ns: u64,
    pub(crate) rca: u32,
    pub(crate) last: Reply,
}

impl<C: Card> Host<C> {
    /// Makes a host that has switched the power on, has set 400 kHz, and has waited as the
    /// standards demand.
    pub(crate) fn new(card: C) -> Self {
        let bus = BusState::default();
        let mut host = Self { card, bus, now_ns: 1_000, rca: 0, last: Reply::SILENT };
        host.power_up();
        host
    }

    pub(crate) fn power_up(&mut self) {
        self.set(|bus| *bus = BusState { powered: true, clock_hz: 400_000, width: 1, ..BusState::default() });
        self.wait(1_000_000);
    }

    pub(crate) fn power_off(&mut self) {
        self.set(|bus| *bus = BusState::default());
        self.wait(1_000_000);
    }

    pub(crate) fn set(&mut self, change: impl FnOnce(&mut BusState)) {
        change(&mut self.bus);
        self.card.bus_changed(&self.bus, self.now_ns);
    }

    pub(crate) fn wait(&mut self, ns: u64) {
        self.now_ns += ns;
    }

    pub(crate) fn clocks_ns(&self, clocks: u64) -> u64 {
        (clocks * 1_000_000_000).div_ceil(u64::from(self.bus.clock_hz.max(1)))
    }

    /// Returns the wire time of a block in ns: start bit, data, CRC16, end bit.
    pub(crate) fn block_ns(&self, bytes: usize) -> u64 {
        let lines = u64::from(self.bus.width) << u32::from(self.bus.ddr);
        self.clocks_ns((bytes as u64 * 8).div_ceil(lines) + 18)
    }

    /// Sends a command. Afterwards the time is the end of its response.
    pub(crate) fn send(&mut self, index: u8, arg: u32) -> Reply {
        self.wait(self.clocks_ns(48 + 8));
        self.last = self.card.command(index, arg, self.now_ns);
        let answer = match self.last.answer {
            None => 64,
            Some(Answer::Short { .. }) => 2 + 48,
            Some(Answer::Long(_)) => 2 + 136,
        };
        self.wait(self.clocks_ns(answer));
        self.last
    }

    /// Sends a command that must get a 48-bit response. Returns the content of the response.
    pub(crate) fn short(&mut self, index: u8, arg: u32) -> u32 {
        match self.send(index, arg).answer {
            Some(Answer::Short { index: echoed, content, crc }) => {
                assert_eq!((echoed, crc), (index, true), "answer to CMD{index}");
                content
            }
            other => panic!("CMD{index} {arg:#x} was answered by {other:?}"),
        }
    }

    pub(crate) fn ocr(&mut self, index: u8, arg: u32) -> u32 {
        match self.send(index, arg).answer {
            Some(Answer::Short { index: 0x3f, content, crc: false }) => content,
            other => panic!("CMD{index} {arg:#x} was answered by {other:?}"),
        }
    }

    pub(crate) fn long(&mut self, index: u8, arg: u32) -> [u8; 16] {
        match self.send(index, arg).answer {
            Some(Answer::Long(register)) => register,
            other => panic!("CMD{index} {arg:#x} was answered by {other:?}"),
        }
    }

    pub(crate) fn silent(&mut self, index: u8, arg: u32) {
        let reply = self.send(index, arg);
        assert_eq!(reply, Reply::SILENT, "CMD{index} {arg:#x}");
    }

    /// Sends an application command: CMD55 with the card's RCA, then the command.
    pub(crate) fn app(&mut self, index: u8, arg: u32) -> u32 {
        let status = self.short(55, self.rca << 16);
        assert_eq!(status & 0x20, 0x20, "APP_CMD after CMD55");
        self.short(index, arg)
    }

    /// Sends a command whose response must not have an error bit, and waits for the end of busy.
    pub(crate) fn ok(&mut self, index: u8, arg: u32) -> u32 {
        let status = self.short(index, arg);
        assert_eq!(status & 0xfdf9_a080, 0, "errors in {status:#010x} after CMD{index} {arg:#x}");
        self.wait_busy();
        status
    }

    /// Sends CMD12 to a read that may have reached the end of the card: some cards report
    /// OUT_OF_RANGE then [SD 4.3.3].
    pub(crate) fn stop_at_end(&mut self) {
        let status = self.short(12, 0);
        assert_eq!(status & 0x7df9_a080, 0, "errors in {status:#010x} after CMD12");
        self.wait_busy();
    }

    pub(crate) fn wait_busy(&mut self) {
        if let Some(until_ns) = self.last.busy_until_ns {
            if until_ns > self.now_ns {
                assert!(self.card.busy(self.now_ns));
                self.now_ns = until_ns;
            }
            assert!(!self.card.busy(self.now_ns));
        }
    }

    pub(crate) fn status(&mut self) -> u32 {
        self.short(13, self.rca << 16)
    }

    /// Returns CURRENT_STATE of the card status.
    pub(crate) fn state(&mut self) -> u32 {
        self.status() >> 9 & 0xf
    }

    pub(crate) fn block(&mut self, buffer: &mut [u8]) -> ReadBlock {
        let block = self.card.read_block(buffer, self.now_ns);
        if let ReadBlock::At { start_ns, .. } = block {
            assert!(start_ns >= self.now_ns, "a block starts before the bus is free");
            self.now_ns = start_ns + self.block_ns(buffer.len());
        }
        block
    }

    /// Receives this many blocks of the size that the last command announced. All must have a good
    /// CRC.
    pub(crate) fn receive(&mut self, blocks: usize) -> Vec<u8> {
        let Flow::Read { block_size } = self.last.flow else { panic!("no data follow: {:?}", self.last) };
        let mut data = vec![0u8; usize::from(block_size) * blocks];
        for block in data.chunks_exact_mut(block_size.into()) {
            match self.block(block) {
                ReadBlock::At { crc_ok: true, .. } => {}
                other => panic!("read gave {other:?}"),
            }
        }
        data
    }

    pub(crate) fn give(&mut self, data: &[u8]) -> WriteBlock {
        self.wait(self.clocks_ns(2) + self.block_ns(data.len()));
        let taken = self.card.write_block(data, true, self.now_ns);
        if taken.busy_until_ns > self.now_ns {
            assert!(self.card.busy(self.now_ns));
            self.now_ns = taken.busy_until_ns;
        }
        assert!(!self.card.busy(self.now_ns));
        taken
    }

    /// Sends blocks that the card must accept.
    pub(crate) fn transmit(&mut self, data: &[u8]) {
        let Flow::Write { block_size } = self.last.flow else { panic!("no data wanted: {:?}", self.last) };
        for block in data.chunks(block_size.into()) {
            let taken = self.give(block);
            assert_eq!(taken.status, Some(true));
        }
    }

    /// Brings an SD card from power-up to `tran`: 4 lines, default speed, 1.8 V if `uhs`.
    pub(crate) fn bring_up_sd(&mut self, uhs: bool) -> [u8; 16] {
        self.silent(0, 0);
        let v2 = self.send(8, 0x1aa).answer.is_some();
        // ACMD41 announces high capacity and 38-bit addresses.
        let arg = 0x00ff_8000 | if v2 { 1 << 30 | 1 << 27 } else { 0 } | if uhs { 1 << 24 } else { 0 };
        let mut tries = 0;
        let ocr = loop {
            self.short(55, 0);
            let ocr = self.ocr(41, arg);
            if ocr >> 31 == 1 {
                break ocr;
            }
            tries += 1;
            assert!(tries < 200, "busy for ever");
            self.wait(10_000_000);
        };
        assert!(tries > 0, "a card needs time to power up");
        if uhs {
            assert_eq!(ocr >> 24 & 1, 1);
            self.switch_voltage();
        }
        self.long(2, 0);
        self.rca = self.short(3, 0) >> 16;
        assert_ne!(self.rca, 0);
        self.set(|bus| bus.clock_hz = 25_000_000);
        let csd = self.long(9, self.rca << 16);
        self.ok(7, self.rca << 16);
        self.app(6, 2);
        self.set(|bus| bus.width = 4);
        csd
    }

    pub(crate) fn switch_voltage(&mut self) {
        self.short(11, 0);
        self.wait(1_000_000);
        assert!(self.card.switching_voltage(self.now_ns));
        self.set(|bus| bus.clock_hz = 0);
        self.set(|bus| bus.signal18 = true);
        self.wait(5_000_000);
        self.set(|bus| bus.clock_hz = 400_000);
        self.wait(1_000_000);
        assert!(!self.card.switching_voltage(self.now_ns));
    }

    /// Sends CMD6 to an SD card. Returns its status block.
    pub(crate) fn sd_switch(&mut self, arg: u32) -> Vec<u8> {
        self.short(6, arg);
        let status = self.receive(1);
        self.wait(self.clocks_ns(8));
        status
    }

    /// Brings an eMMC from power-up to `tran`: one line, 26 MHz, RCA 1.
    pub(crate) fn bring_up_emmc(&mut self) -> [u8; 16] {
        self.silent(0, 0);
        let mut tries = 0;
        while self.ocr(1, 0x40ff_8080) >> 31 == 0 {
            tries += 1;
            assert!(tries < 200, "busy for ever");
            self.wait(4_000_000);
        }
        assert!(tries > 0, "a device needs time to power up");
        self.long(2, 0);
        self.rca = 1;
        self.short(3, 1 << 16);
        self.set(|bus| bus.clock_hz = 26_000_000);
        let csd = self.long(9, 1 << 16);
        self.ok(7, 1 << 16);
        csd
    }

    /// Writes a byte of EXT_CSD by CMD6 and reads the status. Returns true if the card accepted the
    /// value.
    pub(crate) fn ext_write(&mut self, index: u32, value: u32) -> bool {
        self.short(6, 0x0300_0000 | index << 16 | value << 8);
        self.wait_busy();
        self.status() & 0x80 == 0
    }

    /// Writes a byte of EXT_CSD that changes the bus mode. The host changes the bus before it reads
    /// the status.
    pub(crate) fn ext_mode(&mut self, index: u32, value: u32, change: impl FnOnce(&mut BusState)) {
        self.short(6, 0x0300_0000 | index << 16 | value << 8);
        self.wait_busy();
        self.set(change);
        assert_eq!(self.status() & 0x80, 0, "EXT_CSD[{index}] = {value:#x}");
    }

    pub(crate) fn ext_csd(&mut self) -> Vec<u8> {
        self.ok(8, 0);
        self.receive(1)
    }

    /// Switches an eMMC to HS with eight lines.
    pub(crate) fn emmc_hs8(&mut self) {
        assert!(self.ext_write(183, 2));
        self.set(|bus| bus.width = 8);
        assert!(self.ext_write(185, 1));
        self.set(|bus| bus.clock_hz = 52_000_000);
    }
}
