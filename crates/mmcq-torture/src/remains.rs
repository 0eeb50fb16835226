//! Ends the use of a machine, and examines what a power cut has left on a card, in every sector and
//! partition.

use super::case::{SLOTS, Visit};
use super::clients::Client;
use super::machine::{Machine, Step};
use super::run::{End, PATIENCE_NS, Run, Trace};
use super::supervisor::Supervisor;
use mmcq::task::Platform;
use mmcq_sim::card::Card;
use mmcq_sim::checker::{Checker, Fault, SECTOR_BYTES, Violation, place};
use std::sync::atomic::Ordering;

impl Run<'_> {
    /// Takes the next power cut of the case. Returns how the time since power-on ends.
    pub(super) fn take_cut(&mut self) -> End {
        match self.cuts.split_first() {
            Some((cut, rest)) => {
                self.cuts = rest;
                End::Cut(*cut)
            }
            None => End::Over,
        }
    }

    /// Waits until the engine is idle. Called after all operations are answered and before the
    /// power is cut. `drops`: a client may have dropped the future of a request, so that requests
    /// may still be in work when this is called. At the end no DMA mapping may be left except the
    /// driver's tables.
    pub(super) fn over<'m, B: Platform>(
        &mut self,
        machine: &'m Machine<B>,
        supervisor: &mut Supervisor<'m>,
        clients: &mut [Option<Client<'m, B>>; SLOTS],
        drops: bool,
        trace: &mut Trace<'_>,
    ) -> Result<End, Violation> {
        self.resume(&machine.stack);
        let drops = drops || self.case.setup.supervisor;
        // The engine may be executing a command of its own with its page, for instance because of a
        // reset of the lines.
        let works = !machine.stack.with(|engine| engine.is_idle());
        let left = machine.mappings_left();
        if left > usize::from(works) && !drops {
            let text = format!("{left} mappings are left, and all requests are answered");
            return Err(Violation::new(Fault::Misdirected, text));
        }
        if drops || works {
            // Requests whose future was dropped end without a client.
            let until_ns = machine.now().saturating_add(PATIENCE_NS);
            while !machine.stack.with(|engine| engine.is_idle()) {
                if self.bench.mask.swap(0, Ordering::Relaxed) >> SLOTS != 0 {
                    self.kept(machine, supervisor, clients, trace)?;
                }
                let stands = match machine.step() {
                    // The supervisor may just have ended the last request.
                    Step::Quiet => !machine.stack.with(|engine| engine.is_idle()),
                    step => step == Step::Storm,
                };
                if stands || machine.now() > until_ns {
                    return Err(hang(&self.bench.checker, machine, "dropped requests do not end"));
                }
            }
            if machine.mappings_left() > 0 {
                return Err(Violation::new(Fault::Misdirected, "memory is mapped for ever"));
            }
        }
        let alone = self.away.is_none() && self.out.is_none();
        self.settled = alone && self.late_failures == 0 && machine.is_settled();
        Ok(End::Over)
    }

    /// Examines every sector of the card. Also checks that no request has changed a partition that
    /// it did not name, and that no setting of the card has changed. `which` is 0 for the first
    /// card, 1 for the card that replaced it.
    pub(super) fn examine(&mut self, card: &mut dyn Card, which: usize) -> Result<(), Violation> {
        self.compare_settings(card, which)?;
        let checker = &mut self.bench.checker;
        if (self.case.setup.leaves_open() || self.case.setup.early) && !self.settled {
            checker.power_lost_open();
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
        // A card of another size may end before the case's window of sectors.
        let sectors = match self.case.visit {
            Some((_, Visit::Swaps { other: true, .. })) if which == 1 => {
                self.other_size().capacity_bytes() / SECTOR_BYTES as u64
            }
            _ => u64::MAX,
        };
        let mut bytes = [0; SECTOR_BYTES];
        for area in std::iter::once(0).chain(self.case.areas()) {
            let first = self.first(area);
            let window = first..(first + u64::from(self.case.setup.window)).min(sectors);
            for sector in window {
                let lba = place(area, sector);
                match card.peek_partition(area, sector * SECTOR_BYTES as u64, &mut bytes) {
                    Ok(()) => self.bench.checker.survived(lba, &bytes)?,
                    Err(_) => self.bench.checker.unreadable(lba)?,
                }
            }
        }
        Ok(())
    }

    /// Checks that all settings that survive a power cycle are unchanged on `card`, the card with
    /// the index `which` among the run's cards.
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

    /// Returns the first of the sectors that the case's requests use in this partition. In the user
    /// area (`area` 0) the case decides it; in other partitions it is sector 0.
    pub(super) fn first(&self, area: u8) -> u64 {
        if area == 0 { self.base } else { 0 }
    }
}

/// Returns the violation of a run in which requests wait for ever; `what` says for what the run
/// waited.
pub(super) fn hang<B: Platform>(checker: &Checker, machine: &Machine<B>, what: &str) -> Violation {
    let text = format!("{what}, at {} ns, {} requests wait", machine.now(), checker.under_way());
    Violation::new(Fault::Hang, text)
}
