//! Which flash tables and keys a profile may combine, and the error messages for a bad profile.

use crate::card::CardProfile;

fn text() -> String {
    let path = format!("{}/cards/pro-plus-128.toml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

fn cached() -> String {
    let path = format!("{}/cards/emmc-cache.toml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

/// Replaces the line that begins with `begin` by another text.
fn with(text: &str, begin: &str, line: &str) -> String {
    let key = format!("{begin} = ");
    assert_eq!(text.lines().filter(|line| line.starts_with(&key)).count(), 1, "{begin}");
    text.lines()
        .map(|old| if old.starts_with(&key) { line } else { old })
        .fold(String::new(), |all, line| all + line + "\n")
}

/// Returns the error message without its place, and the line that it names.
fn refused(text: &str) -> (String, String) {
    let message = CardProfile::from_toml(text, "bad.toml").expect_err("must be refused").to_string();
    assert!(!message.contains('\n'), "one line: {message}");
    let rest = message.strip_prefix("bad.toml:").unwrap();
    let (line, what) = rest.split_once(": ").unwrap();
    let line = text.lines().nth(line.parse::<usize>().unwrap() - 1).unwrap();
    (what.to_owned(), line.to_owned())
}

#[test]
fn the_two_cards_differ_in_reading_ahead_only() {
    let (one, two) = (super::profile("pro-plus-128"), super::profile("pro-plus-128-ahead"));
    let mut flash = *one.flash();
    let ahead = flash.pages.as_mut().unwrap().ahead.as_mut().unwrap();
    assert!(!ahead.when_counted);
    ahead.when_counted = true;
    assert_eq!(flash, *two.flash());
}

#[test]
fn bad_values_say_where_and_what() {
    let good = text();
    for (key, value, expected) in [
        ("page_kib", "0", "a power of two from 1 to 1024"),
        ("page_kib", "12", "a power of two from 1 to 1024"),
        ("read_ahead_kib", "24", "whole pages of 8 KiB, at least 4, up to 1 GiB"),
        ("read_ahead_kib", "36", "whole pages of 8 KiB, at least 4, up to 1 GiB"),
        ("read_gap_ns", "-1", "a time from 0 to one hour"),
        ("abort_us", "nan", "a time from 0 to one hour"),
        ("close_us", "1e12", "a time from 0 to one hour"),
        ("gc_every_mib", "0", "a size from 0.01 to 1000000 MiB"),
        ("drain_mib_s", "0", "a rate from 0.001 to 1000000 MiB/s"),
    ] {
        let bad = format!("{key} = {value}");
        assert_eq!(refused(&with(&good, key, &bad)), (format!("`{bad}`: expected {expected}"), bad.clone()));
    }
    let (what, line) = refused(&with(&good, "reads_ahead_when_counted", "reads_ahead_when_counted = 1"));
    assert!(what.contains("boolean") && line.contains("when_counted"), "{what}");
}

#[test]
fn keys_without_their_unit_and_unknown_ones() {
    let good = text();
    for key in [
        "page_kib",
        "read_second_page_us",
        "read_gap_ns",
        "read_ahead_kib",
        "abort_us",
        "close_us",
        "reopen_from_kib",
        "gc_run_kib",
        "gc_every_mib",
    ] {
        let (bare, _) = key.rsplit_once('_').unwrap();
        let bad = format!("{bare} = 8");
        assert_eq!(
            refused(&with(&good, key, &bad)),
            (format!("key `{bare}` has no unit: expected `{key}`"), bad.clone())
        );
    }
}

#[test]
fn keys_that_need_or_exclude_others() {
    let good = text();
    for (gone, added, key, expected) in [
        ("page_kib", "", "read_second_page_us = 113", "only beside `page_kib`"),
        ("page_kib", "page_kib = 8\nread_next_4k_us = 1", "read_next_4k_us = 1", "not beside `page_kib`"),
        ("read_ahead_kib", "", "abort_us = 194", "only beside `read_ahead_kib`"),
        ("close_us", "", "reopen_us = 1712", "only beside `close_us`"),
        ("close_us", "close_us = 1\nwrite_first_us = 1", "write_first_us = 1", "not beside `close_us`"),
        ("close_us", "close_us = 1\nbuffer_kib = 64", "buffer_kib = 64", "not beside `close_us`"),
        ("close_us", "close_us = 1\nprogram_kib = 16", "program_kib = 16", "not beside `close_us`"),
        ("cache_kib", "", "close_us = 1566", "`cache_kib` above 0 and `drain_mib_s` beside it"),
        ("drain_mib_s", "", "close_us = 1566", "`cache_kib` above 0 and `drain_mib_s` beside it"),
        ("reopen_us", "", "reopen_from_kib = 1024", "`reopen_us` beside it"),
        ("gc_ms", "", "gc_run_kib = 1024", "all of `gc_run_kib`, `gc_every_mib` and `gc_ms`"),
    ] {
        let bad = with(&good, gone, added);
        assert_eq!(refused(&bad), (format!("`{key}`: expected {expected}"), key.to_owned()), "{gone}");
    }
    // A profile without reads by page must have the times for 4 KiB units.
    let plain: String = good
        .lines()
        .filter(|line| {
            !line.starts_with("read_second_page")
                && !line.starts_with("read_gap")
                && !line.starts_with("read_ahead")
                && !line.starts_with("abort")
                && !line.starts_with("reads_ahead")
                && !line.starts_with("page_kib")
        })
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(refused(&plain), ("missing field `read_next_4k_us`".to_owned(), "[flash.read]".to_owned()));
    // An eMMC cannot have a volatile open write.
    let path = format!("{}/cards/hbg4a2.toml", env!("CARGO_MANIFEST_DIR"));
    let emmc = std::fs::read_to_string(path).unwrap();
    let emmc = with(&emmc, "write_first_us", "close_us = 5");
    let emmc = with(&emmc, "buffer_kib", "");
    let emmc = with(&emmc, "write_next_4k_us", "volatile_open_write = true");
    assert_eq!(
        refused(&emmc),
        (
            "`volatile_open_write = true`: expected false, or an SD card".to_owned(),
            "volatile_open_write = true".to_owned()
        )
    );
}

#[test]
fn a_cache_with_a_price_has_the_size_of_its_register() {
    let text = cached();
    let bytes = |text: &str| CardProfile::from_toml(text, "good.toml").unwrap().flash().cache_bytes;
    assert_eq!(bytes(&text), 1 << 20);
    assert_eq!(bytes(&with(&text, "cache_size_kib", "cache_size_kib = 64")), 64 << 10);
    // Without a cache, the receive buffer drains.
    assert_eq!(bytes(&with(&text, "cache_size_kib", "cache_size_kib = 0")), 512 << 10);
    for (gone, added, key, expected) in [
        (
            "program_kib",
            "cache_kib = 64",
            "cache_kib = 64",
            "not beside `[flash.cache]`: `cache_size_kib` of `[emmc]` is the size",
        ),
        ("drain_mib_s", "", "program_us = 200", "a cache with a size, and `drain_mib_s` in `[flash.write]`"),
        ("flush_us", "flush_us = -1", "flush_us = -1", "a time from 0 to one hour"),
    ] {
        // `program_kib` also needs a cache, and would cause its own error first.
        let plain = if gone == "program_kib" { text.clone() } else { with(&text, "program_kib", "") };
        let bad = with(&plain, gone, added);
        assert_eq!(refused(&bad), (format!("`{key}`: expected {expected}"), key.to_owned()), "{gone}");
    }
    let bad = with(&text, "flush_us", "");
    assert_eq!(refused(&bad), ("missing field `flush_us`".to_owned(), "[flash.cache]".to_owned()));
}

#[test]
fn the_time_of_a_switch_and_its_register_are_one_value() {
    let text = cached();
    let bad = with(&text, "switch_us", "switch_us = 90000\ngeneric_cmd6_time_ms = 50");
    assert_eq!(
        refused(&bad),
        (
            "`generic_cmd6_time_ms = 50`: expected no less than `switch_us`".to_owned(),
            "generic_cmd6_time_ms = 50".to_owned()
        )
    );
}

/// Returns the text of the profile of a card by its name.
fn named(name: &str) -> String {
    let path = format!("{}/cards/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn a_bad_spread_is_told_by_its_key_and_line() {
    let slc = named("emmc-slc");
    for (key, value, expected) in [
        ("gc_share", "1.5", "a share from 0 to 1"),
        ("gc_share", "-0.1", "a share from 0 to 1"),
        ("gc_share", "nan", "a share from 0 to 1"),
        ("gc_stall_ms", "-1", "a time from 0 to one hour"),
        ("slc_mib", "0", "a size from 0.01 to 1000000 MiB"),
        ("slc_mib_s", "1e9", "a rate from 0.001 to 1000000 MiB/s"),
        ("slc_mib_s", "50", "a rate above `drain_mib_s`, which is the one after the cliff"),
        ("slc_free_mib_s", "-3", "a rate from 0.001 to 1000000 MiB/s"),
    ] {
        let bad = format!("{key} = {value}");
        assert_eq!(refused(&with(&slc, key, &bad)), (format!("`{bad}`: expected {expected}"), bad.clone()));
    }
    for (gone, key, expected) in [
        ("gc_share", "gc_stall_ms = 15", "`gc_share` beside it"),
        ("gc_stall_ms", "gc_share = 0.002", "`gc_stall_ms` beside it"),
        ("slc_mib", "slc_mib_s = 200.5", "`slc_mib` beside it"),
        ("slc_mib_s", "slc_mib = 1024", "`slc_mib_s` beside it"),
    ] {
        let bad = with(&slc, gone, "");
        assert_eq!(refused(&bad), (format!("`{key}`: expected {expected}"), key.to_owned()), "{gone}");
    }
    let reads = named("emmc-th1520");
    let bad = with(&reads, "read_retry_again", "read_retry_again = 1");
    let again = "read_retry_again = 1".to_owned();
    assert_eq!(refused(&bad), (format!("`{again}`: expected a share from 0 to 0.99"), again));
    let bad = with(&with(&reads, "read_retry_share", ""), "read_retry_us", "");
    let (what, _) = refused(&bad);
    assert_eq!(what, "`read_retry_again = 0.25`: expected `read_retry_share` beside it");
    // With `close_us` a write ends in the flash, so no cache drains afterwards.
    let close =
        with(&named("pro-plus-128-spread"), "gc_share", "gc_share = 0.04\nslc_mib = 64\nslc_mib_s = 90");
    assert_eq!(
        refused(&close).0,
        "`slc_mib = 64`: expected a cache with a size, and `drain_mib_s` in `[flash.write]`, without `close_us`"
    );
    let (what, line) = refused(&with(&slc, "gc_share", "gc_shore = 1"));
    assert!(what.contains("gc_shore") && line == "gc_shore = 1", "{what}");
}

#[test]
fn no_card_of_a_published_table_has_a_spread() {
    let spread = ["emmc-slc", "emmc-th1520", "pro-plus-128-spread"];
    for (name, _) in crate::cards::CARDS.iter().filter(|(name, _)| *name != "bt-type-a") {
        let has = super::profile(name).flash().spread.is_some();
        assert_eq!(has, spread.contains(name), "{name}");
    }
}
