//! Messages for `log` and `defmt`, where a program switches these features on. Without them nothing
//! is left of a message but the borrow of its values, which compiles to nothing.

/// One message, at a level that both crates have. The text is one that both understand.
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
