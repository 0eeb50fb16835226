//! Enables requests other than reads and writes: tells the engine what the card supports, and makes
//! the firmware contain the code for them.

use super::link::Queued;
use super::quirk::Quirks;
use super::session::{Failed, Session};
use super::{Card, Family};
use crate::engine::{Abilities, DmaBuf, Erase, Erasing, Error};
use crate::spec::command::emmc;
use crate::spec::csd::Csd;
use crate::spec::ext_csd::ExtCsd;
use crate::spec::scr::Scr;
use crate::spec::ssr::Ssr;
use crate::task::{Platform, Stack};

/// The command class of erase commands [SD 4.7.3], [eMMC 6.10.3].
const CLASS_ERASE: u8 = 5;
/// SD: erase unit in blocks (4 MiB) if the card declares no allocation unit.
const UNIT_BLOCKS: u32 = 8192;
/// SD: time to erase one unit, in milliseconds, if the card declares no time.
const UNIT_MS: u32 = 1_000;
/// eMMC: unit of the erase timeouts, in milliseconds [eMMC 7.4].
const ERASE_MS: u32 = 300;
/// EXT_CSD byte for the argument of CMD38 on iNAND devices that ignore the command's own argument.
const INAND_ARGUMENT: u8 = 113;
/// Duration of a secure erase on a device with a fixed duration, in milliseconds.
const FIXED_SECURE_MS: u32 = 2_000;

/// Enables erase, write-zeroes, durable writes and partition accesses for this card. Call it once
/// after each bring-up. Bring-up does not call it, so that a program that only reads and writes
/// does not contain the code.
///
/// [`BlockDevice::discard`](crate::block::BlockDevice::discard) and
/// [`erase`](crate::block::BlockDevice::erase) need this call. After the call, a durable write is
/// one reliable write if the card supports reliable writes, and zeroes are written by an erase if
/// the erase clears exactly the requested blocks. Durable writes and zeroes also work without this
/// call, in more steps.
///
/// `scratch` ([`SCRATCH_BYTES`](super::SCRATCH_BYTES)) is returned.
pub async fn enable_extended_ops<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    card: &Card,
    scratch: DmaBuf,
) -> (Result<(), Error>, DmaBuf) {
    let mut session = Session::with(stack, scratch, card);
    let result = abilities(&mut session, card).await.map_err(|Failed| session.error);
    let result = result.and_then(|abilities| {
        stack.with(|engine| {
            engine.enable_extended_ops();
            if !engine.is_meant(session.card) {
                return Err(Error::Changed);
            }
            engine.set_abilities(abilities);
            Ok(())
        })
    });
    (result, session.into_scratch())
}

/// Returns what the card supports, from its registers.
async fn abilities<B: Platform, const N: usize>(
    session: &mut Queued<'_, B, N>,
    card: &Card,
) -> Result<Abilities, Failed> {
    let quirks = card.params.quirks;
    match &card.family {
        Family::Sd(sd) => {
            let csd = session.parsed(Csd::parse_sd(&card.csd))?;
            let scr = session.parsed(Scr::parse(&sd.scr))?;
            let erase = of_sd(&csd, &scr, &Ssr::parse(&sd.ssr), quirks);
            Ok(Abilities { erase, reliable_blocks: 0 })
        }
        Family::Emmc(_) => {
            let csd = session.parsed(Csd::parse_emmc(&card.csd))?;
            session.register(emmc::send_ext_csd(), false, 512).await?;
            let found = ExtCsd::parse(session.bytes()?).map(|ext| {
                let any = ext.reliable_write_enhanced();
                let reliable_blocks = if any { u32::MAX } else { ext.rel_wr_sec_c().into() };
                Abilities { erase: of_emmc(&csd, &ext, quirks), reliable_blocks }
            });
            session.parsed(found)
        }
    }
}

/// Returns the erase parameters of an SD card [SD 4.3.5, 4.14].
fn of_sd(csd: &Csd, scr: &Scr, ssr: &Ssr, quirks: Quirks) -> Erasing {
    if !csd.classes.has(CLASS_ERASE) {
        return Erasing::NONE;
    }
    let discard = ssr.discard && !quirks.has(Quirks::NO_SD_DISCARD);
    let erase_ms = match (ssr.erase_timeout_s, ssr.erase_aus) {
        (0, _) | (_, 0) => UNIT_MS,
        (seconds, units) => (u32::from(seconds) * 1_000).div_ceil(units.into()),
    };
    Erasing {
        kinds: Erase::Erase.bit() | if discard { Erase::Discard.bit() } else { 0 },
        emmc: false,
        unit_blocks: ssr.au_bytes.map_or(UNIT_BLOCKS, |bytes| (bytes / 512).max(1)),
        group_blocks: match csd.erase_single_block {
            true => 1,
            false => u32::try_from(csd.erase_unit_bytes() / 512).unwrap_or(u32::MAX).max(1),
        },
        zeros: !scr.erased_ones,
        argument_byte: 0,
        erase_ms,
        // A discard takes the same short time for any number of blocks.
        trim_ms: 0,
        secure_erase_ms: 0,
        secure_trim_ms: 0,
        offset_ms: u32::from(ssr.erase_offset_s) * 1_000,
    }
}

/// Returns the erase parameters of an eMMC, from its registers and its quirks
/// [eMMC 6.6.9 to 6.6.12].
fn of_emmc(csd: &Csd, ext: &ExtCsd<'_>, quirks: Quirks) -> Erasing {
    if !csd.classes.has(CLASS_ERASE) {
        return Erasing::NONE;
    }
    let mut kinds = Erase::Erase.bit();
    for (offered, bit) in [
        (ext.trim(), Erase::Trim.bit()),
        (ext.discard(), Erase::Discard.bit()),
        (ext.secure_erase(), Erasing::SECURE_ERASE),
        (ext.secure_erase() && ext.trim(), Erasing::SECURE_TRIM),
    ] {
        if offered {
            kinds |= bit;
        }
    }
    let times = |mult: u8| u32::from(mult.max(1));
    let erase_ms = ERASE_MS * times(ext.erase_timeout_mult());
    // Without high-capacity erase groups, the groups of the CSD are used.
    let unit_bytes = match ext.hc_erase_group_bytes() {
        Some(bytes) if ext.erase_group_def() & 1 != 0 => bytes,
        _ => csd.erase_unit_bytes(),
    };
    let unit_blocks = u32::try_from(unit_bytes / 512).unwrap_or(u32::MAX).max(1);
    let mut erase = Erasing {
        kinds,
        emmc: true,
        unit_blocks,
        group_blocks: unit_blocks,
        zeros: ext.erased_mem_cont() == 0,
        argument_byte: 0,
        erase_ms,
        trim_ms: ERASE_MS * times(ext.trim_mult()),
        secure_erase_ms: erase_ms * times(ext.sec_erase_mult()),
        secure_trim_ms: erase_ms * times(ext.sec_trim_mult()),
        offset_ms: 0,
    };
    if quirks.has(Quirks::NO_TRIM) {
        erase.kinds &= !(Erase::Trim.bit() | Erase::Discard.bit() | Erasing::SECURE_TRIM);
    }
    if quirks.has(Quirks::NO_SECURE_ERASE) {
        erase.kinds &= !(Erasing::SECURE_ERASE | Erasing::SECURE_TRIM);
    }
    if quirks.has(Quirks::FIXED_SECURE_TIME) {
        (erase.secure_erase_ms, erase.secure_trim_ms, erase.offset_ms) = (0, 0, FIXED_SECURE_MS);
    }
    if quirks.has(Quirks::ERASE_ARGUMENT_BY_SWITCH) {
        erase.argument_byte = INAND_ARGUMENT;
        erase.kinds &= !Erase::Discard.bit();
    }
    erase
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Irreversible;

    /// Returns the registers of an SDHC card of 15 GB with version 3. By its SSR an erase of 15
    /// units of 4 MiB takes 3 s, plus an offset of 1 s.
    fn registers() -> (Csd, Scr, Ssr) {
        let csd = Csd::parse_sd(&[0x400e_0032, 0x5b59_0000, 0x73a7_7f80, 0x0a40_0001]).unwrap();
        let scr = Scr::parse(&[0x02, 0x35, 0x80, 0x02, 0, 0, 0, 0]).unwrap();
        let mut ssr = [0; 64];
        ssr[10..14].copy_from_slice(&[0x90, 0, 15, 3 << 2 | 1]);
        ssr[24] = 0b10;
        (csd, scr, Ssr::parse(&ssr))
    }

    #[test]
    fn an_sd_card_erases_by_its_status() {
        let (csd, scr, ssr) = registers();
        let erase = of_sd(&csd, &scr, &ssr, Quirks::NONE);
        assert_eq!((erase.unit_blocks, erase.group_blocks), (8192, 1));
        assert_eq!((erase.erase_ms, erase.offset_ms), (200, 1_000));
        assert!(erase.can(Erase::Erase) && erase.can(Erase::Discard) && !erase.can(Erase::Trim));
        assert!(erase.zeros);
        assert_eq!(erase.discarding(), Some(Erase::Discard));
        assert_eq!(erase.zeroing(3, 5), Some(Erase::Erase));
    }

    #[test]
    fn a_broken_discard_is_left_out() {
        let (csd, scr, ssr) = registers();
        let erase = of_sd(&csd, &scr, &ssr, Quirks::NO_SD_DISCARD);
        assert_eq!(erase.discarding(), Some(Erase::Erase));
    }

    fn emmc_registers() -> (Csd, [u8; 512]) {
        let csd = Csd::parse_emmc(&[0xd027_0032, 0x0f59_03ff, 0xffff_ffe7, 0x8640_0001]).unwrap();
        let mut ext = [0; 512];
        (ext[192], ext[175], ext[224], ext[223]) = (8, 1, 8, 2);
        (ext[231], ext[232], ext[229], ext[230]) = (0x55, 3, 4, 5);
        (csd, ext)
    }

    #[test]
    fn an_emmc_erases_by_ext_csd() {
        let (csd, bytes) = emmc_registers();
        let erase = of_emmc(&csd, &ExtCsd::parse(&bytes).unwrap(), Quirks::NONE);
        assert_eq!((erase.unit_blocks, erase.group_blocks), (8192, 8192));
        assert_eq!((erase.erase_ms, erase.trim_ms), (600, 900));
        assert_eq!((erase.secure_erase_ms, erase.secure_trim_ms), (3_000, 2_400));
        assert_eq!(erase.kinds, 31);
        assert_eq!(erase.zeroing(1, 1), Some(Erase::Trim));
        let leave = Irreversible::i_know_that_this_cannot_be_undone();
        assert_eq!(erase.securing(8192, 16384, leave), Some(Erase::SecureErase(leave)));
        assert_eq!(erase.securing(8192, 8191, leave), Some(Erase::SecureTrim(leave)));
        let broken = of_emmc(&csd, &ExtCsd::parse(&bytes).unwrap(), Quirks::NO_SECURE_ERASE);
        assert_eq!(broken.securing(8192, 8192, leave), None);
        let trimless = of_emmc(&csd, &ExtCsd::parse(&bytes).unwrap(), Quirks::NO_TRIM);
        assert_eq!(trimless.securing(8192, 8191, leave), None);
    }

    #[test]
    fn quirks_change_their_own_path_alone() {
        let (csd, bytes) = emmc_registers();
        let ext = ExtCsd::parse(&bytes).unwrap();
        let plain = of_emmc(&csd, &ext, Quirks::NONE);
        let broken = of_emmc(&csd, &ext, Quirks::NO_SECURE_ERASE);
        assert_eq!(broken, Erasing { kinds: 0b111, ..plain });
        let trimless = of_emmc(&csd, &ext, Quirks::NO_TRIM);
        assert_eq!(trimless, Erasing { kinds: 0b1001, ..plain });
        // Erase groups are too large to write zeroes at any address.
        assert_eq!(trimless.zeroing(1, 1), None);
        assert_eq!(trimless.zeroing(8192, 8192), Some(Erase::Erase));
        let inand = of_emmc(&csd, &ext, Quirks::ERASE_ARGUMENT_BY_SWITCH);
        assert_eq!((inand.argument_byte, inand.kinds), (113, 0b11011));
        let fixed = of_emmc(&csd, &ext, Quirks::FIXED_SECURE_TIME);
        assert_eq!((fixed.secure_erase_ms, fixed.offset_ms, fixed.erase_ms), (0, 2_000, 600));
        assert_eq!(of_emmc(&csd, &ext, Quirks::NO_HPI), plain);
    }
}
