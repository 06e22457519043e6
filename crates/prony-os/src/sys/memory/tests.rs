//! Tests of whether processes share their memory, and a process that does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use super::*;

extern "C" fn wait(_: *mut libc::c_void) -> libc::c_int {
    loop {
        // SAFETY: it takes nothing; only a signal that ends the child interrupts it.
        unsafe { libc::pause() };
    }
}

/// A child that stays in our memory until it is dropped.
pub(crate) struct InOurMemory {
    pub(crate) pid: Pid,
    _stack: Vec<u128>,
}

impl InOurMemory {
    pub(crate) fn start() -> Self {
        let mut stack = vec![0u128; 4096];
        // SAFETY: the stack's end is aligned, and it exists until the child has been waited for.
        let pid = unsafe {
            let top = stack.as_mut_ptr().add(stack.len());
            libc::clone(wait, top.cast(), libc::CLONE_VM | libc::SIGCHLD, std::ptr::null_mut())
        };
        Self { pid: Pid::from_raw(pid).expect("a child is made"), _stack: stack }
    }
}

impl Drop for InOurMemory {
    fn drop(&mut self) {
        rustix::process::kill_process(self.pid, rustix::process::Signal::KILL).unwrap();
        rustix::process::waitpid(Some(self.pid), rustix::process::WaitOptions::empty()).unwrap();
    }
}

/// A child whose first thread has ended while another one waits; it ends when this is dropped.
pub(crate) struct WithoutFirstThread(pub(crate) Pid);

impl WithoutFirstThread {
    pub(crate) fn start() -> Self {
        let mut stack = vec![0u128; 4096];
        // SAFETY: the child has a copy of the stack, whose end is aligned, and makes system calls only.
        let pid = unsafe {
            let pid = libc::fork();
            if pid == 0 {
                let as_thread = libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
                libc::clone(wait, stack.as_mut_ptr().add(stack.len()).cast(), as_thread, std::ptr::null_mut());
                libc::syscall(libc::SYS_exit, 0);
            }
            pid
        };
        let child = Self(Pid::from_raw(pid).expect("a child is made"));
        let state = || std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        while !state().contains("(zombie)") {
            std::thread::yield_now();
        }
        child
    }
}

impl Drop for WithoutFirstThread {
    fn drop(&mut self) {
        rustix::process::kill_process(self.0, rustix::process::Signal::KILL).unwrap();
        rustix::process::waitpid(Some(self.0), rustix::process::WaitOptions::empty()).unwrap();
    }
}

/// The begin of a program was once reported while its process still had its spawner's memory.
#[test]
fn a_process_in_our_memory_is_waited_for() {
    // To the kernel a thread is such a child.
    let (sender, receiver) = mpsc::channel();
    let left = Arc::new(AtomicBool::new(false));
    let leaves = Arc::clone(&left);
    let thread = std::thread::spawn(move || {
        sender.send(rustix::thread::gettid()).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        leaves.store(true, Ordering::SeqCst);
    });
    let task = receiver.recv().unwrap();
    assert!(share_memory(getpid(), task));
    wait_for_own_memory(task);
    assert!(left.load(Ordering::SeqCst));
    thread.join().unwrap();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    assert!(!share_memory(getpid(), Pid::from_child(&child)));
    child.kill().unwrap();
    child.wait().unwrap();
}
