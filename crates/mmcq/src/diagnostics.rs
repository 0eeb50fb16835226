//! Messages for the crates `log` and `defmt`, if the program enables the features of these names.
//! Without these features a message compiles to nothing.

/// Writes one message by `log` or `defmt`, at a level and in a format that both have.
macro_rules! message {
    ($level:ident, $text:literal $(, $value:expr)* $(,)?) => {{
        #[cfg(feature = "log")]
        ::log::$level!($text $(, $value)*);
        #[cfg(feature = "defmt")]
        ::defmt::$level!($text $(, $value)*);
        #[cfg(not(any(feature = "log", feature = "defmt")))]
        let _ = ($(&$value,)*);
    }};
}
