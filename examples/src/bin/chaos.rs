//! A barrier loop under faults that a seed plans, and whether everything held.

use std::process::ExitCode;

use examples::chaos::{Limits, Orders, Outcome, Setup, enter, run};
use examples::cli::ChaosArgs;
use examples::process::code::{DONE, INTERRUPTED, NOT_EQUAL, NOT_KILLED};
use examples::process::{self, cancel_on_signal, exit, say};
use tokio_util::sync::CancellationToken;

const PROGRAM: &str = "chaos";

type Error = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let args = match process::arguments::<ChaosArgs>(PROGRAM) {
        Ok(args) => args,
        Err(code) => return exit(code),
    };
    if !args.inside {
        // Before there is any thread or child.
        let inside = ["--inside".into()];
        let error = enter(std::env::args_os().skip(1).chain(inside));
        return exit(process::complain(PROGRAM, &error.to_string()));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let code = match runtime {
        // On the main thread: with it the children end.
        Ok(runtime) => runtime.block_on(endure(&args)),
        Err(error) => Err(error.into()),
    };
    exit(code.unwrap_or_else(|error| process::complain(PROGRAM, &error.to_string())))
}

async fn endure(args: &ChaosArgs) -> Result<u8, Error> {
    if args.verbose {
        process::log_to_stderr(false);
    }
    let temporary;
    let folder = match &args.out {
        Some(out) => std::path::absolute(out)?,
        None => {
            temporary = tempfile::tempdir()?;
            temporary.path().to_owned()
        }
    };
    std::fs::create_dir_all(&folder)?;
    if std::fs::read_dir(&folder)?.next().is_some() {
        return Err(format!("{} is not empty: name a new folder", folder.display()).into());
    }
    let own = std::env::current_exe()?;
    let programs = own.parent().ok_or("this program lies in no folder")?;
    let limits = Limits::for_ttl(args.ttl).with_slack(args.slack);
    let mut setup = Setup::new(programs, &folder, limits);
    if args.verbose {
        setup.args.push("--verbose".to_owned());
    }
    #[cfg(feature = "controls")]
    for half in &args.without {
        setup.is_guarded &= *half != examples::controls::Half::Guard;
        setup
            .args
            .extend(["--without".to_owned(), half.to_string()]);
    }
    let mut orders = Orders::new(args.seed, args.length);
    if !args.only.is_empty() {
        orders.kinds.clone_from(&args.only);
    }
    say(format_args!("seed {} for {:?}", orders.seed, orders.length));
    let stop = CancellationToken::new();
    let stopped = async {
        cancel_on_signal(stop.clone()).await;
        // It ends without a signal where none can be waited for.
        stop.cancelled().await;
    };
    tokio::select! {
        outcome = Box::pin(run(&setup, &orders, |line| say(line))) => Ok(judge(&outcome?)),
        () = stopped => Ok(INTERRUPTED),
    }
}

fn judge(outcome: &Outcome) -> u8 {
    say(outcome);
    if !outcome.violations.is_empty() {
        return NOT_EQUAL;
    }
    if outcome.missing.is_empty() {
        DONE
    } else {
        NOT_KILLED
    }
}
