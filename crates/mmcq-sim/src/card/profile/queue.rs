//! The table `[queue]` of a card profile: the card's command queue.

use serde::Deserialize;
use toml::Spanned;

use super::super::queue::{MOST, Order, QueueConfig};
use super::ProfileError;
use super::flash::{Intervals, Ranges};
use super::place::Place;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueKeys {
    pub(super) source: String,
    #[serde(default, rename = "range")]
    _range: Ranges,
    #[serde(default, rename = "interval")]
    _interval: Intervals,
    /// Number of tasks that the queue holds.
    depth: Spanned<u8>,
    /// Number of flash units that read in parallel.
    units: Spanned<u8>,
    /// Number of tasks that can be loading, loaded or ready at a time.
    buffers: Spanned<u8>,
    order: OrderKey,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OrderKey {
    InOrder,
    AsLoaded,
    ReadsFirst,
    StarvesOne,
    NewestFirst,
}

/// Returns the queue of a card from the keys of its profile.
///
/// `since`: `None` if a card of the profile's version may have a queue. Otherwise the line that the
/// profile needs for a queue, such as `spec = "6.xx"`; the function then returns an error that
/// names this line. `least` is the smallest depth that the card's registers can express.
pub(super) fn config(
    place: &Place<'_>,
    keys: &QueueKeys,
    since: Option<&str>,
    least: usize,
) -> Result<QueueConfig, ProfileError> {
    let within = |key: &str, value: &Spanned<u8>, least: usize, most: usize| match *value.get_ref() {
        number if (least..=most).contains(&usize::from(number)) => Ok(number),
        _ => Err(place.value(key, value, &format!("a number from {least} to {most}"))),
    };
    if let Some(since) = since {
        return Err(place.value("depth", &keys.depth, &format!("a queue only with `{since}`")));
    }
    Ok(QueueConfig {
        depth: within("depth", &keys.depth, least, MOST)?,
        units: within("units", &keys.units, 1, 64)?,
        buffers: within("buffers", &keys.buffers, 1, MOST)?,
        order: match keys.order {
            OrderKey::InOrder => Order::InOrder,
            OrderKey::AsLoaded => Order::AsLoaded,
            OrderKey::ReadsFirst => Order::ReadsFirst,
            OrderKey::StarvesOne => Order::StarvesOne,
            OrderKey::NewestFirst => Order::NewestFirst,
        },
    })
}
