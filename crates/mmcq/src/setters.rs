//! Setters for structs that a program fills in: `SdhciConfig::new().fixed(true)`, also in a
//! constant.

/// Makes for each field a method of its name that takes the value and returns the whole struct.
macro_rules! setters {
    ($type:ty { $($field:ident: $value:ty),* $(,)? }) => {
        impl $type {
            $(
                #[doc = concat!("The same with another `", stringify!($field), "`: the field says what it is.")]
                #[must_use]
                pub const fn $field(mut self, $field: $value) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}
