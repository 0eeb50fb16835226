use super::super::Behind;
use super::*;

fn text() -> String {
    std::fs::read_to_string(format!("{}/cards/bt-type-a.toml", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn the_profile_of_the_thread() {
    let mut profile = type_a();
    assert!(profile.description().contains("Type-A"));
    assert!(profile.sources().iter().all(|(_, source)| !source.is_empty()));
    let [Behind::TypeA(source)] = profile.behind_mut().map(|b| *b).collect::<Vec<_>>()[..] else {
        panic!("one Bluetooth function")
    };
    assert_eq!((source.payload_bytes, source.period_ns), (2048, 4_000_000));
    let mut host = Host::new(profile.build().0);
    host.select_io(false);
    assert_eq!((host.get(0, 8), host.get(0, 0x100)), (0x03, 2));
}

#[test]
fn wrong_values_are_named_with_their_line() {
    let cases = [
        ("max_khz = 25000", "max_khz = 26001", "max_khz = 26001`: expected a clock"),
        ("rca = 0x0001", "rca = 0", "rca = 0`: expected 1 to 65535"),
        ("per_second = 250", "per_second = 0", "per_second = 0`: expected 0.001 to 1000000"),
        ("payload_bytes = 2048", "payload_bytes = 3", "payload_bytes = 3`: expected 4 to 65531"),
        ("buffer_packets = 4", "buffer_packets = 0", "buffer_packets = 0`: expected at least 1"),
        ("class = 2\nmax_block_bytes = 512", "class = 2\nmax_block_bytes = 2049", "expected 1 to 2048"),
        ("enable_timeout_ms = 1000", "enable_timeout_ms = 15", "expected tens of ms"),
        ("kind = \"type-a\"", "kind = \"type-b\"", "type-b"),
        ("kind = \"type-a\"", "kind = \"loopback\"", "no packets for a loopback"),
        ("power_up_ms = 20", "power_up = 20", "no unit: expected `power_up_ms`"),
    ];
    for (old, new, want) in cases {
        let text = text();
        assert!(text.contains(old), "{old}");
        let error = IoProfile::from_toml(&text.replacen(old, new, 1), "x.toml").unwrap_err().to_string();
        assert!(error.starts_with("x.toml:") && error.contains(want), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
