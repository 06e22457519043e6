//! The data of pending writes: in memory up to a limit, beyond it in a file of the state directory.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, fallocate};

/// The data of one write.
#[derive(Debug)]
pub(crate) struct Payload {
    place: Place,
    /// Bytes that count, from the first one.
    len: u64,
}

#[derive(Debug)]
enum Place {
    Memory(Box<[u8]>),
    /// Position and bytes in the file.
    File(u64, u64),
}

impl Payload {
    /// In bytes.
    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    /// Forgets what is behind the first `len` bytes.
    pub(crate) fn shorten(&mut self, len: u64) {
        self.len = self.len.min(len);
    }
}

/// Where payloads are stored.
#[derive(Debug)]
pub(crate) struct Payloads {
    file: File,
    limit: u64,
    in_memory: u64,
    /// Bytes of the file that are in use.
    in_file: u64,
    end: u64,
}

impl Payloads {
    /// Stores up to `limit` bytes in memory, the rest in `file`, which is empty.
    pub(crate) const fn new(file: File, limit: u64) -> Self {
        Self { file, limit, in_memory: 0, in_file: 0, end: 0 }
    }

    pub(crate) fn store(&mut self, data: &[u8]) -> io::Result<Payload> {
        let len = data.len() as u64;
        if self.in_memory + len <= self.limit {
            self.in_memory += len;
            return Ok(Payload { place: Place::Memory(data.into()), len });
        }
        self.file.write_all_at(data, self.end)?;
        let place = Place::File(self.end, len);
        self.end += len;
        self.in_file += len;
        Ok(Payload { place, len })
    }

    pub(crate) fn read<'p>(&self, payload: &'p Payload) -> io::Result<Cow<'p, [u8]>> {
        match &payload.place {
            Place::Memory(data) => Ok(Cow::Borrowed(&data[..payload.len as usize])),
            Place::File(at, _) => {
                let mut data = vec![0; payload.len as usize];
                self.file.read_exact_at(&mut data, *at)?;
                Ok(Cow::Owned(data))
            }
        }
    }

    /// Frees what a payload occupies.
    pub(crate) fn release(&mut self, payload: &Payload) {
        match &payload.place {
            Place::Memory(data) => self.in_memory -= data.len() as u64,
            Place::File(at, len) => {
                self.in_file -= len;
                // Without this the file only becomes larger than need be.
                if self.in_file == 0 {
                    self.end = 0;
                    let _ = self.file.set_len(0);
                } else {
                    let _ = fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, *at, *len);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_beyond_the_limit_is_stored_in_the_file() {
        let mut payloads = Payloads::new(tempfile::tempfile().unwrap(), 10);
        let mut all: Vec<Payload> = (0..5).map(|n: u8| payloads.store(&[n; 4]).unwrap()).collect();
        assert_eq!((payloads.in_memory, payloads.in_file), (8, 12));
        for (n, payload) in all.iter().enumerate() {
            assert_eq!(payloads.read(payload).unwrap()[..], [n as u8; 4]);
        }
        all[1].shorten(3);
        all[4].shorten(1);
        assert_eq!(payloads.read(&all[1]).unwrap()[..], [1; 3]);
        assert_eq!(payloads.read(&all[4]).unwrap()[..], [4; 1]);
        all.iter().for_each(|payload| payloads.release(payload));
        assert_eq!((payloads.in_memory, payloads.in_file, payloads.end), (0, 0, 0));
        assert_eq!(payloads.file.metadata().unwrap().len(), 0);
    }
}
