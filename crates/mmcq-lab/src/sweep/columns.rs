//! Rows of a sweep as columns with types, and their file format Parquet.

use super::Row;
use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use serde_json::Value;
use std::io::{BufRead, Write};
use std::sync::Arc;

/// Number of rows in a group. Readers can skip whole groups; the writer keeps one group in memory.
const GROUP_ROWS: usize = 1 << 16;

/// Type of the values in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The type of a column in which all values are missing.
    Empty,
    Integer,
    Number,
    Text,
}

impl Kind {
    fn of(value: &Value) -> Self {
        match value {
            Value::Null => Kind::Empty,
            Value::Number(number) if number.is_i64() => Kind::Integer,
            Value::Number(_) => Kind::Number,
            _ => Kind::Text,
        }
    }

    /// Returns the type of a column that can store the values of both types.
    fn join(self, other: Kind) -> Self {
        match (self, other) {
            (Kind::Empty, kind) | (kind, Kind::Empty) => kind,
            (a, b) if a == b => a,
            (Kind::Text, _) | (_, Kind::Text) => Kind::Text,
            _ => Kind::Number,
        }
    }
}

/// Reason why rows cannot be written as columns.
#[derive(Debug, thiserror::Error)]
pub enum ColumnError {
    /// A line is not a row, or has other columns than the first line; the field is the line's
    /// number.
    #[error("line {0}: not a row of these columns")]
    Row(u64),
    /// The rows cannot be read.
    #[error(transparent)]
    Read(#[from] std::io::Error),
    /// The file cannot be written.
    #[error("{0}")]
    Write(#[from] ParquetError),
}

/// Names and types of all columns that the rows of a sweep have.
struct Columns(Vec<(String, Kind)>);

impl Columns {
    /// Determines names and types of the columns from rows, which are one JSON object per line.
    fn of(lines: impl BufRead) -> Result<Self, ColumnError> {
        let mut columns: Vec<(String, Kind)> = Vec::new();
        for row in rows(lines) {
            let (at, row) = row?;
            if columns.is_empty() {
                columns = row.iter().map(|(name, _)| (name.clone(), Kind::Empty)).collect();
            }
            let same = columns.iter().map(|(name, _)| name).eq(row.iter().map(|(name, _)| name));
            if !same {
                return Err(ColumnError::Row(at));
            }
            for ((_, kind), (_, value)) in columns.iter_mut().zip(&row) {
                *kind = kind.join(Kind::of(value));
            }
        }
        Ok(Columns(columns))
    }

    fn schema(&self) -> Result<Type, ParquetError> {
        let field = |(name, kind): &(String, Kind)| {
            let (physical, logical, converted) = match kind {
                Kind::Integer => (Physical::INT64, None, ConvertedType::NONE),
                Kind::Number => (Physical::DOUBLE, None, ConvertedType::NONE),
                Kind::Text | Kind::Empty => {
                    (Physical::BYTE_ARRAY, Some(LogicalType::String), ConvertedType::UTF8)
                }
            };
            let field = Type::primitive_type_builder(name, physical);
            let field = field.with_repetition(Repetition::OPTIONAL).with_logical_type(logical);
            field.with_converted_type(converted).build().map(Arc::new)
        };
        let fields = self.0.iter().map(field).collect::<Result<_, _>>()?;
        Type::group_type_builder("rows").with_fields(fields).build()
    }

    fn write_group<W: Write + Send>(
        &self,
        rows: &[Row],
        mut group: SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        for (at, (_, kind)) in self.0.iter().enumerate() {
            let values = rows.iter().map(|row| &row[at].1);
            match kind {
                Kind::Integer => column::<Int64Type, _>(&mut group, values.map(Value::as_i64))?,
                Kind::Number => column::<DoubleType, _>(&mut group, values.map(Value::as_f64))?,
                Kind::Text | Kind::Empty => column::<ByteArrayType, _>(&mut group, values.map(text))?,
            }
        }
        group.close().map(|_| ())
    }
}

/// Returns a value for a column of text; `None`: the value is missing.
fn text(value: &Value) -> Option<ByteArray> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.as_str().into()),
        other => Some(other.to_string().as_str().into()),
    }
}

/// Writes the values of the next column of a group of rows.
fn column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: impl Iterator<Item = Option<T::T>>,
) -> Result<(), ParquetError> {
    let values: Vec<Option<T::T>> = values.collect();
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let there: Vec<T::T> = values.into_iter().flatten().collect();
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    column.typed::<T>().write_batch(&there, Some(&levels), None)?;
    column.close()
}

/// Reads rows, one JSON object per line. Each is returned with the number of its line.
fn rows(lines: impl BufRead) -> impl Iterator<Item = Result<(u64, Row), ColumnError>> {
    (1..).zip(lines.lines()).map(|(at, line)| match serde_json::from_str(&line?) {
        Ok(Value::Object(row)) => Ok((at, row.into_iter().collect())),
        _ => Err(ColumnError::Row(at)),
    })
}

/// Writes rows (one JSON object per line) as Parquet: columns of integers, numbers or text, all of
/// them optional, compressed by Snappy. `lines` opens the rows and is called twice. Returns the
/// number of rows.
///
/// # Errors
/// A line is not a row or has other columns than the first, or a file cannot be read or written.
pub fn parquet<R: BufRead>(
    mut lines: impl FnMut() -> std::io::Result<R>,
    out: impl Write + Send,
) -> Result<u64, ColumnError> {
    let columns = Columns::of(lines()?)?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut file = SerializedFileWriter::new(out, Arc::new(columns.schema()?), Arc::new(properties))?;
    let (mut group, mut count) = (Vec::new(), 0);
    for row in rows(lines()?) {
        group.push(row?.1);
        count += 1;
        if group.len() == GROUP_ROWS {
            columns.write_group(&group, file.next_row_group()?)?;
            group.clear();
        }
    }
    if !group.is_empty() {
        columns.write_group(&group, file.next_row_group()?)?;
    }
    file.close()?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    const ROWS: &str = concat!(
        "{\"point\":0,\"rate\":1,\"bs\":\"4k\",\"error\":null}\n",
        "{\"point\":1,\"rate\":2.5,\"bs\":8,\"error\":null}\n",
        "{\"point\":2,\"rate\":null,\"bs\":\"1M\",\"error\":null}\n",
    );

    #[test]
    fn each_column_has_the_type_that_holds_its_values() {
        let mut file = Vec::new();
        assert_eq!(parquet(|| Ok(ROWS.as_bytes()), &mut file).unwrap(), 3);
        let reader = SerializedFileReader::new(parquet_bytes(file)).unwrap();
        let read: Vec<String> =
            reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(
            read,
            [
                "{point: 0, rate: 1.0, bs: \"4k\", error: null}",
                "{point: 1, rate: 2.5, bs: \"8\", error: null}",
                "{point: 2, rate: null, bs: \"1M\", error: null}",
            ]
        );
    }

    fn parquet_bytes(file: Vec<u8>) -> std::fs::File {
        let mut place = tempfile::tempfile().unwrap();
        place.write_all(&file).unwrap();
        place
    }

    #[test]
    fn a_line_that_is_no_row_is_named() {
        for (bad, line) in [("{\"point\":0}\n{\"other\":1}\n", 2), ("{\"point\":0}\n{\"poi", 2), ("7\n", 1)] {
            let error = parquet(|| Ok(bad.as_bytes()), Vec::new()).unwrap_err();
            assert!(matches!(error, ColumnError::Row(at) if at == line), "{bad}: {error}");
        }
    }
}
