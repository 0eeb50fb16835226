//! Tests of writes that stay open on ST's SDMMC by carriers: the commands on the bus, the data on
//! the card, and what the engine does with a controller that sends no data with a CMD13.

use super::*;
use crate::open_sdhci::memory;
use crate::stream_test::told;
use mmcq::block::{BlockDevice, StreamTest};

type OpenDriver = Surrounded<driver::OpenStm32Sdmmc<Port, ShadowMemory, Board, 1>, Board>;
type OpenStack = timed::On<Erased<{ constants::<OpenDriver>() }>>;

struct Open {
    time: Time,
    model: Rc<RefCell<Stm32Sdmmc>>,
    memory: ShadowMemory,
    stack: OpenStack,
    base: u64,
}

impl Open {
    fn new(card: &str, model: Stm32SdmmcConfig) -> Open {
        let (time, chip) = (Time::new(), Chip::of(model).holds(card));
        let memory = ShadowMemory::new(chip.memory);
        let built = timed::card(&timed::profile(card));
        let model = Rc::new(RefCell::new(Stm32Sdmmc::new(chip.model, memory.clone(), Some(built))));
        let port = Port::new(model.clone(), time.clone(), chip.access_ns, chip.access_ns);
        let signal18_fixed = chip.driver.signal18_fixed;
        let board = Board { signal18_fixed, ..Board::new(model.clone(), time.clone()) };
        let list = Box::leak(Box::new(Pieces::<1>::new()));
        let host = driver::Stm32Sdmmc::new(port, memory.clone(), board.clone(), list, chip.driver).unwrap();
        let host = Surrounded::new(driver::OpenStm32Sdmmc::new(host, true), board);
        NOW_NS.set(0);
        let stack = timed::on(Erased::new(host), Config::DEFAULT);
        let mut rig = Open { time, model, memory, stack, base: 0 };
        let found = rig.drive(card::bring_up(&rig.stack, buffer(1), card::Options::DEFAULT)).0;
        rig.base = found.unwrap_or_else(|error| panic!("{card}: {error}")).params.sectors / 2;
        rig
    }

    fn drive<F: Future>(&self, future: F) -> F::Output {
        timed::drive(&self.stack, &self.model, &self.time, future)
    }

    /// Writes requests of eight blocks one after the other, each filled with its number, and reads
    /// them back.
    fn write_and_read(&self, requests: u64) {
        let disk = BlockDevice::new(&self.stack);
        for n in 0..requests {
            let write = disk.write(self.base + 8 * n, timed::filled(8, n as u8 | 1));
            self.drive(write).0.unwrap();
        }
        self.drive(disk.flush()).unwrap();
        for n in 0..requests {
            let (result, back) = self.drive(disk.read(self.base + 8 * n, buffer(8)));
            assert!(result.is_ok() && back.iter().all(|byte| *byte == n as u8 | 1), "request {n}");
        }
    }

    fn commands(&self, index: usize) -> u64 {
        self.model.borrow().stats().commands[index]
    }
}

#[test]
fn a_run_of_writes_has_one_command_and_a_status_for_each() {
    for card in ["sdhc-16g-hs", "sdxc-128g-uhs", "emmc-hs200"] {
        let rig = Open::new(card, Stm32SdmmcConfig::H7);
        rig.write_and_read(40);
        assert!(rig.commands(25) <= 3, "{card}: {} of CMD25", rig.commands(25));
        assert!(rig.commands(13) > 30, "{card}: {} of CMD13", rig.commands(13));
        assert!(rig.commands(18) >= 40, "{card}: each read is closed");
        timed::checked(&rig.memory, &rig.model);
    }
}

/// Checks a controller whose write ends before the card's busy: no transfer stays open.
#[test]
fn without_an_interrupt_at_the_end_of_busy_each_write_is_closed() {
    let rig =
        Open::new("sdhc-16g-hs", Stm32SdmmcConfig { data_end_after_busy: false, ..Stm32SdmmcConfig::H7 });
    rig.write_and_read(20);
    assert!(rig.commands(25) >= 20);
    timed::checked(&rig.memory, &rig.model);
}

#[test]
fn a_controller_that_sends_nothing_with_a_status_is_left_after_two_failures() {
    let rig = Open::new("sdhc-16g-hs", Stm32SdmmcConfig { carries_nothing: true, ..Stm32SdmmcConfig::H7 });
    rig.write_and_read(40);
    assert!(rig.stack.with(|engine| engine.take_continue_lost()));
    timed::checked(&rig.memory, &rig.model);
}

#[test]
fn the_test_of_open_transfers_tells_both_apart() {
    for (carries_nothing, right) in [(false, true), (true, false)] {
        let rig = Open::new("sdhc-16g-hs", Stm32SdmmcConfig { carries_nothing, ..Stm32SdmmcConfig::H7 });
        let test = StreamTest::writes(rig.base, 4096);
        let told = told(&rig.stack, &rig.model, &rig.time, test, memory(128, 0));
        assert_eq!(told.verdict.unwrap().may_be_switched_on(), right, "{}", told.text());
        assert!(right || told.fails("write 4 KiB"), "{}", told.text());
    }
}
