//! What a lease of some length tolerates, and how long a failover takes with it.

use std::process::ExitCode;

use examples::cli::LeaseArgs;
use examples::lease::{Lease, sheet};
use examples::process::code::DONE;
use examples::process::{arguments, complain, exit, say};

const PROGRAM: &str = "lease-calculator";

fn main() -> ExitCode {
    let args = match arguments::<LeaseArgs>(PROGRAM) {
        Ok(args) => args,
        Err(code) => return exit(code),
    };
    match Lease::new(&args) {
        Ok(lease) => {
            say(sheet(&lease));
            exit(DONE)
        }
        Err(misfit) => exit(complain(PROGRAM, &misfit.to_string())),
    }
}
