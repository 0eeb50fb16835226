//! `mmcq vfio ... stream-test`: tests open transfers on a real card reader. An open transfer does
//! not end with its request: the next request continues it.

use super::{Way, info, inside, run};
use crate::cli::form::Form;
use crate::cli::{Error, card, voice};
use clap::Args;
use mmcq::block::{StreamResult, StreamTest, StreamVerdict, stream_test};
use mmcq::card::Card;
use mmcq::host::Direction;
use mmcq_lab::registers::Field;
use mmcq_vfio::{Address, Options, Reader};
use std::process::ExitCode;
use std::time::Duration;

/// Size of the buffer in bytes: the largest boundary at which the SDMA of an SDHCI stops.
const BUFFER_BYTES: u32 = 512 << 10;
/// Name of the part of the report with the cases and their results.
const PART: &str = "stream-test";

#[derive(Debug, Args)]
pub struct Test {
    /// First block of the range that is read, or overwritten [default: 0]
    #[arg(long, value_name = "N", value_parser = crate::cli::whole)]
    lba: Option<u64>,
    /// Number of blocks in the range; a smaller range leaves out cases [default: 67000, or the size
    /// of a smaller card]
    #[arg(long, value_name = "N", value_parser = crate::cli::whole)]
    blocks: Option<u64>,
    /// Test writes too: THE DATA OF THE RANGE ARE LOST
    #[arg(long, requires = "lba", requires = "blocks")]
    write: bool,
    #[command(flatten)]
    form: Form,
}

/// Part of the report about one method by which open transfers work ([`Way`]): the method, its name
/// in the report, and the direction of its data.
type Part = (Way, &'static str, Direction);

const READS: Part = (Way::Reads, "reads by stops", Direction::Read);
const WRITES: [Part; 2] = [
    (Way::Gap, "writes to a gap", Direction::Write),
    (Way::Carrier, "writes by a carrier", Direction::Write),
];

impl Test {
    pub fn run(self, address: Address, options: Options) -> Result<ExitCode, Error> {
        let mut report = Report::default();
        let mut ways = vec![READS];
        let mut unproven = false;
        while let Some(&(way, name, direction)) = ways.first() {
            ways.remove(0);
            let mut reader =
                Reader::open(address, Options { streams: way.config(), ..options }).map_err(Error::input)?;
            let found = reader.bring_up(mmcq::card::Options::DEFAULT).map_err(Error::input)?;
            let (lba, blocks) = self.range(&found)?;
            if report.fields.is_empty() {
                report.begin(info(&reader, &found)?, lba, blocks, self.write);
                if self.write {
                    if found.params.protected {
                        return Err(Error::Input(format!("{address}: the card is write-protected")));
                    }
                    ways.extend(WRITES);
                }
            }
            let test = match direction {
                Direction::Read => StreamTest::reads(lba, blocks),
                Direction::Write => StreamTest::writes(lba, blocks),
            };
            let verdict = tested(&reader, test, |result| report.case(name, result))?;
            // After the writes the card's blocks differ, and show what reads do.
            if direction == Direction::Read && self.write && !unproven {
                unproven = verdict.is_ok_and(|verdict| verdict.unproven > 0 && verdict.failed == 0);
                ways.extend(unproven.then_some(READS));
            }
            report.verdict(name, verdict);
            // A controller that has failed may not end its transfer: then only the next takeover
            // resets it.
            let _ = reader.close();
        }
        self.form.print(|| card::as_table(&report.fields), || card::as_json(&report.fields))?;
        Ok(if report.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Returns first block and number of blocks of the range on the card that the test uses.
    fn range(&self, card: &Card) -> Result<(u64, u32), Error> {
        let lba = self.lba.unwrap_or(0);
        let all = u64::from(StreamTest::BLOCKS);
        let blocks = self.blocks.unwrap_or(all.min(card.params.sectors.saturating_sub(lba)));
        inside(lba, blocks, card)?;
        // More blocks than all cases need are left alone.
        Ok((lba, blocks.min(all) as u32))
    }
}

/// Runs the test of open transfers on the reader's card, and calls `case` with the result of each
/// case.
fn tested(
    reader: &Reader,
    test: StreamTest,
    case: impl FnMut(&StreamResult),
) -> Result<Result<StreamVerdict, mmcq::engine::Error>, Error> {
    let none = || Error::Run("no memory for the controller is left".to_owned());
    let buffer = reader.aligned_buffer(BUFFER_BYTES).ok_or_else(none)?;
    let pause = async |ns| reader.pause(Duration::from_nanos(ns)).await;
    let future = stream_test(reader.stack(), test, buffer, pause, case);
    let (verdict, buffer) = reader.run(future).map_err(run)?;
    reader.give_back(buffer);
    Ok(verdict)
}

/// Report of the test, as the rows of a table.
#[derive(Default)]
struct Report {
    fields: Vec<Field>,
    failed: bool,
}

impl Report {
    fn put(&mut self, register: &'static str, field: &str, value: String) {
        self.fields.push(Field { register, field: field.to_owned(), value });
    }

    /// Writes the first rows of the report: program, kernel, reader and card (`found`), and the
    /// range of `blocks` blocks from `lba` on. If not `write`, a row says that writes are not
    /// tested.
    fn begin(&mut self, found: Vec<Field>, lba: u64, blocks: u32, write: bool) {
        self.put("program", "mmcq", env!("CARGO_PKG_VERSION").to_owned());
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        self.put("program", "kernel", kernel.trim().to_owned());
        self.fields.extend(found);
        let last = lba + u64::from(blocks).saturating_sub(1);
        self.put(PART, "range", format!("blocks {lba} to {last}"));
        if !write {
            let what = "not tested; --write with --lba and --blocks tests them, and overwrites the range";
            self.put(PART, "writes", what.to_owned());
        }
    }

    fn case(&mut self, way: &str, result: &StreamResult) {
        let text = result.to_string();
        voice::note(&text);
        let (case, value) = text.split_once(": ").unwrap_or((&text, ""));
        self.put(PART, &format!("{way}: {case}"), value.to_owned());
    }

    fn verdict(&mut self, way: &str, verdict: Result<StreamVerdict, mmcq::engine::Error>) {
        use mmcq::engine::Error::Unsupported;
        let value = match verdict {
            Ok(verdict) => verdict.to_string(),
            Err(Unsupported) => "not possible: the driver needs ADMA2 and SDMA".to_owned(),
            Err(error) => format!("do not switch on: requests fail: {error}"),
        };
        self.failed |= !matches!(verdict, Ok(verdict) if verdict.failed == 0);
        self.put("verdict", way, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmcq::engine::Error;

    #[test]
    fn a_report_has_a_verdict_for_each_way() {
        let mut report = Report::default();
        report.begin(Vec::new(), 8, 100, false);
        report.verdict("reads by stops", Ok(StreamVerdict::default()));
        assert!(!report.failed);
        report.verdict("writes to a gap", Err(Error::Unsupported));
        assert!(report.failed);
        let text = card::as_table(&report.fields);
        assert!(text.contains("blocks 8 to 107") && text.contains("not shown: 0 cases right"), "{text}");
        assert!(text.contains("writes to a gap") && text.contains("not possible"), "{text}");
        assert_eq!(card::as_json(&report.fields).lines().count(), report.fields.len());
    }
}
