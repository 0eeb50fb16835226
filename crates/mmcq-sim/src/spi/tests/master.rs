//! An SPI master that the tests control. It computes its CRCs with the crate `crc`.

use crate::card::tests::{medium, profile};
use crate::card::{CardProfile, Quirks};
use crate::faults::{Faults, Plan};
use crate::slot::Controller;
use crate::spi::SpiSlot;

const CRC7: crc::Crc<u8> = crc::Crc::<u8>::new(&crc::CRC_7_MMC);
const CRC16: crc::Crc<u16> = crc::Crc::<u16>::new(&crc::CRC_16_XMODEM);

pub(in crate::spi) fn crc16(bytes: &[u8]) -> [u8; 2] {
    CRC16.checksum(bytes).to_be_bytes()
}

pub(in crate::spi) fn frame(index: u8, arg: u32) -> [u8; 6] {
    let [a, b, c, d] = arg.to_be_bytes();
    let frame = [0x40 | index, a, b, c, d, 0];
    [frame[0], a, b, c, d, CRC7.checksum(&frame[..5]) << 1 | 1]
}

pub(in crate::spi) struct Master {
    pub bus: SpiSlot,
    pub now_ns: u64,
    pub sectors: u32,
}

impl Master {
    /// Makes a master with the card of this profile, which has power and is not initialised.
    pub fn new(file: &str) -> Self {
        Self::with(profile(file))
    }

    pub fn with(profile: CardProfile) -> Self {
        let card = profile.build(medium(&profile)).unwrap();
        let sectors = (profile.capacity_bytes() / 512) as u32;
        Master { bus: SpiSlot::new(Some(card)), now_ns: 1_000_000, sectors }
    }

    pub fn with_quirks(file: &str, quirks: impl FnOnce(&mut Quirks)) -> Self {
        let mut profile = profile(file);
        quirks(profile.quirks_mut());
        Self::with(profile)
    }

    /// Makes a master with the card of this profile, which is ready, at 25 MHz, and checks CRCs.
    pub fn up(file: &str) -> Self {
        let mut master = Self::new(file);
        master.bring_up();
        master
    }

    pub fn bring_up(&mut self) {
        self.bus.set_clock(400_000, self.now_ns);
        self.bus.select(false, self.now_ns);
        self.send(&[0xff; 10]);
        self.bus.select(true, self.now_ns);
        assert_eq!(self.command(0, 0), 0x01);
        assert_eq!(self.command(59, 1), 0x01);
        let high = if self.command(8, 0x1aa) == 0x01 {
            assert_eq!(self.take(4), [0, 0, 1, 0xaa]);
            1 << 30
        } else {
            0
        };
        let mut tries = 0;
        while self.app(41, high) != 0 {
            tries += 1;
            assert!(tries < 2_000, "never ready");
        }
        assert!(tries > 0, "a card needs time to power up");
        self.bus.set_clock(25_000_000, self.now_ns);
    }

    /// Initialises the card from `idle` again; its power-up is over.
    pub fn bring_up_again(&mut self) {
        assert_eq!(self.command(59, 1), 0x01);
        assert_eq!(self.command(8, 0x1aa), 0x01);
        self.take(4);
        for _ in 0..2_000 {
            if self.app(41, 1 << 30) == 0 {
                self.bus.set_clock(25_000_000, self.now_ns);
                return;
            }
        }
        panic!("never ready");
    }

    pub fn faults(&mut self, plan: Plan) -> Faults {
        let faults = Faults::new(plan);
        self.bus.set_faults(faults.clone());
        self.bus.card_mut().unwrap().set_faults(faults.clone());
        faults
    }

    pub fn exchange(&mut self, out: u8) -> u8 {
        let (back, end_ns) = self.bus.exchange(out, self.now_ns);
        self.now_ns = end_ns;
        back
    }

    pub fn send(&mut self, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        self.now_ns = self.bus.transfer(&mut bytes, self.now_ns);
    }

    pub fn take(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0xff; len];
        self.now_ns = self.bus.transfer(&mut bytes, self.now_ns);
        bytes
    }

    /// Sends a byte FFh and the command frame. Returns the response, which may come after up
    /// to eight bytes FFh; 0xff if none comes.
    pub fn command(&mut self, index: u8, arg: u32) -> u8 {
        self.send(&[0xff]);
        self.send(&frame(index, arg));
        if index == 12 {
            self.exchange(0xff);
        }
        self.response()
    }

    pub fn response(&mut self) -> u8 {
        (0..9).map(|_| self.exchange(0xff)).find(|r1| r1 & 0x80 == 0).unwrap_or(0xff)
    }

    pub fn app(&mut self, index: u8, arg: u32) -> u8 {
        assert!(matches!(self.command(55, 0), 0 | 1), "CMD55");
        self.command(index, arg)
    }

    /// Sends CMD13. Returns both bytes of R2.
    pub fn status(&mut self) -> [u8; 2] {
        let r1 = self.command(13, 0);
        [r1, self.exchange(0xff)]
    }

    /// Reads bytes until one is not FFh. Returns the number of bytes before it, and the byte.
    pub fn hunt(&mut self, most: u32) -> (u32, u8) {
        for waited in 0..most {
            let byte = self.exchange(0xff);
            if byte != 0xff {
                return (waited, byte);
            }
        }
        (most, 0xff)
    }

    /// Reads a block, and checks its start token and its CRC.
    pub fn block(&mut self, len: usize) -> Vec<u8> {
        let (waited, token) = self.hunt(100_000);
        assert_eq!(token, 0xfe, "after {waited} bytes");
        assert!(waited > 0, "N_AC is at least one byte");
        let data = self.take(len);
        assert_eq!(self.take(2), crc16(&data));
        data
    }

    /// Sends a block with this token. Returns the data response token.
    pub fn give(&mut self, token: u8, data: &[u8]) -> u8 {
        self.give_with(token, data, crc16(data))
    }

    pub fn give_with(&mut self, token: u8, data: &[u8], crc: [u8; 2]) -> u8 {
        self.send(&[0xff, token]);
        self.send(data);
        self.send(&crc);
        self.exchange(0xff)
    }

    /// Waits for the end of busy. Returns its duration in ns.
    pub fn ready(&mut self) -> u64 {
        let from_ns = self.now_ns;
        for _ in 0..10_000_000 {
            match self.exchange(0xff) {
                0 => {}
                0xff => return self.now_ns - from_ns,
                other => panic!("{other:02x} in busy"),
            }
        }
        panic!("busy for ever");
    }

    pub fn write(&mut self, at: u32, data: &[u8]) {
        assert_eq!(self.command(24, at), 0);
        assert_eq!(self.give(0xfe, data) & 0x1f, 0x05);
        self.ready();
        assert_eq!(self.status(), [0, 0]);
    }

    pub fn read(&mut self, at: u32) -> Vec<u8> {
        assert_eq!(self.command(17, at), 0);
        self.block(512)
    }

    /// Returns the content of a sector, read without the bus.
    pub fn peek(&mut self, sector: u64) -> Vec<u8> {
        let mut bytes = vec![0; 512];
        self.bus.card_mut().unwrap().peek(sector * 512, &mut bytes).unwrap();
        bytes
    }
}
