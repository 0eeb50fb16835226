//! Writes campaigns of the torture tests as an HTML page.

use crate::page::frame::capital;
use crate::page::listed::{Part, listed};

/// A campaign of torture tests: its scoreboard, and its summary as JSON.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Title of the campaign: what it tested.
    pub title: String,
    /// The scoreboard of the campaign, as the program prints it.
    pub text: String,
    /// The summary of the campaign as one line of JSON.
    pub summary: String,
}

/// Returns the page of these campaigns. `broken`: number of promises that were broken. `over`:
/// number of recoveries that took too long.
pub fn page(campaigns: &[Campaign], broken: u64, over: u64, command: &str) -> String {
    let part = |campaign: &Campaign| {
        let lines = campaign.text.lines().skip(1).map(|line| format!("{}\n", line.trim_start()));
        let heading = capital(&campaign.title);
        Part { heading, lines: lines.collect(), ..Part::default() }
    };
    let verdict = match (broken, over) {
        (0, 0) => "No promise was broken, and every recovery kept its budget.".to_owned(),
        _ => format!("Promises broken: {broken}. Recoveries over their budget: {over}."),
    };
    let intro = "A storage stack under faults: bits fall over on the wire, cards vanish, hang or lie, the supply is cut. A \
                 checker knows what the stack promised to its users (no data are lost or mixed up, every request has \
                 one answer, in bounded time), and looks at each of its answers.";
    let parts: Vec<Part> = campaigns.iter().map(part).collect();
    let data: String = campaigns.iter().map(|campaign| campaign.summary.as_str()).collect();
    listed("A storage stack under torture", intro, &[verdict], &parts, command, &data)
}
