//! Numbers the devices and processes of a trace.

use std::collections::HashMap;

/// Numbers for the names of devices or files in a trace. A name that the user does not want to read
/// has no number.
pub(super) struct Devices {
    wanted: Option<String>,
    known: HashMap<String, Option<u32>>,
}

impl Devices {
    /// Makes an empty list, for all names of devices or only for `wanted`.
    pub(super) fn new(wanted: Option<String>) -> Self {
        Devices { wanted, known: HashMap::new() }
    }

    /// Returns the number of a device's or file's name; `None`: the user does not want this device.
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
