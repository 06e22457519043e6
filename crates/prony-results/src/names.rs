//! Names and texts that many rows share: each is stored once and referenced by its number.

use std::collections::BTreeMap;

use prony_model::reading::Why;
use prony_model::record::MetricKeyText;
use rusqlite::{OptionalExtension, ToSql, Transaction, params};
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

use super::run::RunId;

/// More reasons than this are not remembered: there are many with instants or amounts in them.
const MOST_REASONS: usize = 256;

/// Numbers of names that were used already: a name keeps its number.
#[derive(Debug, Default)]
pub(super) struct Names {
    instances: BTreeMap<String, i64>,
    metrics: BTreeMap<MetricKeyText, i64>,
    reasons: Vec<(Why, i64)>,
}

impl Names {
    /// Of an instance.
    pub(super) fn instance(&mut self, tx: &Transaction<'_>, name: &str) -> rusqlite::Result<i64> {
        if let Some(id) = self.instances.get(name) {
            return Ok(*id);
        }
        let (find, insert) = ("SELECT id FROM instances WHERE name = ?1", "INSERT INTO instances (name) VALUES (?1)");
        let id = number(tx, find, insert, &[&name])?;
        self.instances.insert(name.to_owned(), id);
        Ok(id)
    }

    /// Of a metric.
    pub(super) fn metric(&mut self, tx: &Transaction<'_>, key: MetricKeyText) -> rusqlite::Result<i64> {
        if let Some(id) = self.metrics.get(&key) {
            return Ok(*id);
        }
        let unit = serde_json::to_value(key.0.metric.unit()).unwrap_or_default();
        let unit = unit.as_str().unwrap_or_default();
        let (find, insert) =
            ("SELECT id FROM metrics WHERE name = ?1", "INSERT INTO metrics (name, unit) VALUES (?1, ?2)");
        let id = number(tx, find, insert, &[&key.0.to_string(), &unit])?;
        self.metrics.insert(key, id);
        Ok(id)
    }

    /// Of a reason.
    pub(super) fn reason(&mut self, tx: &Transaction<'_>, why: &Why) -> rusqlite::Result<i64> {
        if let Some((_, id)) = self.reasons.iter().find(|(known, _)| known == why) {
            return Ok(*id);
        }
        let (find, insert) = ("SELECT id FROM reasons WHERE name = ?1", "INSERT INTO reasons (name) VALUES (?1)");
        let id = number(tx, find, insert, &[&json(why)?])?;
        if self.reasons.len() >= MOST_REASONS {
            self.reasons.clear();
        }
        self.reasons.push((why.clone(), id));
        Ok(id)
    }
}

/// The number of a text in a table of them, equal for equal texts of a run.
pub(super) fn intern(tx: &Transaction<'_>, table: &str, run: RunId, body: &str) -> rusqlite::Result<i64> {
    let hash = xxh3_64(body.as_bytes()) as i64;
    let known = tx
        .prepare_cached(&format!("SELECT id FROM {table} WHERE run = ?1 AND hash = ?2 AND body = ?3"))?
        .query_row(params![run.0, hash, body], |row| row.get(0))
        .optional()?;
    if let Some(id) = known {
        return Ok(id);
    }
    tx.prepare_cached(&format!("INSERT INTO {table} (run, hash, body) VALUES (?1, ?2, ?3)"))?
        .insert(params![run.0, hash, body])
}

/// The number of a name, which is inserted where it has none. The name is the first value.
fn number(tx: &Transaction<'_>, find: &str, insert: &str, values: &[&dyn ToSql]) -> rusqlite::Result<i64> {
    let known = tx.prepare_cached(find)?.query_row(&values[..1], |row| row.get(0)).optional()?;
    if let Some(id) = known {
        return Ok(id);
    }
    tx.prepare_cached(insert)?.insert(values)
}

/// A value as the JSON of a column.
pub(super) fn json(value: &impl Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))
}
