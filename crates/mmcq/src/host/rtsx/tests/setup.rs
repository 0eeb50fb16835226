//! Tests of the conditions under which a driver can be made, and of its capabilities.

use super::*;
use std::string::ToString;

#[test]
fn memory_must_be_low_and_aligned() {
    assert!(build_at(0xffff_f400, RtsxConfig::new(Chip::Rts5249)).is_ok());
    for (bus, error) in [
        (0x1_0000_0000, RtsxInitError::List(DmaError::Unreachable)),
        (0xffff_ff00, RtsxInitError::List(DmaError::Unreachable)),
        (0xffff_f800, RtsxInitError::Table(DmaError::Unreachable)),
        (0x1004, RtsxInitError::List(DmaError::Alignment)),
    ] {
        let dma: &'static FakeDma = Box::leak(Box::default());
        dma.next.set(bus);
        let made = Rtsx::new(
            Fake::default(),
            dma,
            Box::leak(Box::new(Buffers::new())),
            RtsxConfig::new(Chip::Rts5249),
        );
        assert_eq!(made.err(), Some(error), "{bus:#x}");
        assert_eq!(dma.open.get(), 0);
    }
    let gone = Fake::default();
    gone.gone.set(true);
    let dma: &'static FakeDma = Box::leak(Box::default());
    let made = Rtsx::new(gone, dma, Box::leak(Box::new(Buffers::new())), RtsxConfig::new(Chip::Rts5249));
    assert_eq!(made.err().unwrap().to_string(), "rtsx: BIPR reads as all ones, expected a reader");
}

#[test]
fn a_platform_whose_cache_lines_registers_would_share_is_refused() {
    let dma: &'static FakeDma = Box::leak(Box::default());
    dma.line.set(64);
    let buffers = Box::leak(Box::new(Buffers::new()));
    let made = Rtsx::new(Fake::default(), dma, buffers, RtsxConfig::new(Chip::Rts5249));
    assert_eq!(made.err(), Some(RtsxInitError::CacheLines(64)));
    assert_eq!(dma.open.get(), 0);
}

#[test]
fn segments_must_be_low_and_aligned() {
    let mut host = build(RtsxConfig::new(Chip::Rts5249));
    let mut memory = [0u64; 64];
    let start = NonNull::from(&mut memory).cast::<u8>();
    let mut segment = Segment { ptr: start, len: 512, bus: 0 };
    let before = host.dma.open.get();
    host.map(&mut segment, Direction::Read).unwrap();
    assert_ne!(segment.bus, 0);
    host.unmap(&segment, Direction::Read);
    for (bus, why) in [(0xffff_ff00, DmaError::Unreachable), (0x2_0000_0000, DmaError::Unreachable)] {
        host.dma.next.set(bus);
        assert_eq!(host.map(&mut segment, Direction::Read), Err(why));
    }
    host.dma.next.set(0x2000_0002);
    assert_eq!(host.map(&mut segment, Direction::Read), Err(DmaError::Alignment));
    // SAFETY: inside of `memory`.
    segment.ptr = unsafe { start.add(2) };
    assert_eq!(host.map(&mut segment, Direction::Read), Err(DmaError::Alignment));
    assert_eq!(host.dma.open.get(), before);
}

#[test]
fn capabilities_follow_the_configuration() {
    let host = build(RtsxConfig::new(Chip::Rts5249));
    let caps = host.caps();
    assert!(caps.continue_data && !caps.auto_stop && !caps.auto_count && !caps.no_count);
    assert_eq!((caps.busy, caps.width), (BusyDetect::Response, Width::W4));
    assert_eq!((caps.max_segments, caps.max_segment_bytes, caps.max_blocks), (256, 0x8_0000, 65_535));
    assert_eq!((caps.max_bytes, caps.align, caps.dma_bits), (0x8_0000, 4, 32));
    assert!(caps.can(Timing::Sdr104) && !caps.can(Timing::Hs200) && caps.signal18);
    let config = RtsxConfig {
        busy_after_data: true,
        max_clock_hz: 50_000_000,
        width: Width::W8,
        signal18: false,
        fixed: true,
        ..RtsxConfig::new(Chip::Rts5249)
    };
    let host = build(config);
    let caps = host.caps();
    assert_eq!((caps.busy, caps.width, caps.clock_hz.1), (BusyDetect::Interrupt, Width::W4, 50_000_000));
    assert!(!caps.can(Timing::Sdr50) && caps.can(Timing::HighSpeed));
    assert!(host.present() && !host.write_protected());
}

#[test]
fn a_chip_of_another_kind_is_refused_by_its_name() {
    assert_eq!(Chip::of_pci(0x10ec, 0x5249), Ok(Chip::Rts5249));
    assert_eq!(Chip::of_pci(0x10ec, 0x5209), Ok(Chip::Rts5209));
    for (vendor, device) in [(0x10ec, 0x5261), (0x10ec, 0x5289), (0x1b36, 0x0007), (0xffff, 0xffff)] {
        assert_eq!(Chip::of_pci(vendor, device), Err(RtsxInitError::Chip { vendor, device }));
    }
    assert_eq!(
        Chip::of_pci(0x10ec, 0x5264).unwrap_err().to_string(),
        "rtsx: PCI 10ec:5264, expected 10ec:5209, 5227, 522a, 5229, 5249, 524a or 525a"
    );
}
