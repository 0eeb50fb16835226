//! Tests of an eMMC on a board whose data lines are not all good: the stack uses the width that it
//! tested successfully [eMMC 6.6.4].

use super::machine::{Rig, storage_card};
use mmcq::card::{Card as Found, Options};
use mmcq::host::{Caps, Timing, Width, sdhci};
use mmcq_sim::card::{BusState, Card, ReadBlock, Reply, WriteBlock};
use mmcq_sim::sdhci::{Mistakes, SdhciConfig};

/// Brings the card up on `lines_wired` lines, and uses it.
fn found(card: Box<dyn Card>, lines_wired: u8, options: Options) -> Found {
    let mistakes = Mistakes { lines_wired, ..Mistakes::NONE };
    let model = SdhciConfig { mistakes, ..SdhciConfig::GENERIC_4_20 };
    let rig = Rig::with_card(card, model, sdhci::SdhciConfig::emmc_18(), 0).unwrap();
    let found = rig.bring_up(options).unwrap();
    rig.mixed_load(found.params.sectors, 40);
    rig.checked();
    found
}

fn mode(name: &str, lines_wired: u8) -> (Timing, Width) {
    let found = found(storage_card(name), lines_wired, Options::DEFAULT);
    (found.timing, found.width)
}

#[test]
fn without_dat4_to_dat7_four_lines_are_used() {
    assert_eq!(mode("emmc-hs200", 4), (Timing::Hs200, Width::W4));
    // HS400 needs eight lines, so HS200 is used.
    assert_eq!(mode("hbg4a2", 4), (Timing::Hs200, Width::W4));
    assert_eq!(mode("emmc-4g-old", 4).1, Width::W4);
}

#[test]
fn without_dat1_to_dat3_one_line_is_used() {
    for name in ["emmc-hs200", "hbg4a2", "emmc-4g-old"] {
        assert_eq!(mode(name, 1), (Timing::HighSpeed, Width::W1), "{name}");
    }
    assert_eq!(mode("emmc-hs200", 2).1, Width::W1);
}

#[test]
fn a_good_board_keeps_its_eight_lines() {
    assert_eq!(mode("emmc-hs200", 0), (Timing::Hs200, Width::W8));
    assert_eq!(mode("hbg4a2", 8), (Timing::Hs400Es, Width::W8));
}

/// A board on which DAT4 and DAT5 are crossed: the CRC of each line is right, but two bits of each
/// byte are exchanged.
struct Crossed {
    card: Box<dyn Card>,
    lines: u8,
}

impl Crossed {
    fn cross(&self, data: &mut [u8]) {
        if self.lines == 8 {
            for byte in data {
                *byte = *byte & 0xcf | (*byte & 0x10) << 1 | (*byte & 0x20) >> 1;
            }
        }
    }
}

impl Card for Crossed {
    fn bus_changed(&mut self, bus: &BusState, now_ns: u64) {
        self.lines = bus.width;
        self.card.bus_changed(bus, now_ns);
    }

    fn command(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply {
        self.card.command(index, arg, now_ns)
    }

    fn read_block(&mut self, buffer: &mut [u8], now_ns: u64) -> ReadBlock {
        let read = self.card.read_block(buffer, now_ns);
        self.cross(buffer);
        read
    }

    fn write_block(&mut self, data: &[u8], crc_ok: bool, now_ns: u64) -> WriteBlock {
        let mut crossed = data.to_vec();
        self.cross(&mut crossed);
        self.card.write_block(&crossed, crc_ok, now_ns)
    }

    fn busy(&self, now_ns: u64) -> bool {
        self.card.busy(now_ns)
    }

    fn switching_voltage(&self, now_ns: u64) -> bool {
        self.card.switching_voltage(now_ns)
    }

    fn peek(&mut self, at: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        self.card.peek(at, buffer)
    }
}

#[test]
fn lines_that_are_crossed_are_not_used() {
    let without = !Caps::timing_bit(Timing::HighSpeed);
    for options in [Options::DEFAULT, Options::DEFAULT.without(without)] {
        let straight = found(storage_card("emmc-hs200"), 0, options).params.sectors;
        let card = Box::new(Crossed { card: storage_card("emmc-hs200"), lines: 1 });
        let found = found(card, 0, options);
        assert_eq!((found.width, found.params.sectors), (Width::W4, straight));
    }
}
