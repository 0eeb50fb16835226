//! Tests that requests which continue an open transfer are the same on both paths. A client reads or
//! writes on and on, one request at a time. Now and then something else happens.

use super::*;

/// A host of the tests that can continue transfers.
fn some_caps(u: &mut Unstructured<'_>) -> Result<Caps> {
    let mut caps = support::caps();
    caps.auto_count = u.arbitrary()?;
    caps.auto_stop = true;
    caps.defer_completion = u.ratio(1, 8)?;
    caps.max_bytes = 512 * u.int_in_range(8..=64)?;
    caps.busy = *u.choose(&[BusyDetect::Interrupt, BusyDetect::Status, BusyDetect::Level])?;
    (caps.continue_data, caps.open_until_stopped) = (true, u.arbitrary()?);
    Ok(caps)
}

fn some_config(u: &mut Unstructured<'_>) -> Result<Config> {
    let mut config = Config::DEFAULT;
    config.stays_open = if u.ratio(3, 4)? { StaysOpen::Always } else { StaysOpen::WherePays };
    config.hold_ns = *u.choose(&[config.hold_ns, 300_000])?;
    config.owed_ns = *u.choose(&[config.owed_ns, 500_000])?;
    config.acknowledge = *u.choose(&[Acknowledge::Programmed, Acknowledge::Transferred])?;
    Ok(config)
}

/// Returns something else than the next step of the client. `next`: the block at which the client
/// goes on.
fn some_disturbance(u: &mut Unstructured<'_>, next: &mut u64, read: bool) -> Result<Turn> {
    let (lba, client, fill) = (*next, u.int_in_range(0..=1)?, u.arbitrary()?);
    let submit = |read: bool, lba, blocks, durable| {
        let kind = if read { Kind::Read { lba, blocks } } else { Kind::Write { lba, blocks } };
        Turn::Submit { kind, client, fill, durable, short: false }
    };
    let at = u.int_in_range(0..=SLOTS - 1)?;
    Ok(match u.int_in_range(0..=23)? {
        // Requests that come before the present one has ended, or break the run.
        0 => {
            *next += 4;
            submit(read, lba, 4, false)
        }
        1 => {
            *next += 4;
            submit(read, lba, 4, true)
        }
        2 => {
            *next = BLOCKS - 8;
            submit(read, lba, 2, false)
        }
        3 => {
            *next += 40;
            submit(read, lba, 40, false)
        }
        4 => submit(!read, lba, 4, false),
        5 => submit(read, u.int_in_range(0..=BLOCKS - 1)?, 3, false),
        6 => Turn::Submit { kind: Kind::Flush, client, fill, durable: false, short: false },
        7 | 8 => Turn::Poll,
        9 => Turn::Deadline,
        10 => {
            let cause = *u.choose(&[Cause::Crc, Cause::Timeout])?;
            Turn::Fault { cause, stage: Stage::Data, executed: u.arbitrary()? }
        }
        11 => Turn::Status(*u.choose(&[R1::ERROR, R1::WP_VIOLATION, R1::OUT_OF_RANGE])?),
        12 => Turn::Silent(u.ratio(1, 4)?),
        13 => Turn::Refuse(u.int_in_range(1..=2)?),
        14 => Turn::Answered(u.arbitrary()?),
        15 => *u.choose(&[Turn::Halt(true), Turn::Suspend])?,
        16..=18 => Turn::Halt(false),
        19 => *u.choose(&[Turn::Abandon(at), Turn::TakeBack(at), Turn::Again])?,
        20 if u.ratio(1, 4)? => Turn::Retune,
        20..=21 => Turn::StaysOpen(*u.choose(&MODES)?),
        _ => Turn::Take(at),
    })
}

/// Passes the requests of one client to an engine with the fast path and to one without it, and
/// compares them. Returns how many transfers the first engine continued, and how many of them by
/// the fast path.
fn same_run(u: &mut Unstructured<'_>) -> Result<[u32; 2]> {
    let (caps, config, busy_polls) = (some_caps(u)?, some_config(u)?, u.int_in_range(0..=2)?);
    let mut one = Side::<_, OPEN>::new(caps, Fifo, config, false, busy_polls);
    let mut other = Side::<_, OPEN>::new(caps, GeneralPath(Fifo), config, false, busy_polls);
    let (read, often) = (u.arbitrary()?, u.int_in_range(0..=6)?);
    let (mut ids, mut now, mut next) = ([None; SLOTS], 1_000, 8 * u.int_in_range(0..=20)?);
    // The slot of the client's request, and whether an interrupt has come since it was sent.
    let mut sent: Option<(usize, bool)> = None;
    for turn in 0..u.int_in_range(20..=200)? {
        now += u.int_in_range(0..=40_000)?;
        let step = match sent {
            _ if often > 0 && u.ratio(often, 60)? => some_disturbance(u, &mut next, read)?,
            Some((_, false)) => Turn::Interrupt,
            Some((at, true)) => Turn::Take(at),
            None => {
                let (lba, blocks) = (next % BLOCKS, if next % 16 == 0 { 1 } else { 4 });
                next = lba + u64::from(blocks);
                let kind = if read { Kind::Read { lba, blocks } } else { Kind::Write { lba, blocks } };
                Turn::Submit { kind, client: 0, fill: turn as u8, durable: false, short: false }
            }
        };
        if let Turn::Deadline = step
            && let Some(at) = one.engine.next_deadline_ns()
        {
            now = now.max(at);
        }
        let (seen, id) = alike(&mut one, &mut other, step, &ids, now);
        sent = match (step, sent) {
            (Turn::Interrupt, Some((at, _))) => Some((at, true)),
            (Turn::Take(at) | Turn::Abandon(at) | Turn::TakeBack(at), Some((ours, true)))
                if at == ours && seen == Seen::Done(None) =>
            {
                Some((ours, false))
            }
            (Turn::Take(at) | Turn::Abandon(at) | Turn::TakeBack(at), Some((ours, _))) if at == ours => None,
            (_, sent) => sent,
        };
        if let Some(id) = id {
            ids[id.index()] = Some(id);
            sent.get_or_insert((id.index(), false));
        }
    }
    alike_at_last(&one, &other);
    Ok([one.engine.stats().continued as u32, one.host().fast_on])
}

#[test]
fn continued_requests_are_the_same_on_both_paths() {
    let mut continued = [0; 2];
    fuzz::fuzz("continued_requests_are_the_same_on_both_paths", 2_000, |u| {
        let [all, fast] = same_run(u)?;
        continued = [continued[0] + all, continued[1] + fast];
        Ok(())
    });
    assert!(continued[1] > 1_000, "transfers continued in all, and by the fast path: {continued:?}");
}
