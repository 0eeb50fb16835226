//! Torture: the whole stack on its models, with power cuts and faults, judged by an independent checker.
//!
//! A [`Case`](case::Case) is a machine, a list of requests and what goes wrong; [`run`](run::run) runs it and says which promise was broken, if any. The
//! campaigns make cases: [`swarm`] at random.

pub mod case;
pub mod machine;
pub mod run;
pub mod score;
pub mod shrink;
pub mod swarm;
mod trace;
