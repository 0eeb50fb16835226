//! The other partitions of an eMMC: boot areas and general purpose partitions.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::api::{Place, Stack, bytes, mapped, open, patiently, wait};
use crate::code::{Failure, MMCQ_E_ARGUMENT, MMCQ_OK};
use crate::platform::mmcq_platform;
use core::ptr::NonNull;
use mmcq::block;
use mmcq::card::partition::Area;
use mmcq::engine::{BLOCK_BYTES, DmaBuf, Error};
use mmcq::host::Direction;

/// Value of `partition`: the first boot area.
pub const MMCQ_BOOT_1: u32 = 1;
/// Value of `partition`: the second boot area.
pub const MMCQ_BOOT_2: u32 = 2;
/// Value of `partition`: the first general purpose partition; 5 and 6 are the second and the third.
pub const MMCQ_GENERAL_1: u32 = 4;
/// Value of `partition`: the fourth general purpose partition.
pub const MMCQ_GENERAL_4: u32 = 7;

type Partition = block::Partition<'static, crate::api::Parts, { crate::api::SLOTS }>;

fn area(partition: u32) -> Option<Area> {
    match partition {
        MMCQ_BOOT_1 => Some(Area::Boot1),
        MMCQ_BOOT_2 => Some(Area::Boot2),
        MMCQ_GENERAL_1..=MMCQ_GENERAL_4 => Some(Area::General((partition - MMCQ_GENERAL_1 + 1) as u8)),
        _ => None,
    }
}

/// Opens the partition that the C program names by the number `partition`, with the parameters that
/// the card's registers give, such as its size. Each call reads the registers again, because the
/// card's boot settings may have changed since the last call.
fn opened(
    place: &'static Place,
    stack: &'static Stack,
    platform: &mmcq_platform,
    partition: u32,
) -> Result<Partition, i32> {
    let area = area(partition).ok_or(MMCQ_E_ARGUMENT)?;
    let mut found = None;
    let code = patiently(place, stack, platform, || {
        let card = place.card(stack).ok_or(Error::NoCard)?;
        // Another call uses the memory for registers, so this call tries again.
        let scratch = place.take_scratch(stack)?;
        let open = Partition::open(stack, &card, scratch, area);
        let (result, scratch) = stack.block_on(open, |idle| wait(place, stack, platform, idle));
        place.return_scratch(stack, scratch);
        found = Some(result?);
        Ok::<_, Failure>(0)
    });
    found.ok_or(code)
}

/// Returns the size of a partition; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_partition_blocks` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_partition_blocks(host: u32, partition: u32, blocks: *mut u32) -> i32 {
    let (place, stack, platform) = match open(host) {
        Ok(open) => open,
        Err(code) => return code,
    };
    if blocks.is_null() || !blocks.is_aligned() {
        return MMCQ_E_ARGUMENT;
    }
    match opened(place, stack, platform, partition) {
        Ok(found) => {
            // SAFETY: not null, aligned, and the caller promises room for the value.
            unsafe { blocks.write(found.blocks()) };
            MMCQ_OK
        }
        Err(code) => code,
    }
}

/// Reads blocks of a partition; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_partition_read` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_partition_read(
    host: u32,
    partition: u32,
    lba: u32,
    blocks: u32,
    memory: *mut u8,
) -> i32 {
    // SAFETY: the caller fulfils the contract of `mmcq_partition_read`.
    unsafe { moved(host, partition, lba, blocks, memory, Direction::Read) }
}

/// Writes blocks of a partition; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_partition_write` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_partition_write(
    host: u32,
    partition: u32,
    lba: u32,
    blocks: u32,
    memory: *const u8,
) -> i32 {
    // SAFETY: the caller fulfils the contract of `mmcq_partition_write`; a write only reads the
    // memory.
    unsafe { moved(host, partition, lba, blocks, memory.cast_mut(), Direction::Write) }
}

/// Transfers blocks of a partition in this direction.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_partition_read` or `mmcq_partition_write` in `mmcq.h`.
unsafe fn moved(
    host: u32,
    partition: u32,
    lba: u32,
    blocks: u32,
    memory: *mut u8,
    direction: Direction,
) -> i32 {
    let (place, stack, platform) = match open(host) {
        Ok(open) => open,
        Err(code) => return code,
    };
    let (Some(bytes), Some(start)) = (bytes(memory, blocks), NonNull::new(memory)) else {
        return MMCQ_E_ARGUMENT;
    };
    let partition = match opened(place, stack, platform, partition) {
        Ok(partition) => partition,
        Err(code) => return code,
    };
    let partition = match direction {
        Direction::Read => partition,
        Direction::Write => match partition.writable() {
            Ok(partition) => partition,
            Err(error) => return Failure::from(error).code(),
        },
    };
    let all = NonNull::slice_from_raw_parts(start, bytes);
    mapped(place, stack, platform, all, direction, || {
        // SAFETY: checked as far as possible; the program promises that the library may use the
        // memory until the call returns.
        let buf = unsafe { DmaBuf::from_raw(start, blocks * BLOCK_BYTES) };
        let idle = |idle: &_| wait(place, stack, platform, idle);
        let (result, buf) = match direction {
            Direction::Read => stack.block_on(partition.read(lba, buf), idle),
            Direction::Write => stack.block_on(partition.write(lba, buf), idle),
        };
        (result.map_err(|partial| Failure::Engine(partial.error)), buf.len_bytes() == 0)
    })
}
