//! `prony report`: a run as a document or as data.
