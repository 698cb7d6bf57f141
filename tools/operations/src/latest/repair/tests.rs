use serde_json::{Value, json};

use super::*;

fn version(number: u64) -> Version {
    Version::new(number).unwrap()
}

fn item(json: Value) -> Item {
    serde_json::from_value(json).unwrap()
}

fn v0(latest: u64, state: &str) -> Item {
    item(json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": latest.to_string()}, "A": {"S": state}}))
}

fn vn(number: u64, state: &str) -> Item {
    item(json!({"PK": {"S": "E"}, "SK": {"S": format!("v{number}")}, "A": {"S": state}, "Pinned": {"BOOL": true}}))
}

fn gap(from: u64, to: u64) -> Finding {
    let (from, to) = (version(from), version(to));
    Finding::Gap { from, to }
}

fn stray(from: u64, to: u64) -> Finding {
    let (from, to) = (version(from), version(to));
    Finding::Stray { from, to }
}

fn orphan(from: u64, to: u64) -> Finding {
    let (from, to) = (version(from), version(to));
    Finding::Orphan { from, to }
}

/// Returns the steps as text, the missing versions, and the number of findings that are left.
fn planned(findings: &[Finding], latest: Option<Item>, top: Option<Item>, revive: bool) -> Value {
    let plan = plan(
        findings,
        latest.as_ref(),
        top.as_ref(),
        Version::FIRST,
        revive,
        VersionDigits::default(),
    );
    let step = |step: &Step| match step {
        Step::Put(version) => format!("put {}", version.version()),
        Step::Raise { from, to } => format!("raise {from} to {to}"),
        Step::Adopt { to } => format!("adopt {to}"),
        Step::Move { version, .. } => format!("move {version}"),
        Step::Release { version, .. } => format!("release {}", version.version()),
        Step::Retime { from, to } => format!("retime {from} to {to}"),
        Step::Recount { to, .. } => format!("recount {to}"),
        Step::Revive { version, .. } => format!("revive {version}"),
    };
    let steps: Vec<_> = plan.steps.iter().map(step).collect();
    json!([steps, plan.missing, plan.left.len()])
}

/// Any step that numbers the latest item begins a new sequence of times.
#[test]
fn a_time_far_ahead_needs_one_step() {
    let ahead = Finding::Ahead { version: version(3) };
    for (findings, latest, top, expected) in [
        (&[ahead][..], v0(3, "x"), None, json!([["retime 3 to 4"], [], 0])),
        (
            &[ahead, gap(3, 3)],
            v0(3, "x"),
            None,
            json!([["put 3", "retime 3 to 4"], [], 0]),
        ),
        (
            &[ahead, stray(3, 7)],
            v0(2, "x"),
            Some(vn(7, "y")),
            json!([["raise 2 to 8"], [], 0]),
        ),
    ] {
        assert_eq!(planned(findings, Some(latest), top, false), expected, "{findings:?}");
    }
}

#[test]
fn repair_plans() {
    let differs = Finding::LatestDiffers { version: version(3) };
    let lagging = Finding::Lagging {
        through: 1,
        latest: version(3),
    };
    let no_version = Finding::NoVersion {
        why: InvalidImage::NoLatest,
    };
    let not_whole = Finding::NoVersion {
        why: InvalidImage::LatestIsNotWhole,
    };
    let uncounted = |state: &str| {
        let mut uncounted = v0(1, state);
        uncounted.remove("Latest");
        uncounted
    };
    let below_floor = Finding::BelowFloor { floor: version(9) };
    let unpruned = Finding::Unpruned {
        from: version(1),
        to: version(2),
    };
    for (findings, latest, top, expected) in [
        (&[][..], Some(v0(3, "x")), None, json!([[], [], 0])),
        (&[lagging], Some(v0(3, "x")), None, json!([[], [], 0])),
        // Only the latest version can be put from the latest item.
        (&[gap(3, 3)], Some(v0(3, "x")), None, json!([["put 3"], [], 0])),
        (&[gap(1, 3)], Some(v0(3, "x")), None, json!([["put 3"], [[1, 2]], 0])),
        (&[gap(1, 2)], Some(v0(3, "x")), None, json!([[], [[1, 2]], 0])),
        // A new version was written after the audit: the missing version is no longer the latest.
        (&[gap(3, 3)], Some(v0(4, "x")), None, json!([[], [[3, 3]], 0])),
        // The counter was set back: the latest item is not put under its number.
        (
            &[stray(3, 7)],
            Some(v0(2, "x")),
            Some(vn(7, "y")),
            json!([["raise 2 to 8"], [], 0]),
        ),
        (
            &[stray(3, 7)],
            Some(v0(2, "x")),
            Some(vn(7, "x")),
            json!([["raise 2 to 7"], [], 0]),
        ),
        (
            &[gap(2, 2), stray(4, 4), stray(7, 7)],
            Some(v0(2, "x")),
            Some(vn(7, "y")),
            json!([["raise 2 to 8"], [[2, 3], [5, 6]], 0]),
        ),
        (
            &[differs],
            Some(v0(3, "x")),
            Some(vn(3, "y")),
            json!([["raise 3 to 4"], [], 0]),
        ),
        (&[differs], Some(v0(3, "x")), Some(vn(3, "x")), json!([[], [], 0])),
        (&[differs], Some(v0(9, "x")), Some(vn(3, "y")), json!([[], [], 0])),
        (&[stray(3, 7)], Some(v0(2, "x")), None, json!([[], [], 0])),
        // Findings that cannot be repaired.
        (
            &[not_whole, unpruned],
            Some(item(json!({"Latest": {"N": "1.5"}}))),
            None,
            json!([[], [], 2]),
        ),
        // Another client wrote the latest item.
        (&[no_version], Some(uncounted("x")), None, json!([["adopt 1"], [], 0])),
        (
            &[no_version, orphan(1, 2)],
            Some(uncounted("x")),
            Some(vn(2, "x")),
            json!([["adopt 2"], [], 0]),
        ),
        (
            &[no_version, orphan(1, 2)],
            Some(uncounted("y")),
            Some(vn(2, "x")),
            json!([["adopt 3"], [], 0]),
        ),
        (
            &[no_version, orphan(2, 2), orphan(5, 5)],
            Some(uncounted("y")),
            Some(vn(5, "x")),
            json!([["adopt 6"], [[3, 4]], 0]),
        ),
        (&[orphan(1, 7)], None, Some(vn(7, "x")), json!([[], [], 1])),
        (&[below_floor], None, None, json!([["recount 10"], [], 0])),
    ] {
        assert_eq!(planned(findings, latest, top, false), expected, "{findings:?}");
    }
    let orphans = [orphan(3, 4), orphan(7, 7)];
    let revived = json!([["revive 7"], [[5, 6]], 0]);
    assert_eq!(planned(&orphans, None, Some(vn(7, "x")), true), revived);
    // Another client created a latest item after the audit.
    assert_eq!(planned(&orphans, Some(v0(1, "x")), Some(vn(7, "y")), true)[2], 2);
}

#[test]
fn a_revived_item_is_its_version_without_marks() {
    let plan = plan(
        &[orphan(1, 7)],
        None,
        Some(&vn(7, "x")),
        Version::FIRST,
        true,
        VersionDigits::new(3).unwrap(),
    );
    let [Step::Revive { latest, .. }] = &plan.steps[..] else {
        panic!("{plan:?}")
    };
    let expected = json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "7"}, "A": {"S": "x"}});
    assert_eq!(serde_json::to_value(latest).unwrap(), expected);
}

#[test]
fn the_counter_does_not_follow_a_version_that_is_out_of_reach() {
    let (near, far) = (2 + MAX_MISSING + 1, 2 + MAX_MISSING + 2);
    let uncounted = || {
        let mut uncounted = v0(1, "x");
        uncounted.remove("Latest");
        uncounted
    };
    let no_version = Finding::NoVersion {
        why: InvalidImage::NoLatest,
    };
    let raised = json!([format!("raise 2 to {}", near + 1)]);
    let plan = |findings: &[Finding], latest, top: u64| planned(findings, latest, Some(vn(top, "y")), true);
    assert_eq!(plan(&[stray(near, near)], Some(v0(2, "x")), near)[0], raised);
    for highest in [far, Version::MAX] {
        let left = json!([[], [], 1]);
        assert_eq!(plan(&[stray(highest, highest)], Some(v0(2, "x")), highest), left);
        assert_eq!(plan(&[orphan(highest, highest)], None, highest), left);
        // Versions up to the latest one are still searched.
        let found = plan(&[gap(1, 1), stray(highest, highest)], Some(v0(2, "x")), highest);
        assert_eq!(found, json!([[], [[1, 1]], 1]));
        let found = plan(&[no_version, orphan(highest, highest)], Some(uncounted()), highest);
        assert_eq!(found, json!([[], [], 2]));
    }
    // Pruned versions are not missing.
    let pruned = [stray(MAX_COUNT - 3, MAX_COUNT)];
    assert_eq!(out_of_reach(&pruned, Some(version(2)), version(MAX_COUNT - 3)), None);
    assert!(out_of_reach(&pruned, Some(version(2)), version(3)).is_some());
    // A floor that no entity reaches.
    let pruned = [stray(MAX_COUNT, MAX_COUNT + 1)];
    assert!(out_of_reach(&pruned, Some(version(2)), version(MAX_COUNT)).is_some());
    let floor = |floor| Finding::BelowFloor { floor: version(floor) };
    let counted = json!([[format!("recount {}", MAX_COUNT + 1)], [], 0]);
    assert_eq!(planned(&[floor(MAX_COUNT)], Some(v0(2, "x")), None, false), counted);
    assert_eq!(
        planned(&[floor(MAX_COUNT + 1)], Some(v0(2, "x")), None, false),
        json!([[], [], 1])
    );
}
