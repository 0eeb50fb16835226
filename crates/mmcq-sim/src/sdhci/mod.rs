//! SDHCI by register.
