//! A function of an I/O card: registers are read and written, and a packet is received after the
//! card's interrupt. `cargo run -p mmcq-sim --example sdio_function`

use mmcq::card::{Options, bring_up_io};
use mmcq::sdio::bluetooth::TypeA;
use mmcq::sdio::{CardInterrupt, Chain, Function};
use mmcq_sim::bench::{Bench, buffer};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bench = Bench::new("bt-type-a")?;
    let stack = bench.stack();
    let (card, _scratch) = bench.run(bring_up_io(stack, buffer(1), Options::DEFAULT))?;
    let card = card?;

    // Accesses registers one at a time. `Chain::Last` lets other requests use the bus between two
    // accesses.
    let function = Function::new(stack, &card, 1)?;
    bench.run(function.enable())??;
    let revision = bench.run(function.read_common_u8(0, Chain::Last))??;
    println!("{} functions, CCCR and SDIO revision {revision:#04x}", card.count());

    // A driver of a whole function is written as one sequence of awaited calls; the card's
    // interrupt wakes it.
    let mut irq = CardInterrupt::new(stack, &card);
    let bluetooth = bench.run(TypeA::open(function, &mut irq, 512))??;
    let (received, _packet) = bench.run(bluetooth.receive(&mut irq, buffer(4)))?;
    println!("a packet: {:?}", received?);
    Ok(())
}
