//! CMD6 of an SD card: checks and switches functions [SD 4.3.10].

use super::super::registers::put;
use super::config::{SdConfig, Spec};

/// Numbers of the selected functions of groups 1 to 6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Functions(pub(super) [u8; 6]);

/// Returns the supported functions of a group, one bit each. `is_18`: the signal lines have 1.8 V.
fn supported(config: &SdConfig, group: usize, is_18: bool) -> u16 {
    let modes = config.modes;
    let bits = match (group, is_18) {
        (0, false) => 1 | (u16::from(modes.high_speed) << 1),
        (0, true) => u16::from(modes.uhs) | 1,
        // Group 3: driver types B, A, C, D. Group 4: current limits 200, 400, 600 and 800 mA, and
        // on newer cards 500 mA (1.80 W).
        (3, true) if config.spec >= Spec::V4 => 0x1f,
        (2 | 3, true) => 0xf,
        _ => 1,
    };
    bits | 0x8000
}

/// Returns the current in mA that the card needs in bus speed mode `access` with the current limit
/// `limit`.
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

/// Executes CMD6 with the argument `arg`. `now`: the functions that are selected before it;
/// `is_18`: the signal lines have 1.8 V. Returns the status block of 64 bytes, and the functions
/// that are selected afterwards.
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
            // 0xf means no change: the selected function stays.
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
    // Data structure version 1 has busy bits; the model sets none.
    put(&mut status, 375, 368, 1);
    let switches = arg >> 31 == 1 && !refused;
    (status, switches.then_some(next))
}
