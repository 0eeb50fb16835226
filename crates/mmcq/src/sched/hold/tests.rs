//! Tests what holds lose against the better of two rules, hold always and hold never, whatever the
//! clients do.

extern crate std;
use super::*;
use std::collections::{BTreeMap, VecDeque};
use std::vec::Vec;

/// How a client behaves from its nth request on.
#[derive(Clone, Copy, Debug)]
struct Manner {
    from: u32,
    depth: u32,
    sequential: bool,
    /// Time from a completion to the client's next request, in ns.
    first_ns: u64,
    /// Time between two requests that the client sends one after the other, in ns.
    gap_ns: u64,
    /// Additional time of the first request for each request that was completed with it. If not 0,
    /// the other requests of a turn come together, one gap after the first.
    each_ns: u64,
    /// After this many requests the client stays away for `rest_ns`; 0: never.
    rests_every: u32,
    rest_ns: u64,
}

struct Client {
    manners: Vec<Manner>,
    sent: u32,
    flying: u32,
    position: u64,
    free_ns: u64,
    /// Whether the next request is the second of its turn.
    second: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    Never,
    /// Hold for each stream that has requests that will come back, as long as the bound allows.
    Always,
    Ours,
}

const BOUND_NS: u64 = 2_000_000;
const BLOCKS: u32 = 8;

/// A transfer: when it began, when it ends, client and first block of each of its requests, and the
/// run of all of them.
type Running = (u64, u64, Vec<(usize, u64)>, Run);

#[derive(Debug)]
struct Card {
    fixed_ns: u64,
    block_ns: u64,
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

impl Client {
    fn manner(&self) -> Manner {
        self.manners.iter().rev().find(|m| m.from <= self.sent).copied().unwrap()
    }
}

/// Returns the time that `total` requests of these clients take, the number of transfers, and the
/// number of holds during which not all awaited requests came.
fn run(rule: Rule, card: &Card, scripts: &[Vec<Manner>], total: u32, seed: u64) -> (u64, u32, u32) {
    let mut random = Random(seed | 1);
    let mut hold = Hold::NEW;
    hold.awake();
    // Arrivals by time and number: client and first block.
    let mut arrivals: BTreeMap<(u64, u32), (usize, u64)> = BTreeMap::new();
    let mut clients: Vec<Client> = scripts
        .iter()
        .enumerate()
        .map(|(n, script)| Client {
            manners: script.clone(),
            sent: 0,
            flying: 0,
            position: (n as u64 + 1) << 32,
            free_ns: 0,
            second: false,
        })
        .collect();
    let mut number = 0;
    let mut send = |clients: &mut Vec<Client>,
                    at: usize,
                    now_ns: u64,
                    first: bool,
                    completed: usize,
                    arrivals: &mut BTreeMap<_, _>| {
        let client = &mut clients[at];
        let manner = client.manner();
        if client.flying >= manner.depth {
            return;
        }
        let mut begin_ns = now_ns + if first { manner.first_ns } else { manner.gap_ns };
        begin_ns = match (manner.each_ns, first) {
            (0, _) => begin_ns.max(client.free_ns + manner.gap_ns),
            (each_ns, true) => {
                client.second = true;
                begin_ns + each_ns * completed as u64
            }
            (_, false) if core::mem::take(&mut client.second) => client.free_ns + manner.gap_ns,
            (_, false) => client.free_ns,
        };
        if manner.rests_every > 0 && client.sent % manner.rests_every == manner.rests_every - 1 {
            begin_ns += manner.rest_ns;
        }
        let lba = if manner.sequential {
            client.position += u64::from(BLOCKS);
            client.position
        } else {
            client.position = (random.below(1 << 30) * 64) + ((at as u64) << 40);
            client.position
        };
        client.sent += 1;
        client.flying += 1;
        client.free_ns = begin_ns;
        number += 1;
        arrivals.insert((begin_ns, number), (at, lba));
    };
    for at in 0..clients.len() {
        for _ in 0..clients[at].manner().depth {
            send(&mut clients, at, 0, false, 0, &mut arrivals);
        }
    }
    let (mut now_ns, mut done, mut transfers) = (0u64, 0, 0);
    // Client, block, and when it came.
    let mut queue: VecDeque<(usize, u64, u64)> = VecDeque::new();
    let mut running: Option<Running> = None;
    let mut held_ns: Option<u64> = None;
    let mut always_since: Option<u64> = None;
    while done < total {
        let next_arrival = arrivals.keys().next().map(|key| key.0);
        let end = running.as_ref().map(|running| running.1);
        now_ns = [next_arrival, end, held_ns].into_iter().flatten().min().unwrap().max(now_ns);
        held_ns = None;
        while let Some((&key, _)) = arrivals.first_key_value() {
            if key.0 > now_ns {
                break;
            }
            let (at, lba) = arrivals.remove(&key).unwrap();
            queue.push_back((at, lba, key.0));
        }
        if running.as_ref().is_some_and(|running| running.1 <= now_ns) {
            let (_, _, members, run) = running.take().unwrap();
            hold.note_transfer_end(&run, now_ns);
            for (nth, &(at, _)) in members.iter().enumerate() {
                clients[at].flying -= 1;
                done += 1;
                send(&mut clients, at, now_ns, nth == 0, members.len(), &mut arrivals);
            }
            for at in 0..clients.len() {
                // A client whose depth has grown sends more requests.
                while clients[at].flying < clients[at].manner().depth {
                    send(&mut clients, at, now_ns, false, 0, &mut arrivals);
                }
            }
        }
        if running.is_some() || queue.is_empty() {
            continue;
        }
        // The run that begins with the oldest request.
        let (at, lba, first_ns) = queue[0];
        let (mut members, mut end) = (Vec::from([(at, lba)]), lba + u64::from(BLOCKS));
        let mut rest = VecDeque::new();
        let mut last_ns = first_ns;
        for &(at, lba, came_ns) in queue.iter().skip(1) {
            if lba == end {
                members.push((at, lba));
                end += u64::from(BLOCKS);
                last_ns = came_ns;
            } else {
                rest.push_back((at, lba, came_ns));
            }
        }
        let run = Run {
            direction: Direction::Read,
            lba,
            end,
            requests: members.len() as u8,
            client: members.last().unwrap().0 as u8,
            first_ns,
            last_ns,
            widest_ns: 0,
        };
        let pending = Pending { run, slots: 0, room_requests: 64, room_blocks: 1024, unsettled: 0 };
        let until_ns = match rule {
            Rule::Never => None,
            Rule::Always => {
                let away = |at: usize| clients[at].flying > 0 && arrivals.values().any(|a| a.0 == at);
                let since_ns = *always_since.get_or_insert(now_ns);
                let until_ns = since_ns + BOUND_NS;
                (rest.is_empty() && members.iter().any(|m| away(m.0)) && now_ns < until_ns)
                    .then_some(until_ns)
            }
            Rule::Ours if rest.is_empty() => hold.decide(&pending, BOUND_NS, now_ns),
            Rule::Ours => {
                hold.broken(now_ns);
                None
            }
        };
        if let Some(until_ns) = until_ns {
            assert!(until_ns > now_ns && until_ns <= now_ns + BOUND_NS);
            held_ns = Some(until_ns);
            continue;
        }
        always_since = None;
        queue = rest;
        transfers += 1;
        let cost_ns = card.fixed_ns + card.block_ns * u64::from(BLOCKS) * members.len() as u64;
        hold.note_start(&run, now_ns);
        running = Some((now_ns, now_ns + cost_ns, members, run));
    }
    (now_ns, transfers, (hold.holds().count - hold.holds().came) as u32)
}

const STEADY: Manner = Manner {
    from: 0,
    depth: 8,
    sequential: true,
    first_ns: 46_000,
    gap_ns: 20_000,
    each_ns: 0,
    rests_every: 0,
    rest_ns: 0,
};

const DEAR: Card = Card { fixed_ns: 1_500_000, block_ns: 12_000 };

#[test]
fn a_closed_loop_goes_in_whole_batches() {
    for depth in [2, 4, 8, 32] {
        let scripts = [Vec::from([Manner { depth, ..STEADY }])];
        let never = run(Rule::Never, &DEAR, &scripts, 4_000, 1);
        let ours = run(Rule::Ours, &DEAR, &scripts, 4_000, 1);
        std::println!("depth {depth}: never {never:?}, ours {ours:?}");
        assert!(ours.1 <= 4_000 / depth + 80, "depth {depth}: {ours:?}, never {never:?}");
        assert!(ours.0 < never.0 * 7 / 10 || depth == 32 && ours.0 < never.0 * 88 / 100, "depth {depth}");
    }
}

/// Tests a client that handles all completions before it sends the next request: the first request
/// comes 150 us after 32 completions, and 40 us after one. Without holds, transfers of 1 and of 31
/// requests alternate. Whole batches take less time, although a transfer costs less than the
/// client's turn.
#[test]
fn a_job_that_takes_longer_for_more_goes_in_whole_batches() {
    for (depth, card) in
        [(32, Card { fixed_ns: 103_000, block_ns: 800 }), (8, Card { fixed_ns: 45_000, block_ns: 340 })]
    {
        let manner = Manner { depth, first_ns: 40_000, gap_ns: 10_000, each_ns: 3_600, ..STEADY };
        let scripts = [Vec::from([manner])];
        let [never, ours] = [Rule::Never, Rule::Ours].map(|rule| run(rule, &card, &scripts, 12_000, 1));
        std::println!("depth {depth}: never {never:?}, ours {ours:?}");
        assert!(ours.1 <= 12_000 / depth + 200, "depth {depth}: {ours:?}, never {never:?}");
        assert!(ours.0 < never.0 * 95 / 100, "depth {depth}: {ours:?}, never {never:?}");
    }
}

#[test]
fn a_cheap_command_is_not_waited_for() {
    let card = Card { fixed_ns: 30_000, block_ns: 3_000 };
    let scripts = [Vec::from([Manner { depth: 8, ..STEADY }])];
    let (never, ours) =
        (run(Rule::Never, &card, &scripts, 4_000, 1), run(Rule::Ours, &card, &scripts, 4_000, 1));
    assert!(ours.0 <= never.0 * 103 / 100, "{ours:?} {never:?}");
}

/// How the clients of a sequence behave.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Steady,
    /// A client stays away at the worst moment, again and again.
    Rests,
    /// Clients change their depth and pace in turn.
    Alternates,
    /// A client turns random, and sequential again.
    TurnsRandom,
    /// A client is fast, and slower than any transfer, in turn.
    SlowAndFast,
    /// Two clients of different pace work side by side.
    Two,
}

const KINDS: [Kind; 6] =
    [Kind::Steady, Kind::Rests, Kind::Alternates, Kind::TurnsRandom, Kind::SlowAndFast, Kind::Two];
/// Number of requests of a sequence.
const REQUESTS: u32 = 6_000;

fn manner(from: u32, random: &mut Random) -> Manner {
    Manner {
        from,
        depth: 1 + random.below(24) as u32,
        first_ns: 42_000 + random.below(80_000),
        gap_ns: 2_000 + random.below(40_000),
        ..STEADY
    }
}

fn script(kind: Kind, random: &mut Random) -> Vec<Manner> {
    let first = manner(0, random);
    match kind {
        Kind::Steady | Kind::Two => Vec::from([first]),
        Kind::Rests => {
            let (rests_every, rest_ns) = (2 + random.below(40) as u32, 100_000 + random.below(5_000_000));
            Vec::from([Manner { rests_every, rest_ns, ..first }])
        }
        Kind::Alternates => (0..12).map(|n| manner(n * 500, random)).collect(),
        Kind::TurnsRandom => {
            (0..6).map(|n| Manner { from: n * 1_000, sequential: n % 2 == 0, ..first }).collect()
        }
        Kind::SlowAndFast => (0..24)
            .map(|n| {
                let first_ns = if n % 2 == 0 { 45_000 } else { 3_000_000 };
                Manner { first_ns, from: n * 250, ..first }
            })
            .collect(),
    }
}

/// Tests a client that rests in the middle of a batch, and comes back with all that it had not
/// sent. Without [`Stream::returned`](super::streams) the first of these requests went alone, and
/// the run took 19 % more time than with the rule "always".
#[test]
fn a_client_that_comes_back_late_comes_with_all_that_was_away() {
    let card = Card { fixed_ns: 1_665_681, block_ns: 4_325 };
    let rests = Manner { depth: 13, first_ns: 45_005, gap_ns: 3_818, rests_every: 29, ..STEADY };
    let scripts = [Vec::from([Manner { rest_ns: 4_497_390, ..rests }])];
    let [never, always, ours] =
        [Rule::Never, Rule::Always, Rule::Ours].map(|rule| run(rule, &card, &scripts, REQUESTS, 5));
    assert!(ours.0 * 100 <= never.0.min(always.0) * 101, "never {never:?}, always {always:?}, ours {ours:?}");
}

/// Tests the regret: how much more time holds take than the better of "always" and "never". Over
/// the sequences of each kind this is at most 2 %. It is above 2 % for at most one sequence in
/// sixty, and above 5 % for none. The sequences above 2 % change 24 times, and a rule that must see
/// a change before it follows pays for each change (docs/engine.md).
#[test]
fn the_regret_is_at_most_two_percent() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut above, mut sequences) = (0, 0);
    for kind in KINDS {
        let (mut ours_ns, mut best_ns) = (0, 0);
        for _ in 0..20 {
            let card = Card {
                fixed_ns: 20_000 + random.below(2_000_000) / (1 + random.below(20)),
                block_ns: 1_000 + random.below(15_000),
            };
            let mut scripts = Vec::from([script(kind, &mut random)]);
            if kind == Kind::Two {
                scripts.push(script(kind, &mut random));
            }
            let seed = random.below(u64::MAX);
            let [never, always, ours] = [Rule::Never, Rule::Always, Rule::Ours]
                .map(|rule| run(rule, &card, &scripts, REQUESTS, seed));
            let best = never.0.min(always.0);
            (ours_ns, best_ns) = (ours_ns + ours.0, best_ns + best);
            sequences += 1;
            above += u32::from(ours.0 * 100 > best * 102);
            if ours.0 * 100 > best * 102 {
                std::println!(
                    "{kind:?} +{:.1}%: never {never:?}, always {always:?}, ours {ours:?}: {card:?} {:?}",
                    (ours.0 as f64 / best as f64 - 1.0) * 100.0,
                    scripts[0][0]
                );
            }
            let first = scripts[0][0];
            assert!(
                ours.0 * 100 <= best * 105,
                "{kind:?}: never {never:?}, always {always:?}, ours {ours:?}: {card:?} {first:?}"
            );
        }
        let regret = (ours_ns as f64 / best_ns as f64 - 1.0) * 100.0;
        std::println!("{kind:?}: {regret:.2} %");
        assert!(regret <= 2.0, "{kind:?}: {regret:.2} %");
    }
    std::println!("{above} of {sequences} above 2 %");
    assert!(above * 60 <= sequences, "{above} of {sequences} sequences above 2 %");
}
