//! Latency recorder over HdrHistogram.
