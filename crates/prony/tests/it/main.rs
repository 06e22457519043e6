//! The one integration binary of this crate.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests may do what tests may")]

mod budgets;
mod calibrate;
mod compared;
mod copies;
mod data;
mod docs;
mod exec;
mod failures;
mod floor;
mod hostile;
mod hostile_files;
mod interactions;
mod json_document;
mod left_out;
mod pages;
mod phases;
mod plots;
mod processes;
mod profiles;
mod programs;
mod records;
mod replicas;
mod report_data;
mod report_page;
mod report_profile;
mod report_tables;
mod results_speed;
mod results_store;
mod resumed;
mod run;
mod runtimes;
mod scripts;
mod search;
mod shells;
mod starting;
mod stores;
mod synthetic;
mod users;
mod verdicts;
