//! Makes an exFAT volume of 64 MiB at the start of a card, by Microsoft's published specification
//! of the format.

use aligned::{Aligned, Alignment};
use block_device_driver::BlockDevice;

const SECTORS: u64 = 64 << 11;
const CLUSTER_SECTORS: u32 = 8;
const FAT_AT: u32 = 128;
const FAT_SECTORS: u32 = 128;
const HEAP_AT: u32 = FAT_AT + FAT_SECTORS;
const CLUSTERS: u32 = (SECTORS as u32 - HEAP_AT) / CLUSTER_SECTORS;
const BITMAP: u32 = 2;
const UPCASE: u32 = 3;
const ROOT: u32 = 4;

type Sector = [u8; 512];

fn put(sector: &mut Sector, at: usize, bytes: &[u8]) {
    sector[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Returns the checksum of boot region and up-case table: rotate right, then add.
fn checksum(start: u32, bytes: impl IntoIterator<Item = u8>) -> u32 {
    bytes.into_iter().fold(start, |sum, byte| sum.rotate_right(1).wrapping_add(byte.into()))
}

/// Returns the boot region: eleven sectors and their checksum, which the volume has twice.
fn boot_region() -> [Sector; 12] {
    let mut region = [[0; 512]; 12];
    let boot = &mut region[0];
    put(boot, 0, b"\xeb\x76\x90EXFAT   ");
    put(boot, 72, &SECTORS.to_le_bytes());
    for (at, value) in [(80, FAT_AT), (84, FAT_SECTORS), (88, HEAP_AT), (92, CLUSTERS), (96, ROOT)] {
        put(boot, at, &value.to_le_bytes());
    }
    put(boot, 100, &0x2026_1122u32.to_le_bytes());
    // Revision 1.00, no flags, sectors of 512 bytes, clusters of 8 sectors, one FAT, drive 0x80,
    // percentage in use unknown.
    put(boot, 104, &[0, 1, 0, 0, 9, CLUSTER_SECTORS.ilog2() as u8, 1, 0x80, 0xff]);
    for sector in &mut region[..9] {
        put(sector, 510, &[0x55, 0xaa]);
    }
    let covered = region[..11].as_flattened().iter().enumerate();
    // The checksum leaves out flags and percentage, which may change without a new checksum.
    let sum = checksum(0, covered.filter(|(at, _)| !matches!(at, 106 | 107 | 112)).map(|(_, byte)| *byte));
    for chunk in region[11].chunks_exact_mut(4) {
        chunk.copy_from_slice(&sum.to_le_bytes());
    }
    region
}

/// Returns the up-case table, compressed: ASCII in capitals, all other characters unchanged.
fn upcase() -> Vec<u8> {
    let ascii = (0..128u16).map(|c| (c as u8).to_ascii_uppercase().into());
    ascii.chain([0xffff, 0xffff - 128 + 1]).flat_map(u16::to_le_bytes).collect()
}

fn entry(kind: u8, parts: &[(usize, &[u8])]) -> [u8; 32] {
    let mut entry = [0; 32];
    entry[0] = kind;
    for (at, bytes) in parts {
        entry[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    entry
}

fn root() -> Vec<u8> {
    let table = upcase();
    [
        entry(0x83, &[(1, &[4]), (2, b"m\0m\0c\0q\0")]),
        entry(0x81, &[(20, &BITMAP.to_le_bytes()), (24, &u64::from(CLUSTERS.div_ceil(8)).to_le_bytes())]),
        entry(
            0x82,
            &[
                (4, &checksum(0, table.iter().copied()).to_le_bytes()),
                (20, &UPCASE.to_le_bytes()),
                (24, &(table.len() as u64).to_le_bytes()),
            ],
        ),
    ]
    .concat()
}

/// Writes bytes from a sector on, and zeroes up to `sectors` sectors.
async fn fill<D: BlockDevice<512>>(
    disk: &mut D,
    at: u32,
    sectors: u32,
    bytes: &[u8],
) -> Result<(), D::Error> {
    let mut blocks: Vec<Aligned<D::Align, Sector>> = (0..sectors).map(|_| Aligned([0; 512])).collect();
    for (block, part) in blocks.iter_mut().zip(bytes.chunks(512)) {
        block[..part.len()].copy_from_slice(part);
    }
    disk.write(at, &blocks).await
}

/// Formats the start of a disk as exFAT.
pub async fn exfat<D: BlockDevice<512, Align: Alignment>>(disk: &mut D) -> Result<(), D::Error> {
    let region = boot_region();
    fill(disk, 0, 12, region.as_flattened()).await?;
    fill(disk, 12, 12, region.as_flattened()).await?;
    let fat = [0xffff_fff8, u32::MAX, u32::MAX, u32::MAX, u32::MAX].map(u32::to_le_bytes);
    fill(disk, FAT_AT, FAT_SECTORS, fat.as_flattened()).await?;
    let cluster = |number: u32| HEAP_AT + (number - 2) * CLUSTER_SECTORS;
    // Bitmap, up-case table and root directory use the first three clusters.
    fill(disk, cluster(BITMAP), CLUSTER_SECTORS, &[0b111]).await?;
    fill(disk, cluster(UPCASE), CLUSTER_SECTORS, &upcase()).await?;
    fill(disk, cluster(ROOT), CLUSTER_SECTORS, &root()).await
}
