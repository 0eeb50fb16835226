use super::*;

#[test]
fn what_is_not_there_or_makes_no_sense_is_named() {
    let fake: &Fake = leaked(Fake::default());
    let dma: &FakeDma = leaked(FakeDma { open: Cell::new(0), next: Cell::new(LIST_BUS), line: 1 });
    let board: &Board = leaked(Board::default());
    let made = |config| Stm32Sdmmc::new(fake, dma, board, leaked(Pieces::<8>::new()), config).map(drop);
    fake.gone.set(true);
    assert_eq!(made(config()), Err(Stm32SdmmcInitError::Gone));
    fake.gone.set(false);
    let clock = Stm32SdmmcInitError::Clock { kernel_hz: 0, max_clock_hz: 25_000_000 };
    assert_eq!(made(Stm32SdmmcConfig::new(0)), Err(clock));
    let slow = Stm32SdmmcConfig::new(KERNEL_HZ).max_clock_hz(1_000);
    assert!(matches!(made(slow), Err(Stm32SdmmcInitError::Clock { max_clock_hz: 1_000, .. })));
    assert_eq!(made(config().piece_bytes(1000)), Err(Stm32SdmmcInitError::Piece(1000)));
    // SDMMC1 of an H7 cannot reach DTCM.
    dma.next.set(0x2000_0000);
    let window = config().dma_window((0x2400_0000, 0x2407_ffff));
    assert_eq!(made(window), Err(Stm32SdmmcInitError::List(DmaError::Unreachable)));
    dma.next.set(0x2400_0002);
    assert_eq!(made(window), Err(Stm32SdmmcInitError::List(DmaError::Alignment)));
    assert_eq!(dma.open.get(), 0);
    assert!(fake.writes().is_empty());
    dma.next.set(LIST_BUS);
    for (register, error) in [
        (DMA_BASE, Stm32SdmmcInitError::NoDma),
        (DMA_LIST, Stm32SdmmcInitError::NoList),
        (DMA_SIZE, Stm32SdmmcInitError::Piece(4096)),
    ] {
        fake.missing.set(Some(register));
        assert_eq!(made(config()), Err(error));
    }
    assert_eq!(dma.open.get(), 0);
    let shown = std::format!("{}", Stm32SdmmcInitError::Piece(1000));
    assert_eq!(
        shown,
        "stm32_sdmmc: piece_bytes 1000, expected a multiple of 64 from 512 to 65536 that IDMABSIZE holds"
    );
}

#[test]
fn caps_are_what_the_board_has() {
    let host = driver::<1>(Board::default(), Stm32SdmmcConfig::new(KERNEL_HZ));
    let caps = host.caps();
    assert_eq!((caps.clock_hz, caps.max_segments, caps.width), ((97_752, 25_000_000), 1, Width::W4));
    assert!(!caps.signal18 && !caps.can(Timing::HighSpeed) && !caps.auto_stop && !caps.fixed);
    // No list stays mapped.
    assert_eq!(host.dma.open.get(), 0);
    let taps = Board { taps: 12, ..Board::default() };
    let host = driver::<32>(taps, config().signal18(true).max_clock_hz(KERNEL_HZ));
    assert!(host.caps().signal18 && host.caps().can(Timing::Sdr104) && host.caps().can(Timing::Ddr50));
    assert_eq!((host.caps().max_segments, host.caps().max_bytes), (16, 65_536));
    assert_eq!(host.dma.open.get(), 1);
    let no_taps = driver::<32>(Board::default(), config().signal18(true));
    assert!(!no_taps.caps().can(Timing::Sdr104) && !no_taps.caps().can(Timing::Sdr50));
    assert!(no_taps.caps().can(Timing::Ddr50) && no_taps.caps().can(Timing::Ddr52));
}

/// Tests memory of reads on a machine with caches: it consists of whole lines, and what does not
/// goes through the bounce buffer.
#[test]
fn a_cache_line_is_the_alignment_of_memory() {
    for (line, align) in [(1, 4), (32, 32)] {
        let dma: &FakeDma = leaked(FakeDma { open: Cell::new(0), next: Cell::new(LIST_BUS), line });
        let (fake, board): (&Fake, &Board) = (leaked(Fake::default()), leaked(Board::default()));
        let host = Stm32Sdmmc::new(fake, dma, board, leaked(Pieces::<1>::new()), config()).unwrap();
        assert_eq!(host.caps().align, align);
        assert_eq!([510, 508, 512].map(|len| host.moves_by_cpu(len)), [true, line > 1, false]);
    }
}

/// Tests kernel clocks around the clocks of DDR: if the card can have the kernel clock itself, DDR
/// with half of it gains nothing.
#[test]
fn ddr_is_offered_where_it_gains_something() {
    let can = |kernel_hz, max_hz| {
        let config = Stm32SdmmcConfig::new(kernel_hz).signal18(true).max_clock_hz(max_hz);
        let caps = config.caps(1, false).unwrap();
        (caps.can(Timing::Ddr50), caps.can(Timing::Ddr52))
    };
    for (kernel_hz, max_hz, offered) in [
        (48_000_000, 208_000_000, (false, false)),
        (50_000_000, 208_000_000, (false, false)),
        (51_000_000, 208_000_000, (true, false)),
        (52_000_000, 208_000_000, (true, false)),
        (53_000_000, 208_000_000, (true, true)),
        (48_000_000, 25_000_000, (true, true)),
    ] {
        assert_eq!(can(kernel_hz, max_hz), offered, "{kernel_hz} {max_hz}");
    }
}

#[test]
fn memory_is_mapped_that_the_dma_can_use() {
    let mut host = driver::<1>(Board::default(), config().dma_window((0x2400_0000, 0x2407_ffff)));
    let mut map = |bus: u64, len: u32| {
        host.dma.next.set(bus);
        let mut segment = at(7, len);
        let result = host.map(&mut segment, Direction::Read);
        if result.is_ok() {
            host.unmap(&segment, Direction::Read);
        }
        assert_eq!(host.dma.open.get(), 0);
        result.map(|()| segment.bus)
    };
    assert_eq!(map(0x2400_0200, 512), Ok(0x2400_0200));
    assert_eq!(map(0x2400_0201, 512), Err(DmaError::Alignment));
    assert_eq!(map(0x2407_fe04, 512), Err(DmaError::Unreachable));
    assert_eq!(map(0x2000_0000, 512), Err(DmaError::Unreachable));
    assert_eq!(map(u64::MAX - 8, 512), Err(DmaError::Unreachable));
    // The length is no multiple of a word, so the segment uses the bounce buffer.
    assert_eq!(map(0x2400_0200, 510), Ok(BOUNCED));
}
