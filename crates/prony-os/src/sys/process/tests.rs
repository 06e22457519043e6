//! Tests of how processes are started and waited for.

use super::*;

#[test]
fn spawn_page_reports_one_spawn_until_cleared() {
    let page = SpawnPage::new().unwrap();
    assert!(page.get().is_none() && page.pid().is_none() && page.failed().is_none());
    // A late report, of the previous child.
    page.report_executed();
    page.report_candidate(3);
    page.report_instant();
    let spawn = page.get().unwrap();
    assert_eq!((spawn.candidate, spawn.executed), (3, None), "a report from before the spawn is not its own");
    page.report_executed();
    assert!(page.get().unwrap().executed.unwrap() >= spawn.at);
    page.fail(Step::Exec, libc::ENOEXEC);
    assert_eq!(page.failed(), Some((Step::Exec, libc::ENOEXEC)));
    page.open();
    page.wait_until_open();
    page.clear();
    assert!(page.get().is_none() && page.failed().is_none());
    assert_eq!(page.fields().open.load(Ordering::Acquire), 0, "nor is another made");
}

#[test]
fn what_is_not_there_is_passed_over_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "no program").unwrap();
    let text = |path: &std::path::Path| std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    let all = [text(&dir.path().join("none")), text(&file.join("below")), text(&file), text(dir.path())];
    let list = |texts: &[std::ffi::CString]| -> Vec<*const c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
    };
    // SAFETY: lists of strings that outlive the call, ended by null.
    let count = |texts: &[std::ffi::CString]| unsafe { absent(&list(texts)) };
    assert_eq!((count(&all), count(&all[..2]), count(&all[2..])), (2, 2, 0));
}
