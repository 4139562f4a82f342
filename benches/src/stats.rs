//! Medians, percentiles, and ratios of interleaved pairs.

use std::fmt;

/// Ratios of interleaved pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The lowest.
    pub min: f64,
    /// The median.
    pub median: f64,
    /// The highest.
    pub max: f64,
    /// How many pairs.
    pub pairs: usize,
}

// ===== impl Ratio =====

impl Ratio {
    /// Divides each value by its neighbor's of the same number.
    ///
    /// # Panics
    ///
    /// Without values, or where the numbers of both differ.
    #[must_use]
    pub fn of(values: &[f64], baselines: &[f64]) -> Self {
        assert_eq!(values.len(), baselines.len(), "pairs are compared");
        let pairs = values.iter().zip(baselines);
        let mut ratios: Vec<f64> = pairs.map(|(value, baseline)| value / baseline).collect();
        ratios.sort_by(f64::total_cmp);
        Self {
            min: ratios[0],
            median: median(&ratios),
            max: ratios[ratios.len() - 1],
            pairs: ratios.len(),
        }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2} .. {:.2})", self.median, self.min, self.max)
    }
}

/// Returns the middle of these values, or the mean of both in the middle.
///
/// # Panics
///
/// Without values.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }
}

/// Returns the value that this part of them does not exceed, `part` from 0 to 1.
///
/// # Panics
///
/// Without values.
#[must_use]
pub fn percentile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&values, 0.5), 50.0);
        assert_eq!(percentile(&values, 0.99), 99.0);
        assert_eq!(percentile(&[7.0], 0.99), 7.0);
    }

    #[test]
    fn ratios_are_of_pairs_not_of_medians() {
        let ratio = Ratio::of(&[1.0, 10.0, 3.0], &[2.0, 5.0, 3.0]);
        assert_eq!((ratio.min, ratio.median, ratio.max), (0.5, 1.0, 2.0));
    }
}
