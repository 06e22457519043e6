//! Records, key orders, mixes, arrival schedules: pure functions of number and seed.
//!
//! Nothing here keeps a list of the records: memory is bounded whatever their count, and the same
//! specification and seed give the same bytes and the same operations again. Draws that need
//! logarithms or powers (zipfian, log-normal, Poisson) use the platform's mathematics library and
//! may differ in a rare last place between platforms.

#[cfg(test)]
mod chi;
mod digest;
mod distinct;
mod key;
mod key_order;
mod mix;
mod permutation;
mod positions;
mod records;
mod schedule;
mod share;
mod size;
mod text;
mod value;
mod zipf;

pub use digest::{Digest, touch};
pub use distinct::Distinct;
pub use key::key_capacity;
pub use mix::{Mix, Operation};
pub use positions::Positions;
pub use records::Records;
pub use schedule::Schedule;
pub use share::Share;
pub use zipf::{Zipfian, theta_is_valid, zeta};
