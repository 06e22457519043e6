//! Which limits of control groups this machine can enforce, and which of them would limit nothing.

use prony_model::number::count;
use prony_model::spec::Limits;
use prony_os::limits::{Limit, State};
use prony_os::processors::usable;

/// Why a limit cannot be enforced here, if so, and a hint.
pub(crate) fn unenforceable(limit: Limit) -> Option<(String, String)> {
    let State::No(why) = limit.ability() else { return None };
    Some((format!("the experiment limits `{}`, which cannot be enforced here", limit.name()), why))
}

/// Why a limit of CPU time would limit nothing here, if so, and a hint: variants with such limits would be equal, with a verdict of no
/// difference.
pub(crate) fn limits_nothing(limit: Limit, limits: &Limits) -> Option<(String, String)> {
    let wanted = limits.cpus.filter(|_| limit == Limit::Cpus)?;
    let usable = usable().filter(|usable| wanted > *usable)?;
    let message = format!(
        "the experiment limits `cpus` to {wanted}, but prony may use {}, so that the limit would have no effect",
        count(usable, "processor")
    );
    let hint = format!(
        "write at most {usable} or leave the limit out, or let prony use more processors: `taskset -p $$` shows those of this shell"
    );
    Some((message, hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 2 and 8 processors' worth on a machine with 2, the verdict was that there is no difference.
    #[test]
    fn cpus_above_those_that_prony_may_use_are_refused() {
        let most = usable().unwrap();
        let limits = |cpus| Limits { cpus: Some(cpus), ..Limits::default() };
        let of = |cpus| limits_nothing(Limit::Cpus, &limits(cpus));
        assert_eq!((of(most), of(most / 2.0), limits_nothing(Limit::Memory, &limits(most + 1.0))), (None, None, None));
        let (message, hint) = of(most + 1.0).unwrap();
        let said = (format!("but prony may use {}", count(most, "processor")), format!("write at most {most} or"));
        assert!(message.contains(&said.0) && hint.contains(&said.1), "{message}: {hint}");
    }
}
