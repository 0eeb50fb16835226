//! A Bluetooth Type-A driver in the interrupt: the six steps of a packet, each started in the
//! interrupt that ended the one before.
//!
//! `cargo run --example bt_type_a`. Controller and card are the models of this crate's tests, in
//! virtual time: only the bits on the wire take time. The driver itself is `mmcq::sdio::bluetooth`;
//! a board would bring its own host, lock and timer, and call `Stack::on_irq` from its interrupt
//! handler.

#[path = "../tests/support/io_card.rs"]
mod io_card;
#[path = "../tests/support/io_drive.rs"]
mod io_drive;
#[path = "../tests/support/one_thread.rs"]
mod one_thread;

use io_card::World;
use io_drive::{Here, Stack, irq_waker, memory, packet, stack, step};
use mmcq::card::{Options, bring_up_io};
use mmcq::sdio::bluetooth::{HEADER_BYTES, TypeA};
use mmcq::sdio::{CardInterrupt, Function, IoError};
use mmcq::task::IrqTask;
use one_thread::{NOW_NS, OneThread};
use std::cell::Cell;

const PACKETS: u32 = 250;
const PAYLOAD_BYTES: u32 = 2048 - HEADER_BYTES;

/// The whole code of a driver's user: receives a packet, answers it, and repeats this for ever.
async fn echo(stack: &Stack<4>, packets: &Cell<u32>) -> Result<(), IoError> {
    let (card, _scratch) = bring_up_io(stack, memory(512), Options::DEFAULT).await;
    let card = card?;
    let function = Function::new(stack, &card, 1)?;
    let mut irq = CardInterrupt::new(stack, &card);
    let bluetooth = TypeA::open(function, &mut irq, 512).await?;
    let (mut packet, mut reply) = (memory(2048), memory(16));
    loop {
        let received;
        (received, packet) = bluetooth.receive(&mut irq, packet).await;
        let received = received?;
        packets.set(packets.get() + 1);
        reply[4] = packet[0];
        let sent;
        (sent, reply) = bluetooth.transmit(received.kind, 1, reply).await;
        sent?;
    }
}

fn main() {
    let world = World::new(1);
    let stack = stack::<4>(&world);
    let packets = Cell::new(0);
    let task = IrqTask::new(OneThread);
    let waker = irq_waker(&task);
    let driver = Here(async {
        if let Err(error) = echo(&stack, &packets).await {
            println!("the driver ends: {error}");
        }
    });
    task.scope(driver, &waker, || {
        // The card is idle when nothing more happens: bring-up is over.
        while step(&stack) {}
        println!("brought up after {} us", NOW_NS.get() / 1_000);
        let (began_ns, phases) = (NOW_NS.get(), stack.with(|engine| engine.stats().phases));
        for n in 0..PACKETS {
            world.borrow_mut().type_a.incoming.push_back(packet(2, &[n as u8; PAYLOAD_BYTES as usize]));
            while step(&stack) {}
        }
        let phases = stack.with(|engine| engine.stats().phases) - phases;
        let us = (NOW_NS.get() - began_ns) / 1_000;
        println!(
            "{} packets of {PAYLOAD_BYTES} bytes, {} answers: {} phases, {us} us of bus",
            packets.get(),
            world.borrow().type_a.sent.len(),
            phases
        );
    });
    assert_eq!(packets.get(), PACKETS, "packets were lost");
}
