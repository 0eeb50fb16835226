//! Random registers, lists, times and card faults: the model must not panic, and its time must not
//! decrease.

use super::rig::*;
use crate::memory::{MemoryConfig, ShadowMemory};
use crate::rtsx::bits::{card, clk, dma, int, pads, sd, window as w};
use crate::rtsx::{Rtsx, RtsxConfig};
use crate::slot::Controller;
use crate::world::Device;
use arbtest::arbitrary::{Result, Unstructured};
use mmcq::host::Direction;

const NAMES: [u16; 34] = [
    sd::CFG1,
    sd::CFG2,
    sd::CFG3,
    sd::STAT1,
    sd::BUS_STAT,
    sd::PAD_CTL,
    sd::CMD0,
    0xfdaa,
    0xfdad,
    sd::BYTE_CNT,
    0xfdb0,
    sd::BLOCK_CNT,
    0xfdb2,
    sd::TRANSFER,
    sd::TRANSFER,
    sd::TRANSFER,
    sd::CMD_STATE,
    card::PWR_CTL,
    card::SHARE_MODE,
    card::STOP,
    card::OE,
    card::DATA_SOURCE,
    card::SELECT,
    card::CLK_EN,
    clk::CLK_CTL,
    clk::CLK_DIV,
    clk::SSC_DIV_N_0,
    clk::SSC_CTL1,
    clk::VPTX,
    clk::VPRX,
    dma::CTL,
    dma::COUNT,
    dma::RBCTL,
    0xffff,
];

fn any_config(u: &mut Unstructured) -> Result<RtsxConfig> {
    Ok(RtsxConfig {
        entry_ns: u.int_in_range(0..=100)?,
        round_ns: u.int_in_range(0..=10_000)?,
        access_ns: u.int_in_range(0..=300)?,
        check_timeout_ns: u.int_in_range(0..=1_000_000)?,
        ring_bytes: u.int_in_range(0..=4096)?,
        dma_mb_s: u.int_in_range(0..=1_000)?,
        continue_data: u.arbitrary()?,
        ddr: u.arbitrary()?,
        sdr104: u.arbitrary()?,
        good_phases: u.arbitrary()?,
        rx_phase: u.arbitrary()?,
        ..RtsxConfig::GENERIC
    })
}

/// Returns a random entry of a host command list; most entries that it returns are valid.
fn any_entry(u: &mut Unstructured) -> Result<u32> {
    let name = *u.choose(&NAMES)?;
    let data = u.arbitrary()?;
    Ok(match u.int_in_range(0..=15)? {
        0 => u.arbitrary()?,
        1 | 2 => rd(name),
        3 => ck(name, u.arbitrary()?, data),
        4 | 5 => ended(),
        6 | 7 => wr(sd::TRANSFER, 0xff, 0x80 | data & 0x0f),
        8 => wr(sd::CMD0, 0xff, 0x40 | *u.choose(&[0, 2, 7, 12, 13, 17, 18, 19, 24, 25])?),
        9 => wr(sd::BYTE_CNT + 1, 0xff, 2),
        10 => wr(sd::BLOCK_CNT, 0xff, data & 7),
        _ => wr(name, u.arbitrary()?, data),
    })
}

/// Returns the list entries of a correct transfer.
fn sound(u: &mut Unstructured, read: bool, blocks: u32) -> Result<Vec<u32>> {
    let mut list = vec![wr(card::STOP, 0xff, 0x44), wr(dma::CTL, 0x80, 0x80), wr(dma::RBCTL, 0x80, 0x80)];
    list.extend(token(if read { 18 } else { 25 }, u.int_in_range(0..=200)?, R1));
    list.extend(data_set_up(blocks * 512, read));
    let mode = if read { READ_2 } else { WRITE_2 };
    list.extend([wr(sd::TRANSFER, 0xff, mode | sd::START), ended()]);
    Ok(list)
}

#[test]
fn fuzz_storms_never_panic_and_time_goes_forward() {
    let moved = std::cell::Cell::new((0, 0));
    let mut storm = |u: &mut Unstructured| {
        let config = any_config(u)?;
        let memory = ShadowMemory::new(MemoryConfig::BITS32);
        let card = TestCard::new();
        {
            let mut script = card.0.borrow_mut();
            script.access_ns = u.int_in_range(0..=100_000)?;
            script.write_busy_ns = u.int_in_range(0..=100_000)?;
            script.r1b_busy_ns = u.int_in_range(0..=100_000)?;
            script.stops_after = Some(u.int_in_range(0..=700)?);
            script.crc_status = u.arbitrary()?;
        }
        let mut host = Rtsx::new(config, memory.clone(), Some(Box::new(card.clone())));
        // Power and clock are on, so that transfers can happen.
        let mut now = 0;
        for (name, value) in [
            (card::SHARE_MODE, 4),
            (card::SELECT, 2),
            (card::OE, 4),
            (sd::CFG1, 1),
            (clk::SSC_DIV_N_0, 98),
            (clk::CLK_DIV, 0x10),
            (clk::SSC_CTL1, 0x80),
            (card::CLK_EN, 4),
            (card::PWR_CTL, 0),
            (pads::GATE, 6),
            (pads::PULL1, 0x66),
            (pads::PULL1 + 1, 0xaa),
            (pads::PULL1 + 2, 0xe9),
            (pads::PULL1 + 3, 0xaa),
        ] {
            host.write(w::HAIMR, 4, w::START | w::WRITE | wr(name, 0xff, value), now);
            now += 200_000;
        }
        host.write(w::BIER, 4, u.arbitrary::<u32>()? | int::TRANS_OK, now);
        let direction = if u.arbitrary()? { Direction::Read } else { Direction::Write };
        let data = Mapped::new(&memory, vec![0; 8 * 512], direction);
        let read = direction == Direction::Read;
        let mut inside = true;
        // Lists and tables that the chip reads from memory; they stay mapped.
        let mut kept = Vec::new();
        let mut told = now;
        for _ in 0..u.int_in_range(0..=100)? {
            now += u.int_in_range(0..=20_000)?;
            match u.int_in_range(0..=9)? {
                0..=2 => {
                    let came = host.advance(now + u.int_in_range(0..=10_000_000)?);
                    assert!(came >= told, "time went back from {told} to {came}");
                    assert!(host.next_event_ns().is_none_or(|at| at >= came), "nothing is left behind");
                    now = came;
                }
                3..=5 => {
                    let blocks = u.int_in_range(1..=8)?;
                    let entries = if u.ratio(1, 2)? {
                        sound(u, read, blocks)?
                    } else {
                        (0..u.int_in_range(1..=30)?).map(|_| any_entry(u)).collect::<Result<_>>()?
                    };
                    let bytes: Vec<u8> = entries.iter().flat_map(|e| e.to_le_bytes()).collect();
                    let list = Mapped::new(&memory, bytes, Direction::Write);
                    if u.ratio(3, 4)? {
                        host.write(w::HCBCTLR, 4, w::STOP, now);
                        host.write(w::HDBCTLR, 4, w::STOP, now);
                    }
                    host.write(w::HCBAR, 4, list.bus as u32, now);
                    host.write(w::HCBCTLR, 4, w::START | list.cpu.len() as u32, now);
                    let low = if u.ratio(1, 8)? { u.arbitrary()? } else { 0x23 };
                    let entry = data.bus << 32 | u64::from(blocks * 512) << 12 | low;
                    let table = Mapped::new(&memory, entry.to_le_bytes().to_vec(), Direction::Write);
                    host.write(w::HDBAR, 4, table.bus as u32, now);
                    let way = if read { w::TO_MEMORY } else { 0 };
                    host.write(w::HDBCTLR, 4, w::START | w::ADMA | way, now);
                    kept.extend([list, table]);
                }
                6 if u.ratio(1, 8)? => {
                    if inside {
                        assert!(host.remove(now).is_some());
                    } else {
                        host.insert(Box::new(card.clone()), now);
                    }
                    inside = !inside;
                }
                6 | 7 => {
                    let entry = any_entry(u)? & 0x3fff_ffff;
                    host.write(
                        w::HAIMR,
                        4,
                        w::START | if u.arbitrary()? { w::WRITE } else { 0 } | entry,
                        now,
                    );
                }
                8 => host.write(w::BIPR, 4, u.arbitrary()?, now),
                _ => {
                    let offset = u.int_in_range(0..=0x21)?;
                    let size = *u.choose(&[4, 4, 4, 1, 2, 0, 9])?;
                    host.write(offset, size, u.arbitrary()?, now);
                    host.read(offset, size, now);
                }
            }
            let pending = host.read(w::BIPR, 4, now);
            let enable = host.read(w::BIER, 4, now);
            told = now;
            assert_eq!(host.irq(), pending & enable & int::LATCHED != 0, "the line follows its registers");
        }
        let (read, written) = moved.get();
        moved.set((read + host.stats().blocks_read, written + host.stats().blocks_written));
        Ok(())
    };
    crate::fuzz::always(64, 32_768, &mut storm);
    let (read, written) = moved.get();
    assert!(read > 0 && written > 0, "the storms reached the data: {read} and {written} blocks");
    crate::fuzz::sized("rtsx: fuzz_storms", 1_500, 4096..65_536, storm);
}

#[test]
fn fuzz_after_any_storm_the_chip_can_be_used_again() {
    let storm = |u: &mut Unstructured| {
        let mut rig = Rig::warm(RtsxConfig { check_timeout_ns: 100_000, ..RtsxConfig::GENERIC });
        for _ in 0..u.int_in_range(0..=20)? {
            let entries = (0..u.int_in_range(1..=20)?).map(|_| any_entry(u)).collect::<Result<Vec<u32>>>()?;
            rig.start_list(&entries, 0);
            rig.run(u.int_in_range(0..=50_000)?);
        }
        rig.w(w::HCBCTLR, w::STOP);
        rig.run(1_000);
        rig.clear_error();
        let pending = rig.r(w::BIPR);
        rig.w(w::BIPR, pending);
        rig.set(card::CLK_EN, 4, 0);
        rig.set(sd::BUS_STAT, 0xc0, 0);
        rig.set(sd::CFG3, 1, 1);
        rig.low_voltage(false);
        rig.set(card::PWR_CTL, 3, 3);
        rig.power_up();
        rig.set(sd::CFG1, 0xff, 1);
        rig.clock(98, 0x10);
        let violations = rig.host.protocol_violations();
        rig.card.0.borrow_mut().commands.clear();
        let buffer = rig.mapped(1024);
        assert_eq!(rig.read(Some((18, 1)), &buffer, 0), DONE | DATA);
        assert!(buffer.take() == rig.card_bytes(1, 1024));
        assert_eq!(rig.host.protocol_violations(), violations);
        Ok(())
    };
    // This seed found a bug: a block came between the ring buffer's flush and the end of the
    // transfer, and stayed in the ring buffer.
    arbtest::arbtest(storm).seed(0xa356_f6fd_0001_0000).run();
    crate::fuzz::sized("rtsx: fuzz_after_any_storm", 1_500, 4096..65_536, storm);
}
