//! Spread of the five runs that were published for each load of the experiment HSQ, without and
//! with the queue: as published, and in a model whose board and card differ a little in each run.
//!
//! The differences are assumed. Wake-ups take up to a quarter longer or shorter, as in the board's
//! file (15 to 25 us, about 20). Each request of a batch costs its job 2.9 to 4.7 us, also as in
//! that file. The card's times are up to 0.55 % longer or shorter: this is the spread of the
//! published random reads without the queue, which comes from the card alone.

use super::{Amount, Row, hsq, mib_per_s, workers};
use crate::params::{self, Param};
use crate::platform::Platform;
use crate::runner::{Run, RunError, Setting, run};
use mmcq_sim::parallel;
use mmcq_sim::world::Stream;
use toml::Value;

const RUNS: usize = 5;
/// Amount in MiB that each of the 20 jobs transfers in a run.
const SHARE_MIB: u64 = 8;
/// Amount in MiB for sequential reads: readers of one file need long until the merging of their
/// requests is steady. Over 8 MiB the rate is 2 % too low, over 64 MiB it is that of the whole GiB.
const SEQUENTIAL_MIB: u64 = 64;

/// Cell of the table, `rw=`, and the published rates of the five runs in MiB/s, without and with
/// the software queue.
const CELLS: [(&str, &str, [[f64; RUNS]; 2]); 4] = [
    ("seq read", "read", [[59.4, 63.4, 57.5, 57.2, 60.8], [59.2, 60.4, 63.6, 60.3, 59.9]]),
    ("rand read", "randread", [[26.9, 26.9, 27.1, 27.1, 27.2], [31.3, 31.4, 31.5, 31.3, 31.3]]),
    ("seq write", "write", [[71.6, 72.5, 72.2, 64.6, 67.5], [71.0, 71.8, 72.3, 72.2, 71.0]]),
    ("rand write", "randwrite", [[36.3, 35.4, 38.6, 34.0, 35.5], [68.9, 68.7, 68.8, 68.6, 68.8]]),
];

/// Keys of the board's times to wake threads.
const WAKES: [&str; 3] = ["cost.job_wake_us", "cost.wake_us", "cost.hop_us"];
/// Largest share by which a time to wake threads differs from the value in the board's file (0.25
/// is 25 %).
const WAKES_SHARE: f64 = 0.25;
const EACH: &str = "cost.each_us";
/// Prefix of the keys for the times of the card's flash, such as `--set` takes them.
const CARD: &str = "card.flash.";
/// Largest relative difference between the times of a card in the experiment and those in the
/// card's file.
const CARD_SHARE: f64 = 0.0055;

/// Draws a number with equal probability between 1 - `share` and 1 + `share`.
fn factor(stream: &mut Stream, share: f64) -> f64 {
    1.0 + share * (stream.below(2_000_001) as f64 / 1e6 - 1.0)
}

/// Returns random changes (`KEY=VALUE`) of the times in `params`, the values of board and card, for
/// the run with this seed: wake-ups and card become slower or faster.
fn changes(params: &[Param], seed: u64) -> Vec<String> {
    let stream = &mut Stream::new(seed, "spread");
    let (wakes, card) = (factor(stream, WAKES_SHARE), factor(stream, CARD_SHARE));
    let each_us = 3.8 + 0.9 * (factor(stream, 1.0) - 1.0);
    let number = |param: &Param| match &param.value {
        Some(Value::Float(value)) => Some(*value),
        Some(Value::Integer(value)) => Some(*value as f64),
        _ => None,
    };
    let change = |param: &Param| {
        let (key, value) = (param.key.as_str(), number(param)?);
        let value = match key {
            EACH => each_us,
            _ if WAKES.contains(&key) => value * wakes,
            // A rate is divided by the factor of the times.
            _ if key.starts_with(CARD) && key.ends_with("_mib_s") => value / card,
            _ if key.starts_with(CARD) && key.ends_with("_us") => value * card,
            _ => return None,
        };
        Some(format!("{key}={value:.6}"))
    };
    params.iter().filter_map(change).collect()
}

/// Runs the benchmark of Linux's software queue (HSQ) five times for each kind of load. Returns
/// mean, smallest and largest rate of the five runs, next to those of the five published runs.
pub fn rows(amount: Amount, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, RunError> {
    let name = hsq::BOARDS[0];
    let params = params::all(name, None, &[])?;
    let mut boards = Vec::new();
    for nth in 0..RUNS as u64 {
        let platform = Platform::load_with(name, &changes(&params, amount.seed + nth));
        boards.push((platform.map_err(crate::board::BoardError::from)?, amount.seed + nth));
    }
    let mut rows = Vec::new();
    for (cell, rw, published) in CELLS {
        progress(&format!("{cell}, five runs"));
        let share = if rw == "read" { SEQUENTIAL_MIB } else { SHARE_MIB };
        let workers = workers(&hsq::job(rw, (!amount.full).then_some(share << 20)))?;
        for (setting, published) in [Setting::None, Setting::HsqTag].into_iter().zip(published) {
            let rates = parallel::each(boards.len(), amount.threads, |nth| {
                let (platform, seed) = &boards[nth];
                let one = Run { workers: &workers, platform, card: None, setting, seed: *seed };
                run(&one, None, &mut |_, _| ()).map(|outcome| mib_per_s(&outcome))
            });
            let rates: Vec<f64> = rates.into_iter().collect::<Result<_, _>>()?;
            for (what, of) in SUMS {
                rows.push(Row {
                    cell: format!("{cell}, {what} of {RUNS}"),
                    setting: setting.name().to_owned(),
                    unit: "MiB/s".to_owned(),
                    published: Some(of(&published)),
                    // The assumed spread of the card was taken from this cell.
                    fitted: rw == "randread" && setting == Setting::None,
                    model: of(&rates),
                    limit: None,
                });
            }
        }
    }
    Ok(rows)
}

type Sum = fn(&[f64]) -> f64;

/// Functions that summarise five rates, with their names.
const SUMS: [(&str, Sum); 3] = [
    ("mean", |rates| rates.iter().sum::<f64>() / rates.len() as f64),
    ("least", |rates| rates.iter().copied().fold(f64::INFINITY, f64::min)),
    ("most", |rates| rates.iter().copied().fold(0.0, f64::max)),
];

/// Text that is printed below the table with the spread of the five runs.
pub const NOTE: &str = "\
five runs: a seed each, on a board and card a little different in each (a prior): wake-ups within a quarter and
2.9 to 4.7 us for each request of a batch, as the board's file has them; the card's times within 0.55 %, the
spread of the published random reads. Wake-ups that differ by a quarter spread random reads without the queue
by 5 % (published: 1 %) and sequential ones by 3 % (published: 10 %): no one prior meets both.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_has_its_own_board_and_card_within_the_prior() {
        let params = params::all(hsq::BOARDS[0], None, &[]).unwrap();
        let of = |seed, key: &str| -> f64 {
            let all = changes(&params, seed);
            let found = all.iter().find_map(|change| change.strip_prefix(&format!("{key}=")));
            found.unwrap_or_else(|| panic!("no {key} in {all:?}")).parse().unwrap()
        };
        let mut seen = Vec::new();
        for seed in 1..=20 {
            let (wake, first) = (of(seed, "cost.job_wake_us"), of(seed, "card.flash.read.read_first_us"));
            assert!(
                (15.0..=25.0).contains(&wake) && (2.9..=4.7).contains(&of(seed, "cost.each_us")),
                "{wake}"
            );
            assert!((first / 100.5 - 1.0).abs() <= CARD_SHARE + 1e-6, "{first}");
            // When the card's times are shorter, its rates are higher.
            let drain = of(seed, "card.flash.write.drain_mib_s");
            assert!((drain / 69.7 * first / 100.5 - 1.0).abs() < 1e-4, "{drain}");
            seen.push(wake);
        }
        seen.sort_by(f64::total_cmp);
        assert!(seen[0] < 17.0 && seen[19] > 23.0 && seen.windows(2).all(|two| two[0] < two[1]), "{seen:?}");
        assert_eq!(changes(&params, 3), changes(&params, 3));
    }
}
