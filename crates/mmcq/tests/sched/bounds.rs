//! Checks of the bounds that the documentation of the schedulers promises, on the log of a server.

use super::server::{Event, is_sync};
use mmcq::host::Direction::{Read, Write};
use mmcq::sched::Waiting;

/// Checks that each request was sent completely and only one time, or was cancelled, and that
/// nothing else was sent.
pub fn check_served_once(log: &[Event]) -> Result<(), String> {
    let mut left = std::collections::BTreeMap::new();
    for event in log {
        let was = match event {
            Event::Arrived(id, w) => left.insert(*id, *w).map_or(Ok(()), |_| Err("twice")),
            Event::Sent(id, w, ..) => match left.remove(id) {
                Some(was) if was.lba == w.lba && w.blocks > 0 && w.blocks <= was.blocks => Ok(()),
                _ => Err("not waiting"),
            },
            Event::Cancelled(id) => left.remove(id).map(|_| ()).ok_or("not waiting"),
            Event::Idle(..) => Ok(()),
        };
        was.map_err(|what| format!("{event:?}: {what}"))?;
    }
    if left.is_empty() { Ok(()) } else { Err(format!("left: {left:?}")) }
}

/// A waiting request, with what was sent before it.
struct Passed {
    id: u32,
    w: Waiting,
    /// Largest amount that may be sent before the request: transfers, or blocks of each client.
    limit: Vec<f64>,
    passed: Vec<f64>,
}

pub fn check_fifo(log: &[Event]) -> Result<(), String> {
    let mut waiting = vec![];
    for event in log {
        match event {
            Event::Arrived(id, _) => waiting.push(*id),
            Event::Cancelled(id) => waiting.retain(|other| other != id),
            Event::Sent(id, _, _, along) => {
                if !along && waiting.first() != Some(id) {
                    return Err(format!("{id} before {:?}", waiting.first()));
                }
                waiting.retain(|other| other != id);
            }
            Event::Idle(..) => return Err("idles".into()),
        }
    }
    Ok(())
}

/// Checks the order of `sched::reads_first`, and its limit: while a write is the oldest request, the
/// oldest read goes before it, until reads of twice the write's blocks have gone before it. Returns
/// how many writes were sent because of the limit.
pub fn check_reads_first(log: &[Event]) -> Result<u32, String> {
    let mut waiting: Vec<(u32, Waiting)> = vec![];
    let (mut passed, mut limited) = ((u32::MAX, 0), 0);
    let mut passes = false;
    for event in log {
        match event {
            Event::Arrived(id, w) => waiting.push((*id, *w)),
            Event::Cancelled(id) => waiting.retain(|(other, _)| other != id),
            Event::Idle(..) => return Err("idles".into()),
            Event::Sent(id, sent, _, along) => {
                if !along {
                    let Some(&(oldest, w)) = waiting.first() else { return Err("none waits".into()) };
                    if passed.0 != oldest {
                        passed = (oldest, 0);
                    }
                    let read = waiting.iter().find(|(_, w)| w.direction == Read).map(|(id, _)| *id);
                    passes = w.direction == Write && read.is_some() && passed.1 < 2 * w.blocks;
                    limited += u32::from(w.direction == Write && read.is_some() && !passes);
                    let expected = read.filter(|_| passes).unwrap_or(oldest);
                    if *id != expected {
                        return Err(format!("{id} was sent and not {expected}; {passed:?}"));
                    }
                }
                if passes {
                    passed.1 += sent.blocks;
                }
                waiting.retain(|(other, _)| other != id);
            }
        }
    }
    Ok(limited)
}

/// Checks the bound of `sched::deadline`: the number of transfers before an expired request.
/// Returns how many requests the bound applied to.
pub fn check_deadline(log: &[Event], expire_ns: [u64; 2], starved: u64, batch: u64) -> Result<u32, String> {
    let mut waiting: Vec<Passed> = vec![];
    let mut bound = 0;
    for event in log {
        match event {
            Event::Arrived(id, w) => waiting.push(Passed { id: *id, w: *w, limit: vec![], passed: vec![] }),
            Event::Cancelled(id) => waiting.retain(|p| p.id != *id),
            Event::Idle(..) => return Err("idles".into()),
            Event::Sent(id, _, now_ns, along) => {
                let mut older = [0, 0];
                for p in waiting.iter_mut().filter(|_| !along) {
                    let way = usize::from(p.w.direction == Write);
                    let k = older[way];
                    older[way] += 1;
                    if p.limit.is_empty() && p.w.arrived_ns + expire_ns[way] <= *now_ns {
                        let batches = match p.w.direction {
                            Read => 1 + k + (k + 1u64).div_ceil(starved),
                            Write => 1 + k + starved * (k + 1),
                        };
                        (p.limit, p.passed) = (vec![(batch * batches) as f64], vec![0.0]);
                        bound += 1;
                    }
                    if p.id != *id
                        && let (Some(passed), Some(limit)) = (p.passed.first_mut(), p.limit.first())
                    {
                        *passed += 1.0;
                        if *passed > *limit {
                            return Err(format!("{:?} was passed by {passed}, at most {limit}", p.w));
                        }
                    }
                }
                waiting.retain(|p| p.id != *id);
            }
        }
    }
    Ok(bound)
}

/// The settings of a fair scheduler.
#[derive(Clone)]
pub struct Told {
    pub weights: [u16; 8],
    pub budget_blocks: u32,
    pub longest_blocks: u32,
    pub sync_turns: u32,
    pub async_blocks: u32,
}

impl Told {
    pub fn turn(&self) -> f64 {
        f64::from(self.budget_blocks + self.longest_blocks - 1)
    }

    pub fn weight(&self, client: usize) -> f64 {
        f64::from(self.weights[client])
    }
}

/// Checks bound 2 of `sched::fair` in blocks, for requests of one class. Returns the largest share
/// of a bound that was used.
pub fn check_fair_waiting(log: &[Event], told: &Told, sync: bool) -> Result<f64, String> {
    let mut waiting: Vec<Passed> = vec![];
    let mut used: f64 = 0.0;
    let client_of = |w: &Waiting| usize::from(w.origin.client.min(7));
    for event in log {
        match event {
            Event::Arrived(id, w) if is_sync(w) == sync => {
                let i = client_of(w);
                let before = waiting.iter().filter(|p| client_of(&p.w) == i);
                let before: f64 = before.map(|p| f64::from(p.w.blocks)).sum();
                let limit = |j| (before + told.turn()) * told.weight(j) / told.weight(i) + told.turn() + 1.0;
                let limit = (0..8).map(limit).collect();
                waiting.push(Passed { id: *id, w: *w, limit, passed: vec![0.0; 8] });
            }
            Event::Cancelled(id) => waiting.retain(|p| p.id != *id),
            Event::Sent(id, w, ..) if is_sync(w) == sync => {
                waiting.retain(|p| p.id != *id);
                let j = client_of(w);
                for p in waiting.iter_mut().filter(|p| client_of(&p.w) != j) {
                    p.passed[j] += f64::from(w.blocks);
                    used = used.max(p.passed[j] / p.limit[j]);
                    if p.passed[j] > p.limit[j] {
                        let (passed, limit) = (p.passed[j], p.limit[j]);
                        return Err(format!("{:?} saw {passed} blocks of {j}, at most {limit}", p.w));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(used)
}

/// Checks bounds 3 and 4 of `sched::fair`: the blocks of one class in a row while the other class
/// waits.
pub fn check_fair_classes(log: &[Event], told: &Told) -> Result<(), String> {
    let mut waiting: Vec<(u32, bool)> = vec![];
    // Blocks of the other class in a row while [async, sync] waits.
    let mut run = [0.0, 0.0];
    let sync_limit = f64::from(told.sync_turns + 1) * told.turn();
    let async_limit = f64::from(told.async_blocks + told.longest_blocks - 1);
    for event in log {
        match event {
            Event::Arrived(id, w) => waiting.push((*id, is_sync(w))),
            Event::Cancelled(id) => waiting.retain(|(other, _)| other != id),
            Event::Sent(id, w, ..) => {
                let sync = is_sync(w);
                waiting.retain(|(other, _)| other != id);
                run[usize::from(sync)] = 0.0;
                run[usize::from(!sync)] += f64::from(w.blocks);
            }
            Event::Idle(..) => {}
        }
        for class in [false, true] {
            if !waiting.iter().any(|(_, sync)| *sync == class) {
                run[usize::from(class)] = 0.0;
            }
        }
        if run[0] > sync_limit || run[1] > async_limit {
            return Err(format!("{run:?} blocks of the other class, at most [{sync_limit}, {async_limit}]"));
        }
    }
    Ok(())
}

/// Checks bound 1 of `sched::fair` between two clients, while both have waiting requests. Returns
/// the share of the bound that was used.
pub fn check_fair_share(log: &[Event], told: &Told, i: usize, j: usize) -> Result<f64, String> {
    let mut waits = [0u32; 8];
    let (mut least, mut most, mut lead) = (0.0f64, 0.0f64, 0.0);
    let limit = told.turn() / told.weight(i) + told.turn() / told.weight(j) + 1.0 / told.weight(i).max(1.0);
    let mut used: f64 = 0.0;
    for event in log {
        match event {
            Event::Arrived(_, w) => waits[usize::from(w.origin.client)] += 1,
            Event::Sent(_, w, ..) => {
                let client = usize::from(w.origin.client);
                let served = f64::from(w.blocks) / told.weight(client);
                lead += if client == i { served } else { 0.0 } - if client == j { served } else { 0.0 };
                waits[client] -= 1;
            }
            _ => return Err(format!("{event:?} does not belong here")),
        }
        if waits[i] == 0 || waits[j] == 0 {
            (least, most, lead) = (0.0, 0.0, 0.0);
        }
        (least, most) = (least.min(lead), most.max(lead));
        used = used.max((most - least) / limit);
        if most - least > limit {
            return Err(format!("{i} and {j} are {} apart, at most {limit}", most - least));
        }
    }
    Ok(used)
}
