use super::*;
use crate::card::Card;

#[test]
fn the_interrupt_is_a_level_behind_two_enables() {
    let mut host = Host::ready(card(config()), 6);
    host.put(2, 8, 1);
    assert_eq!(host.get(0, 5), 4, "pending, enabled or not");
    for (enable, low) in [(0, false), (1, false), (4, false), (5, true), (3, false)] {
        host.put(0, 4, enable);
        assert_eq!(host.card.interrupt(host.now_ns), low, "IENx {enable:#x}");
    }
    host.put(0, 4, 7);
    assert!(host.card.interrupt(host.now_ns));
    host.put(2, 8, 0);
    assert!(!host.card.interrupt(host.now_ns));
    assert_eq!(host.get(0, 5), 0);
    // A deselected card does not interrupt.
    host.put(2, 8, 1);
    host.silent(7, 0);
    assert!(!host.card.interrupt(host.now_ns));
}

#[test]
fn it_says_when_it_will_come_by_itself() {
    let mut host = Host::ready(card(config()), 2);
    host.put(0, 4, 3);
    assert_eq!(host.card.next_event_ns(host.now_ns), None);
    host.put(1, 0x0c, 50);
    let now = host.now_ns;
    let at = host.card.next_event_ns(now).expect("a timer runs");
    // The timer started at the end of the command, before the response.
    assert!(at < now + 50_000 && at > now + 40_000, "{}", at - now);
    assert!(!host.card.interrupt(at - 1) && host.card.interrupt(at));
    assert_eq!(host.card.next_event_ns(at), None);
    // A function whose interrupt is not enabled does not interrupt.
    host.put(0, 4, 1);
    assert_eq!(host.card.next_event_ns(now), None);
}

#[test]
fn without_a_clock_four_lines_carry_no_news_unless_asynchronous() {
    for is_async in [false, true] {
        let mut config = config();
        config.async_interrupt = true;
        let mut host = Host::ready(card(config), 2);
        host.put(0, 4, 3);
        host.put(0, 0x16, u8::from(is_async) << 1);
        host.put(1, 0x0c, 50);
        host.set(|bus| bus.clock_hz = 0);
        assert_eq!(host.card.next_event_ns(host.now_ns).is_some(), is_async);
        host.wait(100_000);
        assert_eq!(host.card.interrupt(host.now_ns), is_async);
        host.set(|bus| bus.clock_hz = 25_000_000);
        assert!(host.card.interrupt(host.now_ns));
    }
}
