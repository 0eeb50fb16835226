//! Tests of the internal DMA (IDMA).

use super::*;

/// Starts a read of this number of blocks from block 0 on.
fn read(rig: &mut Rig, blocks: u32) {
    rig.prepare(READ | OPEN, blocks * 512);
    rig.start(SHORT | TRANS | 18, 0);
}

#[test]
fn base_addresses_are_whole_words() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    rig.w(IDMABASE0, 0x2400_0003);
    rig.w(IDMABASE1, 0x2400_0007);
    rig.w(IDMABSIZE, 0xffff_ffff);
    rig.w(IDMACTRL, 0xff);
    // [58.10.16 to 58.10.19]: the low address bits read as zero; sizes are multiples of 32 bytes.
    assert_eq!((rig.r(IDMABASE0), rig.r(IDMABASE1)), (0x2400_0000, 0x2400_0004));
    assert_eq!((rig.r(IDMABSIZE), rig.r(IDMACTRL)), (0x1fe0, 7));
    assert_eq!(rig.violations(), 0);
}

#[test]
fn the_fifo_belongs_to_the_idma() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    let memory = rig.to_read(512);
    rig.buffer(memory.bus);
    read(&mut rig, 1);
    rig.until(CMDREND);
    // [table 488]: with the IDMA on, the CPU must not read the FIFO.
    assert_eq!((rig.r(FIFO), rig.violations()), (0, 1));
    rig.until(DATAEND);
    assert_eq!(memory.take(), rig.stored(0, 512));
}

#[test]
fn two_buffers_take_turns_and_the_idle_one_may_move() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    let memory = rig.to_read(4 * 512);
    rig.w(IDMABASE0, memory.bus as u32);
    rig.w(IDMABASE1, memory.bus as u32 + 512);
    rig.w(IDMABSIZE, 512);
    rig.w(IDMACTRL, 3);
    read(&mut rig, 4);
    // [58.5.6]: IDMABTC is set, and the other buffer is used.
    rig.until(IDMABTC);
    rig.w(ICR, IDMABTC);
    assert_eq!(rig.r(IDMACTRL), 7);
    // A write to the address of the buffer in use is refused, to the other one accepted.
    rig.w(IDMABASE1, 0);
    assert_eq!((rig.r(IDMABASE1), rig.violations()), (memory.bus as u32 + 512, 1));
    rig.w(IDMABASE0, memory.bus as u32 + 1024);
    rig.until(IDMABTC);
    rig.w(ICR, IDMABTC);
    rig.w(IDMABASE1, memory.bus as u32 + 1536);
    let status = rig.until(DATAEND);
    assert_eq!(status & (DATAEND | IDMABTC | IDMATE), DATAEND | IDMABTC);
    assert_eq!((memory.take(), rig.violations()), (rig.stored(0, 4 * 512), 1));
}

/// Puts list items {link address, buffer address, size} into memory.
fn items(rig: &Rig, items: &[[u32; 3]]) -> Mapped {
    rig.to_write(items.iter().flatten().flat_map(|word| word.to_le_bytes()).collect())
}

const MORE: u32 = 1 << 31;
const SIZE: u32 = 1 << 30;
const READY: u32 = 1 << 29;

/// Makes a list as Linux does: the first item is in the registers, and each item holds the offset
/// of the next.
fn list(rig: &mut Rig, pieces: &[(u64, u32)]) -> Mapped {
    let last = pieces.len() - 1;
    let all: Vec<[u32; 3]> = (0..=last)
        .map(|i| {
            let more = if i < last { MORE } else { 0 };
            [more | SIZE | READY | (12 * (i as u32 + 1)), pieces[i].0 as u32, pieces[i].1]
        })
        .collect();
    let memory = items(rig, &all);
    rig.w(IDMABAR, memory.bus as u32);
    rig.w(IDMALAR, all[0][0]);
    rig.w(IDMABASE0, all[0][1]);
    rig.w(IDMABSIZE, all[0][2]);
    rig.w(IDMACTRL, 3);
    memory
}

#[test]
fn a_list_scatters_and_gathers() {
    for config in [Stm32SdmmcConfig::U5, Stm32SdmmcConfig::N6] {
        let mut rig = Rig::warm(config, FLOW);
        let memory = rig.to_read(2048);
        let at = |offset: u64| memory.bus + offset;
        // The size of the last item does not matter, since DLEN ends the data. Linux writes any
        // size there.
        let pieces = [(at(0), 64), (at(1024), 960), (at(64), 960), (at(1984), 63)];
        let _list = list(&mut rig, &pieces);
        read(&mut rig, 4);
        assert_eq!(rig.until(DATAEND) & (DATAEND | IDMATE | IDMABTC), DATAEND | IDMABTC);
        let (got, all) = (memory.take(), rig.stored(0, 2048));
        let expected = [&all[..64], &all[1024..1984], &all[64..1024], &all[1984..]].concat();
        assert_eq!((got == expected, rig.host.stats().descriptors), (true, 3));
        let data = pattern(2048);
        let memory = rig.to_write(data.clone());
        let at = |offset: u64| memory.bus + offset;
        let _list = list(&mut rig, &[(at(1024), 1024), (at(0), 1024)]);
        rig.prepare(WRITE | OPEN, 2048);
        rig.start(SHORT | TRANS | 25, 9);
        assert_eq!(rig.until(DATAEND) & (DATAEND | IDMATE), DATAEND);
        assert_eq!(rig.stored(9, 2048), [&data[1024..], &data[..1024]].concat());
        assert_eq!((rig.violations(), rig.memory.violation_count()), (0, 0));
    }
}

#[test]
fn an_item_without_its_ready_bit_is_an_error() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::U5, FLOW);
    let memory = rig.to_read(2048);
    // [SVD of the U5, ABR]: the ready bit is ignored in the first item, and needed in all others.
    let lists = items(&rig, &[[0, 0, 0], [SIZE, memory.bus as u32 + 512, 512]]);
    rig.w(IDMABAR, lists.bus as u32);
    rig.w(IDMALAR, MORE | SIZE | 12);
    rig.w(IDMABASE0, memory.bus as u32);
    rig.w(IDMABSIZE, 512);
    rig.w(IDMACTRL, 3);
    read(&mut rig, 4);
    let status = rig.until(RXOVERR | DATAEND);
    assert_eq!(status & (RXOVERR | IDMATE | DATAEND | DPSMACT), RXOVERR | IDMATE | DPSMACT);
    rig.command(12 | STOP, 0);
    assert_eq!(rig.sta(), CMDREND | DABORT);
}

#[test]
fn without_a_new_size_the_old_one_stays() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::U5, FLOW);
    let memory = rig.to_read(2048);
    let at = memory.bus as u32;
    // [SVD of the U5, ULS]: without this bit the size of the last item stays valid.
    let lists = items(&rig, &[[MORE | READY | 12, at + 512, 4096], [READY, at + 1024, 4096]]);
    rig.w(IDMABAR, lists.bus as u32);
    rig.w(IDMALAR, MORE);
    rig.w(IDMABASE0, at);
    rig.w(IDMABSIZE, 512);
    rig.w(IDMACTRL, 3);
    read(&mut rig, 4);
    rig.until(DATAEND);
    assert_eq!((rig.r(IDMABSIZE), memory.take() == rig.stored(0, 2048)), (512, true));
    // A middle buffer whose size is not a multiple of the burst would shift all later data, so it
    // is counted as a mistake.
    let memory = rig.to_read(4096);
    let _list = list(&mut rig, &[(memory.bus, 512), (memory.bus + 512, 500), (memory.bus + 1012, 1036)]);
    read(&mut rig, 4);
    rig.until(DATAEND);
    assert_eq!(rig.violations(), 1);
}

#[test]
fn memory_that_it_does_not_reach_is_a_transfer_error() {
    // Like SDMMC1 of an H7, which does not reach the DTCM: here the IDMA reaches only the first
    // block.
    let memory = ShadowMemory::default();
    let window = Some([0x4000_0000, 0x4000_01ff]);
    let config = Stm32SdmmcConfig { window, ..Stm32SdmmcConfig::H7 };
    let card = TestCard::new();
    let mut rig = Rig::with(config, memory, Box::new(card.clone()), card);
    rig.power_up(SLOW | FLOW);
    // [58.5.6]: the error shows with the overrun or underrun that it causes, without an abort by
    // the driver. MASK has no bit for it.
    rig.w(MASK, RXOVERR | TXUNDERR | DATAEND);
    rig.buffer(0x2000_0000);
    read(&mut rig, 2);
    rig.now = rig.host.advance(u64::MAX);
    assert_eq!((rig.host.irq(), rig.sta()), (true, CMDREND | RXOVERR | IDMATE | DPSMACT));
    rig.command(12 | STOP, 0);
    rig.buffer(0x2000_0000);
    rig.prepare(WRITE | OPEN, 1024);
    rig.start(SHORT | TRANS | 25, 0);
    assert_eq!(rig.until(TXUNDERR), CMDREND | TXUNDERR | IDMATE | DPSMACT);
    rig.command(12 | STOP, 0);
    assert_eq!(rig.sta(), CMDREND | DABORT);
    // Data that fit into the FIFO cause no overrun: DATAEND comes, with the error beside it.
    rig.buffer(0x2000_0000);
    rig.prepare(6 << 4 | 2, 64);
    rig.start(SHORT | TRANS | 19, 0);
    assert_eq!(rig.until(DATAEND), CMDREND | DATAEND | IDMATE);
    // The IDMA did not access memory.
    assert_eq!(rig.memory.violation_count(), 0);
}

#[test]
fn on_version_3_an_error_of_the_idma_shows_with_the_abort() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::N6, FLOW);
    rig.next(Point::Dma, &[Strike::Fail]);
    let memory = rig.to_read(4096);
    rig.buffer(memory.bus);
    read(&mut rig, 8);
    rig.now += 100_000_000;
    // [stm32-data, sdmmc_v3]: version 3 does not show RXOVERR and TXUNDERR while the IDMA is on.
    assert_eq!(rig.sta(), CMDREND | DPSMACT);
    rig.command(12 | STOP, 0);
    assert_eq!(rig.sta(), CMDREND | DABORT | IDMATE);
}

#[test]
fn an_access_that_never_ends_stops_the_clock_and_only_a_reset_helps() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    rig.next(Point::Dma, &[Strike::Never]);
    let memory = rig.to_read(1024);
    rig.buffer(memory.bus);
    read(&mut rig, 2);
    rig.now += 1_000_000_000;
    assert_eq!(rig.sta(), CMDREND | DPSMACT);
    rig.start(SHORT | STOP | 12, 0);
    rig.now += 1_000_000_000;
    assert_eq!(rig.sta(), CPSMACT | DPSMACT);
    rig.host.reset(rig.now);
    assert_eq!(rig.sta(), 0);
    // A write waits before its first block while the clock runs, so an abort works.
    rig.power_up(SLOW | FLOW);
    rig.next(Point::Dma, &[Strike::Never]);
    rig.buffer(memory.bus);
    rig.prepare(WRITE, 512);
    rig.start(SHORT | TRANS | 24, 0);
    rig.now += 1_000_000_000;
    assert_eq!(rig.sta() & DPSMACT, DPSMACT);
    rig.command(12 | STOP, 0);
    assert_eq!(rig.sta(), CMDREND | DABORT);
}
