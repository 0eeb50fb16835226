//! A card that answers correctly, apart from the wrong answers that the table `[quirk]` of its
//! profile lists.

use super::{
    Answer, AtStake, BusState, Card, Faults, Kept, Quirks, ReadBlock, Reply, SdCard, Violation, WriteBlock,
    emmc, flash::Work,
};
use crate::wire::crc7;
use serde::Deserialize;
use std::ops::Range;

/// A wrong answer of a card. It has no effect on an SPI bus.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OddAnswer {
    /// Number of the command that is answered wrongly.
    pub command: u8,
    /// Whether the command is an application command, after CMD55.
    #[serde(default)]
    pub app: bool,
    /// Number of the first use of the command that gets a wrong answer. Uses are counted from 1
    /// since the card was made.
    #[serde(default = "one")]
    pub nth: u64,
    /// Number of consecutive uses that get a wrong answer; 0: all uses from `nth` on.
    #[serde(default = "one")]
    pub times: u64,
    /// Time in ms after power-up for which answers can be wrong; later they are correct. `None`: no
    /// end.
    pub within_ms: Option<u64>,
    /// What is wrong with the answer.
    pub happens: Odd,
    /// Extra delay of the data in microseconds, for [`Odd::LateData`].
    #[serde(default)]
    pub late_us: u64,
}

const fn one() -> u64 {
    1
}

/// Kinds of wrong answers of a card to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Odd {
    /// The card does not receive the command.
    Unheard,
    /// The card executes the command and sends no response.
    Silent,
    /// The index in a 48-bit response is wrong.
    Damaged,
    /// The card sends the response, but no data.
    NoData,
    /// The CRC16 of the data is wrong.
    BadData,
    /// The data begin late, by `late_us` of [`OddAnswer`].
    LateData,
}

/// A register of which a profile can replace bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Register {
    /// CID, read by CMD2 and CMD10.
    Cid,
    /// CSD, read by CMD9.
    Csd,
    /// SCR of an SD card, read by ACMD51.
    Scr,
    /// SD status, read by ACMD13.
    Ssr,
    /// Status block of CMD6 on an SD card, for both check and switch.
    Switch,
    /// EXT_CSD of an eMMC, read by CMD8.
    ExtCsd,
}

impl Register {
    /// Returns the length of the register in bytes.
    const fn bytes(self) -> usize {
        match self {
            Register::Cid | Register::Csd => 16,
            Register::Scr => 8,
            Register::Ssr | Register::Switch => 64,
            Register::ExtCsd => 512,
        }
    }

    /// Returns the register that the command with this index reads (an application command if
    /// `app`); `None` if it reads none.
    fn asked(index: u8, app: bool) -> Option<Register> {
        match (index, app) {
            (2 | 10, false) => Some(Register::Cid),
            (9, false) => Some(Register::Csd),
            (51, true) => Some(Register::Scr),
            (13, true) => Some(Register::Ssr),
            (6, false) => Some(Register::Switch),
            (8, false) => Some(Register::ExtCsd),
            _ => None,
        }
    }
}

/// Replacement bytes for a register. The card computes a correct checksum for them. The card's
/// behaviour does not follow the replaced values.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Replaced")]
pub struct RegisterBytes {
    register: Register,
    at: usize,
    bytes: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Replaced {
    register: Register,
    /// Index of the first replaced byte in the order on the bus; byte 0 has the highest bits.
    at: usize,
    bytes: Vec<u8>,
}

impl TryFrom<Replaced> for RegisterBytes {
    type Error = String;

    fn try_from(Replaced { register, at, bytes }: Replaced) -> Result<Self, String> {
        let (len, end) = (register.bytes(), at.saturating_add(bytes.len()));
        if bytes.is_empty() || end > len {
            return Err(format!("bytes {at} to {end} of {register:?}: expected some of its {len}"));
        }
        Ok(RegisterBytes { register, at, bytes })
    }
}

impl RegisterBytes {
    fn put_into(&self, register: &mut [u8]) {
        for (to, from) in register.iter_mut().skip(self.at).zip(&self.bytes) {
            *to = *from;
        }
    }
}

/// Number of possible command indices, 0 to 63, of basic commands and also of application commands.
const COMMANDS: usize = 64;
const MS: u64 = 1_000_000;

/// A data line of an SPI bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpiLine {
    /// DI: from the host to the card.
    Di,
    /// DO: from the card to the host.
    Do,
}

/// Bytes on an SPI bus that arrive with some bits inverted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Turned")]
pub struct SpiBytes {
    line: SpiLine,
    nth: u64,
    times: u64,
    turn: u8,
}

/// Keys of the TOML table that describes damaged bytes on an SPI bus; an [`SpiBytes`] is made from
/// it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Turned {
    line: SpiLine,
    /// Number of the first damaged byte. The bytes that pass the bus while the card is selected are
    /// counted from 1, since the card was made.
    nth: u64,
    /// Number of consecutive damaged bytes; 0: all bytes from `nth` on.
    #[serde(default = "one")]
    times: u64,
    /// Mask of the bits of the byte that arrive inverted.
    turn: u8,
}

impl TryFrom<Turned> for SpiBytes {
    type Error = String;

    fn try_from(Turned { line, nth, times, turn }: Turned) -> Result<Self, String> {
        match (nth, turn) {
            (0, _) => Err("`nth` counts from 1".to_owned()),
            (_, 0) => Err("`turn` has no bit: expected 0x01 to 0xff".to_owned()),
            _ => Ok(SpiBytes { line, nth, times, turn }),
        }
    }
}

impl SpiBytes {
    /// Returns which bits of the byte number `nth` arrive inverted by the faults `all`: those on
    /// the line to the card, and those on the line from the card.
    pub(crate) fn turned(all: &[SpiBytes], nth: u64) -> (u8, u8) {
        let is_hit =
            |bytes: &&SpiBytes| nth >= bytes.nth && (bytes.times == 0 || nth - bytes.nth < bytes.times);
        all.iter().filter(is_hit).fold((0, 0), |(to, from), bytes| match bytes.line {
            SpiLine::Di => (to ^ bytes.turn, from),
            SpiLine::Do => (to, from ^ bytes.turn),
        })
    }
}

/// A card that gives wrong answers to some commands.
pub(super) struct OddCard<C> {
    card: C,
    answers: Vec<OddAnswer>,
    registers: Vec<RegisterBytes>,
    /// Number of CMD0 that the card needs after power-up: until the last of them has come, it
    /// ignores all other commands.
    resets: u32,
    counts: [u64; 2 * COMMANDS],
    app: bool,
    powered: bool,
    powered_ns: u64,
    resets_seen: u32,
    /// What is wrong with the data of the present command, and the delay in ns of late data.
    data: Option<(Odd, u64)>,
    /// The register that the card sends as the data of the present command; `None` if the data are
    /// no register.
    register: Option<Register>,
}

impl<C: Card> OddCard<C> {
    pub fn new(card: C, quirks: &Quirks) -> Self {
        OddCard {
            card,
            answers: quirks.answers.clone(),
            registers: quirks.registers.clone(),
            resets: quirks.deaf_resets,
            counts: [0; 2 * COMMANDS],
            app: false,
            powered: false,
            powered_ns: 0,
            resets_seen: 0,
            data: None,
            register: None,
        }
    }

    /// Returns the replacement bytes for this register.
    fn replaced(&self, register: Option<Register>) -> impl Iterator<Item = &RegisterBytes> {
        self.registers.iter().filter(move |bytes| Some(bytes.register) == register)
    }

    fn odd(&mut self, index: u8, app: bool, now_ns: u64) -> Option<(Odd, u64)> {
        let place = usize::from(index) % COMMANDS + if app { COMMANDS } else { 0 };
        self.counts[place] += 1;
        let count = self.counts[place];
        let since_ns = now_ns.saturating_sub(self.powered_ns);
        self.answers
            .iter()
            .find(|answer| {
                (answer.command, answer.app) == (index, app)
                    && count >= answer.nth
                    && (answer.times == 0 || count - answer.nth < answer.times)
                    && answer.within_ms.is_none_or(|ms| since_ns < ms.saturating_mul(MS))
            })
            .map(|answer| (answer.happens, answer.late_us.saturating_mul(1_000)))
    }
}

impl<C: Card> Card for OddCard<C> {
    fn bus_changed(&mut self, bus: &BusState, now_ns: u64) {
        if bus.powered != self.powered {
            (self.powered, self.powered_ns, self.resets_seen) = (bus.powered, now_ns, 0);
        }
        self.card.bus_changed(bus, now_ns);
    }

    fn command(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply {
        // A CMD55 after a CMD55 is CMD55 again, no application command [SD 4.3.9].
        let app = std::mem::take(&mut self.app) && index != 55;
        let odd = self.odd(index, app, now_ns);
        self.data = odd;
        self.register = Register::asked(index, app);
        self.resets_seen = self.resets_seen.saturating_add(u32::from(index == 0));
        if matches!(odd, Some((Odd::Unheard, _))) || self.resets_seen < self.resets {
            return Reply::SILENT;
        }
        let mut reply = self.card.command(index, arg, now_ns);
        self.app = index == 55 && reply.answer.is_some();
        if let Some(Answer::Long(register)) = &mut reply.answer
            && self.replaced(self.register).next().is_some()
        {
            self.replaced(self.register).for_each(|bytes| bytes.put_into(register));
            let [content @ .., check] = register;
            *check = crc7(content) << 1 | 1;
        }
        match (odd, &mut reply.answer) {
            (Some((Odd::Silent, _)), answer) => *answer = None,
            (Some((Odd::Damaged, _)), Some(Answer::Short { index, .. })) => *index ^= 1,
            _ => {}
        }
        reply
    }

    fn read_block(&mut self, buffer: &mut [u8], now_ns: u64) -> ReadBlock {
        let mut block = self.card.read_block(buffer, now_ns);
        // Only the first block after the command is the register.
        let register = self.register.take();
        self.replaced(register).for_each(|bytes| bytes.put_into(buffer));
        match (self.data, &mut block) {
            (Some((Odd::NoData, _)), _) => return ReadBlock::Never,
            (Some((Odd::BadData, _)), ReadBlock::At { crc_ok, .. }) => *crc_ok = false,
            (Some((Odd::LateData, late_ns)), ReadBlock::At { start_ns, .. }) => {
                *start_ns = start_ns.saturating_add(late_ns);
            }
            _ => {}
        }
        block
    }

    fn write_block(&mut self, data: &[u8], crc_ok: bool, now_ns: u64) -> WriteBlock {
        self.card.write_block(data, crc_ok, now_ns)
    }

    fn busy(&self, now_ns: u64) -> bool {
        self.card.busy(now_ns)
    }

    fn switching_voltage(&self, now_ns: u64) -> bool {
        self.card.switching_voltage(now_ns)
    }

    fn lines_low(&self, now_ns: u64) -> u8 {
        self.card.lines_low(now_ns)
    }

    fn write_protect_switch(&self) -> bool {
        self.card.write_protect_switch()
    }

    fn set_protected(&mut self, on: bool) {
        self.card.set_protected(on);
    }

    fn is_protected(&self, partition: u8, at: u64, bytes: u64) -> bool {
        self.card.is_protected(partition, at, bytes)
    }

    fn damages_spi(&self) -> bool {
        self.card.damages_spi()
    }

    fn fetching_ns(&self) -> u64 {
        self.card.fetching_ns()
    }

    fn take_work(&mut self) -> Work {
        self.card.take_work()
    }

    fn spi(&mut self) -> Option<&mut SdCard> {
        self.card.spi()
    }

    fn power_cut(&mut self, now_ns: u64) {
        self.powered = false;
        self.card.power_cut(now_ns);
    }

    fn set_faults(&mut self, faults: Faults) {
        self.card.set_faults(faults);
    }

    fn at_stake(&mut self, now_ns: u64) -> Vec<AtStake> {
        self.card.at_stake(now_ns)
    }

    fn cut(&mut self, now_ns: u64, keep: &mut dyn FnMut(&AtStake) -> Kept) {
        self.powered = false;
        self.card.cut(now_ns, keep);
    }

    fn brown_out(&mut self, now_ns: u64) {
        // For the card the end of a dip is a power-up.
        (self.powered_ns, self.resets_seen) = (now_ns, 0);
        self.card.brown_out(now_ns);
    }

    fn losses(&self) -> (u64, u64) {
        self.card.losses()
    }

    fn spoil(&mut self, sector: u64) {
        self.card.spoil(sector);
    }

    fn attack_rpmb(&mut self, attack: emmc::Attack) {
        self.card.attack_rpmb(attack);
    }

    fn violations(&self) -> &[Violation] {
        self.card.violations()
    }

    fn has_functions(&self) -> bool {
        self.card.has_functions()
    }

    fn interrupt(&self, now_ns: u64) -> bool {
        self.card.interrupt(now_ns)
    }

    fn next_event_ns(&self, now_ns: u64) -> Option<u64> {
        self.card.next_event_ns(now_ns)
    }

    fn peek(&mut self, at: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        self.card.peek(at, buffer)
    }

    fn peek_partition(&mut self, partition: u8, at: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        self.card.peek_partition(partition, at, buffer)
    }

    fn touched(&self, each: &mut dyn FnMut(u8, Range<u64>)) {
        self.card.touched(each);
    }

    fn settings(&self) -> Vec<(&'static str, u8)> {
        self.card.settings()
    }

    fn set_boot(&mut self, config: u8) {
        self.card.set_boot(config);
    }
}
