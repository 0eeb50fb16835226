//! Tests of the interrupt of an I/O card during a CMD53: enabling it must write no register that
//! the data path uses.

use super::{Chip, Rig};
use crate::timed::{self, bytes};
use mmcq::card::{IoCard, Options, bring_up_io};
use mmcq::engine::Error;
use mmcq::sdio::{At, CardInterrupt, Chain, Function, IoError};
use mmcq_sim::card::io::IoProfile;
use mmcq_sim::slot::Controller;
use mmcq_sim::stm32_sdmmc::Stm32SdmmcConfig;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

fn up() -> (Rig, IoCard) {
    let path = format!("{}/cards/quirks/sdio-rate-limit.toml", env!("CARGO_MANIFEST_DIR"));
    let profile = IoProfile::from_toml(&std::fs::read_to_string(&path).unwrap(), "loop").unwrap();
    let (card, _handles) = profile.build();
    let chip = Chip::of(Stm32SdmmcConfig::H7);
    let rig = Rig::new::<1>(Some(Box::new(card)), Chip { driver: chip.driver.signal18(false), ..chip });
    let card = rig.drive(bring_up_io(&rig.stack, bytes(512), Options::DEFAULT)).0.unwrap();
    (rig, card)
}

/// Sends a CMD53 of 512 bytes, and enables the card interrupt `after_ns` later. Returns false if
/// the CMD53 was over by then.
fn beside(write: bool, after_ns: u64) -> bool {
    let (rig, card) = up();
    let mut function = Function::new(&rig.stack, &card, 1).unwrap();
    rig.drive(function.enable()).unwrap();
    rig.drive(function.set_block_size(512)).unwrap();
    let mut sent = bytes(512);
    for (at, byte) in sent.iter_mut().enumerate() {
        *byte = (at * 7 + 1) as u8;
    }
    rig.drive(function.write(At::From(0x100), 512, sent, Chain::Last)).0.unwrap();
    let mut reads = pin!(async {
        let (at, chain) = (At::From(if write { 0x400 } else { 0x100 }), Chain::Last);
        match write {
            true => function.write(at, 512, bytes(512), chain).await,
            false => function.read(at, 512, bytes(512), chain).await,
        }
    });
    let mut context = Context::from_waker(Waker::noop());
    assert!(reads.as_mut().poll(&mut context).is_pending());
    timed::run_to(&rig.stack, &rig.model, &rig.time, rig.time.now() + after_ns).unwrap();
    let (early, (moved, data)) = match reads.as_mut().poll(&mut context) {
        Poll::Ready(end) => (false, end),
        Poll::Pending => {
            rig.stack.with(|engine| engine.unmask_card_irq());
            (true, rig.drive(reads))
        }
    };
    moved.unwrap_or_else(|error| panic!("write {write}, after {after_ns} ns: {error}"));
    let well = write || data.iter().enumerate().all(|(at, byte)| *byte == (at * 7 + 1) as u8);
    assert!(well, "after {after_ns} ns");
    assert_eq!(rig.model.borrow().protocol_violations(), 0, "write {write}, after {after_ns} ns");
    early
}

#[test]
fn listening_beside_a_cmd53_harms_nothing_at_any_moment() {
    for write in [false, true] {
        let moments = (0..).map(|n| n * 200).take_while(|&after_ns| beside(write, after_ns)).count();
        assert!(moments > 50, "{moments} moments of a transfer");
    }
}

/// Checks one task that sends packets and another that handles the card's interrupt, as the driver
/// of a radio does.
#[test]
fn an_interrupt_that_is_acknowledged_beside_data_comes_again() {
    let (rig, card) = up();
    let mut function = Function::new(&rig.stack, &card, 1).unwrap();
    rig.drive(function.enable()).unwrap();
    rig.drive(function.set_block_size(512)).unwrap();
    let mut interrupt = CardInterrupt::new(&rig.stack, &card);
    rig.drive(interrupt.enable(1)).unwrap();
    // The function interrupts, and the program gets the interrupt.
    rig.drive(function.write_u8(0x08, 1, Chain::Last)).unwrap();
    rig.drive(interrupt.wait()).unwrap();
    // The cause is cleared, and the next interrupt comes in 3 ms.
    rig.drive(function.write_u8(0x08, 0, Chain::Last)).unwrap();
    rig.drive(function.write_u8(0x0c, 200, Chain::Last)).unwrap();
    // The packet of the other task is on the bus.
    let mut packet = pin!(function.write(At::From(0x400), 2048, bytes(2048), Chain::Last));
    let mut context = Context::from_waker(Waker::noop());
    assert!(packet.as_mut().poll(&mut context).is_pending());
    timed::run_to(&rig.stack, &rig.model, &rig.time, rig.time.now() + 8_000).unwrap();
    assert!(packet.as_mut().poll(&mut context).is_pending());
    interrupt.ack();
    rig.drive(packet).0.unwrap();
    rig.drive(interrupt.wait()).unwrap();
    assert_eq!(rig.model.borrow().protocol_violations(), 0);
}

/// Checks a handle that is kept over another bring-up of the same card, which has masked the
/// interrupt and disabled the functions: the handle says so, and hears again after `enable`.
#[test]
fn a_handle_that_is_kept_over_another_bring_up_hears_again() {
    let (rig, card) = up();
    let mut interrupt = CardInterrupt::new(&rig.stack, &card);
    rig.drive(interrupt.enable(1)).unwrap();
    let again = rig.drive(bring_up_io(&rig.stack, bytes(512), Options::DEFAULT)).0.unwrap();
    assert_eq!(interrupt.enabled(), 0);
    assert_eq!(rig.drive(interrupt.wait()), Err(IoError::Engine(Error::Changed)));
    let function = Function::new(&rig.stack, &again, 1).unwrap();
    rig.drive(function.enable()).unwrap();
    rig.drive(interrupt.enable(1)).unwrap();
    rig.drive(function.write_u8(0x08, 1, Chain::Last)).unwrap();
    rig.drive(interrupt.wait()).unwrap();
    assert_eq!(rig.drive(interrupt.pending()), Ok(1 << 1));
    rig.drive(function.write_u8(0x08, 0, Chain::Last)).unwrap();
    rig.drive(function.write_u8(0x0c, 200, Chain::Last)).unwrap();
    interrupt.ack();
    rig.drive(interrupt.wait()).unwrap();
    assert_eq!(rig.model.borrow().protocol_violations(), 0);
}
