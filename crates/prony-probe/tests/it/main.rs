//! The probe against real processes.

mod host;
mod sample;
mod sample_sync;
mod settle;
mod subject;
