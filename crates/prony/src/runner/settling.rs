//! `settle`: waits until the worker's tree and store are quiet, and says when they became so.

use prony_core::experiment::spec::SettleSpec;
use prony_core::protocol::PhaseReport;
use prony_probe::clock::Clock;
use prony_probe::settle::{SettleResult, TreeProbe, watch};
