//! The C library and the allocator of this process. The engines are linked into it, and both differ between packages.

use std::ffi::{CStr, OsStr};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The C library and its version: `glibc 2.36`.
#[cfg(target_env = "gnu")]
pub(crate) fn name() -> String {
    // SAFETY: the function has no arguments and returns a string that lives as long as the library.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    format!("glibc {}", version.to_string_lossy())
}

/// The C library; of all others than glibc only the name is known: musl tells no version to programs.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn name() -> String {
    let linked = if cfg!(target_feature = "crt-static") { ", linked statically" } else { "" };
    format!("{}{linked}", if cfg!(target_env = "musl") { "musl" } else { "another than glibc and musl" })
}

/// The file that `malloc` is called in; `None` where it is linked statically.
///
/// Rust's allocations use the same function, as no other allocator is set. `LD_PRELOAD` may exchange it.
pub(crate) fn allocator_file() -> Option<PathBuf> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the function reads an address and fills the structure, of which zeros are a valid value. The name that it
    // points to belongs to the loaded file, and no file of this process is unloaded.
    let file = unsafe {
        let found = libc::dladdr(libc::malloc as *const libc::c_void, info.as_mut_ptr()) != 0;
        let name = info.assume_init().dli_fname;
        (found && !name.is_null()).then(|| CStr::from_ptr(name))
    }?;
    Some(PathBuf::from(OsStr::from_bytes(file.to_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_of_the_tests_is_named() {
        let expected = if cfg!(target_env = "gnu") { "glibc 2." } else { "musl" };
        assert!(name().starts_with(expected), "{}", name());
    }

    #[test]
    fn malloc_is_found_in_the_file_that_has_it() {
        if cfg!(target_env = "gnu") && std::env::var_os("LD_PRELOAD").is_none() {
            let file = allocator_file().unwrap();
            assert_eq!(file.file_name(), Some(OsStr::new("libc.so.6")), "{}", file.display());
        }
    }
}
