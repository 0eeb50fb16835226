//! Reads a TOML document into a type, and says at which bytes of the text a fault is.
//!
//! The crate `toml` parses the text; this module hands to serde what was parsed. `toml::from_str`
//! does both, but compiles the code of each type for three kinds of tables and for everything that
//! TOML can express, whatever the type wants: two thirds of this crate's machine code. Here a type
//! is compiled for what it wants, and for one kind of table.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, EnumAccess, Expected, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Fault of a document: what is wrong, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Error(Box<Fault>);

#[derive(Clone, Debug, PartialEq)]
struct Fault {
    message: String,
    span: Option<Range<usize>>,
}

impl Error {
    #[cold]
    #[inline(never)]
    fn new(message: String, span: Option<Range<usize>>) -> Self {
        Self(Box::new(Fault { message, span }))
    }

    /// Returns the fault in one sentence, without its place.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the bytes of the text that the fault is about; `None` if it has no place.
    #[must_use]
    pub fn span(&self) -> Option<Range<usize>> {
        self.0.span.clone()
    }

    /// Returns the number of the line of `text` where the fault is, from 1; 1 if it has no place.
    #[must_use]
    pub fn line(&self, text: &str) -> usize {
        let start = self.0.span.as_ref().map_or(0, |span| span.start.min(text.len()));
        1 + text.bytes().take(start).filter(|byte| *byte == b'\n').count()
    }

    /// Sets the place of a fault that has none.
    #[cold]
    #[inline(never)]
    fn at(mut self, span: Range<usize>) -> Self {
        self.0.span.get_or_insert(span);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string(), None)
    }
}

/// Reads a document into a type.
///
/// # Errors
/// The text is no TOML, or does not have what the type wants.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    let table = DeTable::parse(text).map_err(|error| syntax(&error, text))?;
    let value = Spanned::new(table.span(), DeValue::Table(table.into_inner()));
    T::deserialize(Value::Parsed(&value)).map_err(|error| error.at(value.span()))
}

/// Returns the fault of a text that is no TOML. If a key occurs twice, the fault names it.
#[must_use]
pub fn syntax(error: &toml::de::Error, text: &str) -> Error {
    let key = error.span().and_then(|span| text.get(span));
    let message = match key {
        Some(key) if error.message() == "duplicate key" => format!("duplicate key `{}`", key.trim()),
        _ => error.message().to_owned(),
    };
    Error::new(message, error.span())
}

/// What is read: a value of the document, or one end of the span that a [`Spanned`] wants.
#[derive(Clone, Copy)]
enum Value<'t> {
    Parsed(&'t Spanned<DeValue<'t>>),
    End(usize),
}

/// A value that is neither array nor table.
enum Scalar<'t> {
    Text(&'t str),
    Truth(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
}

impl<'t> Value<'t> {
    fn place(self, error: Error) -> Error {
        match self {
            Self::Parsed(value) => error.at(value.span()),
            Self::End(_) => error,
        }
    }

    /// Returns the value as a scalar; `expected` says in the error what is wanted.
    #[inline(never)]
    fn scalar(self, expected: &dyn Expected) -> Result<Scalar<'t>, Error> {
        let value = match self {
            Self::End(at) => return Ok(Scalar::Unsigned(at as u64)),
            Self::Parsed(value) => value.get_ref(),
        };
        let overflow = |kind: &str| self.place(Error::new(format!("{kind} number overflowed"), None));
        match value {
            DeValue::String(text) => Ok(Scalar::Text(text)),
            DeValue::Boolean(truth) => Ok(Scalar::Truth(*truth)),
            DeValue::Integer(digits) => {
                let (text, radix) = (digits.as_str(), digits.radix());
                let signed = i64::from_str_radix(text, radix).map(Scalar::Signed);
                signed
                    .or_else(|_| u64::from_str_radix(text, radix).map(Scalar::Unsigned))
                    .map_err(|_| overflow("integer"))
            }
            DeValue::Float(digits) => match digits.as_str().parse::<f64>() {
                Ok(number) if !number.is_infinite() || digits.as_str().contains("inf") => {
                    Ok(Scalar::Float(number))
                }
                _ => Err(overflow("floating-point")),
            },
            DeValue::Array(_) | DeValue::Table(_) | DeValue::Datetime(_) => Err(self.unexpected(expected)),
        }
    }

    /// Returns the error for a value of a type that is not wanted.
    #[cold]
    #[inline(never)]
    fn unexpected(self, expected: &dyn Expected) -> Error {
        let kind = match self {
            Self::Parsed(value) if value.get_ref().is_array() => Unexpected::Seq,
            Self::Parsed(value) if value.get_ref().is_table() || value.get_ref().is_datetime() => {
                Unexpected::Map
            }
            _ => match self.scalar(expected) {
                Ok(Scalar::Text(text)) => Unexpected::Str(text),
                Ok(Scalar::Truth(truth)) => Unexpected::Bool(truth),
                Ok(Scalar::Signed(number)) => Unexpected::Signed(number),
                Ok(Scalar::Unsigned(number)) => Unexpected::Unsigned(number),
                Ok(Scalar::Float(number)) => Unexpected::Float(number),
                Err(error) => return error,
            },
        };
        self.place(de::Error::invalid_type(kind, expected))
    }

    /// Returns the entries of a table; `expected` says in the error what is wanted.
    #[inline(never)]
    fn entries(self, expected: &dyn Expected) -> Result<Entries<'t>, Error> {
        let table = match self {
            Self::Parsed(value) => value.get_ref().as_table(),
            Self::End(_) => None,
        };
        let left = Left::Table(table.ok_or_else(|| self.unexpected(expected))?.iter());
        Ok(Entries { left, value: None })
    }

    /// Returns what a [`Spanned`] with these fields wants of the value: start, end, and the value.
    fn with_span(self, fields: &'static [&'static str]) -> Entries<'t> {
        let span = match self {
            Self::Parsed(value) => value.span(),
            Self::End(at) => at..at,
        };
        let parts = fields.iter().zip([Self::End(span.start), Self::End(span.end), self]);
        Entries { left: Left::Span(parts), value: None }
    }

    /// Returns the values of an array; `expected` says in the error what is wanted.
    #[inline(never)]
    fn values(self, expected: &dyn Expected) -> Result<Values<'t>, Error> {
        let array = match self {
            Self::Parsed(value) => value.get_ref().as_array(),
            Self::End(_) => None,
        };
        Ok(Values(array.ok_or_else(|| self.unexpected(expected))?.iter()))
    }

    /// Returns the variant of an enum: its name as a text, or a table with it as the only key.
    #[inline(never)]
    fn variant(self) -> Result<Variant<'t>, Error> {
        let Self::Parsed(value) = self else {
            return Err(Error::new("wanted string or table".into(), None));
        };
        let wrong = |message: &str| Err(Error::new(message.into(), Some(value.span())));
        match value.get_ref() {
            DeValue::String(name) => Ok(Variant { name, at: value.span(), value: None }),
            DeValue::Table(table) => match (table.iter().next(), table.len()) {
                (Some((name, value)), 1) => {
                    Ok(Variant { name: name.get_ref(), at: name.span(), value: Some(Self::Parsed(value)) })
                }
                (None, _) => wrong("wanted exactly 1 element, found 0 elements"),
                _ => wrong("wanted exactly 1 element, more than 1 element"),
            },
            _ => wrong("wanted string or table"),
        }
    }
}

/// Methods of a deserializer for types that want a scalar.
macro_rules! scalars {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.scalar(&visitor)? {
                Scalar::Text(text) => visitor.visit_str(text),
                Scalar::Truth(truth) => visitor.visit_bool(truth),
                Scalar::Signed(number) => visitor.visit_i64(number),
                Scalar::Unsigned(number) => visitor.visit_u64(number),
                Scalar::Float(number) => visitor.visit_f64(number),
            }
            .map_err(|error| self.place(error))
        }
    )*};
}

impl<'de> de::Deserializer<'de> for Value<'de> {
    type Error = Error;

    scalars! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32
        deserialize_f64 deserialize_char deserialize_str deserialize_string deserialize_identifier
        deserialize_bytes deserialize_byte_buf deserialize_unit
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Self::Parsed(value) if value.get_ref().is_table() => self.deserialize_map(visitor),
            Self::Parsed(value) if value.get_ref().is_array() => self.deserialize_seq(visitor),
            _ => self.deserialize_str(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let values = self.values(&visitor)?;
        visitor.visit_seq(values).map_err(|error| self.place(error))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let entries = self.entries(&visitor)?;
        visitor.visit_map(entries).map_err(|error| self.place(error))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let entries = match serde_spanned::de::is_spanned(name) {
            true => self.with_span(fields),
            false => self.entries(&visitor)?,
        };
        visitor.visit_map(entries).map_err(|error| self.place(error))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let variant = self.variant()?;
        visitor.visit_enum(variant).map_err(|error| self.place(error))
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }
}

/// Entries of a table, or the parts of a [`Spanned`], in their order.
struct Entries<'t> {
    left: Left<'t>,
    /// Value of the key that was read last.
    value: Option<Value<'t>>,
}

/// The entries or parts that are left.
enum Left<'t> {
    Table(toml::map::Iter<'t, Spanned<Cow<'t, str>>, Spanned<DeValue<'t>>>),
    Span(std::iter::Zip<std::slice::Iter<'static, &'static str>, std::array::IntoIter<Value<'t>, 3>>),
}

impl<'t> Entries<'t> {
    /// Returns the next key with its place, and keeps its value.
    fn next_key(&mut self) -> Option<(&'t str, Option<Range<usize>>)> {
        let (key, at, value) = match &mut self.left {
            Left::Table(entries) => {
                let (key, value) = entries.next()?;
                (key.get_ref().as_ref(), Some(key.span()), Value::Parsed(value))
            }
            Left::Span(parts) => {
                let (key, value) = parts.next()?;
                (*key, None, value)
            }
        };
        self.value = Some(value);
        Some((key, at))
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, at)) = self.next_key() else { return Ok(None) };
        match (seed.deserialize(BorrowedStrDeserializer::<Error>::new(key)), at) {
            (Err(error), Some(at)) => Err(error.at(at)),
            (key, _) => key.map(Some),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        // The contract of serde: a key was read before.
        match self.value.take() {
            Some(value) => seed.deserialize(value).map_err(|error| value.place(error)),
            None => Err(Error::new("a value without a key".into(), None)),
        }
    }
}

/// Values of an array, in their order.
struct Values<'t>(std::slice::Iter<'t, Spanned<DeValue<'t>>>);

impl<'de> SeqAccess<'de> for Values<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(value) = self.0.next().map(Value::Parsed) else { return Ok(None) };
        seed.deserialize(value).map(Some).map_err(|error| value.place(error))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// Variant of an enum: its name, and the value of a variant that has one.
struct Variant<'t> {
    name: &'t str,
    at: Range<usize>,
    value: Option<Value<'t>>,
}

impl<'t> Variant<'t> {
    fn value(self, wanted: &str) -> Result<Value<'t>, Error> {
        self.value.ok_or_else(|| {
            let expected: &dyn Expected = &wanted;
            <Error as de::Error>::invalid_type(Unexpected::UnitVariant, expected).at(self.at)
        })
    }
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        match seed.deserialize(BorrowedStrDeserializer::<Error>::new(self.name)) {
            Ok(name) => Ok((name, self)),
            Err(error) => Err(error.at(self.at)),
        }
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        match self.value {
            None => Ok(()),
            Some(Value::Parsed(value))
                if value.get_ref().as_table().is_some_and(|table| table.is_empty()) =>
            {
                Ok(())
            }
            Some(value) => Err(value.unexpected(&"an empty table")),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.value("newtype variant")?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        let value = self.value("tuple variant")?;
        if value.values(&visitor)?.0.len() != len {
            return Err(value.place(Error::new(format!("expected tuple with length {len}"), None)));
        }
        de::Deserializer::deserialize_seq(value, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let value = self.value("struct variant")?;
        let mut entries = value.entries(&visitor)?;
        while let Some((key, at)) = entries.next_key() {
            if !fields.contains(&key) {
                let known = fields.join(", ");
                let message = format!("unexpected keys in table: {key}, available keys: {known}");
                return Err(Error::new(message, at));
            }
        }
        de::Deserializer::deserialize_map(value, visitor)
    }
}

#[cfg(test)]
mod tests;
