//! The smallest program that still fails, and what it did.

use super::program::{Lane, Op, Program, Sched};
use mmcq::engine::StaysOpen;
use mmcq::host::BusyDetect;
use std::fmt::Write;

/// Runs a program, and finds a smaller one that fails as well.
pub fn shrunk(program: &Program) -> Option<Program> {
    let fails = |program: &Program| {
        std::panic::catch_unwind(|| program.run(false)).map_or(true, |result| result.is_err())
    };
    if !fails(program) {
        return None;
    }
    let mut least = program.clone();
    loop {
        let mut smaller = Vec::new();
        let mut with = |change: &dyn Fn(&mut Program)| {
            let mut other = least.clone();
            change(&mut other);
            smaller.push(other);
        };
        for n in 0..least.ops.len() {
            with(&|p| {
                let (wait, _) = p.ops.remove(n);
                if let Some(next) = p.ops.get_mut(n) {
                    next.0 += wait;
                }
            });
            with(&|p| {
                p.ops.remove(n);
            });
            if least.ops[n].0 > 0 {
                with(&|p| p.ops[n].0 -= 1);
            }
            if let Op::Submit { blocks, handle, .. } = least.ops[n].1 {
                let set = |p: &mut Program, f: &dyn Fn(&mut u32, &mut u8, &mut bool)| {
                    if let Op::Submit { blocks, handle, durable, .. } = &mut p.ops[n].1 {
                        f(blocks, handle, durable);
                    }
                };
                if blocks > 1 {
                    with(&|p| set(p, &|blocks, _, _| *blocks -= 1));
                }
                if handle > 0 {
                    with(&|p| set(p, &|_, handle, _| *handle = 0));
                }
            }
        }
        for n in 0..least.plan.len() {
            with(&|p| {
                p.plan.remove(n);
            });
            if least.plan[n].0 > 1 {
                with(&|p| p.plan[n].0 -= 1);
            }
        }
        let simple: [&dyn Fn(&mut Program); 13] = [
            &|p| p.sched = Sched::Fifo,
            &|p| (p.lane, p.names) = (Lane::None, false),
            &|p| p.busy = BusyDetect::Interrupt,
            &|p| p.max_blocks = 64,
            &|p| (p.stop, p.count, p.no_count) = (true, true, false),
            &|p| p.continues = false,
            &|p| p.reliable = 0,
            &|p| p.polls = 0,
            &|p| p.slow = false,
            &|p| p.transferred = false,
            &|p| (p.stays, p.settle) = (StaysOpen::WherePays, 128),
            &|p| (p.prepared, p.helps_after, p.fails) = (u8::MAX, 0, (0, false)),
            &|p| (p.supervised, p.cached) = (true, false),
        ];
        for change in simple {
            with(change);
        }
        let text = |p: &Program| format!("{p:?}");
        let now = text(&least);
        match smaller.into_iter().find(|p| text(p) != now && fails(p)) {
            Some(next) => least = next,
            None => return Some(least),
        }
    }
}

/// Returns what a failed program did.
pub fn told(program: &Program) -> String {
    let mut text = format!("{program:#?}\n");
    match std::panic::catch_unwind(|| program.run(true)) {
        Ok(Ok(_)) => text.push_str("does not fail"),
        Ok(Err((wrong, log))) => {
            let _ = write!(text, "{}\n{wrong}", log.join("\n"));
        }
        Err(_) => text.push_str("panics"),
    }
    text
}
