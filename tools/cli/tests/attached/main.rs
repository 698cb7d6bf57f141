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
        ("put {key} --set a=1", "other programs write the items"),
        ("delete {key}", "other programs write the items"),
        ("undelete {key}", "other programs write the items"),
        ("repair {key} --yes", "vzero admin redrive"),
        ("repair --all --dry-run", "vzero admin redrive"),
        ("table create", "not for an attached table"),
    ] {
        let refused = orders.run(&arguments.replace("{key}", &key));
        assert!(
            refused.code == 2 && refused.stderr.contains(reason),
            "{arguments}: {refused:?}"
        );
    }
}
