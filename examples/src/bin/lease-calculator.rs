//! What a lease of some length tolerates, and how long a failover takes with it.

use std::io::Write;
use std::process::ExitCode;

use examples::cli::LeaseArgs;
use examples::lease::{Lease, sheet};
use examples::process::code::DONE;
use examples::process::{arguments, complain, exit};

const PROGRAM: &str = "lease-calculator";

fn main() -> ExitCode {
    let args = match arguments::<LeaseArgs>(PROGRAM) {
        Ok(args) => args,
        Err(code) => return exit(code),
    };
    match Lease::new(&args) {
        Ok(lease) => {
            // Fails where nobody reads.
            let _ = std::io::stdout().write_all(sheet(&lease).as_bytes());
            exit(DONE)
        }
        Err(misfit) => exit(complain(PROGRAM, &misfit.to_string())),
    }
}
