//! Simulation of the deployed system under load: queue, functions, table, stream and event source mappings, with their limits.
//!
//! It simulates each message, request, record and invocation as an event in virtual time, without the code of the functions. A
//! seed determines a run. Its rules are those that AWS documents and that `tools/local` implements; CPU times are parameters.
//! It does not simulate cold starts, splits of partitions, variable latencies or lost responses.

mod counters;
mod histogram;
mod messages;
pub mod parameters;
pub mod plan;
mod records;
pub mod report;
mod saturation;
mod stream;
mod table;
mod world;
mod writer;
mod zipf;

pub use counters::Saturated;
pub use parameters::{Parameters, Rate};
pub use report::Report;

/// Simulates a load.
pub fn run(parameters: &Parameters) -> Report {
    let mut world = world::World::new(parameters);
    world.run();
    Report::of(&world)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One entity with more updates than its partition accepts.
    fn hot() -> Parameters {
        Parameters {
            entities: 1,
            partitions: 2,
            updates_per_second: 1_500.0,
            ..Parameters::default()
        }
    }

    #[test]
    fn a_seed_determines_the_run() {
        let text = |seed| format!("{:?}", run(&Parameters { seed, ..hot() }));
        assert_eq!(text(1), text(1));
        assert_ne!(text(1), text(2));
    }

    #[test]
    fn messages_that_fail_each_delivery_are_dead_letters() {
        let dead_letters = |max_receive_count, visibility_timeout| {
            let parameters = Parameters {
                visibility_timeout,
                max_receive_count,
                ..hot()
            };
            run(&parameters).dead_letters
        };
        assert!(dead_letters(2, 2) > 0);
        assert_eq!(dead_letters(5, 180), 0);
    }

    #[test]
    fn records_without_retries_or_too_old_are_given_up() {
        let failed = |max_retries, max_record_age| {
            let parameters = Parameters {
                max_retries,
                max_record_age,
                ..hot()
            };
            run(&parameters).failed_records
        };
        assert!(failed(Some(0), 43_200) > 0);
        assert!(failed(None, 3) > 0);
        assert_eq!(failed(None, 43_200), 0);
    }
}
