//! Tests of transfers without a block count, as the Technical Reference Manuals of Intel's SoCs
//! describe DesignWare's controller ("SD/MMC Controller").

use super::dma::{ABNORMAL, DU, NORMAL, RI, SUSPENDED, TI};
use super::*;

const MODELS: [MshcConfig; 2] = [MshcConfig::JH7110, MshcConfig::RK3399];
const POLL: u16 = 0x84;
const DMA: u32 = 0x337;

/// Lets this time pass, and handles all events of the model in it.
fn pass(rig: &mut Rig, time_ns: u64) {
    let until = rig.now + time_ns;
    while rig.host.next_event_ns().is_some_and(|at| at <= until) {
        rig.step();
    }
    rig.now = until;
    rig.host.advance(until);
}

/// Starts an open-ended read from block 3 on, whose DMA has one descriptor for two blocks. Returns
/// the test bench, the memory of these blocks, and a descriptor list with room for more. Every word
/// in the FIFO raises the request to write to memory.
fn begun(config: MshcConfig) -> (Rig, Mapped, List) {
    let mut rig = Rig::warm(config);
    rig.w(rig.at.threshold, 8);
    let first = rig.to_read(1024);
    let mut list = List::new(&rig, 6);
    list.put(0, first.bus, 1024, FIRST);
    rig.by_dma(0, list.bus);
    rig.start(READ | 18, 3);
    pass(&mut rig, 3_000_000);
    (rig, first, list)
}

/// Checks a read without a block count: the DMA suspends at a descriptor of the CPU and continues
/// after a poll demand. "If the OWN bit of a descriptor is not set, the FSM goes to the Suspend
/// state. The host needs to write any value into this register for the IDMAC FSM to resume."
#[test]
fn without_a_count_a_read_goes_from_poll_demand_to_poll_demand() {
    for config in MODELS {
        let (mut rig, first, mut list) = begun(config);
        assert_eq!(rig.raw() & OVER, 0, "a count of 0 has no end");
        assert_eq!(rig.r(rig.at.dma_status), RI | NORMAL | DU | ABNORMAL | SUSPENDED);
        assert_eq!(first.take(), rig.stored(3, 1024));
        assert_ne!(rig.r(rig.at.status) & 1 << 10, 0, "the data path waits");
        let moved = rig.r(0x5c);
        pass(&mut rig, 50_000_000);
        assert_eq!(rig.r(0x5c), moved, "the card's clock is stopped while the FIFO is full");
        // Each request's descriptors are behind those of the one before.
        let mut at = 5;
        for (place, blocks) in [(1, 1), (2, 3), (3, 2)] {
            let more = rig.to_read(512 * blocks);
            list.put(place, more.bus, 512 * blocks as u32, 0);
            rig.w(rig.at.dma_status, DMA);
            rig.w(POLL, 1);
            pass(&mut rig, 3_000_000);
            assert_eq!(rig.r(rig.at.dma_status) & (RI | DU), RI | DU);
            assert_eq!(list.control(place) >> 31, 0);
            assert_eq!(more.take(), rig.stored(at, 512 * blocks));
            at += blocks;
        }
        assert_eq!(rig.raw() & (OVER | DCRC | EBE), 0);
        assert_eq!((rig.violations(), rig.memory.violation_count()), (0, 0));
    }
}

/// Checks a full FIFO: "If the FIFO buffer remains full for a data-timeout number of clock cycles,
/// the data path signals a data-starvation error, and continues to wait."
#[test]
fn a_read_that_nobody_takes_is_starved_and_goes_on() {
    let mut rig = Rig::warm(MshcConfig::JH7110);
    rig.w(rig.at.timeout, 10_000 << 8 | 0xff);
    let (a, b) = (rig.to_read(512), rig.to_read(512));
    let mut list = List::new(&rig, 3);
    list.put(0, a.bus, 512, FIRST);
    rig.by_dma(0, list.bus);
    rig.start(READ | 18, 0);
    assert_eq!(rig.until(HTO) & OVER, 0);
    list.put(1, b.bus, 512, 0);
    rig.w(rig.at.raw, u32::MAX);
    rig.w(POLL, 1);
    pass(&mut rig, 100_000);
    assert_eq!([a.take(), b.take()].concat(), rig.stored(0, 1024));
    assert_eq!(rig.raw() & (OVER | DRTO), 0);
}

/// Checks the receive watermark: "The DMA waits for the RX watermark to be reached before writing
/// data to system memory."
#[test]
fn what_is_below_the_mark_waits_for_more_data() {
    let mut rig = Rig::warm(MshcConfig::JH7110);
    rig.card.0.borrow_mut().stops_after = Some(2);
    let a = rig.to_read(1024);
    let mut list = List::new(&rig, 2);
    list.put(0, a.bus, 1024, FIRST);
    rig.by_dma(0, list.bus);
    rig.start(READ | 18, 0);
    pass(&mut rig, 3_000_000);
    assert_eq!(rig.r(rig.at.status) >> 17 & 0x1fff, 7, "the mark's words");
    assert_eq!(rig.r(rig.at.dma_status) & RI, 0);
}

/// Checks a stop command, which needs the card's clock, so it is sent only when the FIFO has room:
/// "The internal DMA controller keeps reading data from the FIFO buffer and writes to the system
/// memory until a DTO interrupt is generated ... DTO interrupt is not generated until and unless
/// all the FIFO buffer data is emptied."
#[test]
fn a_stop_command_goes_when_the_fifo_has_room_and_ends_the_data_when_it_is_empty() {
    for config in MODELS {
        let (mut rig, first, mut list) = begun(config);
        rig.start(SHORT | STOP | 12, 0);
        pass(&mut rig, 1_000_000);
        assert_eq!(rig.raw() & (DONE | OVER), 0, "without a clock no command is sent");
        assert!(rig.card.0.borrow().commands.iter().all(|command| command.0 != 12));
        let scrap = rig.to_read(2048);
        for place in 1..5 {
            list.put(place, scrap.bus, 2048, NO_IRQ);
        }
        rig.w(rig.at.dma_status, DMA);
        rig.w(POLL, 1);
        let raw = rig.until(OVER);
        assert_eq!(raw & DONE, 0, "the data end with the command's end bit");
        rig.until(DONE);
        assert_ne!(rig.r(rig.at.status) & 1 << 2, 0, "the FIFO is empty");
        assert_eq!(rig.r(rig.at.status) & 1 << 10, 0);
        assert_eq!((list.control(1) >> 31, list.control(4) >> 31), (0, 1), "what was not begun stays");
        assert_eq!(first.take(), rig.stored(3, 1024));
        rig.w(CONTROL, 1 << 4 | 1 << 2);
        rig.now += 1_000;
        rig.command(13, 0);
        assert_eq!((rig.violations(), rig.memory.violation_count()), (0, 0));
    }
}

/// Checks a stop command while the DMA has no descriptor: the read ends only when its FIFO is
/// empty.
#[test]
fn an_aborted_read_is_not_over_before_its_fifo_is_empty() {
    let mut rig = Rig::warm(MshcConfig::RK3399);
    rig.card.0.borrow_mut().access_ns = 200_000;
    rig.card.0.borrow_mut().stops_after = Some(3);
    rig.w(rig.at.threshold, 8);
    let (a, b) = (rig.to_read(1024), rig.to_read(1024));
    let mut list = List::new(&rig, 2);
    list.put(0, a.bus, 1024, FIRST);
    rig.by_dma(0, list.bus);
    rig.start(READ | 18, 0);
    pass(&mut rig, 1_000_000);
    assert_eq!(rig.r(rig.at.status) >> 17 & 0x1fff, 128, "a block more, and the clock runs");
    rig.start(SHORT | STOP | 12, 0);
    rig.until(DONE);
    pass(&mut rig, 1_000_000);
    assert_eq!(rig.raw() & OVER, 0);
    list.put(1, b.bus, 1024, 0);
    rig.w(POLL, 1);
    assert_ne!(rig.raw() & OVER, 0);
    assert_eq!((rig.r(rig.at.dma_status) & RI, list.control(1) >> 31), (RI, 0));
}

/// Checks that a first descriptor in the middle of a read drops the data in the FIFO: "If it is the
/// first descriptor, the controller issues a FIFO buffer reset."
#[test]
fn a_first_descriptor_in_the_middle_costs_what_was_ahead() {
    let (mut rig, _first, mut list) = begun(MshcConfig::RK3399);
    assert_eq!(rig.r(rig.at.status) >> 17 & 0x1fff, 256, "two blocks ahead");
    let more = rig.to_read(512);
    list.put(1, more.bus, 512, FIRST);
    rig.w(POLL, 1);
    pass(&mut rig, 3_000_000);
    assert_eq!(more.take(), rig.stored(7, 512));
    assert_eq!(rig.violations(), 1);
}

/// Checks a write without a block count: TI reports only that the DMA has read memory, and no bit
/// reports that the card has the last block. "After one data block is transmitted, the data
/// transmit state machine receives the CRC status from the card. If the remaining byte count
/// becomes 0, ... DTO." A count of 0 never becomes 0.
#[test]
fn nothing_tells_that_the_card_has_the_last_block_of_a_write_without_a_count() {
    let mut rig = Rig::warm(MshcConfig::RK3399);
    let data = rig.to_write(pattern(1024));
    let mut list = List::new(&rig, 3);
    list.put(0, data.bus, 1024, FIRST);
    rig.by_dma(0, list.bus);
    rig.start(WRITE | 25, 8);
    rig.until(DONE);
    assert_eq!(rig.r(rig.at.dma_status) & TI, TI, "before the first bit");
    assert_ne!(rig.stored(8, 512), pattern(512));
    pass(&mut rig, 3_000_000);
    assert_eq!(rig.stored(8, 1024), pattern(1024));
    assert_eq!(rig.raw() & (OVER | BCI), 0);
    assert_eq!(rig.r(rig.at.status) & (1 << 10 | 1 << 2), 1 << 10 | 1 << 2);
    // "This is done to keep the card clock running so that the STOP_TRANSMISSION command is reliably
    // sent": without data there is no clock.
    rig.start(SHORT | STOP | 12, 0);
    pass(&mut rig, 50_000_000);
    assert_eq!(rig.raw() & (DONE | OVER), 0);
}

/// Checks that a CMD13 carries more data of an open write: the controller sends data as the bits of
/// the command register say, whatever the command is, and the card still has its write open.
#[test]
fn a_status_command_carries_more_of_an_open_write() {
    for config in MODELS {
        let mut rig = Rig::warm(config);
        rig.card.0.borrow_mut().write_busy_ns = 40_000;
        for (command, at, blocks) in [(25, 8, 2), (13, 10, 1), (13, 11, 3)] {
            let bytes: Vec<u8> = pattern(512 * blocks).iter().map(|byte| byte ^ at as u8).collect();
            let data = rig.to_write(bytes.clone());
            let list = chain(&rig, &[(data.bus, 512 * blocks as u32)]);
            rig.by_dma(blocks as u32, list.bus);
            rig.start(WRITE | command, if command == 25 { 8 } else { 0 });
            let raw = rig.until(OVER);
            assert_eq!(raw & BCI, 0);
            assert_eq!(rig.stored(at, 512 * blocks), bytes, "its CRC status has come");
            rig.until(BCI);
            assert_eq!(rig.r(rig.at.status) & 1 << 9, 0);
        }
        let asked: Vec<u8> = rig.card.0.borrow().commands.iter().map(|command| command.0).collect();
        assert_eq!(asked, [25, 13, 13]);
        assert_eq!((rig.violations(), rig.memory.violation_count()), (0, 0));
    }
}

#[test]
fn controllers_that_cannot() {
    let (mut rig, _first, mut list) = begun(MshcConfig { ignores_poll: true, ..MshcConfig::JH7110 });
    let more = rig.to_read(512);
    list.put(1, more.bus, 512, 0);
    rig.w(POLL, 1);
    pass(&mut rig, 50_000_000);
    assert_eq!(rig.r(rig.at.dma_status) & SUSPENDED, SUSPENDED);
    let mut rig = Rig::warm(MshcConfig { carries_nothing: true, ..MshcConfig::JH7110 });
    for (command, sent) in [(25, true), (13, false)] {
        let data = rig.to_write(pattern(512));
        let list = chain(&rig, &[(data.bus, 512)]);
        rig.by_dma(1, list.bus);
        rig.start(WRITE | command, 8);
        pass(&mut rig, 50_000_000);
        assert_eq!(rig.raw() & OVER != 0, sent, "CMD{command}");
    }
}
