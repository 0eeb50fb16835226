//! The table `[queue]`: the command queue of an eMMC.

use serde::Deserialize;
use toml::Spanned;

use super::super::emmc::config::Revision;
use super::super::queue::{MOST, Order, QueueConfig};
use super::ProfileError;
use super::parse::Place;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueKeys {
    pub(super) source: String,
    /// Tasks.
    depth: Spanned<u8>,
    /// Units of the flash that read at the same time.
    units: Spanned<u8>,
    /// Tasks that can be loaded, or ready, at a time.
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
}

impl QueueKeys {
    /// The table stands beside `[sd]`.
    pub(super) fn only_emmc(&self, place: &Place<'_>) -> ProfileError {
        place.value("depth", &self.depth, "a table [queue] only beside [emmc]")
    }
}

pub(super) fn config(
    place: &Place<'_>,
    keys: &QueueKeys,
    revision: Revision,
) -> Result<QueueConfig, ProfileError> {
    let within = |key: &str, value: &Spanned<u8>, most: usize| match *value.get_ref() {
        number if (1..=most).contains(&usize::from(number)) => Ok(number),
        _ => Err(place.value(key, value, &format!("a number from 1 to {most}"))),
    };
    if revision < Revision::V5_1 {
        return Err(place.value("depth", &keys.depth, "a queue only with `revision = \"5.1\"`"));
    }
    Ok(QueueConfig {
        depth: within("depth", &keys.depth, MOST)?,
        units: within("units", &keys.units, 64)?,
        buffers: within("buffers", &keys.buffers, MOST)?,
        order: match keys.order {
            OrderKey::InOrder => Order::InOrder,
            OrderKey::AsLoaded => Order::AsLoaded,
            OrderKey::ReadsFirst => Order::ReadsFirst,
            OrderKey::StarvesOne => Order::StarvesOne,
        },
    })
}
