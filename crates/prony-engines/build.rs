//! Reads the versions of the engines' libraries from the lock file, and refuses a build that would compile RocksDB.

use std::env;
use std::fs;
use std::path::PathBuf;

/// Crates whose version a driver states.
const LIBRARIES: [&str; 8] = ["heed", "rusqlite", "redb", "fjall", "libmdbx", "mdbx-sys", "sled", "rocksdb"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let lock = lock_file();
    for library in LIBRARIES {
        let version = lock.as_deref().and_then(|lock| version_of(lock, library)).unwrap_or("unknown");
        let name = library.replace('-', "_").to_uppercase();
        println!("cargo:rustc-env=PRONY_VERSION_{name}={version}");
    }
    println!("cargo:rustc-env=PRONY_VERSION_LIBROCKSDB={}", rocksdb().as_deref().unwrap_or("unknown"));
}

/// The version of the system's RocksDB, from the name of its library.
///
/// Without the directory of that library, `librocksdb-sys` would compile all of RocksDB for a quarter of an hour
/// without a message: an error instead.
fn rocksdb() -> Option<String> {
    println!("cargo:rerun-if-env-changed=ROCKSDB_LIB_DIR");
    env::var_os("CARGO_FEATURE_ROCKSDB")?;
    let Some(dir) = env::var_os("ROCKSDB_LIB_DIR") else {
        println!(
            "cargo::error=feature `rocksdb` links the system's library: install librocksdb-dev and libclang-dev, and \
             set ROCKSDB_LIB_DIR to the directory that holds librocksdb.so (`cargo xtask engines rocksdb` does)"
        );
        return None;
    };
    let library = fs::canonicalize(PathBuf::from(dir).join("librocksdb.so")).ok()?;
    library.file_name()?.to_str()?.strip_prefix("librocksdb.so.").map(str::to_owned)
}

/// The text of the workspace's lock file, if this crate is built in a workspace.
fn lock_file() -> Option<String> {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?);
    let lock = manifest.ancestors().map(|dir| dir.join("Cargo.lock")).find(|path| path.is_file())?;
    println!("cargo:rerun-if-changed={}", lock.display());
    fs::read_to_string(lock).ok()
}

fn version_of<'l>(lock: &'l str, library: &str) -> Option<&'l str> {
    let name = format!("name = \"{library}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name);
    lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')
}
