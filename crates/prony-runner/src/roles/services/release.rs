//! The release of a launched service on its processors.

use std::path::Path;

use prony_model::service::ServiceSpec;
use prony_os::launch::{Process, Started};
use prony_os::processors::confine;

use crate::error::Error;
use crate::roles::beside::executed;

/// Lets the process of a service execute its command, on the processors of the service; or why it cannot be executed.
pub(super) fn released(
    process: &mut dyn Process,
    (service, directory): (&ServiceSpec, &Path),
    commands: bool,
) -> Result<Result<Started, String>, Error> {
    let failed = Error::setup("confine a service to its processors");
    let confined = |pid| confine(pid, &service.processors).map_err(&failed);
    let before = process.suspended().filter(|_| !service.processors.is_empty());
    before.map(confined).transpose()?;
    process.release()?;
    let started = executed(process.started(&[]), commands, Some(directory))?;
    // One that is made when it is released has run for a moment.
    if let (Ok(started), None, false) = (&started, before, service.processors.is_empty()) {
        confined(started.pid)?;
    }
    Ok(started)
}
