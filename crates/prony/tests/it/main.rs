//! The one integration binary of this crate.

mod results_speed;
mod results_store;
mod synthetic;
