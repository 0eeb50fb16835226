//! Tests that send raw commands to an I/O card, written from the standard.

mod bring_up;
mod data;
mod interrupt;
mod packets;
mod profiles;
mod quirks;

use super::config::{Cis, FunctionConfig, IoConfig, function_chain};
use super::{Function, IoCard, IoProfile, Loopback};
use crate::card::tests::host::Host;
use crate::card::{Answer, Flow};

/// An I/O card with two loopback functions, with largest blocks of 512 and 64 bytes.
pub(super) fn config() -> IoConfig {
    let function = |max_block_bytes, enable_ns| FunctionConfig {
        class: 0,
        max_block_bytes,
        enable_ns,
        enable_timeout_10ms: 100,
    };
    let functions = vec![function(512, 3_000_000), function(64, 0)];
    let mut chains = vec![super::config::common_chain(0x0104, 0x00c5, 512, 0x32)];
    chains.extend(functions.iter().map(|f| function_chain(f, 0x00ff_8000)));
    IoConfig {
        revision: 0x43,
        sd_revision: 0x03,
        capabilities: 0x13,
        ocr: 0x00ff_8000,
        high_speed: true,
        uhs: 0,
        async_interrupt: false,
        max_block_bytes: 512,
        power_up_ns: 20_000_000,
        voltage_release_ns: 100_000,
        rca: 0x1234,
        functions,
        cis: Cis::chains(&chains),
        quirks: crate::card::io::IoQuirks::default(),
    }
}

pub(super) fn card(config: IoConfig) -> IoCard {
    let functions = config.functions.iter();
    let functions = functions.map(|_| -> Box<dyn Function> { Box::new(Loopback::new(1_000, 500)) });
    let functions = functions.collect();
    IoCard::new(config, functions)
}

/// An I/O card with one loopback function that is ready at once, and blocks up to 2 KiB.
pub(crate) fn loopback_card() -> IoCard {
    let function = FunctionConfig { class: 0, max_block_bytes: 2048, enable_ns: 0, enable_timeout_10ms: 1 };
    let config = IoConfig {
        revision: 0x32,
        sd_revision: 2,
        capabilities: 3,
        ocr: 0x00ff_8000,
        high_speed: true,
        uhs: 0,
        async_interrupt: false,
        max_block_bytes: 2048,
        power_up_ns: 1_000_000,
        voltage_release_ns: 0,
        rca: 1,
        functions: vec![function],
        cis: Cis::raw(vec![0xff], 0xff),
        quirks: crate::card::io::IoQuirks::default(),
    };
    let function: Box<dyn Function> = Box::new(Loopback::new(0, 0));
    IoCard::new(config, vec![function])
}

pub(crate) fn type_a() -> IoProfile {
    let path = format!("{}/cards/bt-type-a.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    IoProfile::from_toml(&text, "bt-type-a.toml").unwrap_or_else(|error| panic!("{error}"))
}

/// Commands of a host to an I/O card, with every bit of their arguments written out.
impl Host<IoCard> {
    /// Sends CMD52. Returns the content of R5.
    fn direct(&mut self, write: bool, number: u32, raw: bool, address: u32, data: u8) -> u32 {
        let arg =
            u32::from(write) << 31 | number << 28 | u32::from(raw) << 27 | address << 9 | u32::from(data);
        self.short(52, arg)
    }

    fn get(&mut self, number: u32, address: u32) -> u8 {
        let content = self.direct(false, number, false, address, 0);
        assert_eq!(content >> 8 & 0xcf, 0, "R5 {content:#x} at {number}:{address:#x}");
        content as u8
    }

    fn put(&mut self, number: u32, address: u32, data: u8) {
        let content = self.direct(true, number, false, address, data);
        assert_eq!(content >> 8 & 0xcf, 0, "R5 {content:#x} at {number}:{address:#x}");
    }

    /// Sends CMD53 with write flag, function, block mode, address increment, address and count.
    /// Returns the content of R5.
    fn extended(&mut self, write: bool, number: u32, modes: (bool, bool), address: u32, count: u32) -> u32 {
        let (blocks, increment) = (u32::from(modes.0), u32::from(modes.1));
        let arg =
            u32::from(write) << 31 | number << 28 | blocks << 27 | increment << 26 | address << 9 | count;
        self.short(53, arg)
    }

    fn read53(
        &mut self,
        number: u32,
        modes: (bool, bool),
        address: u32,
        count: u32,
        blocks: usize,
    ) -> Vec<u8> {
        assert_eq!(self.extended(false, number, modes, address, count), 0x1000);
        let data = self.receive(blocks);
        self.wait(self.clocks_ns(8));
        data
    }

    fn write53(&mut self, number: u32, modes: (bool, bool), address: u32, count: u32, data: &[u8]) {
        assert_eq!(self.extended(true, number, modes, address, count), 0x1000);
        self.transmit(data);
    }

    /// Sends CMD5 until the card is ready, then CMD3 and CMD7.
    fn select_io(&mut self, s18r: bool) -> u32 {
        let mut tries = 0;
        let arg = 0x00ff_8000 | u32::from(s18r) << 24;
        let ocr = loop {
            let ocr = self.ocr(5, arg);
            if ocr >> 31 == 1 {
                break ocr;
            }
            tries += 1;
            assert!(tries < 100, "busy for ever");
            self.wait(10_000_000);
        };
        assert!(tries > 0, "a card needs time to power up");
        if ocr >> 24 & 1 == 1 {
            self.switch_voltage();
        }
        self.rca = self.short(3, 0) >> 16;
        assert_ne!(self.rca, 0);
        assert_eq!(self.short(7, self.rca << 16), 0x1e00);
        self.set(|bus| bus.clock_hz = 25_000_000);
        ocr
    }

    /// Selects the card, sets 4 data lines, enables these functions and waits until they are ready.
    fn ready(card: IoCard, functions: u8) -> Self {
        let mut host = Host::new(card);
        host.select_io(false);
        host.put(0, 7, 2);
        host.set(|bus| bus.width = 4);
        host.put(0, 2, functions);
        host.wait(10_000_000);
        assert_eq!(host.get(0, 3), functions);
        host
    }
}
