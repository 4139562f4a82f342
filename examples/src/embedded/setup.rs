//! From the command line to an input and an output folder that can be used.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::cli::Args;
use crate::input::{InputError, InputPlan, default_input, find_files};
use crate::meta::Settings;
use crate::status::Status;
use crate::store::{Store, StoreError};
use crate::wire::Source;

/// How often the removal of a temporary folder is tried, and the pause in between.
const REMOVE_TRIES: u32 = 40;
const REMOVE_PAUSE: Duration = Duration::from_millis(25);

/// A run that may begin.
#[derive(Debug)]
#[non_exhaustive]
pub struct Setup {
    /// The output folder, held by this run.
    pub store: Store,
    /// The input.
    pub plan: Arc<InputPlan>,
    /// How the loop behaves.
    pub settings: Settings,
    /// Removes the output folder at the end where the user named none.
    temporary: Option<tempfile::TempDir>,
}

/// Why a run may not begin; one line that says what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum SetupError {
    /// The input is wrong.
    Input(InputError),
    /// The output folder is wrong.
    Store(StoreError),
    /// No temporary folder can be made.
    Temporary(std::io::Error),
    /// The output folder is, or lies above, an input.
    OutputHoldsInput(PathBuf),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(error) => write!(f, "{error}"),
            Self::Store(error) => write!(f, "{error}"),
            Self::Temporary(error) => {
                write!(f, "no temporary folder can be made: {error}; use --out")
            }
            Self::OutputHoldsInput(path) => write!(
                f,
                "the output folder holds the input {}: use another --out",
                path.display()
            ),
        }
    }
}

impl std::error::Error for SetupError {}

impl Setup {
    /// Checks the input first, then opens the output folder.
    ///
    /// # Errors
    ///
    /// [`SetupError`]; nothing is left behind.
    pub fn new(args: &Args) -> Result<Self, SetupError> {
        let is_default = args.inputs.is_empty();
        let inputs = if is_default {
            vec![default_input()]
        } else {
            args.inputs.clone()
        };
        if let Some(out) = &args.out {
            refuse_output_above(out, &inputs)?;
        }
        let found =
            find_files(&inputs, args.out.as_deref(), is_default).map_err(SetupError::Input)?;
        // Read before anything is made: a folder that holds no plan is still untouched.
        let is_new = !args
            .out
            .as_ref()
            .is_some_and(|out| out.join("plan").exists());
        let files = if is_new {
            Files::Planned(InputPlan::new(found).map_err(SetupError::Input)?)
        } else {
            Files::Found(found)
        };
        let mut temporary = None;
        let folder = match &args.out {
            Some(out) => out.clone(),
            None => {
                let made = tempfile::tempdir().map_err(SetupError::Temporary)?;
                temporary.insert(made).path().to_owned()
            }
        };
        let store = Store::open(&folder).map_err(SetupError::Store)?;
        let plan = match store.plan().map_err(SetupError::Store)? {
            Some(stored) => {
                let plan = InputPlan::from_stored(stored);
                plan.check_unchanged(files.sources())
                    .map_err(SetupError::Input)?;
                plan
            }
            None => {
                let plan = files.into_plan().map_err(SetupError::Input)?;
                store.keep_plan(plan.stored()).map_err(SetupError::Store)?;
                plan
            }
        };
        Ok(Self {
            settings: settings(args, &plan),
            store,
            plan: Arc::new(plan),
            temporary,
        })
    }

    /// Returns what a run of so many workers shows before anybody leads.
    #[must_use]
    pub fn first_status(&self, workers: u16) -> Status {
        let head = self.store.head();
        let counted = self.plan.counted(&self.plan.reached(&head.positions));
        Status {
            epoch: head.id(),
            committed_bytes: counted,
            read_bytes: counted,
            total_bytes: self.plan.total_bytes(),
            workers: usize::from(workers),
            ..Status::default()
        }
    }

    /// Removes the output folder where the user named none.
    ///
    /// A worker's thread may still write its last snapshot there: it is tried again
    /// for a while.
    pub fn remove_temporary(mut self) {
        let Some(folder) = self.temporary.take() else {
            return;
        };
        for _ in 0..REMOVE_TRIES {
            match std::fs::remove_dir_all(folder.path()) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {}
                _ => return,
            }
            std::thread::sleep(REMOVE_PAUSE);
        }
    }
}

/// The files that were found, cut into a plan or not yet.
enum Files {
    Found(Vec<Source>),
    Planned(InputPlan),
}

impl Files {
    fn sources(&self) -> &[Source] {
        match self {
            Self::Found(found) => found,
            Self::Planned(plan) => &plan.stored().sources,
        }
    }

    fn into_plan(self) -> Result<InputPlan, InputError> {
        match self {
            Self::Found(found) => InputPlan::new(found),
            Self::Planned(plan) => Ok(plan),
        }
    }
}

fn settings(args: &Args, plan: &InputPlan) -> Settings {
    let share = (plan.total_bytes() / 32).clamp(4 * 1024, 4 * 1024 * 1024);
    Settings::default()
        .with_interval(args.interval)
        .with_epoch_bytes(args.epoch_bytes.unwrap_or(share))
}

fn refuse_output_above(out: &std::path::Path, inputs: &[PathBuf]) -> Result<(), SetupError> {
    let Ok(out) = out.canonicalize() else {
        return Ok(());
    };
    for input in inputs {
        if input
            .canonicalize()
            .is_ok_and(|input| input.starts_with(&out))
        {
            return Err(SetupError::OutputHoldsInput(input.clone()));
        }
    }
    Ok(())
}
