//! Metrics: what is measured in a phase, with its unit and its better end, and the statistics of gauges.

mod name;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::open_name::OpenName;
use crate::units::Unit;
pub use name::{MetricError, MetricKey, MetricName};

/// Which end of a metric's scale is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Less is better: time, memory.
    Lower,
    /// More is better: rates.
    Higher,
    /// Neither: counts that describe the work.
    Neither,
}

macro_rules! metrics {
    ($($variant:ident $name:literal $unit:ident $better:ident $gauge:literal $doc:literal;)*) => {
        /// What is measured in a phase.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Metric {
            $(#[doc = $doc] $variant,)*
            /// One that the catalogue does not list: answers by status, or a number that a service counts itself.
            Open(OpenName),
        }

        impl Metric {
            /// Every metric of the catalogue, in the order of the reference.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name, as written in files, tables and on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* Self::Open(name) => name.text() }
            }

            /// The unit of the stored number.
            pub const fn unit(self) -> Unit {
                match self { $(Self::$variant => Unit::$unit,)* Self::Open(name) => name.unit() }
            }

            /// Which end of the scale is better.
            pub const fn better(self) -> Better {
                match self { $(Self::$variant => Better::$better,)* Self::Open(_) => Better::Neither }
            }

            /// Whether it is a level at an instant (memory) rather than an amount over the phase;
            /// only gauges take `mean`, `max`, `min`, `end`, `before` and `peak`. Of a service's number nobody knows that by
            /// its name: it is `false`.
            pub const fn is_gauge(self) -> bool {
                match self { $(Self::$variant => $gauge,)* Self::Open(_) => false }
            }

            /// One sentence for the reference and the schema.
            pub const fn doc(self) -> &'static str {
                match self {
                    $(Self::$variant => $doc,)*
                    Self::Open(_) => "Answers by status, or a number that a service counts itself",
                }
            }
        }
    };
}

impl Metric {
    /// Whether it is the time of a whole phase, which grows with the phase's work, as opposed to the time of one
    /// operation.
    pub const fn is_time_of_phase(self) -> bool {
        matches!(self.unit(), Unit::Nanos) && !self.is_of_one_operation()
    }

    /// Whether it is the time of single operations or of a part of them: a percentile, or the largest.
    pub const fn is_of_one_operation(self) -> bool {
        self.percentile().is_some() || matches!(self, Self::LatencyMax | Self::ConnectMax | Self::FirstByteMax)
    }

    /// The share of operations (0 to 1) that took no longer; `None` where it is no percentile.
    pub const fn percentile(self) -> Option<f64> {
        match self {
            Self::LatencyP50 | Self::ConnectP50 | Self::FirstByteP50 => Some(0.5),
            Self::LatencyP90 => Some(0.9),
            Self::LatencyP95 => Some(0.95),
            Self::LatencyP99 | Self::ConnectP99 | Self::FirstByteP99 => Some(0.99),
            Self::LatencyP999 => Some(0.999),
            _ => None,
        }
    }

    /// Whether the clients of a store measure it of their own operations. The operating system measures other metrics, of whole
    /// processes, of the store's files or of the machine.
    pub const fn is_of_operations(self) -> bool {
        use Metric::{
            Conflicts, Decode, Distinct, Encode, Entries, EntriesWritten, Errors, Examined, Gap, GapCpu, Lag, Misses,
            Ok, Open, Operations, OperationsPerOk, Rate, Refused, Retries, Rows, SentDistinct, Skipped, Time, Timeouts,
            Transactions, Unfinished, UserBytes, WaitedForConnection,
        };
        matches!(
            self,
            Time | Rate | Gap | GapCpu | Encode | Decode | Lag | Skipped | Operations | Errors | Transactions
        ) || matches!(self, Entries | EntriesWritten | Examined | Rows | Misses | Distinct | UserBytes)
            || matches!(
                self,
                Refused
                    | Conflicts
                    | Ok
                    | Timeouts
                    | Retries
                    | Unfinished
                    | SentDistinct
                    | OperationsPerOk
                    | WaitedForConnection
                    | Open(_)
            )
            || self.is_of_one_operation()
    }

    /// Whether it is an amount that the operating system counts while the operations of a process run, from the begin of a phase
    /// to its end: CPU time, bytes, system calls, faults. Levels, such as memory and the size of a store, are not.
    pub const fn is_of_process(self) -> bool {
        !self.is_of_operations() && !self.is_level()
    }

    /// Whether it is CPU time of processes.
    pub const fn is_cpu_time(self) -> bool {
        matches!(self, Self::Cpu | Self::CpuUser | Self::CpuSystem | Self::OnCpu)
    }

    /// Whether it is a number of events or bytes that grows with the operations of a phase, and of which fewer are better.
    pub const fn grows_with_operations(self) -> bool {
        let is_of_schedule = matches!(self, Self::Skipped | Self::Unfinished | Self::OperationsPerOk);
        matches!(self.unit(), Unit::Count | Unit::Bytes)
            && matches!(self.better(), Better::Lower)
            && !self.is_level()
            && !is_of_schedule
    }

    /// Whether it is a level, at an instant or on average, and no amount over the phase.
    const fn is_level(self) -> bool {
        use Metric::{Cached, CachedBytes, Disk, DiskLength, PressureCpu, PressureIo, PressureMemory};
        self.is_gauge()
            || matches!(self, Disk | DiskLength | Cached | CachedBytes | PressureCpu | PressureIo | PressureMemory)
    }

    /// Whether only writes count in it: bytes written, and system calls and requests that make data durable.
    pub const fn is_of_writes(self) -> bool {
        use Metric::{DeviceWritten, Fdatasync, Flushes, Fsync, Fsyncs, Msync, SyncFileRange, Written};
        matches!(self, Written | DeviceWritten | Flushes | Fsyncs | Fsync | Fdatasync | Msync | SyncFileRange)
    }
}

metrics! {
    Time "time" Nanos Lower false "Time inside timed sections (operations, commits, declared pauses); with several \
        clients, the time in which at least one is inside; for an open loop, from its begin to its end; of a program, as `wall`; of \
        a function, the time in which at least one call runs; or the time that a program reports itself";
    Wall "wall" Nanos Lower false "Wall time from the begin of the phase to its end, gaps between batches included; of a \
        whole program, from its start (`execve`) to its end";
    Makespan "makespan" Nanos Lower false "Time from the release of the first replica of a program, or the begin of the first on a store, to the end of the last";
    Skew "skew" Nanos Lower false "Time from the end of the first replica to the end of the last";
    Gap "gap" Nanos Lower false "Time outside timed sections: preparing keys and values, without the wait for a processor";
    GapCpu "gap.cpu" Nanos Lower false "CPU time of the worker outside timed sections: preparing keys and values; included in `cpu`";
    Encode "encode" Nanos Lower false "Time in which the clients encoded documents, added up; outside timed sections, so not in `time`";
    Decode "decode" Nanos Lower false "Time in which documents were decoded, added up over the clients; inside timed sections";
    Cpu "cpu" Nanos Lower false "CPU time, user and system, of the whole process tree";
    CpuUser "cpu.user" Nanos Lower false "CPU time in user mode of the whole process tree";
    CpuSystem "cpu.system" Nanos Lower false "CPU time in the kernel of the whole process tree";
    OnCpu "cpu.on" Nanos Lower false "Time on a CPU as the scheduler counts it (schedstat)";
    CpuOver "cpu.over" Nanos Neither false "By how much `cpu` may be too large: what the kernel had not counted at the \
        begin of the phase (up to a scheduler tick of each thread that ran, and ticks of ended children without a control group), \
        and what was used while counters were read late at its end; verdicts take it into account";
    CpuUnder "cpu.under" Nanos Neither false "By how much `cpu` may be too small: as `cpu.over`, with begin and end exchanged";
    CpuWait "cpu.wait" Nanos Lower false "Time runnable but waiting for a CPU (schedstat run delay)";
    Rate "rate" PerSecond Higher false "Operations that succeeded per second of `time`; of a closed loop of requests one that \
        spans the begin or end of the time counts by the share of it that lies inside, and with a `duration` the \
        time until nearly all connections had their first answer is left out; of an open loop of requests the answers that came inside \
        count, and where it is known to have sustained its rate, those to the requests that were due inside";
    Operations "operations" Count Neither false "Operations that succeeded";
    Errors "errors" Count Lower false "Operations that failed";
    Refused "refused" Count Neither false "Operations that changed nothing because of references: a document to which \
        another one refers, or one that refers to a document that is not stored; `operations` includes them";
    Conflicts "conflicts" Count Lower false "Transactions that failed because of another one at the same time: 0 on engines \
        with one write transaction at a time; `errors` includes their operations";
    Ok "ok" Count Neither false "Requests that were answered as expected";
    Timeouts "timeouts" Count Lower false "Requests without a whole answer in time; `errors` includes them";
    Retries "retries" Count Lower false "Attempts of requests that were repeated; each request is counted once, by its last attempt";
    Unfinished "unfinished" Count Lower false "Requests that were under way when the phase ended; `errors` includes them";
    SentDistinct "sent.distinct" Count Neither false "Different bodies that were sent; of requests without a body, different paths";
    OperationsPerOk "operations.per.ok" Count Lower false "Operations that a service counted itself (`phase.SERVICE.operations`) for each request that \
        was answered as expected";
    Transactions "transactions" Count Neither false "Transactions committed, or read transactions ended";
    Entries "entries" Count Lower false "Entries of indexes that queries read";
    EntriesWritten "entries.written" Count Neither false "Entries of indexes that were stored or removed";
    Examined "examined" Count Lower false "Documents that were decoded, by queries or to change their indexes";
    Rows "rows" Count Neither false "Rows that reads returned";
    Misses "misses" Count Neither false "Reads that found no row; of a `delete` phase, removals that found none";
    Distinct "distinct" Count Neither false "Distinct keys touched";
    Skipped "skipped" Count Lower false "Operations of an open loop that were never started";
    WaitedForConnection "waited_for_connection" Count Lower false "Requests of an open loop that were due while all connections were in use, and \
        waited for one";
    Lag "lag" Nanos Lower false "Largest delay: of the start of an open-loop operation behind its schedule, or of \
        prony noticing a line or mark of a program";
    LatencyP50 "latency.p50" Nanos Lower false "Median latency of one operation";
    LatencyP90 "latency.p90" Nanos Lower false "90th percentile of latency";
    LatencyP95 "latency.p95" Nanos Lower false "95th percentile of latency";
    LatencyP99 "latency.p99" Nanos Lower false "99th percentile of latency";
    LatencyP999 "latency.p99.9" Nanos Lower false "99.9th percentile of latency";
    LatencyMax "latency.max" Nanos Lower false "Largest latency";
    ConnectP50 "connect.p50" Nanos Lower false "Median time to open a connection to a server, with the handshake of TLS; included in the latency of the request \
        that needed it";
    ConnectP99 "connect.p99" Nanos Lower false "99th percentile of the time to open a connection";
    ConnectMax "connect.max" Nanos Lower false "Largest time to open a connection";
    FirstByteP50 "first_byte.p50" Nanos Lower false "Median time from the real start of a request to the first byte of its answer";
    FirstByteP99 "first_byte.p99" Nanos Lower false "99th percentile of the time to the first byte";
    FirstByteMax "first_byte.max" Nanos Lower false "Largest time to the first byte";
    Rss "rss" Bytes Lower true "Resident memory: anonymous, file-backed and shared together";
    RssUnseen "rss.unseen" Bytes Neither false "The kernel's own peak of a process that no sample shows, or whose samples show less, in each phase in which it may have been a \
        child; verdicts take `rss.max` and `anon.max` to be up to that much larger";
    TimeLag "time.lag" Nanos Neither false "How much earlier, at most, the phase began or ended than prony noticed; verdicts take `wall`, and `time` where it is \
        the same, to be up to that much shorter or longer";
    Anon "anon" Bytes Lower true "Anonymous memory: heaps and stacks, which the kernel cannot reclaim without swap";
    File "file" Bytes Lower true "Resident file-backed pages: mapped stores, libraries";
    Shared "shared" Bytes Lower true "Resident shared memory that is mapped (shmem, tmpfs); of files of tmpfs and `memfd`, pages that no \
        process maps are in no metric of processes, though a memory limit counts them";
    Pss "pss" Bytes Lower true "Proportional set size, read at the begin and end of phases";
    Vsz "vsz" Bytes Lower true "Address space";
    Swap "swap" Bytes Lower true "Swapped-out anonymous memory";
    Threads "threads" Count Neither true "Threads of the process tree";
    Processes "processes" Count Neither true "Processes of the process tree";
    HeapUsed "heap.used" Bytes Lower true "Heap in use, as the language runtime reports it";
    HeapTotal "heap.total" Bytes Lower true "Heap reserved, as the language runtime reports it";
    External "external" Bytes Lower true "Memory outside the heap that the language runtime accounts for";
    ArrayBuffers "heap.arraybuffers" Bytes Lower true "The part of `external` that array buffers hold (Node)";
    HeapBlocks "heap.blocks" Count Lower true "Blocks of the runtime's allocator in use (CPython, which counts no bytes)";
    GcTime "gc.time" Nanos Lower false "Time spent in garbage collections, as the language runtime reports it";
    GcCount "gc.count" Count Lower false "Garbage collections of the language runtime";
    GcFull "gc.full" Count Lower false "Full garbage collections (old generation) of the language runtime";
    LoopDelay "loop.delay" Nanos Lower false "Longest delay of the event loop, as the runtime reports it (Node)";
    Suspended "held" Nanos Neither false "Time for which prony suspended the program at the ends of function calls; \
        not included in any other metric of the phase";
    Read "read" Bytes Lower false "Bytes that reached the block layer for reading (io read_bytes)";
    Written "written" Bytes Lower false "Bytes of pages that became dirty (io write_bytes); missing where the kernel counts whole folios and the device does not \
        confirm the number";
    Fsyncs "fsyncs" Count Lower false "System calls fsync, fdatasync, msync (MS_SYNC), sync_file_range, sync and syncfs, together; not those of 32-bit programs on a 64-bit kernel, nor syncs by io_uring and Linux AIO";
    Fsync "fsync" Count Lower false "System calls fsync";
    Fdatasync "fdatasync" Count Lower false "System calls fdatasync";
    Msync "msync" Count Lower false "System calls msync with MS_SYNC";
    SyncFileRange "sync_file_range" Count Lower false "System calls sync_file_range";
    Flushes "flushes" Count Lower false "Flush requests that the device of the store completed, from any process of the machine";
    DeviceWritten "device.written" Bytes Lower false "Bytes that the device of the store wrote, for any process of the machine";
    MajorFaults "faults.major" Count Lower false "Page faults that waited for a disk";
    MinorFaults "faults.minor" Count Lower false "Page faults served from memory";
    SwitchesVoluntary "switches.voluntary" Count Lower false "Context switches by waiting";
    SwitchesForced "switches.forced" Count Lower false "Context switches by preemption";
    Disk "disk" Bytes Lower false "Blocks allocated to the store's files at the phase's end; links inside the store are not followed";
    DiskLength "disk.length" Bytes Lower false "Length of the store's files at the phase's end";
    UserBytes "user.bytes" Bytes Neither false "Bytes of the keys and values of records handed to or taken from the engine, without entries of indexes; \
        of requests that were answered as expected, of their bodies and those of the answers";
    Cached "cached" Ratio Neither false "Share of the store's pages in the page cache at the phase's begin; holes of its files have no pages, and links inside the store are not followed";
    CachedBytes "cached.bytes" Bytes Lower false "Pages of the store's files in the page cache at the phase's end, mapped or not, \
        whichever process uses them; the kernel can reclaim them";
    SettleTime "settle.time" Nanos Lower false "Time from the begin of a phase that waits for quiet to the last \
        activity above the thresholds, for the signs of activity that `of` names; the quiet time after it is included \
        in `wall` only";
    SettleCpu "settle.time.cpu" Nanos Lower false "As `settle.time`, for CPU time only; with an instance, for the processes of one role";
    SettleWritten "settle.time.written" Nanos Lower false "As `settle.time`, for bytes written only";
    SettleDisk "settle.time.disk" Nanos Lower false "As `settle.time`, for the size of the store only";
    SettleDirty "settle.time.dirty" Nanos Lower false "As `settle.time`, for the dirty and writeback pages of the store only: until the kernel had written them";
    PressureCpu "pressure.cpu" Ratio Lower false "Share of the phase in which some task of the machine waited for a CPU (PSI)";
    PressureIo "pressure.io" Ratio Lower false "Share of the phase in which some task of the machine waited for I/O (PSI)";
    PressureMemory "pressure.memory" Ratio Lower false "Share of the phase in which some task of the machine waited for memory (PSI)";
}

impl Metric {
    /// The metric of the catalogue with this name.
    pub fn listed(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|metric| metric.name() == name)
    }

    /// Its name where it is a number that a service counts itself.
    pub fn counter(self) -> Option<&'static str> {
        match self {
            Self::Open(name) => name.is_counter().then(|| name.text()),
            _ => None,
        }
    }

    /// Latencies of operations.
    pub const LATENCY: [Self; 6] =
        [Self::LatencyP50, Self::LatencyP90, Self::LatencyP95, Self::LatencyP99, Self::LatencyP999, Self::LatencyMax];

    /// Times to open a connection.
    pub const CONNECT: [Self; 3] = [Self::ConnectP50, Self::ConnectP99, Self::ConnectMax];

    /// Times to the first byte of an answer.
    pub const FIRST_BYTE: [Self; 3] = [Self::FirstByteP50, Self::FirstByteP99, Self::FirstByteMax];

    /// System calls that ask the kernel to make data durable, and their sum.
    pub const SYNCS: [Self; 5] = [Self::Fsyncs, Self::Fsync, Self::Fdatasync, Self::Msync, Self::SyncFileRange];
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Metric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let open = || OpenName::new(&name).map(Self::Open);
        Self::listed(&name).or_else(open).ok_or_else(|| serde::de::Error::custom(format!("`{name}` is not a metric")))
    }
}

crate::words! {
    /// How a gauge's samples within a phase become one number.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Stat {
        /// Mean over time.
        Mean = "mean";
        /// Largest sample.
        Max = "max";
        /// Smallest sample.
        Min = "min";
        /// At the end of the phase, after the steps of `at_end`.
        End = "end";
        /// At the end of the phase, before the steps of `at_end`, such as a forced garbage collection.
        Before = "before";
        /// Exact peak where the kernel keeps one (`rss`: `VmHWM` after `clear_refs`), else missing; never a sampled value.
        Peak = "peak";
    }
}
