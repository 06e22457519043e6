//! Packs columns of numbers into small blobs: differences as variable-length integers, runs of equal
//! values as a count, then DEFLATE.

use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use prony_model::record::ProcessSample;
use prony_model::units::{Bytes, Nanos};

/// Compression delays every next trial; more effort would gain only a few percent here.
const EFFORT: u8 = 4;

/// The longest column: groups, with 2,000,000. A run of equal values takes three bytes however long it is, so that a
/// damaged blob could claim more than fits into memory.
const LONGEST: u64 = 1 << 24;

/// The most samples of one process.
const MOST_SAMPLES: u64 = 1 << 21;

/// The largest blob before its compression.
const LARGEST: usize = 512 << 20;

/// A blob that was not written by this module, or is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("packed numbers are damaged")]
pub(super) struct Damaged;

/// Packs one column.
pub(super) fn pack(values: &[u64]) -> Vec<u8> {
    let mut out = Vec::with_capacity(values.len() * 2 + 10);
    put(&mut out, values.len() as u64);
    column(&mut out, values.iter().copied());
    compress_to_vec(&out, EFFORT)
}

/// Reads what [`pack`] wrote.
pub(super) fn unpack(blob: &[u8]) -> Result<Vec<u64>, Damaged> {
    let bytes = decompress_to_vec_with_limit(blob, LARGEST).map_err(|_| Damaged)?;
    let mut input = bytes.as_slice();
    let count = take_count(&mut input, LONGEST)?;
    let mut values = Vec::new();
    read_column(&mut input, count, |_, value| values.push(value))?;
    Ok(values)
}

/// A field of a sample: how it is read and how it is set.
type Field = (fn(&ProcessSample) -> u64, fn(&mut ProcessSample, u64));

/// This order is part of the format.
const FIELDS: [Field; 17] = [
    (|s| s.at.as_nanos(), |s, v| s.at = Nanos::from_nanos(v)),
    (|s| s.cpu_user.as_nanos(), |s, v| s.cpu_user = Nanos::from_nanos(v)),
    (|s| s.cpu_system.as_nanos(), |s, v| s.cpu_system = Nanos::from_nanos(v)),
    (|s| some(s.on_cpu.map(Nanos::as_nanos)), |s, v| s.on_cpu = optional(v).map(Nanos::from_nanos)),
    (|s| some(s.cpu_wait.map(Nanos::as_nanos)), |s, v| s.cpu_wait = optional(v).map(Nanos::from_nanos)),
    (|s| s.anon.as_bytes(), |s, v| s.anon = Bytes::from_bytes(v)),
    (|s| s.file.as_bytes(), |s, v| s.file = Bytes::from_bytes(v)),
    (|s| s.shared.as_bytes(), |s, v| s.shared = Bytes::from_bytes(v)),
    (|s| s.vsz.as_bytes(), |s, v| s.vsz = Bytes::from_bytes(v)),
    (|s| s.swap.as_bytes(), |s, v| s.swap = Bytes::from_bytes(v)),
    (|s| u64::from(s.threads), |s, v| s.threads = u32::try_from(v).unwrap_or(u32::MAX)),
    (|s| some(s.read.map(Bytes::as_bytes)), |s, v| s.read = optional(v).map(Bytes::from_bytes)),
    (|s| some(s.written.map(Bytes::as_bytes)), |s, v| s.written = optional(v).map(Bytes::from_bytes)),
    (|s| s.minor_faults, |s, v| s.minor_faults = v),
    (|s| s.major_faults, |s, v| s.major_faults = v),
    (|s| s.switches_voluntary, |s, v| s.switches_voluntary = v),
    (|s| s.switches_forced, |s, v| s.switches_forced = v),
];

/// Zero is "not read"; counters end far below the top of the range.
fn some(value: Option<u64>) -> u64 {
    value.map_or(0, |v| v.saturating_add(1))
}

fn optional(stored: u64) -> Option<u64> {
    stored.checked_sub(1)
}

/// Packs the samples of one process, a column a field.
pub(super) fn pack_samples(samples: &[ProcessSample]) -> Vec<u8> {
    let mut out = Vec::with_capacity(samples.len() * 24 + 10);
    put(&mut out, samples.len() as u64);
    for (get, _) in FIELDS {
        column(&mut out, samples.iter().map(get));
    }
    compress_to_vec(&out, EFFORT)
}

/// Reads what [`pack_samples`] wrote.
pub(super) fn unpack_samples(blob: &[u8]) -> Result<Vec<ProcessSample>, Damaged> {
    let bytes = decompress_to_vec_with_limit(blob, LARGEST).map_err(|_| Damaged)?;
    let mut input = bytes.as_slice();
    let count = take_count(&mut input, MOST_SAMPLES)?;
    let mut samples = Vec::new();
    read_column(&mut input, count, |_, at| {
        samples.push(ProcessSample { at: Nanos::from_nanos(at), ..ProcessSample::default() });
    })?;
    for (_, set) in &FIELDS[1..] {
        read_column(&mut input, count, |i, value| set(&mut samples[i], value))?;
    }
    Ok(samples)
}

/// Differences to the value before; a zero is followed by how many more zeros stand here.
fn column(out: &mut Vec<u8>, values: impl Iterator<Item = u64>) {
    let (mut last, mut equal) = (0u64, 0u64);
    for value in values {
        let difference = value.wrapping_sub(last) as i64;
        last = value;
        if difference == 0 {
            equal += 1;
            continue;
        }
        end_run(out, &mut equal);
        put(out, zigzag(difference));
    }
    end_run(out, &mut equal);
}

fn end_run(out: &mut Vec<u8>, equal: &mut u64) {
    if *equal > 0 {
        put(out, 0);
        put(out, *equal - 1);
        *equal = 0;
    }
}

fn read_column(input: &mut &[u8], count: u64, mut push: impl FnMut(usize, u64)) -> Result<(), Damaged> {
    let (mut done, mut last) = (0u64, 0u64);
    while done < count {
        let token = take(input)?;
        let repeat = if token == 0 { take(input)?.checked_add(1).ok_or(Damaged)? } else { 1 };
        if repeat > count - done {
            return Err(Damaged);
        }
        last = last.wrapping_add(unzigzag(token) as u64);
        for i in done..done + repeat {
            push(i as usize, last);
        }
        done += repeat;
    }
    Ok(())
}

const fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)) as u64
}

const fn unzigzag(n: u64) -> i64 {
    ((n >> 1) as i64) ^ -((n & 1) as i64)
}

/// LEB128.
fn put(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn take_count(input: &mut &[u8], most: u64) -> Result<u64, Damaged> {
    take(input).and_then(|count| if count > most { Err(Damaged) } else { Ok(count) })
}

fn take(input: &mut &[u8]) -> Result<u64, Damaged> {
    let mut n = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first().ok_or(Damaged)?;
        *input = rest;
        n |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(n);
        }
    }
    Err(Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive() {
        let extremes = [0, u64::MAX, 1, i64::MAX as u64, 0, 0, 0, u64::MAX, u64::MAX, 1 << 63, 5];
        for values in [&[][..], &[0], &[u64::MAX], &extremes] {
            assert_eq!(unpack(&pack(values)).as_deref(), Ok(values));
        }
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        let blob = pack(&(0..1000u64).map(|i| i * i * 7919).collect::<Vec<_>>());
        assert_eq!(unpack(&blob[..blob.len() / 2]), Err(Damaged));
        assert_eq!(unpack(b"not packed"), Err(Damaged));
        let mut claims_too_many = Vec::new();
        put(&mut claims_too_many, u64::MAX);
        put(&mut claims_too_many, 0);
        put(&mut claims_too_many, u64::MAX - 1);
        assert_eq!(unpack(&compress_to_vec(&claims_too_many, 1)), Err(Damaged));
        let mut runs_over = Vec::new();
        put(&mut runs_over, 3);
        put(&mut runs_over, 0);
        put(&mut runs_over, 3);
        assert_eq!(unpack(&compress_to_vec(&runs_over, 1)), Err(Damaged));
    }

    #[test]
    fn blobs_that_claim_more_than_fits_in_memory_are_damaged() {
        let run_of_equals = |count: u64, columns: usize| {
            let mut out = Vec::new();
            put(&mut out, count);
            for _ in 0..columns {
                put(&mut out, 0);
                put(&mut out, count - 1);
            }
            compress_to_vec(&out, 1)
        };
        assert_eq!(unpack(&run_of_equals(1 << 28, 1)), Err(Damaged), "2 GiB of numbers");
        assert_eq!(unpack_samples(&run_of_equals(1 << 24, FIELDS.len())), Err(Damaged), "2.7 GiB of samples");
        assert_eq!(unpack(&run_of_equals(2_000_000, 1)).map(|values| values.len()), Ok(2_000_000));
        assert_eq!(unpack(&compress_to_vec(&vec![0; LARGEST + 1], 1)), Err(Damaged));
    }

    #[test]
    fn every_field_of_a_sample_survives() {
        let n = Nanos::from_nanos;
        let b = Bytes::from_bytes;
        let sample = ProcessSample {
            at: n(1),
            cpu_user: n(2),
            cpu_system: n(3),
            on_cpu: Some(n(4)),
            cpu_wait: Some(n(5)),
            anon: b(6),
            file: b(7),
            shared: b(8),
            vsz: b(9),
            swap: b(10),
            threads: 11,
            read: Some(b(12)),
            written: Some(b(0)),
            minor_faults: 13,
            major_faults: 14,
            switches_voluntary: 15,
            switches_forced: 16,
        };
        let unread = ProcessSample { at: n(9), ..ProcessSample::default() };
        let samples = [sample, unread, sample];
        assert_eq!(unpack_samples(&pack_samples(&samples)).as_deref(), Ok(&samples[..]));
    }

    #[test]
    fn what_does_not_change_costs_next_to_nothing() {
        let idle: Vec<_> = (0..18_000u64)
            .map(|i| ProcessSample { at: Nanos::from_millis(100 * i), anon: Bytes::from_mib(50), ..Default::default() })
            .collect();
        assert!(pack_samples(&idle).len() < 1_000, "{}", pack_samples(&idle).len());
    }
}
