//! What the flash does beside the transfers that the bus shows, such as retries and garbage
//! collection.

/// How many times an event of the flash happened, and how long these events took together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Number of times that this kind of event (such as a retry) happened.
    pub count: u64,
    /// Sum in ns of the durations of this event.
    pub ns: u64,
}

impl Times {
    pub(super) fn note(&mut self, ns: u64) {
        self.count += 1;
        self.ns = self.ns.saturating_add(ns);
    }

    fn add(&mut self, other: Times) {
        self.count += other.count;
        self.ns = self.ns.saturating_add(other.ns);
    }
}

/// Work of the flash: flushes, and what [`Spread`](super::Spread) adds to reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Number and total duration of the flushes of the cache.
    pub flushes: Times,
    /// Number of reads that needed further tries, and total duration of these tries.
    pub retries: Times,
    /// Number of writes that met garbage collection, and total duration of the collections.
    pub collections: Times,
    /// Number of bytes for which the SLC cache had no room, so that they were programmed at the
    /// slow rate.
    pub beyond_slc_bytes: u64,
}

impl Work {
    /// Adds the counts and times of `other` to these.
    pub fn add(&mut self, other: &Work) {
        self.flushes.add(other.flushes);
        self.retries.add(other.retries);
        self.collections.add(other.collections);
        self.beyond_slc_bytes += other.beyond_slc_bytes;
    }
}
