//! The program `mmcq`: run fio jobs on simulated boards, reproduce published tables, look at cards.

#![deny(unsafe_code)]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::Cli::given().and_then(cli::Cli::run) {
        Ok(code) => code,
        Err(error) => {
            cli::fault(&error);
            error.code()
        }
    }
}
