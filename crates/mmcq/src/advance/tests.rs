use super::*;
use crate::host::Auto;
use crate::spec::command::{self, sdio};

const BUS: Bus = Bus { clock_hz: 10_000_000, width: Width::W4, ddr: false };
/// Costs of a 200 MHz ARM926 with Linux.
const COSTS: Costs = Costs {
    interrupt_ns: 11_000,
    deferred_ns: 16_000,
    thread_ns: 83_600,
    look_ns: 250,
    pio_kib_ns: 56_320,
    dma_ns: 6_000,
    interrupt_max_ns: 100_000,
    deferred_max_ns: 1_000_000,
    ..Costs::UNKNOWN
};

fn phase(command: command::Command, data: Option<Data>) -> Phase {
    Phase { command, data, auto: Auto::None, tuning: false }
}

fn data(direction: Direction, block_size: u16, blocks: u32) -> Option<Data> {
    Some(Data { direction, block_size, blocks })
}

fn advance(costs: Costs) -> WaitStrategy {
    let advance = WaitStrategy::new(costs);
    advance.set_bus(BUS);
    advance
}

#[test]
fn a_command_takes_its_bits_at_any_clock_and_width() {
    let wait = Wait::of(&phase(sdio::io_read(0, 0), None));
    let advance = WaitStrategy::new(COSTS);
    assert_eq!(advance.expected_ns(&wait), None, "the clock stands");
    for (clock_hz, width, ns) in [
        (400_000, Width::W1, 260_000),
        (10_000_000, Width::W4, 10_400),
        (25_000_000, Width::W8, 4_160),
        (50_000_000, Width::W4, 2_080),
    ] {
        let bus = Bus { clock_hz, width, ddr: true };
        advance.set_bus(bus);
        assert_eq!((advance.bus(), advance.expected_ns(&wait)), (bus, Some(ns)));
    }
}

#[test]
fn data_take_their_bits_on_their_lines_and_the_cards_delay() {
    let advance = advance(COSTS);
    let read = |blocks| Wait::of(&phase(command::read_multiple_block(0), data(Direction::Read, 512, blocks)));
    assert_eq!(advance.expected_ns(&read(1)), None, "without knowledge of the card it leaves");
    // Command, gap, 1024 clocks on four lines, and the bits around a block.
    let wire_ns = (48 + 8 + 1024 + 26) * 100;
    advance.saw(&read(1), wire_ns + 50_000);
    assert_eq!(advance.expected_ns(&read(1)), Some(wire_ns + 50_000));
    assert_eq!(advance.expected_ns(&read(2)), Some(wire_ns + 50_000 + 105_000), "learned once for all sizes");
    // At twice the clock and on both edges the wire's part shrinks, and the card's does not.
    advance.set_bus(Bus { clock_hz: 20_000_000, ddr: true, ..BUS });
    assert_eq!(advance.expected_ns(&read(1)), Some((48 + 8 + 512 + 26) * 50 + 50_000));
    let write = Wait::of(&phase(command::write_block(0), data(Direction::Write, 512, 1)));
    assert_eq!(advance.expected_ns(&write), None, "classes know nothing of each other");
    assert_eq!(Wait::of(&phase(command::stop_transmission(), None)).class, Class::Busy);
}

#[test]
fn it_spins_where_that_is_cheaper_and_never_without_a_bound() {
    let advance = advance(COSTS);
    let wait = Wait::of(&phase(sdio::io_read(0, 0), None));
    assert_eq!(advance.choose(&wait, Context::Interrupt, 0), Advice::Spin { at_most_ns: 22_000 });
    assert_eq!(advance.choose(&wait, Context::Thread, 0), Advice::Spin { at_most_ns: 167_200 });
    advance.set_bus(Bus { clock_hz: 9_000_000, ..BUS });
    assert_eq!(advance.choose(&wait, Context::Interrupt, 0), Advice::Leave(Context::Interrupt));
    assert_eq!(advance.choose(&wait, Context::Deferred, 0), Advice::Spin { at_most_ns: 32_000 });
    advance.set_bus(Bus { clock_hz: 1_000_000, ..BUS });
    assert_eq!(advance.choose(&wait, Context::Thread, 0), Advice::Leave(Context::Interrupt));
}

#[test]
fn a_stretch_in_the_interrupt_has_an_end() {
    let advance = advance(COSTS);
    let wait = Wait::of(&phase(sdio::io_read(0, 0), None));
    assert_eq!(advance.choose(&wait, Context::Interrupt, 85_000), Advice::Spin { at_most_ns: 15_000 });
    assert_eq!(advance.choose(&wait, Context::Interrupt, 90_000), Advice::Leave(Context::Interrupt));
    assert_eq!(advance.choose(&wait, Context::Interrupt, u64::MAX), Advice::Leave(Context::Interrupt));
    assert!(matches!(advance.choose(&wait, Context::Thread, 1 << 60), Advice::Spin { .. }));
}

#[test]
fn what_is_left_is_advanced_where_its_work_fits() {
    let of = |costs: Costs, bytes: u32| {
        let count = sdio::Amount::Bytes(512);
        let command = sdio::io_rw_extended(sdio::Extended {
            write: false,
            function: 1,
            addr: 0,
            increment: false,
            count,
        });
        let wait = Wait::of(&phase(command, data(Direction::Read, 4, bytes / 4)));
        advance(costs).advanced_by(&wait)
    };
    assert_eq!(of(COSTS, 2048), Context::Interrupt, "by DMA: 6 us");
    let pio = Costs { dma_ns: u32::MAX, dma_kib_ns: u32::MAX, ..COSTS };
    assert_eq!(of(pio, 1024), Context::Interrupt, "56 us");
    assert_eq!(of(pio, 2048), Context::Deferred, "113 us");
    assert_eq!(of(pio, 32 * 1024), Context::Thread, "1.8 ms");
}

#[test]
fn dma_pays_from_where_the_words_cost_more_than_its_setup() {
    assert_eq!(COSTS.dma_from_bytes(), Some(110));
    assert_eq!(Costs { dma_kib_ns: 56_320, ..COSTS }.dma_from_bytes(), None);
    assert_eq!(Costs { dma_ns: 0, ..COSTS }.dma_from_bytes(), Some(0));
    assert_eq!(Costs { pio_kib_ns: 1, dma_ns: u32::MAX, ..COSTS }.dma_from_bytes(), None);
}

#[test]
fn it_follows_what_it_sees() {
    let advance = advance(COSTS);
    let wait = Wait::of(&phase(sdio::io_read(0, 0), None));
    // A card that answers late, for a hundred commands.
    (0..100).for_each(|_| advance.saw(&wait, 60_000));
    assert_eq!(advance.expected_ns(&wait), Some(60_000));
    assert_eq!(advance.choose(&wait, Context::Interrupt, 0), Advice::Leave(Context::Interrupt));
    (0..100).for_each(|_| advance.saw(&wait, 3_000));
    assert_eq!(advance.expected_ns(&wait), Some(3_000), "faster than the prior, too");
    // A single outlier is forgotten, and extreme times do no harm.
    for took_ns in [0, u64::MAX, 0, u64::MAX] {
        advance.saw(&wait, took_ns);
        assert!(advance.expected_ns(&wait).is_some());
    }
    (0..300).for_each(|_| advance.saw(&wait, 10_400));
    assert_eq!(advance.expected_ns(&wait), Some(10_400));
}

#[test]
fn a_wait_of_any_size_on_any_clock_has_an_answer() {
    let advance = advance(COSTS);
    let class = Class::Fifo;
    let longest = Wait { class, response_bits: u8::MAX, bytes: u32::MAX, blocks: u32::MAX };
    for clock_hz in [0, 1, u32::MAX] {
        advance.set_bus(Bus { clock_hz, width: Width::W1, ddr: false });
        for class in [class, Class::Command, Class::Busy, Class::Read, Class::Write] {
            let wait = Wait { class, ..longest };
            advance.saw(&wait, u64::MAX);
            advance.gave_up(&wait, u64::MAX);
            assert!(matches!(advance.choose(&wait, Context::Deferred, 0), Advice::Leave(_)));
        }
    }
}

#[test]
fn spinning_in_vain_raises_what_is_expected() {
    let advance = advance(COSTS);
    let wait = Wait::of(&phase(sdio::io_read(0, 0), None));
    let tries = (0..100).take_while(|_| {
        let Advice::Spin { at_most_ns } = advance.choose(&wait, Context::Interrupt, 0) else {
            return false;
        };
        advance.gave_up(&wait, at_most_ns);
        true
    });
    assert!((1..=8).contains(&tries.count()));
    let expected_ns = advance.expected_ns(&wait);
    advance.gave_up(&wait, 5);
    assert_eq!(advance.expected_ns(&wait), expected_ns, "a shorter try says nothing");
}

#[test]
fn an_unknown_price_is_learned_from_sleepers() {
    let advance = advance(Costs::UNKNOWN);
    let wait = Wait::of(&phase(sdio::io_read(0, 0), None));
    assert_eq!(advance.choose(&wait, Context::Thread, 0), Advice::Leave(Context::Interrupt));
    advance.slept(Context::Thread, 90_400, 10_400);
    assert_eq!(advance.price_ns(Context::Thread), Some(80_000));
    assert!(matches!(advance.choose(&wait, Context::Thread, 0), Advice::Spin { at_most_ns: 160_000 }));
    // Delayed by another driver for 10 ms: the cost grows by an eighth, and no more.
    advance.slept(Context::Thread, 10_000_000, 10_400);
    assert_eq!(advance.price_ns(Context::Thread), Some(90_000));
    (0..20).for_each(|_| advance.slept(Context::Thread, 90_400, 10_400));
    assert_eq!(advance.price_ns(Context::Thread), Some(80_001));
    assert_eq!(advance.price_ns(Context::Interrupt), None);
    advance.slept(Context::Interrupt, 0, u64::MAX);
    assert_eq!(advance.price_ns(Context::Interrupt), Some(1));
}
