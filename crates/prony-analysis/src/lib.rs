//! What may be concluded from records: which phases are complete and which operations failed ([`conclude`]), what limits
//! the validity of a figure ([`guard`]), where a program's time went ([`profile`]), what a search tries next ([`search`]),
//! which comparisons are decided ([`verdicts`]).
//!
//! Functions of their arguments: no clock, no file, no process.

pub mod conclude;
pub mod guard;
pub mod profile;
pub mod search;
pub mod verdicts;
