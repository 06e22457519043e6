//! Figures of a run: as data for the page, and as static pictures.

pub mod data;
