//! Conversions between columns and the types of the store.

use std::collections::BTreeMap;

use rusqlite::Row;
use rusqlite::types::{FromSql, Type};

use crate::error::{ErrorKind, StoreError};
use crate::moment::Moment;

/// A moment as it is stored. A moment beyond the range of SQLite's integers means never.
pub(super) fn millis(moment: Moment) -> i64 {
    signed(moment.millis())
}

/// A number as it is stored, at most the maximum of SQLite's integers.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A limit as it is stored.
pub(super) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// A map of texts as it is stored: a JSON object.
pub(super) fn json(map: &BTreeMap<String, String>) -> Result<String, StoreError> {
    serde_json::to_string(map)
        .map_err(|error| StoreError::new(ErrorKind::Invalid, error.to_string()).caused_by(error))
}

/// Reads a map of texts.
pub(super) fn map(row: &Row<'_>, column: usize) -> rusqlite::Result<BTreeMap<String, String>> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
    })
}

/// Reads a moment.
pub(super) fn moment(row: &Row<'_>, column: usize) -> rusqlite::Result<Moment> {
    Ok(Moment::from_millis(count(row, column)?))
}

/// Reads a moment that may be NULL.
pub(super) fn optional_moment(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Moment>> {
    row.get::<_, Option<i64>>(column)?.map(|_| moment(row, column)).transpose()
}

/// Reads a number that is never negative.
pub(super) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let count: i64 = row.get(column)?;
    Ok(u64::try_from(count).unwrap_or_default())
}

/// Reads the first column.
pub(super) fn first<T: FromSql>(row: &Row<'_>) -> rusqlite::Result<T> {
    row.get(0)
}
