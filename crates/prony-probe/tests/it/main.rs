//! The probe against real processes.

mod sample;
mod sample_sync;
mod subject;
