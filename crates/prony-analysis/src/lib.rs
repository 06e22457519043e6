//! Draws conclusions from trial records: which phases are complete and how a trial ended ([`conclude`]), what limits
//! the validity of results ([`guard`]), where a program spends its time ([`profile`]), what a search tries next
//! ([`search`]), and what the comparisons say ([`verdicts`]).
//!
//! All functions depend on their arguments only: they use no clock, no file and no process.

pub mod conclude;
pub mod crash;
pub mod guard;
pub mod profile;
pub mod search;
pub mod verdicts;
