//! The data that services are set up with once for a variant, and that each of its trials begins with a copy of.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use prony_model::units::Nanos;
use prony_os::launch::Scratch;

/// The data of a run's variants, made when they are first needed and removed when this is dropped.
#[derive(Debug, Default)]
pub struct InitialData {
    made: RefCell<BTreeMap<usize, Rc<Scratch>>>,
    took: Cell<Duration>,
}

impl InitialData {
    /// The directory with a variant's data; made by `make` at the first request, and again after a fault `F`, which is the
    /// result of a trial.
    ///
    /// # Errors
    /// Those of `make`.
    pub(crate) fn of<F, E>(
        &self,
        variant: usize,
        make: impl FnOnce() -> Result<Result<Scratch, F>, E>,
    ) -> Result<Result<Rc<Scratch>, F>, E> {
        let made = self.made.borrow().get(&variant).map(Rc::clone);
        if let Some(made) = made {
            return Ok(Ok(made));
        }
        let began = Instant::now();
        let made = make()?.map(Rc::new);
        self.took.set(self.took.get() + began.elapsed());
        made.iter().for_each(|made| drop(self.made.borrow_mut().insert(variant, Rc::clone(made))));
        Ok(made)
    }

    /// The time that making all of them took, which no later trial repeats.
    pub(crate) fn made_in(&self) -> Nanos {
        Nanos::from_nanos(u64::try_from(self.took.get().as_nanos()).unwrap_or(u64::MAX))
    }
}
