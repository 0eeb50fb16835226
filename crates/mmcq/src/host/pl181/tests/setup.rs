//! Tests of the conditions under which a driver can be made.

use super::*;
use std::string::ToString;

#[test]
fn the_identification_tells_the_fifo() {
    for (id, words) in [(0x0004_1180, 16), (0x0014_1181, 16), (0x0104_1180, 128), (0x0204_1180, 128)] {
        assert_eq!(Pl181::new(Fake::new(id), config()).map(|host| host.fifo_words()).ok(), Some(words));
    }
    // The identification of ARM's UART, and PL181's part number from another designer.
    for id in [0x0014_1011, 0x0008_0181, 0] {
        let error = Pl181::new(Fake::new(id), config()).err();
        assert_eq!(error, Some(Pl181InitError::Unknown(id)));
        assert!(error.unwrap().to_string().contains("expected"));
        let told = Pl181Config { fifo_words: Some(32), ..config() };
        assert_eq!(Pl181::new(Fake::new(id), told).map(|host| host.fifo_words()).ok(), Some(32));
    }
}

#[test]
fn what_cannot_be_is_said() {
    for words in [0, 1, 3, 24] {
        let wrong = Pl181Config { fifo_words: Some(words), ..config() };
        assert_eq!(Pl181::new(Fake::new(0), wrong).err(), Some(Pl181InitError::Fifo(words)));
    }
    let stopped = Pl181Config { mclk_hz: 0, ..config() };
    assert_eq!(Pl181::new(Fake::new(0x0004_1181), stopped).err(), Some(Pl181InitError::NoClock));
    let dead = Fake::new(u32::MAX);
    dead.raise(u32::MAX);
    assert_eq!(Pl181::new(dead, config()).err(), Some(Pl181InitError::Gone));
}
