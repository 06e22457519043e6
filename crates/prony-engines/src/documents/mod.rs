//! Documents: indexes and queries over the driver's contract, for key-value engines; queries in the language of an engine that
//! has indexes of its own.

mod compare;
mod filter;
mod find;
mod guard;
mod indexes;
mod order;
mod plan;
mod query;
mod space;

pub(crate) use find::find;
pub use find::{Row, run};
pub use guard::Guard;
pub use indexes::{Entries, Indexed, Indexes, Sum};
pub use query::{Planned, Query};
pub use space::Space;

use crate::driver::EngineError;

/// A stored value that cannot be decoded.
pub(crate) fn no_document(error: &(dyn std::error::Error + Send + Sync)) -> EngineError {
    EngineError::WrongData(format!("a value is no document: {error}"))
}
