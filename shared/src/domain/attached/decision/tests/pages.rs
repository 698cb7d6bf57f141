//! A history that is read in pages decides as the whole one, although only some states are kept.

use proptest::{collection::vec, prelude::*};

use super::*;

/// Versions in the texts of [`tail`]. A late one has a place that no other version has.
fn history(versions: &[(bool, u64, usize)]) -> Vec<String> {
    let (mut places, mut texts) = (BTreeSet::from([0]), Vec::new());
    for &(is_late, step, state) in versions {
        let last = *places.last().unwrap();
        let (place, late) = if is_late {
            (step, "+")
        } else {
            (last + step % 3 + 1, "")
        };
        if (!is_late || place < last) && places.insert(place) {
            let state = ["a", "b", "-", "*"][state];
            texts.insert(0, format!("v{}:{place}={state}{late}", texts.len() + 1));
        }
    }
    texts
}

#[test]
fn states_that_do_not_decide_are_forgotten_and_read_again_where_they_do() {
    let mut read = tail(&["v7:2=x+", "v6:4=y+", "v5:9=e", "v4:8=d", "v3:7=*", "v2:6=b"], false);
    assert_eq!(decide_in(&change(5, "?", "b"), &mut read), Decision::ReadMore);
    let kept = read.versions.iter().filter(|version| version.state.item().is_some());
    assert_eq!(kept.map(|kept| kept.version.get()).collect::<Vec<_>>(), [6, 5]);
    assert!(read.is_omitted(&Place::parse(STREAM, "7").unwrap()));
    // The next records of the batch.
    assert_eq!(decided(&change(6, "?", "b"), &read), "AlreadyRecorded");
    read.versions.remove(4);
    assert_eq!(decided(&change(7, "a", "c"), &read), "Late 7=c");
    assert_eq!(decided(&change(7, "?", "c"), &read), "ReadConsistently");
    assert_eq!(decided(&change(10, "?", "e"), &read), "Unchanged");
}

proptest! {
    #[test]
    fn pages_decide_as_the_whole_history(
        versions in vec((any::<bool>(), 1..16_u64, 0..4_usize), 1..9),
        records in vec((1..5_u64, 0..4_usize, 0..3_usize), 1..4),
        page in 1..4_usize,
    ) {
        let texts = history(&versions);
        let whole = tail(&texts.iter().map(String::as_str).collect::<Vec<_>>(), true);
        let (mut read, mut number) = (Tail::default(), 0);
        for (step, from, to) in records {
            number += step;
            let change = change(number, ["?", "-", "a", "b"][from], ["a", "b", "-"][to]);
            let decision = loop {
                match decide_in(&change, &mut read) {
                    Decision::ReadMore => {}
                    Decision::ReadConsistently => read = Tail::default(),
                    decision => break decision,
                }
                let known = read.versions.len();
                let older = whole.versions[known..].iter().take(page);
                read.versions.extend(older.cloned());
                let is_complete = known + page >= whole.versions.len();
                read = Tail { versions: read.versions, is_complete, ..whole.clone() };
            };
            prop_assert_eq!(&decision, &decide_in(&change, &mut whole.clone()), "{:?} {} {}", texts, number, page);
            // The tail of the next record has what was appended.
            if matches!(decision, Decision::Append(_)) {
                break;
            }
        }
    }
}
