//! Records, key orders, mixes, arrival schedules: pure functions of number and seed.
