//! Tests of descriptors, boundaries and words: how data reach memory, and which promises hold.

use super::*;

#[test]
fn pio_moves_every_byte_of_odd_blocks() {
    for (block, blocks, cut) in [(512, 3, 512), (1, 1, 1), (3, 2, 3), (7, 5, 14), (513, 2, 100), (64, 1, 64)]
    {
        let total = block as usize * blocks as usize;
        let pattern: Vec<u8> = (0..total).map(|at| (at * 7 + 3) as u8).collect();
        // Each block begins with a new word of the buffer port.
        let padded: Vec<u8> = pattern
            .chunks(block.into())
            .flat_map(|chunk| {
                let mut chunk = chunk.to_vec();
                chunk.resize(chunk.len().next_multiple_of(4), 0xdd);
                chunk
            })
            .collect();
        let mut host = ready(by(TransferMode::Pio));
        assert_eq!(host.caps().align, 1);

        let mut memory = vec![0xaa; total + 1];
        let segments: Vec<Segment> = memory[..total].chunks_mut(cut).map(near).collect();
        let phase = data(18, Direction::Read, block, blocks);
        host.start(&phase, &segments, 1).unwrap();
        host.port.regs.buffer.borrow_mut().extend(&padded);
        assert!(report(&mut host, INT_COMMAND, &segments).phase.is_none());
        // Transfer Complete alone must not end the read while the buffer holds data.
        assert!(report(&mut host, INT_TRANSFER, &segments).phase.is_none());
        host.port.regs.set(PRESENT, 4, PRESENT_BUFFER_READ | PRESENT_DAT);
        assert!(report(&mut host, INT_BUFFER_READ, &segments).phase.unwrap().is_ok());
        assert!(host.port.regs.buffer.borrow().is_empty());
        drop(segments);
        assert_eq!(memory[..total], pattern);
        assert_eq!(memory[total], 0xaa);

        let segments: Vec<Segment> = memory[..total].chunks_mut(cut).map(near).collect();
        host.port.regs.set(PRESENT, 4, PRESENT_BUFFER_WRITE | PRESENT_DAT);
        host.start(&data(25, Direction::Write, block, blocks), &segments, 1).unwrap();
        assert_ne!(host.port.regs.get(INT_SIGNAL, 4) & INT_BUFFER_WRITE, 0);
        assert!(report(&mut host, INT_COMMAND | INT_BUFFER_WRITE, &segments).phase.is_none());
        // The bytes that the buffer port received are exactly the data.
        assert_eq!(host.port.regs.buffer.take(), pattern);
        assert!(report(&mut host, INT_TRANSFER, &segments).phase.unwrap().is_ok());
    }
}

#[test]
fn sdma_goes_on_at_each_boundary() {
    for (version, at) in [(2, SDMA_ADDRESS), (3, ADMA_ADDRESS)] {
        let mut host = ready_with(version, CAPS, by(TransferMode::Sdma));
        let segments = [far(0x7_f000, 512 * 1024)];
        host.start(&read(1024), &segments, 1).unwrap();
        assert_eq!(host.port.regs.get(at, 4), 0x7_f000);
        assert_ne!(host.port.regs.get(INT_SIGNAL, 4) & INT_DMA, 0);
        assert!(report(&mut host, INT_COMMAND | INT_DMA, &segments).phase.is_none());
        assert_eq!(host.port.regs.get(at, 4), 0x8_0000);
        host.port.regs.take_log();
        assert!(report(&mut host, INT_DMA | INT_TRANSFER, &segments).phase.unwrap().is_ok());
        assert!(
            !host.port.regs.take_log().iter().any(|access| matches!(access, Access::Write(0 | 0x58, ..)))
        );
    }
}

#[test]
fn sixty_four_bit_forms_follow_the_version() {
    let segments = [far(0x12_0000_0000, 512)];
    for (version, caps, bytes, control, control_2) in [
        (2, CAPS | ADDRESS_64_V3, 12, CONTROL_ADMA2_64, 0),
        (3, CAPS | ADDRESS_64_V4, 16, CONTROL_ADMA2, CONTROL_2_V4 | CONTROL_2_64BIT),
        (3, CAPS | ADDRESS_64_V3, 8, CONTROL_ADMA2, CONTROL_2_V4),
    ] {
        let mut host = ready_with(version, caps, SdhciConfig::new());
        run(&mut host, &read(1), &segments);
        assert_eq!(host.dma.synced.take(), [(0x4000, bytes)]);
        assert_eq!(host.port.regs.get(CONTROL, 1), control.into());
        assert_eq!(host.port.regs.get(CONTROL_2, 2), control_2.into());
        host.port.regs.take_log();
        run(&mut host, &read(1), &segments);
        assert_eq!(host.port.regs.take_log().len(), 7);
    }
}

#[test]
fn memory_out_of_reach_is_refused_and_let_go() {
    let dma: &'static FakeDma = Box::leak(Box::default());
    dma.bus.set(1 << 32);
    assert_eq!(
        build(2, CAPS, SdhciConfig::new(), dma).err(),
        Some(SdhciInitError::Table(DmaError::Unreachable)),
        "the table"
    );
    assert_eq!(dma.open.get(), 0);
    dma.bus.set(0x1000);
    let mut host = build(2, CAPS, SdhciConfig::new(), dma).unwrap();
    let mut memory = [0u32; 128];
    let ptr = NonNull::from(&mut memory).cast::<u8>();
    let mut segment = Segment { ptr, len: 512, bus: 7 };
    dma.bus.set((1 << 32) - 512);
    assert_eq!(host.map(&mut segment, Direction::Read), Ok(()));
    host.unmap(&segment, Direction::Read);
    dma.bus.set((1 << 32) - 508);
    assert_eq!(host.map(&mut segment, Direction::Read), Err(DmaError::Unreachable));
    dma.bus.set(0x1002);
    assert_eq!(host.map(&mut segment, Direction::Read), Err(DmaError::Alignment));
    assert_eq!(dma.open.get(), 1, "the table's mapping alone remains");
}

#[test]
fn limits_promise_only_what_fits() {
    let host = ready(SdhciConfig::new());
    let caps = *host.caps();
    assert_eq!((caps.max_segments, caps.max_bytes), (5, 4 * 65_536));
    assert_eq!((caps.max_blocks, caps.align, caps.clock_hz), (65_535, 4, (24_438, 50_000_000)));
    assert_eq!(caps.max_busy_ns, 134_217_728_000);
    assert!(caps.can(Timing::Sdr104) && caps.can(Timing::Hs200) && !caps.can(Timing::Hs400));
    let soldered = ready_with(2, CAPS & 0xffff_ffff, SdhciConfig::emmc_18());
    assert!(soldered.caps().signal18 && soldered.caps().can(Timing::Hs400) && soldered.present());
    assert!(!soldered.caps().can(Timing::Sdr104));
    // The worst list within the limits: the largest number of segments, whose lengths need every
    // descriptor of the table.
    let mut host = ready(SdhciConfig::new());
    let pieces = [512, 512, 512, 65_536 + 512, caps.max_bytes - 65_536 - 2048].map(|len| far(0, len));
    host.start(&read(caps.max_bytes / 512), &pieces, 1).unwrap();
    for unsupported in
        [read(0), data(17, Direction::Read, 0, 1), data(17, Direction::Read, 2049, 1), read(513)]
    {
        let mut host = ready(SdhciConfig::new());
        assert_eq!(host.start(&unsupported, &pieces, 1), Err(StartError::Unsupported));
    }
    let sdma = ready(by(TransferMode::Sdma));
    assert_eq!(sdma.caps().max_segments, 1);
    let tables = Sdhci::new(
        Fake::new(2, CAPS),
        Box::leak(Box::<FakeDma>::default()) as &'static FakeDma,
        Box::leak(Box::new(Table::<0>::new())),
        by(TransferMode::Adma2),
    );
    assert_eq!(tables.err(), Some(SdhciInitError::TransferMode(TransferMode::Adma2)));
}

/// Tests a stop of SDMA at a boundary that is reported after the end of its transfer: it does not
/// belong to the next transfer, which would otherwise continue after its memory.
#[test]
fn a_stop_that_is_told_late_sends_no_other_transfer_on() {
    for (version, at) in [(2, SDMA_ADDRESS), (3, ADMA_ADDRESS)] {
        let mut host = ready_with(version, CAPS, by(TransferMode::Sdma));
        run(&mut host, &read(8), &[far(0x7_f000, 4096)]);
        host.port.regs.set(INT_STATUS, 4, INT_DMA);
        let segments = [far(0x17_0000, 128 * 1024)];
        host.start(&read(256), &segments, 1).unwrap();
        assert!(host.ack(&segments).phase.is_none());
        assert_eq!(host.port.regs.get(at, 4), 0x17_0000, "version {version}");
    }
}

/// Tests a segment that the CPU transfers: it has no bus address, whichever part of it is
/// transferred.
#[test]
fn memory_that_is_not_mapped_is_never_the_controllers() {
    let mut host = ready(quirk(SdhciQuirks::DMA_SIZE_32BIT));
    run(&mut host, &read(1), &[far(0x4000, 512)]);
    let mut memory = vec![0u8; 515];
    let mut segment = near(&mut memory);
    host.map(&mut segment, Direction::Read).unwrap();
    assert_eq!(host.dma.open.get(), 1, "the table's mapping alone");
    for part in [segment, segment.part(0, 512)] {
        host.dma.synced.take();
        host.start_fast(&read(1), &[part], 100_000_000).unwrap();
        assert!(host.dma.synced.take().is_empty(), "descriptors for memory without an address");
        assert_eq!(host.port.regs.get(TRANSFER_MODE, 2) & u32::from(MODE_DMA), 0);
        assert_eq!(host.set_bus(BusOp::ResetLines, true, 0), Step::Done);
    }
    host.unmap(&segment, Direction::Read);
    assert_eq!(host.dma.open.get(), 1);
}

/// Tests a descriptor table that ends at 4 GiB: with 64-bit addresses the driver refuses it. After
/// the last descriptor the address register would point behind the table, where the upper half of
/// the address differs. The driver writes that half only one time.
#[test]
fn a_table_that_ends_at_4_gib_is_refused_where_addresses_have_64_bits() {
    let bytes = Table::<8>::BYTES as u64;
    for (caps, limit) in [(CAPS | ADDRESS_64_V3, bytes + 16), (CAPS, bytes)] {
        for below in [bytes, bytes + 16] {
            let dma: &'static FakeDma = Box::leak(Box::default());
            dma.bus.set((1 << 32) - below);
            let built = build(2, caps, SdhciConfig::new(), dma).err();
            let refused = Some(SdhciInitError::Table(DmaError::Unreachable));
            assert_eq!(built, refused.filter(|_| below < limit), "{below} below 4 GiB");
        }
    }
}

/// Tests memory in several pieces for requests one after the other, also on the fast path: each
/// piece has a descriptor.
#[test]
fn a_mapping_in_pieces_has_a_list_and_without_lists_is_refused() {
    let host = &mut ready(SdhciConfig::new());
    for from in [0, 512, 1024] {
        host.dma.scattered.set(true);
        let mut segment = far(0, 4096);
        host.map(&mut segment, Direction::Read).unwrap();
        assert_eq!(segment.bus(), 0x4000);
        let parts = [segment.part(from, 1024)];
        host.start_fast(&read(2), &parts, 1).unwrap();
        let words = host.table.words();
        let first = 0x10_0000 + u32::from(from as u16) * 128;
        assert_eq!(words[..4], [0x200_0021, first, 0x200_0023, first + 0x1_0000]);
        assert!(report(host, INT_COMMAND | INT_TRANSFER, &parts).phase.unwrap().is_ok());
        // The memory is in one piece this time.
        host.dma.scattered.set(false);
        host.start_fast(&read(2), &parts, 1).unwrap();
        assert_eq!(host.table.words()[..2], [0x400_0023, 0x4000 + from]);
        assert!(report(host, INT_COMMAND | INT_TRANSFER, &parts).phase.unwrap().is_ok());
        host.unmap(&segment, Direction::Read);
    }
    let mut host = ready(by(TransferMode::Sdma));
    host.dma.scattered.set(true);
    let open = host.dma.open.get();
    assert_eq!(host.map(&mut far(0, 4096), Direction::Read), Err(DmaError::Scattered));
    assert_eq!(host.dma.open.get(), open);
}
