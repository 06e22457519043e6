//! The data of pending writes: in memory up to a limit, beyond it in a file of the state directory.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, fallocate};
use serde::{Deserialize, Serialize};

/// The data of one write.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Payload {
    Memory(Box<[u8]>),
    /// Position and bytes in the file.
    File(u64, u64),
}

impl Payload {
    /// In bytes.
    pub(crate) const fn len(&self) -> u64 {
        match self {
            Self::Memory(data) => data.len() as u64,
            Self::File(_, len) => *len,
        }
    }
}

/// Where payloads are stored.
#[derive(Debug)]
pub(crate) struct Payloads {
    file: File,
    in_memory: u64,
    /// Bytes of the file that are in use.
    in_file: u64,
    end: u64,
}

impl Payloads {
    /// Stores in memory, or in `file`, which is empty.
    pub(crate) const fn new(file: File) -> Self {
        Self { file, in_memory: 0, in_file: 0, end: 0 }
    }

    /// Bytes in memory.
    pub(crate) const fn in_memory(&self) -> u64 {
        self.in_memory
    }

    /// Stores data, in memory where they fit into `room`.
    pub(crate) fn store(&mut self, data: &[u8], room: u64) -> io::Result<Payload> {
        let len = data.len() as u64;
        if len > room {
            return self.store_in_file(data);
        }
        self.in_memory += len;
        Ok(Payload::Memory(data.into()))
    }

    fn store_in_file(&mut self, data: &[u8]) -> io::Result<Payload> {
        let len = data.len() as u64;
        self.file.write_all_at(data, self.end)?;
        let place = Payload::File(self.end, len);
        self.end += len;
        self.in_file += len;
        Ok(place)
    }

    /// Moves a payload from memory into the file.
    pub(crate) fn spill(&mut self, payload: &mut Payload) -> io::Result<()> {
        if let Payload::Memory(data) = payload {
            let moved = self.store_in_file(data)?;
            self.release(payload);
            *payload = moved;
        }
        Ok(())
    }

    /// Reads the bytes of a payload from `begin` to `end`.
    pub(crate) fn read<'p>(&self, payload: &'p Payload, begin: u64, end: u64) -> io::Result<Cow<'p, [u8]>> {
        match payload {
            Payload::Memory(data) => Ok(Cow::Borrowed(&data[begin as usize..end as usize])),
            Payload::File(at, _) => {
                let mut data = vec![0; (end - begin) as usize];
                self.file.read_exact_at(&mut data, *at + begin)?;
                Ok(Cow::Owned(data))
            }
        }
    }

    /// Frees what a payload occupies.
    pub(crate) fn release(&mut self, payload: &Payload) {
        match payload {
            Payload::Memory(_) => self.in_memory -= payload.len(),
            Payload::File(at, len) => {
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
    fn payload_without_room_is_stored_in_the_file() {
        let mut payloads = Payloads::new(tempfile::tempfile().unwrap());
        let mut all: Vec<Payload> =
            (0..5).map(|n: u8| payloads.store(&[n; 4], 12_u64.saturating_sub(u64::from(n) * 4)).unwrap()).collect();
        assert_eq!((payloads.in_memory, payloads.in_file), (12, 8));
        payloads.spill(&mut all[0]).unwrap();
        payloads.spill(&mut all[4]).unwrap();
        assert_eq!((payloads.in_memory, payloads.in_file), (8, 12));
        for (n, payload) in all.iter().enumerate() {
            assert_eq!(payloads.read(payload, 1, 3).unwrap()[..], [n as u8; 2]);
        }
        all.iter().for_each(|payload| payloads.release(payload));
        assert_eq!((payloads.in_memory, payloads.in_file, payloads.end), (0, 0, 0));
        assert_eq!(payloads.file.metadata().unwrap().len(), 0);
    }
}
