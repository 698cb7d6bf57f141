//! Snapshots of an attached table at random times, also with late versions.

use serde_json::json;
use stream_fn::response::Outcome;
use testkit::attached::Orders;

use super::{record, redrive};
use crate::snapshot::check;

#[test]
fn a_snapshot_is_the_state_of_each_item_and_a_diff_leads_from_one_to_another() {
    const START: u64 = 1_795_328_688;
    const ORDERS: u64 = 30;
    let orders = Orders::new("vzero");
    let mut rng = fastrand::Rng::with_seed(7);
    let mut states = [None; 30];
    // States after each second, by the number of the order.
    let (mut records, mut model) = (Vec::new(), vec![states]);
    for second in 1..=40 {
        for _ in 0..rng.usize(..6) {
            let no = rng.u64(..ORDERS);
            let state = &mut states[usize::try_from(no).unwrap()];
            let new = (state.is_none() || rng.u8(..4) > 0).then(|| ["a", "b", "c"][rng.usize(..3)]);
            if new != *state {
                records.push(record(no, records.len() as u64, START + second, *state, new));
                *state = new;
            }
        }
        model.push(states);
    }
    let late: Vec<_> = (0..10).map(|_| records.remove(rng.usize(..records.len()))).collect();
    for outcome in redrive(&orders, &[records, late].concat()) {
        assert!(matches!(outcome, Outcome::Recorded), "{outcome:?}");
    }
    let keys: Vec<_> = (0..ORDERS).map(Orders::key).collect();
    for _ in 0..8 {
        let mut seconds = [rng.u64(..=40), rng.u64(..=40)];
        seconds.sort_unstable();
        let checked = orders.block_on(check(&orders.store(), &keys, seconds.map(|second| START + second)));
        for (second, found) in seconds.into_iter().zip(checked) {
            let found = found
                .into_values()
                .map(|(_, attributes)| json!([attributes["no"], attributes["state"]]));
            let states = (0..ORDERS).zip(model[usize::try_from(second).unwrap()]);
            let expected = states.filter_map(|(no, state)| Some(json!([no, state?])));
            let sorted = |mut states: Vec<serde_json::Value>| {
                states.sort_by_key(|state| state[0].as_u64());
                states
            };
            assert_eq!(sorted(found.collect()), sorted(expected.collect()), "{second}");
        }
    }
}
