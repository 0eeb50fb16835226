//! Thousands of requests one after the other, each in the steps of a driver: all their data must
//! arrive.

use super::rig::*;
use crate::card::{Answer, BusState, Card, Flow, ReadBlock, Reply, WriteBlock};
use crate::memory::ShadowMemory;
use crate::sdhci::{Port, Sdhci, SdhciConfig, bits::int};
use crate::slot::Controller;
use crate::time::Time;
use crate::world::Device;
use mmcq::host::{Direction, Dma, Regs};
use std::cell::RefCell;
use std::ptr::NonNull;
use std::rc::Rc;

/// A minimal card, which sends blocks of one byte value.
struct Plain;

impl Card for Plain {
    fn bus_changed(&mut self, _bus: &BusState, _now_ns: u64) {}
    fn command(&mut self, index: u8, arg: u32, _now_ns: u64) -> Reply {
        let flow = match index {
            18 => Flow::Read { block_size: 512 },
            25 => Flow::Write { block_size: 512 },
            _ => Flow::None,
        };
        Reply { answer: Some(Answer::Short { index, content: arg, crc: true }), flow, busy_until_ns: None }
    }
    fn read_block(&mut self, buffer: &mut [u8], now_ns: u64) -> ReadBlock {
        buffer.fill(0x5a);
        ReadBlock::At { start_ns: now_ns, crc_ok: true }
    }
    fn write_block(&mut self, data: &[u8], crc_ok: bool, now_ns: u64) -> WriteBlock {
        assert_eq!(data[0], 0x5a);
        WriteBlock { status: Some(crc_ok), busy_until_ns: now_ns }
    }
    fn busy(&self, _now_ns: u64) -> bool {
        false
    }
    fn switching_voltage(&self, _now_ns: u64) -> bool {
        false
    }
}

/// Does one request of 4 KiB in the steps of a driver: map, table, registers, wait for the
/// interrupt, acknowledge, unmap.
fn request(
    port: &Port,
    memory: &ShadowMemory,
    cpu: &mut [u8],
    table: &mut [u8; 8],
    table_bus: u64,
    read: bool,
) {
    let direction = if read { Direction::Read } else { Direction::Write };
    let ptr = NonNull::new(cpu.as_mut_ptr()).unwrap();
    let bus = memory.map(ptr, 4096, direction).unwrap();
    table[..4].copy_from_slice(&(4096u32 << 16 | 0x23).to_le_bytes());
    table[4..].copy_from_slice(&(bus as u32).to_le_bytes());
    memory.sync(table_bus, NonNull::new(table.as_mut_ptr()).unwrap(), 8);
    assert_eq!(port.read32(0x24) & 3, 0);
    port.write32(0x58, table_bus as u32);
    port.write32(0x04, 8 << 16 | 512);
    port.write32(0x08, 0);
    let (index, mode) = if read { (18u32, READ_MANY) } else { (25, WRITE_MANY) };
    port.write32(0x0c, index << 24 | u32::from(R1 | DATA) << 16 | u32::from(mode));
    let mut seen = 0;
    while seen & int::TRANSFER_COMPLETE == 0 {
        let now = port.model.borrow_mut().advance(port.time.now() + 1_000_000);
        port.time.set(now);
        let status = port.read32(0x30);
        port.write32(0x30, status);
        seen |= status;
        assert_eq!(status & int::ERROR, 0);
    }
    assert_eq!(port.read32(0x10), 0);
    memory.unmap(bus, ptr, 4096, direction);
}

#[test]
fn thousands_of_requests_of_4_kib() {
    const REQUESTS: u64 = 2_000;
    let memory = ShadowMemory::default();
    let mut model = Sdhci::new(SdhciConfig::GENERIC_4_20, memory.clone(), Some(Box::new(Plain)));
    model.write(0x29, 1, 0x0f, 0);
    model.write(0x2c, 2, 0x0009, 0);
    model.write(0x28, 1, 0x30, 0);
    model.write(0x3e, 2, 5 | 8, 0);
    model.write(0x2c, 2, 0x000d, 5_000_000);
    model.write(0x34, 4, !0, 5_000_000);
    model.write(0x38, 4, 3 | int::ERRORS, 5_000_000);
    let time = Time::new();
    time.set(5_000_000);
    let port = Port::new(Rc::new(RefCell::new(model)), time, 100, 50);
    let mut cpu = vec![0u8; 4096];
    let mut table = Box::new([0u8; 8]);
    let table_bus = memory.map(NonNull::new(table.as_mut_ptr()).unwrap(), 8, Direction::Write).unwrap();
    for read in [true, false] {
        for _ in 0..REQUESTS {
            request(&port, &memory, &mut cpu, &mut table, table_bus, read);
        }
        assert!(cpu.iter().all(|&b| b == 0x5a), "the data came, and went");
    }
    let stats = port.model.borrow().stats().clone();
    assert_eq!((stats.blocks_read, stats.blocks_written), (8 * REQUESTS, 8 * REQUESTS));
    assert_eq!(memory.violation_count(), 0);
}
