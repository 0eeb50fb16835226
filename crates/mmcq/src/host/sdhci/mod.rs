//! SDHCI 3.0 to 4.2.
