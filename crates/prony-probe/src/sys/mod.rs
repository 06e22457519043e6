//! Raw system calls, a few lines each; the only module with unsafe code.

pub(crate) mod process;
