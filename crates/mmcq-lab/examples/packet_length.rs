//! Sends packets of the SDIO experiment with mmcq's engine, without a wait between them.
//! `tools/path-length.sh` counts the instructions of this program.

use mmcq_lab::sdio::ours::Stay;
use mmcq_lab::sdio::platform::{Board, NAME};
use mmcq_lab::sdio::{Run, Way, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (dma, packets) = match args.as_slice() {
        [who, packets] if who == "dma" || who == "cpu" => (who == "dma", packets.parse().unwrap_or(0)),
        _ => (false, 0),
    };
    if !(1..=100_000).contains(&packets) {
        eprintln!("usage: packet_length dma|cpu PACKETS, 1 to 100000");
        return ExitCode::from(2);
    }
    let outcome = Board::load(NAME).map_err(Into::into).and_then(|board| {
        let way = Way::Ours { stay: Stay::Never, own: true, dma, asks: false };
        run(&Run { board: &board, way, thief: None, for_ns: packets * 4_000_000, seed: 1 })
    });
    match outcome {
        Ok(outcome) => println!("packets {} interrupts {}", outcome.packets, outcome.interrupts),
        Err(error) => {
            eprintln!("packet_length: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
