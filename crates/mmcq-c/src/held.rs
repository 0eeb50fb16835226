//! An option whose empty state is all zeros, so that a static of this type is in `.bss`.
//!
//! `Option` may represent `None` by any value that its content never has, such as 3 in an enum of
//! three variants. If one byte of a static is not zero, the static is in `.data`, so it takes flash
//! and RAM. With this type the statics of this crate are in `.bss`.

/// A value or nothing, as in an `Option`. The tag of the empty state is 0, so a static that is
/// empty at first is in `.bss` and takes no flash.
#[derive(Clone, Copy, Debug, Default)]
#[repr(u8)]
pub(crate) enum Held<T> {
    /// The empty state, like `None`.
    #[default]
    Nothing = 0,
    /// Holds this value.
    Value(T) = 1,
}

impl<T> Held<T> {
    /// Returns the value as an `Option`.
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
