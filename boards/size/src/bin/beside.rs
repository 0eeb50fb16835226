//! For comparison with `spi_reader`: the same program with the crate `embedded-sdmmc`, on the same
//! port, by polling.
#![no_std]
#![no_main]

use core::convert::Infallible;
use embedded_hal::delay::DelayNs;
use embedded_hal::spi::{ErrorType, Operation, SpiDevice};
use embedded_sdmmc::{Block, BlockDevice, BlockIdx, SdCard};
use size::{TIMER, board};

const SSI: usize = 0x4500_0000;
const DATA: usize = SSI + 0x08;
const STATUS: usize = SSI + 0x0c;
const RX_NOT_EMPTY: u32 = 1 << 2;
const SELECT: usize = 0x4600_0000;

fn read(address: usize) -> u32 {
    // SAFETY: the address is a register of the port.
    unsafe { core::ptr::without_provenance::<u32>(address).read_volatile() }
}

fn write(address: usize, value: u32) {
    // SAFETY: the address is a register of the port.
    unsafe { core::ptr::without_provenance_mut::<u32>(address).write_volatile(value) }
}

fn exchange(byte: u8) -> u8 {
    write(DATA, byte.into());
    while read(STATUS) & RX_NOT_EMPTY == 0 {}
    read(DATA) as u8
}

/// The SPI port, and the card's chip select line.
struct Ssi;

impl ErrorType for Ssi {
    type Error = Infallible;
}

impl SpiDevice for Ssi {
    fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), Infallible> {
        write(SELECT, 0);
        for operation in operations {
            match operation {
                Operation::Read(to) => to.iter_mut().for_each(|to| *to = exchange(0xff)),
                Operation::Write(from) => from.iter().for_each(|from| _ = exchange(*from)),
                Operation::Transfer(to, from) => {
                    to.iter_mut().zip(from.iter()).for_each(|(to, from)| *to = exchange(*from));
                }
                Operation::TransferInPlace(both) => both.iter_mut().for_each(|byte| *byte = exchange(*byte)),
                Operation::DelayNs(ns) => Delay.delay_ns(*ns),
            }
        }
        write(SELECT, 1);
        Ok(())
    }
}

struct Delay;

impl DelayNs for Delay {
    fn delay_ns(&mut self, ns: u32) {
        let until_ns = (TIMER.now_ns)().saturating_add(ns.into());
        while (TIMER.now_ns)() < until_ns {}
    }
}

/// Main function of the image: reads block 0 and writes it back.
#[unsafe(no_mangle)]
pub extern "C" fn main() {
    board::start_clock();
    let card = SdCard::new(Ssi, Delay);
    let mut block = [Block::new()];
    if card.read(&mut block, BlockIdx(0)).is_ok() {
        let _ = card.write(&block, BlockIdx(0));
    }
}

/// Does nothing, since this program uses no interrupt.
#[unsafe(no_mangle)]
pub extern "C" fn controller_interrupt() {}
