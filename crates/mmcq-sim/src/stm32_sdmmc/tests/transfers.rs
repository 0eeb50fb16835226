//! Tests of transfers without errors, by the CPU and by the IDMA.

use super::*;

/// Time in ns of a block: gap, start bit, 1024 clocks of data, CRC16 and end bit.
const BLOCK_NS: u64 = 100 * (8 + 1 + 1024 + 17);

#[test]
fn a_block_comes_by_the_cpu_and_data_end_when_the_fifo_is_empty() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    rig.prepare(READ, 512);
    let start = rig.now;
    rig.start(SHORT | TRANS | 17, 5);
    // [58.5.4]: the data path becomes active at the end of the command.
    rig.now = start + 4_799;
    assert_eq!(rig.r(STA), CPSMACT);
    rig.now = start + 4_800;
    assert_eq!(rig.r(STA), CPSMACT | DPSMACT | RXFIFOE);
    assert_eq!(rig.r(DCOUNT), 512);
    let mut got = Vec::new();
    while got.len() < 512 {
        let status = rig.until(RXFIFOHF);
        assert_eq!(status & (DATAEND | RXOVERR), 0);
        // [58.5.4, table 490]: the flag is set if half of the 16 words or more hold data.
        for _ in 0..8 {
            got.extend(rig.r(FIFO).to_le_bytes());
        }
        assert_eq!(rig.r(STA) & RXFIFOHF, 0);
    }
    assert_eq!(got, rig.stored(5, 512));
    assert_eq!(rig.until(DATAEND), CMDREND | DATAEND);
    assert_eq!(rig.now - start, 10_400 + BLOCK_NS);
    assert_eq!((rig.r(DCOUNT), rig.violations()), (0, 0));
    assert_eq!(rig.host.stats().blocks_read, 1);
}

/// Checks that fewer than eight words set no flag except a clear RXFIFOE, and that DATAEND waits
/// for them [58.5.4, table 486].
#[test]
fn words_below_half_a_fifo_raise_no_flag() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    rig.card.0.borrow_mut().commands.clear();
    rig.prepare(4 << 4 | 2, 16);
    // CMD19 makes the scripted card send a block, always of 64 bytes.
    rig.start(SHORT | TRANS | 19, 0);
    rig.until(DCRCFAIL | RXFIFOHF | DATAEND | DTIMEOUT | CMDREND);
    rig.now += 1_000_000;
    // The card's block is longer, so its CRC is wrong. The flag is set when the FIFO is empty
    // [58.5.4].
    assert_eq!(rig.r(STA), CMDREND | DPSMACT);
    for _ in 0..4 {
        assert_eq!(rig.r(STA) & DCRCFAIL, 0);
        rig.r(FIFO);
    }
    assert_eq!(rig.r(STA), CMDREND | DCRCFAIL);
    // The FIFO takes all 64 bytes, and all of them wait for the CPU.
    rig.prepare(6 << 4 | 2, 64);
    rig.start(SHORT | TRANS | 19, 0);
    rig.now += 1_000_000;
    assert_eq!(rig.r(STA), CMDREND | DPSMACT | RXFIFOHF | RXFIFOF);
    for _ in 0..9 {
        rig.r(FIFO);
    }
    assert_eq!(rig.r(STA), CMDREND | DPSMACT, "seven words, and no flag");
    rig.now += 1_000_000_000;
    assert_eq!(rig.r(STA), CMDREND | DPSMACT);
    for _ in 0..7 {
        rig.r(FIFO);
    }
    assert_eq!((rig.r(STA), rig.violations()), (CMDREND | DATAEND, 0));
    // The FIFO is empty, so a further read is a mistake of the driver.
    assert_eq!((rig.r(FIFO), rig.violations()), (0, 1));
}

#[test]
fn a_slow_cpu_stops_the_clock_with_flow_control() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    rig.prepare(READ | OPEN, 1024);
    rig.start(SHORT | TRANS | 18, 0);
    rig.until(RXFIFOF);
    let full = rig.now;
    rig.now += 1_000_000;
    assert_eq!((rig.r(STA) & (RXFIFOF | RXOVERR), rig.r(DCOUNT)), (RXFIFOF, 1024 - 64));
    // [58.7]: the clock runs again when half of the FIFO is empty.
    for _ in 0..7 {
        rig.r(FIFO);
    }
    assert_eq!(rig.host.stats().held_ns, 0);
    rig.r(FIFO);
    assert_eq!(rig.host.stats().held_ns, rig.now - full);
    let mut got = rig.stored(0, 32);
    while rig.r(STA) & DATAEND == 0 {
        rig.drain(&mut got);
        if rig.r(STA) & DATAEND == 0 {
            rig.step();
        }
    }
    assert_eq!(got, rig.stored(0, 1024));
    rig.command(12 | STOP, 0);
    // All data had come, so the stop command aborts nothing [58.5.4].
    assert_eq!((rig.r(STA), rig.violations()), (CMDREND, 0));
}

#[test]
fn a_block_goes_by_the_cpu() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    rig.card.0.borrow_mut().write_busy_ns = 50_000;
    let data = pattern(512);
    rig.prepare(WRITE, 512);
    // [58.5.4]: the CPU can write the FIFO only while the path is active.
    rig.w(FIFO, 1);
    assert_eq!(rig.violations(), 1);
    let start = rig.now;
    rig.start(SHORT | TRANS | 24, 7);
    // A write starts at the end of the response, not of the command [58.5.4].
    rig.now = start + 10_399;
    assert_eq!(rig.r(STA), CPSMACT);
    rig.now = start + 10_400;
    assert_eq!(rig.r(STA), CMDREND | DPSMACT | TXFIFOHE | TXFIFOE);
    let mut words = data.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    for _ in 0..16 {
        let word = words.next().unwrap();
        rig.w(FIFO, word);
    }
    assert_eq!(rig.r(STA) & (TXFIFOF | TXFIFOE | TXFIFOHE), TXFIFOF);
    rig.w(FIFO, 1);
    assert_eq!(rig.violations(), 2, "full");
    for word in words {
        rig.until(TXFIFOHE);
        rig.w(FIFO, word);
    }
    rig.w(FIFO, 1);
    assert_eq!(rig.violations(), 3, "more than DLEN");
    // [58.5.4, table 486]: DATAEND comes at the end of busy.
    rig.until(DATAEND);
    assert_eq!(rig.now - start, 10_400 + BLOCK_NS + 50_000);
    assert_eq!(rig.r(STA), CMDREND | DATAEND, "no BUSYD0END: that is of responses [58.10.11]");
    assert_eq!(rig.stored(7, 512), data);
}

#[test]
fn the_end_of_a_write_may_come_with_the_crc_status() {
    let config = Stm32SdmmcConfig { data_end_after_busy: false, ..Stm32SdmmcConfig::H7 };
    let mut rig = Rig::warm(config, FLOW);
    rig.card.0.borrow_mut().write_busy_ns = 50_000;
    let data = rig.to_write(pattern(512));
    rig.buffer(data.bus);
    rig.prepare(WRITE, 512);
    let start = rig.now;
    rig.start(SHORT | TRANS | 24, 7);
    rig.until(DATAEND);
    assert_eq!(rig.now - start, 10_400 + BLOCK_NS + 1_000);
    // After CMD13 the status shows the busy, as after any response.
    rig.command(13, 0);
    assert_eq!(rig.r(STA), CMDREND | BUSYD0 | DPSMACT);
    rig.until(BUSYD0END);
}

#[test]
fn blocks_by_the_idma_and_a_stop() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    let data = pattern(4 * 512);
    let memory = rig.to_write(data.clone());
    rig.buffer(memory.bus);
    rig.prepare(WRITE | OPEN, 4 * 512);
    rig.w(MASK, DATAEND);
    rig.start(SHORT | TRANS | 25, 40);
    rig.now = rig.host.advance(u64::MAX);
    assert!(rig.host.irq());
    // [58.5.4]: DBCKEND comes only with a hold or a read wait.
    assert_eq!(rig.r(STA), CMDREND | DATAEND);
    drop(memory.take());
    rig.command(12 | STOP, 0);
    assert_eq!(rig.stored(40, 4 * 512), data);
    let memory = rig.to_read(4 * 512);
    rig.buffer(memory.bus);
    rig.prepare(READ | OPEN, 4 * 512);
    rig.start(SHORT | TRANS | 18, 40);
    let start = rig.now;
    rig.until(DATAEND);
    assert_eq!(rig.now - start, 800 + 10_400 + 4 * BLOCK_NS);
    rig.command(12 | STOP, 0);
    assert_eq!(rig.r(STA), CMDREND);
    assert_eq!(memory.take(), data);
    assert_eq!((rig.violations(), rig.memory.violation_count()), (0, 0));
}

#[test]
fn eight_lines_and_both_edges_take_an_eighth_and_a_half() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    rig.w(CLKCR, 10 | 2 << 14 | 1 << 18 | FLOW);
    let memory = rig.to_read(512);
    rig.buffer(memory.bus);
    rig.prepare(READ, 512);
    let start = rig.now;
    rig.start(SHORT | TRANS | 17, 3);
    rig.until(DATAEND);
    // CRC16, start bit and end bit take whole clocks [58.5.4].
    assert_eq!(rig.now - start, 10_400 + 100 * (8 + 1 + 256 + 17));
    assert_eq!(memory.take(), rig.stored(3, 512));
}

#[test]
fn registers_of_data_are_refused_while_data_are_active() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    let memory = rig.to_read(512);
    rig.buffer(memory.bus);
    rig.prepare(READ, 512);
    rig.start(SHORT | TRANS | 17, 3);
    rig.until(CMDREND);
    // [58.10.8, 58.10.9, 58.10.16 to 58.10.18]: registers that cannot be written while data are
    // active.
    for (offset, value) in [(DLEN, 8), (DCTRL, 0), (IDMACTRL, 0), (IDMABSIZE, 32), (IDMABASE0, 64)] {
        let (before, count) = (rig.r(offset), rig.violations());
        rig.w(offset, value);
        assert_eq!((rig.r(offset), rig.violations()), (before, count + 1), "{offset:#x}");
    }
    // A second data command is sent, but starts no data.
    let count = rig.violations();
    rig.start(SHORT | TRANS | 24, 3);
    rig.until(CMDREND);
    assert!(rig.violations() > count);
    // A reset of the controller clears the registers even while data are active.
    rig.host.reset(rig.now);
    assert_eq!((rig.r(STA), rig.r(DLEN), rig.r(IDMACTRL)), (0, 0, 0));
}

#[test]
fn a_length_that_is_no_multiple_is_cut_and_counted() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    let memory = rig.to_read(1024);
    rig.buffer(memory.bus);
    rig.prepare(READ, 700);
    rig.start(SHORT | TRANS | 17, 3);
    // [58.10.9]: a part that is shorter than a block is not transferred.
    rig.until(DATAEND);
    assert_eq!((rig.violations(), rig.host.stats().blocks_read), (1, 1));
    // DTEN is only for cards without data commands [58.10.9]; a block size of 15 is reserved.
    rig.w(DCTRL, 1);
    assert_eq!((rig.r(DCTRL), rig.r(STA) & DPSMACT, rig.violations()), (0, 0, 2));
    rig.prepare(15 << 4 | 2, 512);
    rig.start(SHORT | TRANS | 17, 3);
    rig.until(CMDREND);
    assert_eq!((rig.r(STA), rig.violations()), (CMDREND, 3));
}

#[test]
fn a_hold_leaves_the_path_between_two_blocks() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    let memory = rig.to_write(pattern(4 * 512));
    rig.buffer(memory.bus);
    rig.prepare(WRITE | OPEN, 4 * 512);
    rig.start(SHORT | TRANS | 25, 40);
    rig.until(CMDREND);
    while rig.r(DCOUNT) == 4 * 512 {
        rig.step();
    }
    // [58.5.4, Wait_S]: with the IDMA, DBCKEND comes, and then the path is idle with DHOLD.
    let command = rig.r(CMD);
    rig.w(CMD, command | HOLD);
    assert_eq!(rig.until(DHOLD) & (DHOLD | DBCKEND | DATAEND | DPSMACT), DHOLD | DBCKEND);
    let left = rig.r(DCOUNT) as usize;
    assert_eq!((left % 512, left < 4 * 512), (0, true));
    assert_eq!(rig.stored(40, 4 * 512 - left), pattern(4 * 512)[..4 * 512 - left]);
    // A read by the CPU: the FIFO must be empty, and FIFORST written [58.5.4, Wait_R].
    rig.w(IDMACTRL, 0);
    rig.command(12 | STOP, 0);
    rig.prepare(READ | OPEN, 1024);
    rig.start(SHORT | TRANS | HOLD | 18, 40);
    rig.until(CMDREND);
    rig.now += 1_000_000;
    assert_eq!((rig.r(STA), rig.r(DCOUNT)), (CMDREND | DPSMACT | RXFIFOE, 1024));
    rig.w(DCTRL, READ | OPEN | FIFORST);
    assert_eq!((rig.r(STA), rig.r(DCTRL)), (CMDREND | DHOLD, READ | OPEN));
}

#[test]
fn a_read_wait_tells_of_a_block() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    let memory = rig.to_read(1024);
    rig.buffer(memory.bus);
    // Read wait by stopping the clock.
    rig.w(DCTRL, READ | 1 << 10);
    rig.prepare(READ | 1 << 10 | 1 << 8, 1024);
    rig.start(SHORT | TRANS | 18, 40);
    // [58.5.4, R_W; 58.10.11]: DBCKEND reports the read wait, and the path stays active.
    assert_eq!(rig.until(DBCKEND) & (DBCKEND | DPSMACT | DATAEND), DBCKEND | DPSMACT);
    rig.now += 1_000_000;
    assert_eq!(rig.r(DCOUNT), 512);
    // [58.10.4]: in this read wait no command is sent.
    rig.w(CMD, ENABLE | SHORT | 13);
    assert_eq!((rig.r(CMD) & ENABLE, rig.violations()), (0, 1));
    rig.w(DCTRL, READ | 1 << 10 | 1 << 9);
    rig.until(DATAEND);
    assert_eq!(memory.take(), rig.stored(40, 1024));
}
