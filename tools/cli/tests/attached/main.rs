//! `vzero --attached` on a table that other programs write, with stream-fn's own code.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod audit;
mod backfill;
mod prune;
mod purge;
mod redrive;
mod restore;

use testkit::attached::Orders;

fn orders() -> Orders {
    Orders::new(env!("CARGO_BIN_EXE_vzero"))
}

#[test]
fn commands_that_are_not_for_an_attached_table_are_refused() {
    let orders = orders();
    let key = Orders::key(1);
    for (arguments, reason) in [
        (&format!("put {key} --set a=1"), "other programs write the items"),
        (&format!("delete {key}"), "other programs write the items"),
        (&format!("undelete {key}"), "other programs write the items"),
        (&format!("repair {key} --yes"), "vzero admin redrive"),
        (&"repair --all --dry-run".to_owned(), "vzero admin redrive"),
        (&"table create".to_owned(), "not for an attached table"),
    ] {
        let refused = orders.run(arguments);
        assert_eq!(refused.code, 2, "{arguments:?}: {refused:?}");
        assert!(refused.stderr.contains(reason), "{refused:?}");
    }
}
