//! Tests of the summaries of shards, and of their sum.

use mmcq_sim::parallel::Shard;
use mmcq_torture::queues::queues;
use mmcq_torture::spread::Share;
use mmcq_torture::summary::Summary;

fn share(index: usize, count: usize) -> Share {
    Share { seed: 7, requests: 3000, shard: Some(Shard { index, count }), jobs: 1 }
}

fn done(index: usize, count: usize) -> Summary {
    let share = share(index, count);
    let score = queues(&share, &|_| ());
    Summary::of("queues".to_owned(), &share, &score)
}

#[test]
fn shares_in_any_order_are_the_whole() {
    let whole = done(0, 1);
    assert!(whole.counts.runs == 12 && whole.is_well(), "{whole:?}");
    let parts = [2, 0, 1].map(|index| done(index, 3));
    let mut sum = Summary::read(&parts[0].line()).unwrap();
    assert_eq!(sum.missing(), [1, 2]);
    parts[1..].iter().for_each(|part| sum.merge(part.clone()).unwrap());
    assert!(sum.missing().is_empty());
    let same = Summary { of: 1, shares: vec![1], ..sum.clone() };
    assert_eq!(same, whole);
    assert!(sum.merge(parts[0].clone()).unwrap_err().contains("share 3/3 is there twice"));
    assert!(sum.merge(whole).unwrap_err().contains("cannot be added"));
}

#[test]
fn what_is_no_summary_is_refused() {
    let good = done(0, 4).line();
    for (bad, said) in [
        ("{}", "not a summary"),
        (&good.replace("0.2.0", "0.0.1"), "of version 0.0.1"),
        (&good.replace("\"shares\":[1]", "\"shares\":[5]"), "shares [5] of 4"),
    ] {
        let error = Summary::read(bad).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
}
