//! Settings of the budget-fair scheduler.

use super::super::ConfigError;

/// The settings of [`Fair`](super::Fair).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairConfig<const CLIENTS: usize = 8> {
    pub(super) weights: [u16; CLIENTS],
    pub(super) budget_blocks: u32,
    pub(super) timeout_ns: u64,
    pub(super) idle_ns: u64,
    pub(super) think_ns: u64,
    pub(super) sync_turns: u8,
    pub(super) async_blocks: u32,
}

impl<const CLIENTS: usize> FairConfig<CLIENTS> {
    /// All clients have the weight 100. A turn has at most 4096 blocks (2 MiB) or 40 ms; BFQ has
    /// 125 ms. A card writes 2 MiB in 28 to 40 ms, so equal weights mean about equal time. The card
    /// idles at most 8 ms for a client, and only for clients that think for 2 ms at most. After two
    /// synchronous turns follows an asynchronous turn of 512 blocks.
    pub const DEFAULT: Self = {
        assert!(CLIENTS >= 1 && CLIENTS <= 256);
        FairConfig {
            weights: [100; CLIENTS],
            budget_blocks: 4096,
            timeout_ns: 40_000_000,
            idle_ns: 8_000_000,
            think_ns: 2_000_000,
            sync_turns: 2,
            async_blocks: 512,
        }
    };

    /// Makes settings with these weights by client number, each 1 to 1000. All other settings are
    /// the defaults.
    pub const fn new(weights: [u16; CLIENTS]) -> Result<Self, ConfigError> {
        let mut left: &[u16] = &weights;
        while let [weight, rest @ ..] = left {
            if let Err(error) = ConfigError::check("fair.weight", *weight as u64, 1, 1000) {
                return Err(error);
            }
            left = rest;
        }
        Ok(FairConfig { weights, ..Self::DEFAULT })
    }

    /// Sets the length of a client's turn: `blocks` (1 to 1048576) of 512 bytes, or `timeout_ns` of
    /// card time (1 ms to 10 s), whichever ends first. For a client that transfers fewer blocks in
    /// that time, the scheduler counts the time instead of the blocks.
    pub const fn with_budget(self, blocks: u32, timeout_ns: u64) -> Result<Self, ConfigError> {
        if let Err(error) = ConfigError::check("fair.budget_blocks", blocks as u64, 1, 1 << 20) {
            return Err(error);
        }
        match ConfigError::check("fair.timeout_ns", timeout_ns, 1_000_000, 10_000_000_000) {
            Ok(timeout_ns) => Ok(FairConfig { budget_blocks: blocks, timeout_ns, ..self }),
            Err(error) => Err(error),
        }
    }

    /// Sets how long the card is kept idle for a client that thinks: at most `idle_ns` (0 to 1 s;
    /// 0: never). It is kept idle only for clients whose mean think time is at most `think_ns` (0
    /// to `idle_ns`).
    pub const fn with_idling(self, idle_ns: u64, think_ns: u64) -> Result<Self, ConfigError> {
        if let Err(error) = ConfigError::check("fair.idle_ns", idle_ns, 0, 1_000_000_000) {
            return Err(error);
        }
        match ConfigError::check("fair.think_ns", think_ns, 0, idle_ns) {
            Ok(think_ns) => Ok(FairConfig { idle_ns, think_ns, ..self }),
            Err(error) => Err(error),
        }
    }

    /// Sets when a waiting asynchronous queue gets a turn: after `sync_turns` (1 to 254)
    /// synchronous turns that went before it. That turn has `async_blocks` (1 to 1048576) blocks.
    pub const fn with_async(self, sync_turns: u8, async_blocks: u32) -> Result<Self, ConfigError> {
        if let Err(error) = ConfigError::check("fair.sync_turns", sync_turns as u64, 1, 254) {
            return Err(error);
        }
        match ConfigError::check("fair.async_blocks", async_blocks as u64, 1, 1 << 20) {
            Ok(_) => Ok(FairConfig { sync_turns, async_blocks, ..self }),
            Err(error) => Err(error),
        }
    }
}

impl<const CLIENTS: usize> Default for FairConfig<CLIENTS> {
    fn default() -> Self {
        Self::DEFAULT
    }
}
