//! The one integration binary of this crate.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests may do what tests may")]

mod calibrate;
mod compared;
mod data;
mod docs;
mod floor;
mod interactions;
mod left_out;
mod pages;
mod phases;
mod plots;
mod processes;
mod profiles;
mod programs;
mod replicas;
mod report_data;
mod report_page;
mod report_profile;
mod report_tables;
mod results_speed;
mod results_store;
mod run;
mod runtimes;
mod search;
mod stores;
mod synthetic;
mod users;
mod verdicts;
