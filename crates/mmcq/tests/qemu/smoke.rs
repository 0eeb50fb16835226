//! Tests of QEMU's controller and card by registers, without this project's driver: they show the
//! behaviour that the driver finds.

use crate::image::BLOCK;
use crate::machine::{Machine, Options, SDSC_BYTES};
use crate::registers::QtestRegs;
use mmcq::host::Regs;

const WAIT_NS: u64 = 1_000_000_000;

/// Sends a command without data: index, flags of the command register [SDHC 2.2.6], argument.
/// Returns the first word of the response, or the Error Interrupt Status as an error.
fn send(machine: &Machine, registers: &QtestRegs, index: u16, flags: u16, arg: u32) -> Result<u32, u16> {
    let before = machine.irqs();
    assert!(!machine.irq(), "CMD{index}: the interrupt is asserted before the command");
    registers.write32(0x08, arg);
    registers.write16(0x0e, index << 8 | flags);
    assert!(machine.wait_irq(WAIT_NS), "CMD{index}: no interrupt");
    assert_eq!(machine.irqs(), before + 1, "CMD{index}: one interrupt");
    let (normal, error) = (registers.read16(0x30), registers.read16(0x32));
    registers.write16(0x32, error);
    registers.write16(0x30, normal & 0x7fff);
    assert!(!machine.irq(), "CMD{index}: acknowledged, but still asserted: {normal:#06x}");
    if error == 0 { Ok(registers.read32(0x10)) } else { Err(error) }
}

fn bring_up(machine: &Machine, high_capacity: bool) {
    let registers = machine.registers();
    let spec = registers.read16(0xfe) & 0xff;
    assert!((1..=2).contains(&spec), "host controller version {spec:#x}: expected 2.0 or 3.0");
    let capabilities = registers.read32(0x40);
    assert!(capabilities & 1 << 22 != 0 && capabilities & 1 << 19 != 0, "SDMA and ADMA2: {capabilities:#x}");
    assert!(registers.read32(0x24) & 1 << 16 != 0, "card inserted");

    registers.write8(0x2f, 1);
    assert_eq!(registers.read8(0x2f), 0, "reset for all is immediate");
    registers.write8(0x29, 0x0f);
    registers.write16(0x2c, 0x8001);
    assert_eq!(registers.read16(0x2c) & 2, 2, "internal clock is stable at once");
    registers.write16(0x2c, 0x8005);
    registers.write8(0x2e, 0x0e);
    registers.write32(0x34, u32::MAX);
    registers.write32(0x38, u32::MAX);
    // A card in the slot may show as an insertion; it is not what is tested here.
    registers.write32(0x30, u32::MAX);

    send(machine, &registers, 0, 0, 0).expect("CMD0");
    assert_eq!(send(machine, &registers, 8, 0x1a, 0x1aa), Ok(0x1aa), "CMD8 echoes");
    let ocr = loop {
        send(machine, &registers, 55, 0x1a, 0).expect("CMD55");
        let ocr = send(machine, &registers, 41, 0x02, 0x40ff_8000).expect("ACMD41");
        if ocr & 1 << 31 != 0 {
            break ocr;
        }
        machine.sleep_until(machine.now_ns() + 1_000_000);
        assert!(machine.now_ns() < 5 * WAIT_NS, "ACMD41: still busy, OCR {ocr:#010x}");
    };
    assert_eq!(ocr & 1 << 30 != 0, high_capacity, "CCS in OCR {ocr:#010x}");
    send(machine, &registers, 2, 0x09, 0).expect("CMD2");
    let rca = send(machine, &registers, 3, 0x1a, 0).expect("CMD3") & 0xffff_0000;
    send(machine, &registers, 7, 0x1b, rca).expect("CMD7");
    let status = send(machine, &registers, 13, 0x1a, rca).expect("CMD13");
    assert_eq!(status >> 9 & 0xf, 4, "state tran in status {status:#010x}");
    // A command that the card does not answer: CMD5 on a card without SDIO.
    assert_eq!(send(machine, &registers, 5, 0x02, 0), Err(0x0001), "CMD5 times out");
    registers.write8(0x2f, 2);
    assert_eq!(registers.read8(0x2f), 0, "reset for CMD");

    let seen: Vec<u8> = machine.commands().iter().map(|&(index, _)| index).collect();
    let expected = [0, 8, 41 | crate::machine::APP, 2, 3, 7, 13];
    let mut rest = seen.iter();
    assert!(expected.iter().all(|index| rest.any(|seen| seen == index)), "the card saw {seen:?}");
}

#[test]
fn high_capacity_card_by_register() {
    let Some(machine) = crate::machine(&Options::default()) else { return };
    assert!(machine.image().high_capacity());
    bring_up(&machine, true);
}

#[test]
fn standard_capacity_card_by_register() {
    let Some(machine) = crate::machine(&Options { image_bytes: SDSC_BYTES, ..Options::default() }) else {
        return;
    };
    bring_up(&machine, false);
    let registers = machine.registers();
    let content = crate::image::Random(1).bytes(BLOCK);
    machine.image().write(3, &content);

    // One block by PIO: SDSC cards are addressed in bytes.
    registers.write16(0x04, BLOCK as u16);
    registers.write16(0x06, 1);
    registers.write16(0x0c, 0x10);
    registers.write32(0x08, 3 * BLOCK as u32);
    registers.write16(0x0e, 17 << 8 | 0x3a);
    assert!(machine.wait_irq(WAIT_NS), "CMD17: no interrupt");
    assert_eq!(registers.read32(0x30) & 0xffff_0021, 0x21, "CMD17: command complete, buffer read ready");
    let mut bytes = Vec::new();
    for _ in 0..BLOCK / 4 {
        bytes.extend(registers.read32(0x20).to_le_bytes());
    }
    assert_eq!(bytes, content);
    assert_eq!(registers.read32(0x30) & 2, 2, "CMD17: transfer complete");
    registers.write32(0x30, u32::MAX);
    assert!(!machine.irq());
}
