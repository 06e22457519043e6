//! Documents on key-value engines: queries over the driver's contract.

mod compare;
mod filter;
mod find;
mod query;

pub(crate) use find::find;
pub use find::{Row, run};
pub use query::Query;
