//! `points.parquet`: the columns of `points.csv`, for tools that read tables by column.
//!
//! One row group, no compression: columns of few values are dictionaries anyway. Same points, same bytes.

use crate::StudyError;
use crate::journal::{Manifest, Points};
use crate::results::{PointRow, rows};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::sync::Arc;

const SCHEMA: &str = "message points {
    required binary scenario (UTF8);
    required binary scheme (UTF8);
    required double utilization;
    required int32 systems;
    required int32 schedulable;
    required double ci_low;
    required double ci_high;
}";

/// The bytes of the file.
///
/// # Errors
/// When the manifest names what does not exist.
pub fn points(manifest: &Manifest, points: &Points) -> Result<Vec<u8>, StudyError> {
    let rows = rows(manifest, points)?;
    encode(&rows).map_err(|e| StudyError::Input(format!("points.parquet: {e}; report this, the other files are whole")))
}

fn encode(rows: &[PointRow]) -> Result<Vec<u8>, ParquetError> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = Arc::new(WriterProperties::builder().build());
    let mut bytes = Vec::new();
    let mut file = SerializedFileWriter::new(&mut bytes, schema, properties)?;
    let mut group = file.next_row_group()?;
    let whole = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    column::<ByteArrayType>(&mut group, rows, |r| ByteArray::from(r.scenario.to_string().into_bytes()))?;
    column::<ByteArrayType>(&mut group, rows, |r| ByteArray::from(r.scheme.as_bytes().to_vec()))?;
    column::<DoubleType>(&mut group, rows, |r| f64::from(r.milli) / 1000.0)?;
    column::<Int32Type>(&mut group, rows, |r| whole(r.systems))?;
    column::<Int32Type>(&mut group, rows, |r| whole(r.schedulable))?;
    column::<DoubleType>(&mut group, rows, |r| r.interval.0)?;
    column::<DoubleType>(&mut group, rows, |r| r.interval.1)?;
    group.close()?;
    file.close()?;
    Ok(bytes)
}

fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    rows: &[PointRow],
    value: impl Fn(&PointRow) -> T::T,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    let values: Vec<T::T> = rows.iter().map(value).collect();
    column.typed::<T>().write_batch(&values, None, None)?;
    column.close()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scenario;
    use crate::journal::Point;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    use solocore_planner::levels::optimiser::Scheme;

    #[test]
    fn a_reader_finds_what_was_written() {
        let scenario = Scenario::from_index(5).unwrap();
        let schemes: Vec<Scheme> = Scheme::paper().collect();
        let manifest = Manifest::new(String::new(), 1, &schemes, &[scenario], vec![200, 400], None);
        let mut found = Points::new();
        for milli in [200, 400] {
            found.insert((scenario, milli), Point { systems: 40, undecided: 0, schedulable: (20..29).collect() });
        }
        let bytes = points(&manifest, &found).unwrap();
        assert_eq!(bytes, points(&manifest, &found).unwrap());
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 18);
        assert_eq!(rows[3].get_string(0).unwrap(), &scenario.to_string());
        assert_eq!(rows[3].get_string(1).unwrap(), "C|C");
        assert_eq!((rows[3].get_double(2).unwrap(), rows[3].get_int(4).unwrap()), (0.4, 21));
    }
}
