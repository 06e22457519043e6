//! Finds where control groups can be made: the mounted hierarchies, and this process's group in each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::mount::{self, MountPoint};
use crate::owner::{ProcessId, is_name};
use crate::why::kernel_text;

/// This process's group in each hierarchy; new groups are made below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hierarchies {
    /// Version 1: a directory for each controller.
    pub(super) v1: BTreeMap<String, PathBuf>,
    /// Version 2: one directory.
    pub(super) v2: Option<PathBuf>,
}

impl Hierarchies {
    /// As this process finds them now; none on a kernel without control groups.
    pub(super) fn read() -> Self {
        Self::of("self")
    }

    /// The groups of another process, by its number; of version 1 that in which it has its own.
    pub(super) fn of(process: &str) -> Self {
        let read = |path: &str| kernel_text(path).unwrap_or_default();
        Self::parse(&read(mount::TABLE), &read(&format!("/proc/{process}/cgroup")))
    }

    /// From the texts of `/proc/self/mountinfo` and `/proc/self/cgroup`.
    fn parse(mountinfo: &str, cgroup: &str) -> Self {
        let places: Vec<(Vec<&str>, &str)> = cgroup.lines().filter_map(parse_place).collect();
        let mut found = Self::default();
        for mount in mount::parse(mountinfo.as_bytes()) {
            for (controllers, path) in &places {
                let own = || own_directory(&mount, path);
                if mount.kind == "cgroup2" && controllers.is_empty() {
                    found.v2.get_or_insert_with(|| outside_our_leaf(own()));
                } else if mount.kind == "cgroup" {
                    for controller in controllers.iter().filter(|c| mount.options.split(',').any(|o| o == **c)) {
                        found.v1.entry((*controller).to_owned()).or_insert_with(own);
                    }
                }
            }
        }
        found
    }
}

/// A line of `/proc/self/cgroup`: its controllers (none for version 2) and our path.
fn parse_place(line: &str) -> Option<(Vec<&str>, &str)> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, path) = (fields.next()?, fields.next()?);
    Some((controllers.split(',').filter(|name| !name.is_empty()).collect(), path))
}

/// The name of the group that a runner on version 2 may have to move itself into, since a group with processes of
/// its own gives no controllers to groups below it.
pub(super) fn leaf_name(owner: ProcessId) -> String {
    owner.only_name("runner")
}

fn outside_our_leaf(own: PathBuf) -> PathBuf {
    let is_leaf = |name: &str| name.ends_with("-runner") && is_name(name);
    match (own.file_name().and_then(|name| name.to_str()), own.parent()) {
        (Some(name), Some(parent)) if is_leaf(name) => parent.to_owned(),
        _ => own,
    }
}

/// Our group's directory under this mount; the mount's top where our path lies outside of it.
fn own_directory(mount: &MountPoint, path: &str) -> PathBuf {
    let below = Path::new(path).strip_prefix(&mount.root).unwrap_or_else(|_| Path::new(""));
    if below.as_os_str().is_empty() || below.starts_with("..") { mount.point.clone() } else { mount.point.join(below) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_2_only_hierarchy_is_found() {
        let found = Hierarchies::parse(
            "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n22 1 8:1 / / rw - ext4 /dev/sda1 rw",
            "0::/user.slice/run-1.scope\n",
        );
        assert_eq!(found.v2, Some("/sys/fs/cgroup/user.slice/run-1.scope".into()));
        assert!(found.v1.is_empty());
    }

    #[test]
    fn a_mixed_machine_gives_both() {
        let found = Hierarchies::parse(
            "32 31 0:29 / /c/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
             35 31 0:32 / /c/me\\040m rw - cgroup cgroup rw,memory\n\
             40 31 0:37 / /c/systemd rw - cgroup cgroup rw,name=systemd\n\
             41 31 0:38 / /c/unified rw - cgroup2 cgroup2 rw",
            "9:name=systemd:/\n4:memory:/a/b\n2:cpu,cpuacct:/x\n0::/\n",
        );
        assert_eq!(found.v2, Some("/c/unified".into()));
        assert_eq!(found.v1["memory"], Path::new("/c/me m/a/b"));
        assert_eq!(found.v1["cpu"], Path::new("/c/cpu,cpuacct/x"));
        assert_eq!(found.v1["cpu"], found.v1["cpuacct"]);
    }

    #[test]
    fn a_container_sees_its_part() {
        let line = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory";
        let own = |path: &str| Hierarchies::parse(line, &format!("4:memory:{path}")).v1["memory"].clone();
        assert_eq!(own("/docker/abc/sub"), Path::new("/sys/fs/cgroup/memory/sub"));
        assert_eq!(own("/docker/abc"), Path::new("/sys/fs/cgroup/memory"));
        assert_eq!(own("/elsewhere"), Path::new("/sys/fs/cgroup/memory"));
    }

    #[test]
    fn a_runner_in_its_leaf_makes_groups_beside_it() {
        let leaf = leaf_name(ProcessId { pid: 12, start: 34 });
        let own = |path: &str| {
            let mount = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
            Hierarchies::parse(mount, &format!("0::{path}")).v2.unwrap()
        };
        assert_eq!(own(&format!("/scope/{leaf}")), Path::new("/sys/fs/cgroup/scope"));
        assert_eq!(own("/scope/test-runner"), Path::new("/sys/fs/cgroup/scope/test-runner"));
    }

    #[test]
    fn nonsense_finds_nothing() {
        assert_eq!(Hierarchies::parse("x\n- -\n", "::\nabc"), Hierarchies::default());
    }
}
