//! The one integration binary of this crate.

mod compared;
mod programs;
mod report_data;
mod report_tables;
mod results_speed;
mod results_store;
mod synthetic;
mod verdicts;
