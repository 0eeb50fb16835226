//! `mmcq vfio`: runs the same driver and engine on a real card reader.

mod stream_test;

use super::form::Form;
use super::serve::{ENDING, Listen};
use super::{Error, card, print};
use clap::{Args, Subcommand, ValueEnum};
use mmcq::card::Card;
use mmcq::engine::{self, BLOCK_BYTES, DmaBuf, Kind, Request};
use mmcq::host::sdhci::{OpenWrites, SdhciConfig, SdhciQuirks, StreamConfig};
use mmcq_lab::registers::{self, Field};
use mmcq_lab::serve;
use mmcq_vfio::{Address, Options, PIECE_BYTES, Reader, Stack};
use std::fs::File;
use std::future::poll_fn;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::task::Poll;
use std::time::Instant;

const PIECE_BLOCKS: u32 = PIECE_BYTES / BLOCK_BYTES;
/// Number of requests that the commands have under way at a time. Contiguous requests become one
/// transfer.
const DEPTH: usize = 8;

/// Drive the card in a real PCI reader (SDHCI), from user space
///
/// This program takes the reader over through VFIO. With an IOMMU, the reader's DMA reaches 2 MiB
/// of this program's memory and nothing else. The reader must be bound to vfio-pci instead of the
/// system's own driver; if it is not, the error shows the command that binds it. As long as it is
/// bound so, the system does not see the card as a disk: unmount the card first.
#[derive(Debug, Args)]
#[command(after_help = "Example (as root, or who owns /dev/vfio/GROUP; lspci -D finds the address):
  mmcq vfio 0000:00:04.0 info
  mmcq vfio 0000:00:04.0 read --lba 0 --blocks 2048 first-mebibyte.img
  mmcq vfio 0000:00:04.0 write --lba 2048 data.img --write
  mmcq vfio 0000:00:04.0 stream-test >report.txt
  mmcq vfio 0000:00:04.0 serve --socket card.sock
  nbdinfo 'nbd+unix:///card?socket=card.sock'
Back to the system's driver: cd /sys/bus/pci && echo > devices/ADDRESS/driver_override &&
  echo ADDRESS > devices/ADDRESS/driver/unbind && echo ADDRESS > drivers_probe")]
pub struct Vfio {
    /// PCI address of the controller, as lspci -D shows it
    address: String,
    /// Number of the slot, from 0, if the PCI device has several controllers
    #[arg(long, value_name = "N", default_value_t = 0, global = true, value_parser = slot)]
    slot: u8,
    /// A quirk of the controller (no-busy-irq, broken-adma, ...); may be repeated
    #[arg(long, value_name = "NAME", global = true)]
    quirk: Vec<String>,
    /// Accesses the registers by system calls, which strace shows, even if they could be mapped
    /// into memory
    #[arg(long, global = true)]
    by_calls: bool,
    /// Works without an IOMMU. UNSAFE: the reader's DMA then reaches all of the machine's memory.
    /// Needs root, vfio.enable_unsafe_noiommu_mode=1 and a large page
    #[arg(long, global = true)]
    noiommu: bool,
    /// Keeps transfers open over several requests, by this method. May be given twice, for reads
    /// and for writes. Test the method first (stream-test)
    #[arg(long, value_name = "WAY", global = true)]
    open: Vec<Way>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Bring the card up; print the reader and the decoded registers of the card
    Info {
        #[command(flatten)]
        form: Form,
    },
    /// Copy blocks of 512 bytes from the card to a file
    Read {
        /// First block
        #[arg(long, value_name = "N", default_value_t = 0, value_parser = super::whole)]
        lba: u64,
        /// Number of blocks [default: all blocks from the first to the end of the card]
        #[arg(long, value_name = "N", value_parser = super::whole)]
        blocks: Option<u64>,
        /// File to write
        out: PathBuf,
    },
    /// Copy a file to the card, and flush
    Write {
        /// First block
        #[arg(long, value_name = "N", default_value_t = 0, value_parser = super::whole)]
        lba: u64,
        /// Number of blocks [default: the whole file]
        #[arg(long, value_name = "N", value_parser = super::whole)]
        blocks: Option<u64>,
        /// File to read
        file: PathBuf,
        /// Confirms that the data on the card may be overwritten
        #[arg(long)]
        write: bool,
    },
    /// Test whether this reader can keep transfers open, and how much faster the card is then;
    /// print a report. Only reads, unless --write is given
    StreamTest(stream_test::Test),
    /// Serve the card as a network block device (NBD), as `mmcq serve` does with an image; INT and
    /// TERM flush the card and end the server
    Serve {
        /// Lets clients write
        #[arg(long)]
        write: bool,
        #[command(flatten)]
        listen: Listen,
    },
}

/// A method to keep transfers open on an SDHCI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Way {
    /// For reads: the SDMA waits at a buffer boundary until the next request gives it an address
    Reads,
    /// For writes: the SDMA waits at buffer boundaries, and each request ends by a stop at a block
    /// gap
    Gap,
    /// For writes: the first request is a CMD25. The data of the next requests go to the card as
    /// the data of a CMD13, a use that no standard describes
    Carrier,
}

impl Way {
    /// Returns the driver's setting in which only this way of leaving transfers open (without a
    /// CMD12) is enabled.
    fn config(self) -> StreamConfig {
        self.with(StreamConfig::NONE)
    }

    /// Returns `config` with this way of keeping transfers open enabled, too.
    fn with(self, config: StreamConfig) -> StreamConfig {
        match self {
            Way::Reads => config.reads(true),
            Way::Gap => config.writes(OpenWrites::Gap),
            Way::Carrier => config.writes(OpenWrites::Carrier),
        }
    }
}

/// File whose content is written to the card; it is checked before the reader is opened.
struct Source {
    file: File,
    blocks: u64,
}

impl Vfio {
    pub fn run(self) -> Result<ExitCode, Error> {
        let address: Address = self.address.parse().map_err(Error::input)?;
        let mut config = SdhciConfig::new();
        for name in &self.quirk {
            let quirk = SdhciQuirks::named(name).ok_or_else(|| {
                let known: Vec<_> = SdhciQuirks::names().collect();
                Error::Input(format!("--quirk {name}: unknown; expected one of: {}", known.join(", ")))
            })?;
            config.quirks = config.quirks.with(quirk);
        }
        let (slot, noiommu, by_calls) = (self.slot, self.noiommu, self.by_calls);
        let streams = self.open.iter().fold(StreamConfig::NONE, |config, way| way.with(config));
        let options = Options { slot, noiommu, by_calls, config, streams };
        let begin = || -> Result<(Reader, Card), Error> {
            let mut reader = Reader::open(address, options).map_err(Error::input)?;
            let card = reader.bring_up(mmcq::card::Options::DEFAULT).map_err(Error::input)?;
            Ok((reader, card))
        };
        match self.action {
            Action::Info { form } => {
                let (reader, card) = begin()?;
                let fields = info(&reader, &card)?;
                form.print(|| card::as_table(&fields), || card::as_json(&fields))?;
                reader.close().map_err(run)?;
            }
            Action::Read { lba, blocks, out } => {
                let (reader, card) = begin()?;
                let blocks = blocks.unwrap_or(card.params.sectors.saturating_sub(lba));
                inside(lba, blocks, &card)?;
                let mut file =
                    File::create(&out).map_err(|e| Error::Input(format!("{}: {e}", out.display())))?;
                read(&reader, lba, blocks, &mut file, &out)?;
                reader.close().map_err(run)?;
            }
            Action::Write { lba, blocks, file, write } => {
                let mut source = Source::open(&file, blocks)?;
                if !write {
                    let last = lba.saturating_add(source.blocks - 1);
                    let what = format!(
                        "write: overwrites the card's blocks {lba} to {last}; give --write if it may"
                    );
                    return Err(Error::Input(what));
                }
                let (reader, card) = begin()?;
                inside(lba, source.blocks, &card)?;
                if card.params.protected {
                    return Err(Error::Input(format!("{address}: the card is write-protected")));
                }
                copy(&reader, lba, &mut source, &file)?;
                reader.close().map_err(run)?;
            }
            Action::StreamTest(test) => return test.run(address, options),
            Action::Serve { write, listen } => {
                let (reader, _) = begin()?;
                reader.enable_extended_ops().map_err(Error::input)?;
                let begun = super::serve::signals(&ENDING, |control: &serve::Control, _| control.stop())?;
                let door = listen.open(format!("{address}.sock").into())?;
                let watch = door.watch();
                let name = listen.export.clone();
                return door.closed(|listener| {
                    serve::serve_reader(reader, write, &name, listener, begun, watch).map_err(Error::Run)
                });
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn slot(text: &str) -> Result<u8, String> {
    text.parse().map_err(|_| "expected the number of a slot, 0 to 255".to_owned())
}

fn run(error: impl std::fmt::Display) -> Error {
    Error::Run(error.to_string())
}

impl Source {
    fn open(path: &Path, blocks: Option<u64>) -> Result<Self, Error> {
        let wrong = |what: String| Error::Input(format!("{}: {what}", path.display()));
        let file = File::open(path).map_err(|e| wrong(e.to_string()))?;
        let bytes = file.metadata().map_err(|e| wrong(e.to_string()))?.len();
        let block = u64::from(BLOCK_BYTES);
        match blocks {
            None if bytes == 0 => Err(wrong("empty, expected blocks of 512 bytes".to_owned())),
            None if bytes % block != 0 => {
                Err(wrong(format!("{bytes} bytes, expected whole blocks of 512 bytes")))
            }
            None => Ok(Source { file, blocks: bytes / block }),
            Some(0) => Err(Error::input("--blocks 0: expected 1 at least")),
            Some(blocks) if blocks.checked_mul(block).is_none_or(|needed| needed > bytes) => {
                Err(wrong(format!("{bytes} bytes, expected {blocks} blocks of 512 bytes at least")))
            }
            Some(blocks) => Ok(Source { file, blocks }),
        }
    }
}

/// Checks that a range of blocks lies on the card.
fn inside(lba: u64, blocks: u64, card: &Card) -> Result<(), Error> {
    let sectors = card.params.sectors;
    match lba.checked_add(blocks) {
        Some(end) if end <= sectors && blocks > 0 => Ok(()),
        _ => Err(Error::Input(format!(
            "--lba {lba}: {blocks} blocks from there are not all on the card, which has {sectors}"
        ))),
    }
}

fn info(reader: &Reader, card: &Card) -> Result<Vec<Field>, Error> {
    let (mode, mapped) = reader.way();
    let (vendor, device) = reader.device().id();
    let (capabilities, version) = reader.capabilities();
    let field = |field: &str, value: String| Field { register: "reader", field: field.to_owned(), value };
    let mut fields = vec![
        field("PCI", format!("{vendor:04x}:{device:04x} at {}", reader.device().address())),
        field("registers", if mapped { "mapped" } else { "by system calls" }.to_owned()),
        field("capabilities", format!("{capabilities:016x}, version {version:04x}")),
        field("data", format!("{mode:?}")),
        field("interrupt", format!("{:?}", reader.interrupts().0)),
    ];
    let ext_csd = reader.ext_csd();
    fields.extend(registers::decode(card, ext_csd.as_ref()).map_err(run)?);
    Ok(fields)
}

/// Splits a range of blocks into pieces, each with its first block and its number of blocks.
fn pieces(lba: u64, blocks: u64) -> impl Iterator<Item = (u64, u32)> {
    let piece = u64::from(PIECE_BLOCKS);
    (0..blocks.div_ceil(piece)).map(move |n| (lba + n * piece, (blocks - n * piece).min(piece) as u32))
}

/// Executes all requests at the same time. Returns their buffers in order, and the first error with
/// the first block of the request that failed.
async fn together(
    stack: &Stack,
    requests: Vec<(u64, Request)>,
) -> (Vec<DmaBuf>, Result<(), (u64, engine::Error)>) {
    let mut ops: Vec<_> =
        requests.into_iter().map(|(lba, request)| (lba, stack.request(request), None)).collect();
    poll_fn(|context| {
        for (_, op, done) in &mut ops {
            if done.is_none()
                && let Poll::Ready(completion) = Pin::new(op).poll(context)
            {
                *done = Some(completion);
            }
        }
        if ops.iter().all(|(.., done)| done.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    let mut result = Ok(());
    let mut buffers = Vec::new();
    for (lba, _, done) in ops {
        let Some(completion) = done else { continue };
        if let (Err(error), Ok(())) = (completion.result, &result) {
            result = Err((lba, error));
        }
        buffers.push(completion.buf);
    }
    (buffers, result)
}

/// Executes requests on the reader. If one fails, gives all buffers back and returns the error.
fn moved(reader: &Reader, requests: Vec<(u64, Request)>) -> Result<Vec<DmaBuf>, Error> {
    let (buffers, result) = reader.run(together(reader.stack(), requests)).map_err(run)?;
    match result {
        Ok(()) => Ok(buffers),
        Err((lba, error)) => {
            buffers.into_iter().for_each(|buffer| reader.give_back(buffer));
            Err(Error::Run(format!("{}: from block {lba} on: {error}", reader.device().address())))
        }
    }
}

/// Takes one of the reader's buffers for each piece (the range of blocks of one request).
fn buffers(reader: &Reader, pieces: &[(u64, u32)]) -> Result<Vec<DmaBuf>, Error> {
    let taken: Option<Vec<_>> = pieces.iter().map(|_| reader.buffer()).collect();
    taken.ok_or_else(|| Error::Run("no memory for the controller is left".to_owned()))
}

fn read(reader: &Reader, lba: u64, blocks: u64, file: &mut File, path: &Path) -> Result<(), Error> {
    let began = Instant::now();
    let all: Vec<_> = pieces(lba, blocks).collect();
    for batch in all.chunks(DEPTH) {
        let memory = buffers(reader, batch)?;
        let requests = batch
            .iter()
            .zip(memory)
            .map(|(&(lba, blocks), memory)| (lba, Request::new(Kind::Read { lba, blocks }, memory)));
        let filled = moved(reader, requests.collect())?;
        for (&(_, blocks), buffer) in batch.iter().zip(filled) {
            let bytes = (blocks * BLOCK_BYTES) as usize;
            file.write_all(&buffer[..bytes]).map_err(|e| Error::Run(format!("{}: {e}", path.display())))?;
            reader.give_back(buffer);
        }
    }
    report(reader, "read", lba, blocks, began)
}

fn copy(reader: &Reader, lba: u64, source: &mut Source, path: &Path) -> Result<(), Error> {
    let began = Instant::now();
    let all: Vec<_> = pieces(lba, source.blocks).collect();
    for batch in all.chunks(DEPTH) {
        let mut memory = buffers(reader, batch)?;
        for (&(_, blocks), buffer) in batch.iter().zip(&mut memory) {
            let bytes = (blocks * BLOCK_BYTES) as usize;
            source
                .file
                .read_exact(&mut buffer[..bytes])
                .map_err(|e| Error::Run(format!("{}: {e}", path.display())))?;
        }
        let requests = batch
            .iter()
            .zip(memory)
            .map(|(&(lba, blocks), memory)| (lba, Request::new(Kind::Write { lba, blocks }, memory)));
        moved(reader, requests.collect())?.into_iter().for_each(|buffer| reader.give_back(buffer));
    }
    moved(reader, vec![(lba, Request::new(Kind::Flush, DmaBuf::EMPTY))])?;
    report(reader, "written", lba, source.blocks, began)
}

/// Prints what was done with which blocks, how long it took since `began`, and at which rate.
fn report(reader: &Reader, what: &str, lba: u64, blocks: u64, began: Instant) -> Result<(), Error> {
    let seconds = began.elapsed().as_secs_f64();
    let mb_s = (blocks * u64::from(BLOCK_BYTES)) as f64 / 1e6 / seconds.max(1e-9);
    let stats = reader.stack().with(|engine| *engine.stats());
    print(&format!(
        "{blocks} blocks {what} from block {lba} on in {seconds:.2} s, {mb_s:.1} MB/s; since power-up {} transfers, {} interrupts, {} faults\n",
        stats.transfers,
        reader.interrupts().1,
        stats.faults,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_range_once() {
        let all: Vec<_> = pieces(10, 600).collect();
        assert_eq!(all, [(10, 256), (266, 256), (522, 88)]);
        assert_eq!(pieces(7, 256).collect::<Vec<_>>(), [(7, 256)]);
        assert_eq!(pieces(7, 0).count(), 0);
    }

    #[test]
    fn files_that_are_too_small_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let open = |bytes: usize, blocks| {
            std::fs::write(&path, vec![0; bytes]).unwrap();
            Source::open(&path, blocks).map(|source| source.blocks).map_err(|error| error.to_string())
        };
        assert_eq!(open(1024, None), Ok(2));
        assert_eq!(open(1030, Some(2)), Ok(2));
        let refused = |bytes, blocks| {
            let error = open(bytes, blocks).unwrap_err();
            error.rsplit_once("data: ").map_or(error.clone(), |(_, what)| what.to_owned())
        };
        assert_eq!(refused(0, None), "empty, expected blocks of 512 bytes");
        assert_eq!(refused(1000, None), "1000 bytes, expected whole blocks of 512 bytes");
        assert_eq!(refused(1000, Some(2)), "1000 bytes, expected 2 blocks of 512 bytes at least");
        assert_eq!(
            refused(512, Some(u64::MAX)),
            format!("512 bytes, expected {} blocks of 512 bytes at least", u64::MAX)
        );
        assert_eq!(refused(512, Some(0)), "--blocks 0: expected 1 at least");
    }
}
