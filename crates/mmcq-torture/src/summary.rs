//! Summary of a part (share) of a random campaign, as a line of JSON. If several computers run one
//! part each, their summaries can be added.

use super::score::Score;
use super::spread::Share;
use mmcq::engine::RecoveryStep;
use mmcq_sim::checker::Fault;
use mmcq_sim::parallel::Shard;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counts of one or more shares of a campaign. The order in which shares are added does not change
/// the summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Version of the program that has written the summary.
    pub version: String,
    /// Name of the campaign, with its options.
    pub campaign: String,
    /// Seed of the campaign's first case.
    pub seed: u64,
    /// Number of requests planned for the whole campaign.
    pub asked: u64,
    /// Number of shares into which the campaign is divided.
    pub of: usize,
    /// Numbers of the campaign's shards that this summary contains; the first shard is 1.
    pub shares: Vec<usize>,
    /// Counts over all runs, as in [`Score`].
    pub counts: Counts,
    /// Longest time in ns from submission to answer, and the case in which it occurred.
    pub longest: (u64, String),
    /// Number of recovery steps, by name.
    pub steps: BTreeMap<String, u64>,
    /// Number of faults that struck, by the kind of event that they struck
    /// ([`Point`](mmcq_sim::faults::Point)) and by the kind of fault.
    pub faults: BTreeMap<String, u64>,
    /// Number of broken promises (guarantees about data), by kind.
    pub broken: BTreeMap<String, u64>,
    /// The first broken promises (guarantees about data): seed of the case, and description.
    pub failures: Vec<(u64, String)>,
    /// Number of recoveries that took longer than the time allowed for their class.
    pub over_budget: u64,
}

/// Adds up the summaries in these texts, separately for each campaign. Each text has a name for
/// error messages.
///
/// # Errors
/// One line with the name of the text and the line number: the line is not a summary, or does not
/// fit the others.
pub fn merged(texts: &[(String, String)]) -> Result<Vec<Summary>, String> {
    let mut campaigns: Vec<Summary> = Vec::new();
    for (name, text) in texts {
        for (number, line) in (1..).zip(text.lines()) {
            let fault = |what: String| format!("{name}: line {number}: {what}");
            let summary = Summary::read(line).map_err(fault)?;
            match campaigns.iter_mut().find(|known| known.campaign == summary.campaign) {
                Some(known) => known.merge(summary).map_err(fault)?,
                None => campaigns.push(summary),
            }
        }
    }
    Ok(campaigns)
}

/// Counters of a campaign. The sums over all shares (parts of a campaign that ran separately) are
/// the campaign's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Number of runs (executions of cases).
    pub runs: u64,
    /// Number of requests.
    pub requests: u64,
    /// Number of requests that got an error.
    pub errors: u64,
    /// Number of futures that clients dropped.
    pub dropped: u64,
    /// Number of power cuts.
    pub cuts: u64,
    /// Number of events of the controller models, such as commands, blocks and interrupts.
    pub events: u64,
    /// Total virtual time in ns.
    pub virtual_ns: u64,
}

/// Largest number of failures that a summary stores.
const FAILURES_MAX: usize = 64;

impl Summary {
    /// Returns the summary of the part (share) of a campaign that this process has executed. A
    /// campaign without shards is one share.
    pub fn of(campaign: String, share: &Share, score: &Score) -> Self {
        let shard = share.shard.unwrap_or(Shard { index: 0, count: 1 });
        let named = |names: &mut dyn Iterator<Item = (String, u64)>| names.filter(|(_, n)| *n > 0).collect();
        let steps = RecoveryStep::ALL.iter().map(|step| format!("{step:?}")).zip(score.steps.0);
        let faults = score.struck.iter().map(|((point, name), n)| (format!("{point:?} {name}"), *n));
        let broken = Fault::NAMES.iter().map(|name| (*name).to_owned()).zip(score.broken);
        let failures = score.failures.iter().map(|(case, violation)| (case.seed, violation.to_string()));
        Summary {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            campaign,
            seed: share.seed,
            asked: share.requests,
            of: shard.count,
            shares: vec![shard.index + 1],
            counts: Counts {
                runs: score.runs,
                requests: score.requests,
                errors: score.errors,
                dropped: score.dropped,
                cuts: score.cuts,
                events: score.events,
                virtual_ns: score.virtual_ns,
            },
            longest: (score.longest_ns, score.longest_in.clone()),
            steps: named(&mut { steps }),
            faults: named(&mut { faults }),
            broken: named(&mut { broken }),
            failures: failures.collect(),
            over_budget: score.over_budget(),
        }
    }

    /// Reads a summary from a line of JSON.
    ///
    /// # Errors
    /// One line: the text is not a summary, has another version, or has impossible share numbers.
    pub fn read(line: &str) -> Result<Self, String> {
        let summary: Summary =
            serde_json::from_str(line).map_err(|error| format!("not a summary of torture: {error}"))?;
        let ours = env!("CARGO_PKG_VERSION");
        if summary.version != ours {
            return Err(format!("of version {}; this is {ours}", summary.version));
        }
        let fits = |share: &usize| (1..=summary.of).contains(share);
        if summary.shares.is_empty() || !summary.shares.iter().all(fits) || !summary.shares.is_sorted() {
            return Err(format!("shares {:?} of {} cannot be", summary.shares, summary.of));
        }
        Ok(summary)
    }

    /// Adds the summary of other parts (shares) of the same campaign.
    ///
    /// # Errors
    /// One line: the parts belong to another campaign, or a part is in both summaries.
    pub fn merge(&mut self, other: Summary) -> Result<(), String> {
        let of = |s: &Summary| (s.campaign.clone(), s.seed, s.asked, s.of);
        if of(self) != of(&other) {
            let text = |s: &Summary| {
                format!("{} from seed {}, {} requests in {} shares", s.campaign, s.seed, s.asked, s.of)
            };
            return Err(format!("{} cannot be added to {}", text(&other), text(self)));
        }
        if let Some(twice) = other.shares.iter().find(|share| self.shares.contains(share)) {
            return Err(format!("{}: share {twice}/{} is there twice", self.campaign, self.of));
        }
        self.shares.extend(other.shares);
        self.shares.sort_unstable();
        let (mine, more) = (&mut self.counts, other.counts);
        mine.runs += more.runs;
        mine.requests += more.requests;
        mine.errors += more.errors;
        mine.dropped += more.dropped;
        mine.cuts += more.cuts;
        mine.events += more.events;
        mine.virtual_ns += more.virtual_ns;
        if other.longest > self.longest {
            self.longest = other.longest;
        }
        let maps = [
            (&mut self.steps, other.steps),
            (&mut self.faults, other.faults),
            (&mut self.broken, other.broken),
        ];
        for (mine, others) in maps {
            for (name, count) in others {
                *mine.entry(name).or_default() += count;
            }
        }
        self.failures.extend(other.failures);
        self.failures.sort_unstable();
        self.failures.truncate(FAILURES_MAX);
        self.over_budget += other.over_budget;
        Ok(())
    }

    /// Returns the numbers, from 1, of the parts of the campaign that were not added to this
    /// summary.
    pub fn missing(&self) -> Vec<usize> {
        (1..=self.of).filter(|share| !self.shares.contains(share)).collect()
    }

    /// Returns whether no promise was broken and no recovery took too long.
    pub fn is_well(&self) -> bool {
        self.broken.values().all(|count| *count == 0) && self.over_budget == 0
    }

    /// Returns the summary as a line of JSON.
    pub fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}
