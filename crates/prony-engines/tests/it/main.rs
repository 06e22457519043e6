//! The contract suite, run over every engine of this build.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests may do what tests may")]

mod collections;
mod contract;
mod indexes;
#[cfg(feature = "mongodb")]
mod mongodb;
mod oracle;
#[cfg(feature = "postgres")]
mod postgresql;
mod queries;
#[cfg(feature = "redis")]
mod redis;
mod references;
#[cfg(any(feature = "mongodb", feature = "postgres", feature = "redis"))]
mod server;

contract_suite!(memory, prony_engines::memory::Memory);
#[cfg(feature = "lmdb")]
contract_suite!(lmdb, prony_engines::lmdb::Lmdb);
#[cfg(feature = "sqlite")]
contract_suite!(sqlite, prony_engines::sqlite::Sqlite);
#[cfg(feature = "redb")]
contract_suite!(redb, prony_engines::redb::Redb);
#[cfg(feature = "fjall")]
contract_suite!(fjall, prony_engines::fjall::Fjall);
#[cfg(feature = "postgres")]
contract_suite!(postgresql_server, crate::postgresql::Started, crate::postgresql::is_there());
#[cfg(feature = "redis")]
contract_suite!(redis_server, crate::redis::Started, crate::redis::is_there());
#[cfg(feature = "mongodb")]
contract_suite!(mongodb_server, crate::mongodb::Started, crate::mongodb::is_there());
#[cfg(feature = "sled")]
contract_suite!(sled, prony_engines::sled::Sled);
#[cfg(feature = "libmdbx")]
contract_suite!(libmdbx, prony_engines::mdbx::Mdbx);
#[cfg(feature = "rocksdb")]
contract_suite!(rocksdb, prony_engines::rocksdb::RocksDb);
