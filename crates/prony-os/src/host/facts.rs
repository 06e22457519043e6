//! Reads facts about the machine. Where they differ, results of two machines or of two days are hard to compare.

use std::fs;
use std::path::Path;

use prony_model::reading::Reading;
use prony_model::record::host::{Disk, Facts, Processor};
use prony_model::units::Bytes;

use super::conditions::megahertz;
use crate::mount;
use crate::sample::device::Device;
use crate::sample::parse::kib;
use crate::sys::c_library;
use crate::why::{parse_file, parse_with, read_text};

/// Reads all facts about the machine; trials run in `directory`.
pub fn facts(directory: &Path) -> Facts {
    let meminfo = |key: &str| parse_with(read_text("/proc/meminfo"), key, |text| kib(text, key));
    Facts {
        host: word("/proc/sys/kernel/hostname"),
        kernel: word("/proc/sys/kernel/osrelease"),
        architecture: std::env::consts::ARCH.to_owned(),
        libc: Reading::Measured(c_library::name()),
        allocator: Reading::Measured(allocator(c_library::allocator_file().as_deref())),
        processor: processor(),
        memory: meminfo("MemTotal:"),
        swap: meminfo("SwapTotal:"),
        huge_pages: chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
        clock_source: word("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        virtualisation: virtualisation(),
        cgroups: parse_file(mount::TABLE, |text| Some(cgroups(text))),
        perf_event_paranoid: number("/proc/sys/kernel/perf_event_paranoid"),
        address_randomisation: number("/proc/sys/kernel/randomize_va_space"),
        file_system: mount::of(directory),
        disks: Device::of(directory).measured().map(disks).unwrap_or_default(),
    }
}

/// By the file that holds `malloc`; its directory differs between machines and says nothing.
fn allocator(file: Option<&Path>) -> String {
    match file.and_then(Path::file_name) {
        Some(name) => format!("malloc of {}", name.display()),
        None => format!("malloc of {}", c_library::name()),
    }
}

fn word(path: &str) -> Reading<String> {
    read_text(path).map(|text| text.trim().to_owned())
}

fn number(path: &str) -> Reading<i64> {
    parse_file(path, |text| text.trim().parse().ok())
}

/// The word in brackets of a file that lists choices: `always [madvise] never`.
fn chosen(path: &str) -> Reading<String> {
    parse_file(path, bracketed)
}

fn bracketed(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn processor() -> Processor {
    let info = read_text("/proc/cpuinfo");
    let smt =
        parse_with(read_text("/sys/devices/system/cpu/smt/active"), "`smt/active`", |text| Some(text.trim() == "1"));
    let megahertz = match megahertz() {
        Reading::Measured(current) => Reading::Measured(current),
        Reading::Missing(_) => parse_with(info.clone(), "`cpu MHz`", |text| field(text, "cpu MHz")?.parse().ok()),
    };
    Processor {
        // Arm kernels give numbers instead of a name.
        model: parse_with(info.clone(), "`model name`", |text| {
            field(text, "model name").or(field(text, "CPU part")).map(str::to_owned)
        }),
        logical: parse_with(info.clone(), "`/proc/cpuinfo`", |text| Some(fields(text, "processor").count() as u64)),
        cores: parse_with(info, "`core id`", cores),
        smt,
        governor: word("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        megahertz,
    }
}

fn fields<'a>(cpuinfo: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    let pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    pairs.filter(move |(name, _)| name.trim() == key).map(|(_, value)| value.trim())
}

fn field<'a>(cpuinfo: &'a str, key: &'a str) -> Option<&'a str> {
    fields(cpuinfo, key).next()
}

/// Distinct pairs of package and core.
fn cores(cpuinfo: &str) -> Option<u64> {
    let mut pairs: Vec<(&str, &str)> = fields(cpuinfo, "physical id").zip(fields(cpuinfo, "core id")).collect();
    pairs.sort_unstable();
    pairs.dedup();
    (!pairs.is_empty()).then_some(pairs.len() as u64)
}

fn virtualisation() -> Reading<String> {
    let vendor =
        ["/sys/hypervisor/type", "/sys/class/dmi/id/sys_vendor"].iter().find_map(|path| fs::read_to_string(path).ok());
    parse_with(read_text("/proc/cpuinfo"), "`/proc/cpuinfo`", |info| Some(virtual_kind(info, vendor.as_deref())))
}

/// By the processor's `hypervisor` flag; the vendor's name where it is one of virtual machines.
fn virtual_kind(cpuinfo: &str, vendor: Option<&str>) -> String {
    let names = ["QEMU", "KVM", "VMware", "Amazon EC2", "Google", "Microsoft", "Xen", "xen", "innotek", "Parallels"];
    let named = vendor.map(str::trim).and_then(|vendor| names.iter().find(|name| vendor.contains(**name)));
    let flagged = field(cpuinfo, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    match (flagged, named) {
        (true, Some(name)) => (*name).to_owned(),
        (true, None) => "some".to_owned(),
        (false, _) => "none".to_owned(),
    }
}

fn cgroups(mountinfo: &str) -> String {
    let mounted = |kind: &str| mount::parse(mountinfo.as_bytes()).any(|mount| mount.kind == kind);
    match (mounted("cgroup"), mounted("cgroup2")) {
        (true, true) => "v1 and v2",
        (true, false) => "v1",
        (false, true) => "v2",
        (false, false) => "none",
    }
    .to_owned()
}

fn disks(device: &Device) -> Vec<Disk> {
    device.names().iter().map(|name| disk(name)).collect()
}

fn disk(name: &str) -> Disk {
    let queue = |file: &str| format!("/sys/block/{name}/queue/{file}");
    Disk {
        name: name.to_owned(),
        read_ahead: parse_file(queue("read_ahead_kb"), |text| text.trim().parse().ok().map(Bytes::from_kib)),
        // A device without a scheduler says `none` without brackets.
        scheduler: read_text(queue("scheduler")).map(|text| bracketed(&text).unwrap_or_else(|| text.trim().to_owned())),
        rotational: number(&queue("rotational")).map(|flag| flag == 1),
        write_cache: word(&queue("write_cache")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "processor\t: 0\nmodel name\t: Some CPU @ 3: fast\nphysical id\t: 0\ncore id\t\t: 0\nflags\t\t: fpu hypervisor sse\n\n\
        processor\t: 1\nmodel name\t: Some CPU\nphysical id\t: 0\ncore id\t\t: 0\n\nprocessor\t: 2\nphysical id\t: 1\ncore id\t\t: 0\n";

    #[test]
    fn cpuinfo_counts_cores_not_threads() {
        assert_eq!(fields(INFO, "processor").count(), 3);
        assert_eq!(cores(INFO), Some(2));
        assert_eq!(cores("processor: 0\n"), None, "without core numbers nothing is known");
        assert_eq!(field(INFO, "model name"), Some("Some CPU @ 3: fast"));
    }

    #[test]
    fn a_virtual_machine_is_known_by_its_flag() {
        assert_eq!(virtual_kind(INFO, Some("QEMU\n")), "QEMU");
        assert_eq!(virtual_kind(INFO, None), "some");
        assert_eq!(virtual_kind("flags : fpu\n", Some("Dell Inc.")), "none");
    }

    #[test]
    fn the_allocator_is_named_without_its_directory() {
        assert_eq!(allocator(Some(Path::new("/lib/x86_64-linux-gnu/libc.so.6"))), "malloc of libc.so.6");
        assert_eq!(allocator(Some(Path::new("/opt/lib/libjemalloc.so.2"))), "malloc of libjemalloc.so.2");
        assert_eq!(allocator(None), format!("malloc of {}", c_library::name()));
    }

    #[test]
    fn choices_and_sizes_are_read() {
        assert_eq!(bracketed("always [madvise] never\n"), Some("madvise".into()));
        assert_eq!(bracketed("none\n"), None);
        assert_eq!(kib("MemTotal:   24684084 kB\nSwapTotal:  0 kB\n", "SwapTotal:"), Some(Bytes::default()));
        assert_eq!(kib("MemTotal: 5\n", "MemTotal:"), None);
    }

    #[test]
    fn control_group_versions_are_distinguished() {
        let v1 = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        let v2 = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        assert_eq!(
            [cgroups(v1), cgroups(v2), cgroups(&format!("{v1}{v2}")), cgroups("")],
            ["v1", "v2", "v1 and v2", "none"]
        );
    }
}
