//! Records and documents, key orders, mixes, arrival schedules: pure functions of number and seed.
//!
//! Nothing here keeps a list of the records, of generated ones nor of a file's: memory is bounded whatever their count, and the same
//! specification and seed give the same bytes and the same operations again. Draws that need
//! logarithms or powers (zipfian, log-normal, Poisson) use the platform's mathematics library and
//! may differ in a rare last place between platforms.

mod client_share;
mod digest;
mod distinct;
mod document;
mod key;
mod key_order;
mod mix;
mod numbered_text;
mod pass;
mod permutation;
mod phase_seed;
mod positions;
mod quotes;
mod records;
mod rows;
mod schedule;
mod size;
mod survey;
#[cfg(test)]
mod tests;
mod value;
mod zipf;

pub use client_share::Share;
pub use digest::{Digest, touch};
pub use distinct::Distinct;
pub use document::{decode, encode};
pub use mix::{Mix, Operation};
pub use numbered_text::write_decimal;
pub use pass::RowsError;
pub use phase_seed::phase_seed;
pub use positions::Positions;
pub use records::Records;
pub use schedule::{Lag, Schedule, leaves_out};
pub use survey::survey;
