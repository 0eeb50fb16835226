//! CMD6: check and switch functions [SD 4.3.10].

use super::super::registers::put;
use super::config::{SdConfig, Spec};

/// Selected functions of groups 1 to 6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Functions(pub(super) [u8; 6]);

/// Returns the supported functions of a group at this signalling level, one bit each.
fn supported(config: &SdConfig, group: usize, is_18: bool) -> u16 {
    let modes = config.modes;
    let bits = match (group, is_18) {
        (0, false) => 1 | (u16::from(modes.high_speed) << 1),
        (0, true) => u16::from(modes.uhs) | 1,
        // Driver types B, A, C, D; current limits 200, 400, 600, 800 mA, and 500 mA (1.80 W) of
        // newer cards.
        (3, true) if config.spec >= Spec::V4 => 0x1f,
        (2 | 3, true) => 0xf,
        _ => 1,
    };
    bits | 0x8000
}

/// Returns the current in mA of bus speed mode `access` under current limit `limit`.
fn current_ma(access: u8, limit: u8) -> u64 {
    let wanted = match access {
        0 => 100,
        1 => 200,
        3 => 800,
        _ => 400,
    };
    let most = match limit {
        4 => 500,
        step => 200 * (u64::from(step) + 1),
    };
    wanted.min(most)
}

/// Executes CMD6. Returns the 64 bytes of status, and the selected functions afterwards if the
/// argument switches.
pub(super) fn switch(
    config: &SdConfig,
    now: Functions,
    is_18: bool,
    arg: u32,
) -> ([u8; 64], Option<Functions>) {
    let mut status = [0u8; 64];
    let mut next = now;
    let mut refused = false;
    for (group, chosen) in next.0.iter_mut().enumerate() {
        let bits = supported(config, group, is_18);
        put(&mut status, 415 + 16 * group, 400 + 16 * group, bits.into());
        let wanted = (arg >> (4 * group)) as u8 & 0xf;
        let shown = match wanted {
            // No influence: what is selected stays.
            0xf => *chosen,
            function if bits >> function & 1 == 1 => {
                *chosen = function;
                function
            }
            _ => {
                refused = true;
                0xf
            }
        };
        put(&mut status, 379 + 4 * group, 376 + 4 * group, shown.into());
    }
    if !refused {
        put(&mut status, 511, 496, current_ma(next.0[0], next.0[3]));
    }
    // Structure version 1: busy bits are there, and none is set.
    put(&mut status, 375, 368, 1);
    let switches = arg >> 31 == 1 && !refused;
    (status, switches.then_some(next))
}
