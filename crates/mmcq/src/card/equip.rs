//! More than reading and writing: what the engine is told of it, and the code that does it.

use super::quirk::Quirks;
use super::{Card, Family};
use crate::engine::{Erase, Erasing, Target};
use crate::host::Host;
use crate::sched::Policy;
use crate::spec::csd::Csd;
use crate::spec::scr::Scr;
use crate::spec::ssr::Ssr;
use crate::task::{Lock, Shared};

/// The class of erase commands [SD 4.7.3].
const CLASS_ERASE: u8 = 5;
/// An allocation unit where the card names none: 4 MiB.
const UNIT_BLOCKS: u32 = 8192;
/// Its erase, where the card names no time.
const UNIT_MS: u32 = 1_000;

/// Makes the engine able to erase, write zeroes, write durably and visit partitions of this card. [`bring_up`](super::bring_up) has done so already; after
/// [`bring_up_sd`](super::bring_up_sd) and [`bring_up_emmc`](super::bring_up_emmc), which link less, it is for those who need more.
pub fn equip<L: Lock, H: Host, const N: usize, P: Policy>(shared: &Shared<L, H, N, P>, card: &Card) {
    let erase = match &card.family {
        Family::Emmc(_) => card.target.erase,
        Family::Sd(sd) => match (Csd::parse_sd(&card.csd), Scr::parse(&sd.scr)) {
            (Ok(csd), Ok(scr)) => erasing(&csd, &scr, &Ssr::parse(&sd.ssr), card.target.quirks),
            _ => Erasing::NONE,
        },
    };
    shared.with(|engine| {
        engine.equip();
        if let Some(target) = engine.target() {
            let target = Target { erase, ..*target };
            engine.set_target(Some(target));
        }
    });
}

/// How an SD card erases [SD 4.3.5, 4.14].
fn erasing(csd: &Csd, scr: &Scr, ssr: &Ssr, quirks: Quirks) -> Erasing {
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
        // A discard takes the same short time for any size.
        trim_ms: 0,
        secure_erase_ms: 0,
        secure_trim_ms: 0,
        offset_ms: u32::from(ssr.erase_offset_s) * 1_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SDHC of 15 GB, SCR of a version 3 card, SSR with 4 MiB units, 15 of them in 3 s, offset 1 s.
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
        let erase = erasing(&csd, &scr, &ssr, Quirks::NONE);
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
        let erase = erasing(&csd, &scr, &ssr, Quirks::NO_SD_DISCARD);
        assert_eq!(erase.discarding(), Some(Erase::Erase));
    }
}
