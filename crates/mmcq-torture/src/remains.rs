//! Examines what a power cut has left on a card, in every sector and partition.

use super::run::Run;
use mmcq_sim::card::Card;
use mmcq_sim::checker::{Fault, SECTOR_BYTES, Violation, place};

impl Run<'_> {
    /// Examines every sector of the card. Also checks that no partition has changes that no request
    /// named, and that no setting has changed. `which` is 0 for the first card, 1 for the card that
    /// replaced it.
    pub(super) fn examine(&mut self, card: &mut dyn Card, which: usize) -> Result<(), Violation> {
        self.compare_settings(card, which)?;
        let checker = &mut self.bench.checker;
        if self.case.setup.leaves_open() || self.case.setup.early {
            checker.supply_lost_open();
        }
        checker.cut(|_| {});
        let mut result = Ok(());
        card.touched(&mut |partition, sectors| {
            for sector in sectors {
                if result.is_ok() {
                    result = checker.touched(partition, sector);
                }
            }
        });
        result?;
        let mut bytes = [0; SECTOR_BYTES];
        for area in std::iter::once(0).chain(self.case.areas()) {
            let first = self.first(area);
            for sector in first..first + u64::from(self.case.setup.window) {
                let lba = place(area, sector);
                match card.peek_partition(area, sector * SECTOR_BYTES as u64, &mut bytes) {
                    Ok(()) => self.bench.checker.survived(lba, &bytes)?,
                    Err(_) => self.bench.checker.unreadable(lba)?,
                }
            }
        }
        Ok(())
    }

    /// Checks that all settings that survive a power cycle are unchanged.
    pub(super) fn compare_settings(&self, card: &dyn Card, which: usize) -> Result<(), Violation> {
        let settings = card.settings();
        match self.settings[which].iter().zip(&settings).find(|(before, now)| before != now) {
            Some(((name, before), (_, now))) => {
                let text =
                    format!("{name} was {before:02x}h and is {now:02x}h, and no request was to change it");
                Err(Violation::new(Fault::Misdirected, text))
            }
            None => Ok(()),
        }
    }

    /// Returns the first sector of the window that the case uses in a partition: in the user area
    /// (0) the case gives it, in other partitions it is sector 0.
    pub(super) fn first(&self, area: u8) -> u64 {
        if area == 0 { self.base } else { 0 }
    }
}
