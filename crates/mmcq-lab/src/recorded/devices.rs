//! Devices and processes of a trace, by number.

use std::collections::HashMap;

/// Numbers for names, and the names that are wanted.
pub(super) struct Devices {
    wanted: Option<String>,
    known: HashMap<String, Option<u32>>,
}

impl Devices {
    /// Makes it for all names, or for only this one.
    pub(super) fn new(wanted: Option<String>) -> Self {
        Devices { wanted, known: HashMap::new() }
    }

    /// Returns the number of a name; `None`: it is not wanted.
    pub(super) fn number(&mut self, name: &str) -> Option<u32> {
        if let Some(&number) = self.known.get(name) {
            return number;
        }
        let wanted = self.wanted.as_deref().is_none_or(|wanted| wanted == name);
        let number = wanted.then_some(self.known.len() as u32);
        self.known.insert(name.to_owned(), number);
        number
    }
}
