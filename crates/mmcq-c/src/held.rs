//! An option whose empty value is all zeros.
//!
//! `Option` may put its `None` into any spare value of what it holds, such as a 3 in an enum. A
//! static with one byte that is not zero is in `.data`, so firmware would have it in flash and in
//! RAM. The statics of this crate are in `.bss`.

/// A value, or nothing.
#[derive(Clone, Copy, Debug, Default)]
#[repr(u8)]
pub(crate) enum Held<T> {
    /// No value.
    #[default]
    Nothing = 0,
    /// A value.
    Value(T) = 1,
}

impl<T> Held<T> {
    /// Returns the value.
    pub fn into_option(self) -> Option<T> {
        match self {
            Held::Nothing => None,
            Held::Value(value) => Some(value),
        }
    }
}

impl<T> From<Option<T>> for Held<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Held::Nothing, Held::Value)
    }
}
