//! Zipf distribution of the updates over the entities: the entity of rank k gets updates in proportion to k^-s.

/// Terms that are added one by one, before the integral that approximates the others.
const EXACT_TERMS: u64 = 10_000;

/// Returns the share of the hottest of `entities`.
pub(super) fn hottest_share(entities: u64, exponent: f64) -> f64 {
    1.0 / sum(entities, exponent)
}

/// Returns the sum of k^-s for all ranks up to `ranks`.
fn sum(ranks: u64, exponent: f64) -> f64 {
    let term = |rank: f64| rank.powf(-exponent);
    let exact = ranks.min(EXACT_TERMS);
    let first: f64 = (1..=exact).map(|rank| term(rank as f64)).sum();
    let (from, to) = (exact as f64, ranks as f64);
    // The Euler-Maclaurin formula, of which the terms that follow are below 1e-9.
    let integral = if (exponent - 1.0).abs() < 1e-9 {
        (to / from).ln()
    } else {
        (to.powf(1.0 - exponent) - from.powf(1.0 - exponent)) / (1.0 - exponent)
    };
    first + integral + f64::midpoint(term(to), -term(from))
}

/// Returns the updates per second above the maximum of their entity, of all entities, if the hottest has more than the maximum.
pub(super) fn excess(hottest: f64, entities: u64, exponent: f64, max: f64) -> f64 {
    // The last rank that has more than the maximum. With an exponent of 0, all entities have.
    let last = (hottest / max).powf(1.0 / exponent).min(entities as f64).floor();
    hottest * sum(rank(last), exponent) - last * max
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rank is positive, and at most the number of entities"
)]
fn rank(rank: f64) -> u64 {
    rank as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_close_to_its_terms() {
        for exponent in [0.0, 0.5, 0.8, 1.0, 1.2, 3.0] {
            for ranks in [1, 10_000, 10_001, 300_000] {
                let exact: f64 = (1..=ranks).map(|rank| (rank as f64).powf(-exponent)).sum();
                let found = sum(ranks, exponent);
                assert!(
                    (found / exact - 1.0).abs() < 1e-9,
                    "{exponent} {ranks}: {found} instead of {exact}"
                );
            }
        }
    }

    #[test]
    fn the_excess_is_that_of_each_entity() {
        for exponent in [0.0, 0.5, 1.0, 1.5] {
            let hottest = 10_000.0 * hottest_share(1_000, exponent);
            for max in [1.0, 9.0, 50.0, 5_000.0].into_iter().filter(|max| *max < hottest) {
                let updates = (1..=1_000).map(|rank| hottest * f64::from(rank).powf(-exponent));
                let expected: f64 = updates.map(|updates| (updates - max).max(0.0)).sum();
                let found = excess(hottest, 1_000, exponent, max);
                assert!(
                    (found - expected).abs() < 0.01,
                    "{exponent} {max}: {found} instead of {expected}"
                );
            }
        }
    }
}
