//! An input that grows: parts that the chain names, in its order.

use std::sync::Arc;

use super::InputPlan;
use crate::store::{Output, StoreError};
use crate::wire::{Part, Plan};

/// The input as far as its parts are known, and where to read more of them.
#[derive(Clone, Debug)]
pub struct Parts {
    /// None for an input that is whole from the start.
    output: Option<Output>,
    known: Vec<Part>,
    plan: Arc<InputPlan>,
}

// ===== impl Parts =====

impl Parts {
    /// Takes the parts that lie in this folder, none so far.
    #[must_use]
    pub fn stored(output: Output) -> Self {
        Self {
            output: Some(output),
            known: Vec::new(),
            plan: Arc::new(InputPlan::from_stored(Plan::default())),
        }
    }

    /// Says whether parts may be added to the input.
    #[must_use]
    pub fn may_grow(&self) -> bool {
        self.output.is_some()
    }

    /// Returns the plan of these parts; an input that is whole has none.
    ///
    /// # Errors
    ///
    /// [`StoreError`] with the first part that is missing or damaged.
    pub fn plan(&mut self, parts: &[Part]) -> Result<Arc<InputPlan>, StoreError> {
        if let Some(output) = &self.output
            && self.known != parts
        {
            let mut plan = InputPlan::from_stored(Plan::default());
            for part in parts {
                plan.extend(output.read_part(part)?);
            }
            self.plan = Arc::new(plan);
            self.known = parts.to_vec();
        }
        Ok(Arc::clone(&self.plan))
    }
}

impl From<Arc<InputPlan>> for Parts {
    /// Takes an input that is whole.
    fn from(plan: Arc<InputPlan>) -> Self {
        Self {
            output: None,
            known: Vec::new(),
            plan,
        }
    }
}
