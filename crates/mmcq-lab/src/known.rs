//! Cache of computed results that several threads share, so that the same input is computed only
//! once.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

/// Largest number of results that one [`Known`] stores.
const MOST: usize = 256;

/// Cache of results by their keys, shared by threads.
#[derive(Debug)]
pub struct Known<K, V>(Mutex<HashMap<K, V>>);

impl<K, V> Default for Known<K, V> {
    fn default() -> Self {
        Known(Mutex::default())
    }
}

impl<K: Hash + Eq, V: Clone> Known<K, V> {
    /// Returns the result for a key. If the cache does not have it, `make` computes it, and the
    /// cache stores it. When the cache is full, all other results are dropped first.
    ///
    /// # Errors
    /// The error of `make`.
    pub fn get_or<E>(&self, key: K, make: impl FnOnce(&K) -> Result<V, E>) -> Result<V, E> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = known().get(&key) {
            return Ok(value.clone());
        }
        // No thread waits for another: two threads may compute the same result.
        let value = make(&key)?;
        let mut all = known();
        if all.len() >= MOST {
            all.clear();
        }
        all.insert(key, value.clone());
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_not_made_again_and_an_error_is_not_known() {
        let known = Known::default();
        let made = std::cell::Cell::new(0);
        let get = |key: usize| {
            known.get_or(key, |&key| {
                made.set(made.get() + 1);
                if key == 7 { Err(key) } else { Ok(10 * key) }
            })
        };
        assert_eq!([get(1), get(1), get(7), get(7)], [Ok(10), Ok(10), Err(7), Err(7)]);
        assert_eq!(made.get(), 3);
        for key in 1000..1000 + 2 * MOST {
            assert_eq!(get(key), Ok(10 * key));
        }
        assert_eq!((get(1), made.get()), (Ok(10), 4 + 2 * MOST), "it was forgotten");
    }
}
