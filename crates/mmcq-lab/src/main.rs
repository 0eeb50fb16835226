//! The program `mmcq`: runs fio jobs on simulated boards, reproduces published tables, shows cards.

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
