//! The one integration binary of this crate.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail as the test does")]

mod compared;
mod pages;
mod report_data;
mod report_page;
mod report_tables;
mod results_speed;
mod results_store;
mod synthetic;
mod verdicts;
