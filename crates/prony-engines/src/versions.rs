//! Versions of the libraries that engines are driven through, taken from the lock file at build time.

/// `name` with the version it was built with; `unknown` where the build had no lock file.
pub(crate) fn library(name: &str) -> String {
    format!("{name} {}", version(name))
}

/// The version of the library `name` in this build.
pub(crate) fn version(name: &str) -> &'static str {
    match name {
        "heed" => env!("PRONY_VERSION_HEED"),
        "rusqlite" => env!("PRONY_VERSION_RUSQLITE"),
        "redb" => env!("PRONY_VERSION_REDB"),
        "fjall" => env!("PRONY_VERSION_FJALL"),
        "libmdbx" => env!("PRONY_VERSION_LIBMDBX"),
        "mdbx-sys" => env!("PRONY_VERSION_MDBX_SYS"),
        "postgres-protocol" => env!("PRONY_VERSION_POSTGRES_PROTOCOL"),
        "sled" => env!("PRONY_VERSION_SLED"),
        "librocksdb" => env!("PRONY_VERSION_LIBROCKSDB"),
        "rocksdb" => env!("PRONY_VERSION_ROCKSDB"),
        _ => "unknown",
    }
}
