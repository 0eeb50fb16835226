//! Tests of the lists of each kind of phase. Words are written as numbers: kind in 31:30 (0 READ, 1
//! WRITE, 2 CHECK), the low 14 bits of the register address in 29:16, mask in 15:8, data in 7:0. So
//! register FDA9 is 7da9 in a WRITE, bda9 in a CHECK and 3da9 in a READ.

use super::*;
use crate::host::dma::tests::{Plain, Scattered};

/// Returns the writes of a command to CMD0 to CMD4, with the argument 12345678h.
fn token(index: u8) -> Vec<u32> {
    vec![0x7da9_ff40 | u32::from(index), 0x7daa_ff12, 0x7dab_ff34, 0x7dac_ff56, 0x7dad_ff78]
}

/// Returns the writes of block length and number of blocks.
fn counts(length: u32, blocks: u32) -> Vec<u32> {
    vec![
        0x7daf_ff00 | length & 0xff,
        0x7db0_ff00 | length >> 8,
        0x7db1_ff00 | blocks & 0xff,
        0x7db2_ff00 | blocks >> 8,
    ]
}

/// Returns the writes for DMA: clear "DMA done", the byte count, and control (burst 512, enable,
/// and bit 1 for data from the card).
fn dma(bytes: u32, control: u32) -> Vec<u32> {
    vec![
        0x7e21_8080,
        0x7e28_ff00 | bytes & 0xff,
        0x7e29_ff00 | bytes >> 8 & 0xff,
        0x7e2a_ff00 | bytes >> 16 & 0xff,
        0x7e2b_ff00,
        0x7e2c_3300 | control,
    ]
}

/// Returns the operations of a command: response type, data source, transfer mode with start, and
/// the wait for end and idle.
fn commanded(cfg2: u32) -> Vec<u32> {
    vec![0x7da1_ff00 | cfg2, 0x7d5b_ff01, 0x7db3_ff88, 0xbdb3_6060]
}

fn moved(cfg2: u32, mode: u32) -> Vec<u32> {
    vec![0x7d5b_ff00, 0x7da1_ff00 | cfg2, 0x7db3_ff80 | mode, 0xbdb3_6060]
}

const READ_SHORT: [u32; 5] = [0x3da9_0000, 0x3daa_0000, 0x3dab_0000, 0x3dac_0000, 0x3dad_0000];

fn started(host: &mut Driver, phase: &Phase, segments: &[Segment]) -> Vec<u32> {
    host.start(phase, segments, 1).unwrap();
    host.dma.list()
}

#[test]
fn each_response_has_its_type() {
    for (resp, cfg2) in [
        (Resp::None, 0x04),
        (Resp::R1, 0x01),
        (Resp::R1b, 0x09),
        (Resp::R2, 0x02),
        (Resp::R3, 0x05),
        (Resp::R4, 0x05),
        (Resp::R5, 0x01),
        (Resp::R6, 0x01),
        (Resp::R7, 0x01),
    ] {
        let mut host = ready(RtsxConfig::new(Chip::Rts5249));
        let list = started(&mut host, &command(13, resp), &[]);
        assert_eq!(list, [token(13), commanded(cfg2)].concat(), "{resp:?}");
        // Two writes start the list; no register is read.
        assert_eq!(host.port.regs.reads.get(), 0);
        assert_eq!(host.port.regs.take(), [(0x00, 0x1000_0000), (0x04, 0x8000_0024)]);
    }
}

#[test]
fn coherent_memory_gets_the_response_with_the_list() {
    let coherent = RtsxConfig { coherent: true, ..RtsxConfig::new(Chip::Rts5249) };
    let mut host = ready(coherent);
    let list = started(&mut host, &command(13, Resp::R1), &[]);
    assert_eq!(list, [token(13), commanded(1), READ_SHORT.to_vec()].concat());
    assert_eq!(host.port.regs.take()[1], (0x04, 0xc000_0038));
    host.dma.give_back(&[0, 13, 0x00, 0x00, 0x09, 0x00]);
    let done = report(&mut host, LIST_OK).phase.unwrap().unwrap();
    assert_eq!(done.response.words, [0x900, 0, 0, 0]);
    // One read and one write handle the end.
    assert_eq!(host.port.regs.reads.get(), 1);
    assert_eq!(host.port.regs.take(), [(0x14, LIST_OK)]);

    let list = started(&mut host, &command(9, Resp::R2), &[]);
    let r2: Vec<u32> = [0x3da9_0000].into_iter().chain((0x3a01..=0x3a0f).map(|at| at << 16)).collect();
    assert_eq!(list, [token(9), commanded(2), r2].concat());
    host.dma.give_back(&[0, 0x3f, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
    let done = report(&mut host, LIST_OK).phase.unwrap().unwrap();
    assert_eq!(done.response.words, [0x0102_0304, 0x0506_0708, 0x090a_0b0c, 0x0d0e_0f00]);

    // Without a response the list returns no bytes.
    host.port.regs.take();
    assert_eq!(started(&mut host, &command(0, Resp::None), &[]).len(), 9);
    assert_eq!(host.port.regs.take()[1], (0x04, 0x8000_0024));
}

#[test]
fn reads_of_every_size_are_one_list_and_a_table() {
    for (length, blocks, bytes) in
        [(8, 1, 8), (64, 1, 64), (512, 1, 512), (512, 1024, 0x8_0000), (2048, 256, 0x8_0000)]
    {
        let mut host = ready(RtsxConfig::new(Chip::Rts5249));
        host.start(&data(18, Direction::Read, length as u16, blocks), &[far(0x2000_0000, 0x8_0000)], 1)
            .unwrap();
        let table: Vec<_> =
            host.dma.synced.borrow().iter().filter(|(bus, _)| *bus == TABLE_BUS).cloned().collect();
        let entry = 0x2000_0000_0000_0023 | u64::from(bytes) << 12;
        assert_eq!(table, [(TABLE_BUS, entry.to_le_bytes().to_vec())]);
        let expected = [token(18), counts(length, blocks), dma(bytes, 0x23), moved(0x21, 0xe)].concat();
        assert_eq!(host.dma.list(), expected);
        let length = 4 * expected.len() as u32;
        assert_eq!(
            host.port.regs.take(),
            [(0x00, 0x1000_0000), (0x04, 0x8000_0000 | length), (0x08, 0x1000_0400), (0x0c, 0xa800_0000)]
        );
    }
}

#[test]
fn a_write_is_its_command_and_then_its_data() {
    for (busy_after_data, cfg2) in [(false, 0xa4), (true, 0xac)] {
        let mut host = ready(RtsxConfig { busy_after_data, ..RtsxConfig::new(Chip::Rts5249) });
        let phase = data(25, Direction::Write, 512, 300);
        let list = started(&mut host, &phase, &[far(0x2000_0000, 100 * 512), far(0x3000_0000, 200 * 512)]);
        assert_eq!(list, [token(25), commanded(0x01)].concat());
        assert_eq!(host.port.regs.take().len(), 2);
        host.port.regs.answer(&[25, 0, 0, 0x09, 0]);
        assert!(report(&mut host, LIST_OK).phase.is_none());
        let expected = [counts(512, 300), dma(300 * 512, 0x21), moved(cfg2, 0x1)].concat();
        assert_eq!(host.dma.list(), expected);
        let outside: Vec<_> =
            host.port.regs.take().into_iter().filter(|(offset, _)| *offset != 0x10).collect();
        let length = 4 * expected.len() as u32;
        assert_eq!(
            outside,
            [
                (0x14, LIST_OK),
                (0x00, 0x1000_0000),
                (0x04, 0x8000_0000 | length),
                (0x08, 0x1000_0400),
                (0x0c, 0x8800_0000)
            ]
        );
        // The end of DMA, long before the card has all data, does not end the phase.
        assert!(report(&mut host, TABLE_OK).phase.is_none());
        let done = report(&mut host, LIST_OK).phase.unwrap().unwrap();
        assert_eq!(done.response.words[0], 0x900);
    }
}

#[test]
fn open_transfers_move_data_without_a_command() {
    let mut host = ready(RtsxConfig { busy_after_data: true, ..RtsxConfig::new(Chip::Rts5249) });
    let memory = [far(0x2000_0000, 0x8_0000)];
    let list = started(&mut host, &more(Direction::Read, 1024), &memory);
    assert_eq!(list, [counts(512, 1024), dma(0x8_0000, 0x23), moved(0xa4, 0x5)].concat());
    host.port.regs.take();
    assert!(report(&mut host, TABLE_OK).phase.is_none());
    assert_eq!(report(&mut host, LIST_OK).phase, Some(Ok(Done::default())));
    assert_eq!(host.port.regs.take(), [(0x14, TABLE_OK), (0x14, LIST_OK)]);

    // The list does not wait for busy, even if the chip could: in an open transfer, busy comes
    // between blocks and ends by itself.
    let list = started(&mut host, &more(Direction::Write, 8), &memory);
    assert_eq!(list, [counts(512, 8), dma(4096, 0x21), moved(0xa4, 0x1)].concat());
    assert_eq!(host.port.regs.take().len(), 4);
    assert_eq!(report(&mut host, LIST_OK | TABLE_OK).phase, Some(Ok(Done::default())));

    let mut host = ready(RtsxConfig { continue_data: false, ..RtsxConfig::new(Chip::Rts5249) });
    assert!(!host.caps().continue_data);
    assert_eq!(host.start(&more(Direction::Read, 8), &memory, 1), Err(StartError::Unsupported));
}

#[test]
fn cmd12_flushes_the_ring_and_cmd11_lets_the_clock_run() {
    let mut host = ready(RtsxConfig::new(Chip::Rts5249));
    let list = started(&mut host, &command(12, Resp::R1b), &[]);
    assert_eq!(list, [token(12), commanded(0x09), vec![0x7e34_8080]].concat());
    host.port.regs.answer(&[12, 0, 0, 0x0b, 0]);
    assert!(report(&mut host, LIST_OK).phase.unwrap().is_ok());
    host.dma.synced.take();

    let list = started(&mut host, &command(11, Resp::R1), &[]);
    assert_eq!(list, [vec![0x7da5_c080], token(11), commanded(0x01)].concat());
    host.port.regs.answer(&[11, 0, 0, 0x03, 0x20]);
    assert!(report(&mut host, LIST_OK).phase.unwrap().is_ok());
    host.dma.synced.take();
    // The register's bits: CMD is bit 0, DAT0 to DAT3 follow, the toggling clock is bit 7.
    for (register, levels) in [(0x80, 0), (0x81, 0), (0x82, 1), (0x90, 8), (0x9f, 0xf)] {
        host.port.regs.set(0xfda5, register);
        assert_eq!((host.dat_levels(), host.dat0_busy()), (levels, levels & 1 == 0), "{register:#x}");
    }
    // The next list stops the clock between transfers.
    let list = started(&mut host, &command(2, Resp::R2), &[]);
    assert_eq!(list, [vec![0x7da5_8000], token(2), commanded(0x02)].concat());
    host.port.regs.set(0xfda5, 0x1c);
    assert!(host.dat0_busy());
    host.port.regs.set(0xfda5, 0x02);
    assert!(!host.dat0_busy());
}

#[test]
fn what_a_card_sends_after_cmd12_is_flushed_before_the_next_data() {
    const FLUSH: u32 = 0x7e34_8080;
    let memory = [far(0x2000_0000, 0x8_0000)];
    for (index, direction) in [(18, Direction::Read), (25, Direction::Write)] {
        let mut host = ready(RtsxConfig::new(Chip::Rts5249));
        let end = |host: &mut Driver, index: u8| {
            host.port.regs.answer(&[index, 0, 0, 0x09, 0]);
            if report(host, LIST_OK).phase.is_none() {
                // The data of a write, whose command has ended; or of a read, which are in memory.
                assert!(report(host, LIST_OK | TABLE_OK).phase.unwrap().is_ok());
            }
            host.dma.synced.take();
        };
        let phase = data(index, direction, 512, 8);
        assert_ne!(started(&mut host, &phase, &memory)[0], FLUSH);
        end(&mut host, index);
        started(&mut host, &command(12, Resp::R1b), &[]);
        end(&mut host, 12);
        // A CMD13 between them transfers no data.
        assert_ne!(started(&mut host, &command(13, Resp::R1), &[])[0], FLUSH);
        end(&mut host, 13);
        assert_eq!(started(&mut host, &phase, &memory)[0], FLUSH, "CMD{index}");
        end(&mut host, index);
        assert_ne!(started(&mut host, &phase, &memory)[0], FLUSH);
    }
}

#[test]
fn a_late_crc_status_is_an_error_of_cards_with_uhs_alone() {
    let memory = [far(0x2000_0000, 0x8_0000)];
    for (uhs, bit) in [(false, 0x20), (true, 0)] {
        let mut host = ready(RtsxConfig::new(Chip::Rts5249));
        assert_eq!(finish(&mut host, BusOp::Signal18(uhs)).0, Step::Done);
        let list = started(&mut host, &more(Direction::Write, 8), &memory);
        assert!(list.contains(&(0x7da1_ff84 | bit)), "{uhs}: {list:x?}");
        assert_eq!(report(&mut host, LIST_OK | TABLE_OK).phase, Some(Ok(Done::default())));
        let list = started(&mut host, &data(18, Direction::Read, 512, 8), &memory);
        assert!(list.contains(&(0x7da1_ff01 | bit)), "{uhs}: {list:x?}");
    }
}

#[test]
fn each_piece_of_a_mapping_has_an_entry() {
    let pieces = [(0x9000, 512), (0x5000, 0x1_8000), (0xffff_f000, 0x1000)];
    let (dma, all) = (Scattered(&pieces), [far(0, 0x1_9200)]);
    let mut buffers = Buffers::new();
    assert_eq!(buffers.build_table(&dma, &all, 0x1_9200), Some(24));
    assert_eq!(buffers.table[..3], [0x0000_9000_0020_0021, 0x0000_5000_1800_0021, 0xffff_f000_0100_0023]);
    // A part of the mapping that lies in one piece.
    assert_eq!(buffers.build_table(&dma, &[far(1024, 512)], 512), Some(8));
    assert_eq!(buffers.table[0], 0x0000_5200_0020_0023);
    let mut built = |pieces: &[(u64, u32)]| buffers.build_table(&Scattered(pieces), &[far(0, 1024)], 1024);
    assert_eq!(built(&[(0x1000, 512)]), None, "nothing is known of the rest");
    assert_eq!(built(&[(0x1002, 512), (0x9000, 512)]), None);
    assert_eq!(built(&[(0x1000, 510), (0x9000, 514)]), None);
    assert_eq!(built(&[(0x1000, 512), (0x1_0000_0000, 512)]), None, "the chip has addresses of 32 bits");
    assert_eq!(built(&[(0x1000, 512), (0xffff_fe00, 512)]), Some(16));
}

#[test]
fn tables_are_split_trimmed_and_refused() {
    let mut buffers = Buffers::new();
    let pieces = [far(0x1000, 0x9_0000), far(0xffff_f000, 0x1000)];
    assert_eq!(buffers.build_table(&Plain, &pieces, 0x9_0000 + 4), Some(24));
    assert_eq!(buffers.table[..3], [0x0000_1000_8000_0021, 0x0008_1000_1000_0021, 0xffff_f000_0000_4023]);
    let many: Vec<_> = (0..257).map(|_| far(0x1000, 512)).collect();
    assert_eq!(buffers.build_table(&Plain, &many, 256 * 512), Some(2048));
    assert_eq!(buffers.build_table(&Plain, &many, 257 * 512), None);
    assert_eq!(buffers.build_table(&Plain, &pieces[1..], 0x1001), None);
    assert_eq!(buffers.build_table(&Plain, &[], 512), None);

    let mut host = ready(RtsxConfig::new(Chip::Rts5249));
    let memory = [far(0x2000_0000, 0x10_0000)];
    for phase in [
        data(18, Direction::Read, 512, 0),
        data(18, Direction::Read, 0, 1),
        data(18, Direction::Read, 2049, 1),
        data(18, Direction::Read, 512, 1025),
        data(18, Direction::Read, 1, 0x1_0000),
        data(18, Direction::Read, 512, u32::MAX),
        Phase { auto: Auto::Stop, ..data(18, Direction::Read, 512, 8) },
        Phase { auto: Auto::Count(8), ..data(18, Direction::Read, 512, 8) },
        Phase { auto: Auto::Continue, ..command(18, Resp::R1) },
        Phase { tuning: true, ..data(21, Direction::Read, 128, 1) },
    ] {
        assert_eq!(host.start(&phase, &memory, 1), Err(StartError::Unsupported), "{phase:?}");
    }
    assert_eq!(host.port.regs.take(), []);
    assert!(host.start(&data(18, Direction::Read, 512, 1024), &memory, 1).is_ok());
}

#[test]
fn tuning_blocks_go_from_phase_to_phase() {
    let mut host = ready(RtsxConfig::new(Chip::Rts5249));
    for op in [BusOp::Timing(Timing::Sdr104), BusOp::Clock(208_000_000), BusOp::TuneStart] {
        assert_eq!(finish(&mut host, op).0, Step::Done);
    }
    let block = Phase { tuning: true, ..data(19, Direction::Read, 64, 1) };
    let mut clear = vec![0x7da5_8000];
    for phase in 0..32u32 {
        host.dma.synced.take();
        let list = started(&mut host, &block, &[]);
        let set = vec![0x7c02_0101, 0x7c2b_5f00 | phase, 0x7c2b_5f40 | phase, 0x7c02_0100];
        let tune = vec![0x7d5b_ff01, 0x7da1_ff01, 0x7db3_ff8f, 0xbdb3_6060];
        assert_eq!(list, [clear.clone(), set, token(19), counts(64, 1), tune].concat(), "{phase}");
        let good = (5..=15).contains(&phase);
        // A bad block is no fault, but leaves an error that the next list clears.
        let end = report(&mut host, if good { LIST_OK } else { LIST_FAIL }).phase;
        assert_eq!(end, Some(Ok(Done::default())));
        clear = if good { vec![] } else { vec![0x7d54_4444] };
    }
    let list = started(&mut host, &block, &[]);
    assert_eq!(list[1..5], [0x7c02_0101, 0x7c2b_5f0a, 0x7c2b_5f4a, 0x7c02_0100]);
    assert!(report(&mut host, LIST_OK).phase.unwrap().unwrap().tuned);
    let all = finish(&mut host, BusOp::ResetAll);
    assert_eq!((all.0, host.port.regs.get(0xfc2b)), (Step::Done, 0x4a));
}
