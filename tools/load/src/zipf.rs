//! Draws entities whose updates have a Zipf distribution: the entity of rank k gets updates in proportion to k^-s.

/// Cumulative distribution over the ranks, which starts with the hottest entity.
pub(crate) struct Zipf(Vec<f64>);

impl Zipf {
    /// Creates the distribution of `entities` ranks, at least one, with this exponent.
    pub(crate) fn new(entities: u32, exponent: f64) -> Self {
        let mut sum = 0.0;
        let weights = (1..=entities.max(1)).map(|rank| {
            sum += f64::from(rank).powf(-exponent);
            sum
        });
        Self(weights.collect())
    }

    /// Draws a rank, from 0.
    #[allow(clippy::cast_possible_truncation, reason = "there are fewer ranks than 2^32")]
    pub(crate) fn draw(&self, random: &mut fastrand::Rng) -> u32 {
        let total = self.0.last().copied().unwrap_or_default();
        let point = random.f64() * total;
        self.0.partition_point(|sum| *sum <= point).min(self.0.len() - 1) as u32
    }
}

/// Returns a hash of an entity, for its partition or its lane.
pub(crate) fn hash(entity: u32, salt: u64) -> u64 {
    let mut bits = u64::from(entity).wrapping_add(salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_get_their_shares() {
        for exponent in [0.0, 0.8, 1.2] {
            let (zipf, mut random) = (Zipf::new(1_000, exponent), fastrand::Rng::with_seed(1));
            let mut counts = [0_u32; 1_000];
            for _ in 0..200_000 {
                counts[zipf.draw(&mut random) as usize] += 1;
            }
            let total: f64 = (1..=1_000).map(|rank| f64::from(rank).powf(-exponent)).sum();
            for rank in [1_u32, 2, 1_000] {
                let expected = 200_000.0 * f64::from(rank).powf(-exponent) / total;
                let drawn = f64::from(counts[rank as usize - 1]);
                assert!(
                    (drawn - expected).abs() < 5.0 * expected.sqrt() + 1.0,
                    "{exponent} {rank}: {drawn}"
                );
            }
        }
    }
}
