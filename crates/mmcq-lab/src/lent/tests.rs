use super::Lent;
use std::rc::Rc;

#[test]
fn what_is_lent_is_dropped_with_its_owner() {
    let (seen, mut lent) = (Rc::new(()), Lent::default());
    // SAFETY: the references are used only before `lent` is dropped.
    let (one, other) = unsafe { (lent.lend([1_u64; 9]), lent.lend(Some(seen.clone()))) };
    one[8] = 2;
    assert_eq!((one.iter().sum::<u64>(), Rc::strong_count(&seen)), (10, 2));
    // The replaced value is dropped at once.
    *other = None;
    assert_eq!(Rc::strong_count(&seen), 1);
    *other = Some(seen.clone());
    drop(lent);
    assert_eq!(Rc::strong_count(&seen), 1);
}
