//! Tests of a uSDHC as the SDHCI driver sees it: the position of each field, and the order of
//! accesses.

use super::*;
use crate::host::sdhci::{Usdhc, profiles};

const SOURCE_HZ: u32 = 198_000_000;
const SYSTEM: u16 = 0x2c;
const WATERMARK: u16 = 0x44;
const MIX: u16 = 0x48;
const VENDOR: u16 = 0xc0;

/// Registers with the side effects of a uSDHC.
struct Chip {
    words: RefCell<[u32; 64]>,
    log: RefCell<Vec<(u16, u32)>>,
    /// Whether the clock never becomes stable.
    unclocked: Cell<bool>,
}

impl Chip {
    fn new() -> Chip {
        let chip =
            Chip { words: RefCell::new([0; 64]), log: RefCell::default(), unclocked: Cell::new(false) };
        // Values that an i.MX 6 has after a reset.
        chip.set(0x24, 0xff8d_8088);
        chip.set(0x28, 0x0880_0020);
        chip.set(SYSTEM, 0x8080_800f);
        chip.set(0x40, 0x07f3_b407);
        chip.set(MIX, 0x8000_0000);
        chip.set(VENDOR, 0x2000_7809);
        chip.set(0xfc, 0x0000_0003);
        chip
    }

    fn set(&self, at: u16, word: u32) {
        self.words.borrow_mut()[usize::from(at) / 4] = word;
    }

    fn get(&self, at: u16) -> u32 {
        self.words.borrow()[usize::from(at) / 4]
    }

    fn read(&self, at: u16, bytes: usize) -> u32 {
        assert_eq!((bytes, at % 4), (4, 0), "only words");
        let word = self.get(at);
        if at == 0x24 && word != u32::MAX && self.unclocked.get() { word & !8 } else { word }
    }

    fn write(&self, at: u16, bytes: usize, word: u32) {
        assert_eq!((bytes, at % 4), (4, 0), "only words");
        self.log.borrow_mut().push((at, word));
        match at {
            INT_STATUS => self.set(at, self.get(at) & !word),
            SYSTEM => {
                let forced = self.get(VENDOR) & 0x100 != 0;
                assert!(!forced || (self.get(at) ^ word) & 0xfff0 == 0, "a divider of a running clock");
                self.set(at, word & !(7 << 24));
                if word & 1 << 24 != 0 {
                    // The reset leaves MIX_CTRL and VEND_SPEC as they are.
                    self.set(SYSTEM, 0x8080_800f);
                    self.set(0x28, 0x0880_0020);
                    (INT_ENABLE..=INT_SIGNAL).step_by(4).for_each(|at| self.set(at, 0));
                }
            }
            _ => self.set(at, word),
        }
    }

    fn take_log(&self) -> Vec<(u16, u32)> {
        core::mem::take(&mut self.log.borrow_mut())
    }
}

crate::regs_by_width!([] Chip);
crate::regs_by_width!([] &'static Chip);

type Wrapped = Sdhci<Usdhc<&'static Chip>, &'static FakeDma, 8>;

fn made(chip: &'static Chip, config: SdhciConfig) -> Result<Wrapped, SdhciInitError> {
    let dma: &'static FakeDma = Box::leak(Box::default());
    dma.bus.set(0x4000);
    Sdhci::new(Usdhc::new(chip), dma, Box::leak(Box::new(Table::new())), config)
}

fn ready_chip(config: SdhciConfig) -> (&'static Chip, Wrapped) {
    let chip: &'static Chip = Box::leak(Box::new(Chip::new()));
    let mut host = made(chip, config).unwrap();
    for op in [BusOp::ResetAll, BusOp::PowerOn, BusOp::Clock(25_000_000), BusOp::Width(Width::W4)] {
        assert_eq!(host.set_bus(op, true, 0), Step::Done, "{op:?}");
    }
    chip.take_log();
    (chip, host)
}

fn usual() -> SdhciConfig {
    profiles::USDHC.clock(SOURCE_HZ)
}

/// Returns the SD clock in hertz that results from both dividers in the chip's registers.
fn clock_hz(chip: &Chip) -> u32 {
    let system = chip.get(SYSTEM);
    SOURCE_HZ / ((system >> 8 & 0xff) * 2).max(1) / ((system >> 4 & 0xf) + 1)
}

#[test]
fn bring_up_sets_the_chips_own_fields() {
    let (chip, host) = ready_chip(usual());
    assert_eq!(host.transfer_mode(), TransferMode::Adma2);
    assert_eq!(clock_hz(chip), 24_750_000);
    assert_eq!(chip.get(SYSTEM) & 0x0080_000f, 0x0080_000f, "ones where they belong; RST_n is high");
    assert_eq!(chip.get(VENDOR), 0x2000_7909, "the SD clock runs, the rest is as it was");
    assert_eq!(chip.get(0x28), 0x0880_0222, "4 lines, little endian, ADMA2, bursts as they were");
    assert!(!host.caps().signal18, "1.8 V only where the board says so");
    assert_eq!(host.caps().busy, BusyDetect::Level);
}

#[test]
fn the_clock_stops_and_is_never_faster_than_asked_for() {
    let (chip, mut host) = ready_chip(usual());
    for hz in (97_000..1_000_000).step_by(997).chain((1_000_000..=200_000_000).step_by(99_991)) {
        if host.set_bus(BusOp::Clock(hz), true, 0) != Step::Done {
            assert!(hz < SOURCE_HZ.div_ceil(2046), "{hz}");
            continue;
        }
        let actual = clock_hz(chip);
        assert!(actual <= hz && (actual > hz / 17 * 8 || actual > SOURCE_HZ / 4), "{hz} became {actual}");
    }
    assert_eq!(host.set_bus(BusOp::Clock(0), true, 0), Step::Done);
    assert_eq!(chip.get(VENDOR) & 0x100, 0);
}

/// Tests that the SD clock is stopped when its dividers change: after a reset of the controller
/// with the clock running, and after a boot loader that left it running.
#[test]
fn a_reset_stops_the_clock_before_its_dividers_change() {
    let (chip, mut host) = ready_chip(usual());
    for op in [BusOp::ResetAll, BusOp::Clock(400_000), BusOp::ResetAll] {
        assert_eq!(host.set_bus(op, true, 0), Step::Done, "{op:?}");
        assert_eq!(chip.get(VENDOR) & 0x100, 0x100, "the clock runs again");
    }
    assert_eq!(clock_hz(chip), 386_718);
    let chip: &'static Chip = Box::leak(Box::new(Chip::new()));
    chip.set(VENDOR, 0x2000_7909);
    let mut host = made(chip, usual()).unwrap();
    assert_eq!(host.set_bus(BusOp::ResetAll, true, 0), Step::Done);
    assert_eq!(chip.get(VENDOR) & 0x100, 0);
    assert_eq!(host.set_bus(BusOp::Clock(400_000), true, 0), Step::Done);
}

#[test]
fn transfer_mode_goes_before_its_command() {
    let (chip, mut host) = ready_chip(usual());
    let phase = Phase { auto: Auto::Count(4), ..read(4) };
    host.start(&phase, &[far(0x8000, 2048)], 100_000_000).unwrap();
    let log = chip.take_log();
    let at = |register| log.iter().position(|&(at, _)| at == register).unwrap();
    assert_eq!(log[at(0x04)].1, 4 << 16 | 512, "no boundary");
    assert_eq!(log[at(MIX)].1, 0x8000_0000 | 0xb3, "DMA, count, read, several, CMD23");
    assert_eq!(log[at(WATERMARK)].1, 0x1040_1040);
    assert_eq!(log[at(0x0c)].1, 0x123a_0000, "CMD18, and no transfer mode");
    assert_eq!(log[at(0x00)].1, 4, "the count");
    assert!(at(MIX) < at(0x0c) && at(WATERMARK) < at(0x0c) && at(0x0c) == log.len() - 1);

    // A command during data does not change the data's mode; a command after the data has no CMD23
    // before it.
    chip.set(0x24, chip.get(0x24) | 2);
    chip.set(INT_STATUS, 1);
    host.start_concurrent(&Command::new(13, 0, Resp::R1)).unwrap();
    assert!(chip.take_log().iter().all(|&(at, _)| at != MIX));
    assert_eq!(chip.get(0x0c), 0x0d1a_0000);
    chip.set(0x24, chip.get(0x24) & !2);
    chip.set(INT_STATUS, 1);
    assert_eq!(host.ack_concurrent(), Some(Ok(0)));
    chip.set(INT_STATUS, 2);
    assert!(host.ack(&[]).phase.unwrap().is_ok());
    host.start(&command(13, Resp::R1), &[], 1_000_000).unwrap();
    assert_eq!(chip.get(MIX), 0x8000_0033);
    assert_eq!(chip.get(0x0c), 0x0d1a_0000);
}

#[test]
fn stop_is_an_abort() {
    let (chip, mut host) = ready_chip(usual());
    host.start(&command(12, Resp::R1b), &[], 1_000_000).unwrap();
    assert_eq!(chip.get(0x0c), 0x0cda_0000, "no busy check: the level tells");
}

#[test]
fn words_by_the_cpu_have_a_block_as_watermark() {
    let (chip, mut host) = ready_chip(usual().transfer(TransferMode::Pio));
    for (bytes, watermark) in [(512, 0x1080_1080), (64, 0x1010_1010), (7, 0x1002_1002)] {
        let mut memory = vec![0; 512];
        let phase = data(17, Direction::Read, bytes, 1);
        host.start(&phase, &[near(&mut memory)], 100_000_000).unwrap();
        assert_eq!(chip.get(WATERMARK), watermark, "{bytes}");
        assert_eq!(chip.get(MIX) & 1, 0, "no DMA");
        chip.set(0x20, 0x6655_4433);
        chip.set(0x24, chip.get(0x24) | PRESENT_BUFFER_READ);
        chip.set(INT_STATUS, INT_COMMAND | INT_TRANSFER | INT_BUFFER_READ);
        assert!(host.ack(&[near(&mut memory)]).phase.unwrap().is_ok());
        assert_eq!(memory[..4], [0x33, 0x44, 0x55, 0x66]);
    }
}

#[test]
fn the_dma_error_has_its_own_bit() {
    let (chip, mut host) = ready_chip(usual());
    assert_eq!(chip.get(INT_ENABLE) >> 16, 0x157f, "all errors that there are, and no reserved bit");
    host.start(&read(1), &[far(0x8000, 512)], 100_000_000).unwrap();
    chip.set(INT_STATUS, 1 << 28 | 1);
    let fault = host.ack(&[far(0x8000, 512)]).phase.unwrap().unwrap_err();
    assert_eq!((fault.cause, fault.stage), (Cause::Dma, Stage::Data));
    assert_eq!(chip.get(INT_STATUS), 0, "acknowledged");
}

#[test]
fn levels_of_the_lines_are_found() {
    let (chip, host) = ready_chip(usual());
    assert_eq!((host.dat_levels(), host.dat0_busy()), (0xf, false));
    chip.set(0x24, 0xfe8d_8088);
    assert_eq!((host.dat_levels(), host.dat0_busy()), (0xe, true));
    assert!(host.present());
    chip.set(0x24, 0xfe8c_8088);
    assert!(!host.present());
}

#[test]
fn what_is_missing_is_named() {
    let chip: &'static Chip = Box::leak(Box::new(Chip::new()));
    assert_eq!(made(chip, profiles::USDHC.clock(0)).err(), Some(SdhciInitError::NoBaseClock));
    // If the clock never becomes stable, the operation fails after 150 ms.
    let mut host = made(chip, usual()).unwrap();
    chip.unclocked.set(true);
    let (mut now_ns, mut looks) = (0, 0);
    let mut step = host.set_bus(BusOp::Clock(400_000), true, 0);
    while let Step::Wait(at_ns) = step {
        assert!(at_ns > now_ns);
        (now_ns, looks) = (at_ns, looks + 1);
        step = host.set_bus(BusOp::Clock(400_000), false, now_ns);
    }
    assert_eq!((step, now_ns), (Step::Failed, 150_000_000));
    assert!(looks <= 15_000);
    // The controller is gone while a command is in progress, and the phase reports that.
    let (chip, mut host) = ready_chip(usual());
    host.start(&command(13, Resp::R1), &[], 1_000_000).unwrap();
    for at in (0..256).step_by(4) {
        chip.set(at, u32::MAX);
    }
    assert_eq!(host.ack(&[]).phase.unwrap().unwrap_err().cause, Cause::Gone);
    assert_eq!(made(chip, usual()).err(), Some(SdhciInitError::Gone));
}
