//! Refuses to compare sums over processes that count pages of several processes more than once (METHOD 3.3).

use prony_model::metric::{Metric, MetricKey, MetricName, Stat};
use prony_model::units::Bytes;
use prony_stats::summary;

use super::variant_trials::VariantTrials;

/// By which factor a sum may exceed the proportional set size of all that is resident.
const MOST: f64 = 1.1;

/// And by how many bytes: libraries are shared with other processes of the machine too.
const LEAST: f64 = 10e6;

/// Why resident memory, or a part of it, is not compared: at the phase's end the sum over the processes exceeds even the
/// proportional set size of all their memory, in which each page counts once.
pub(crate) fn counted_repeatedly(
    baseline: &VariantTrials<'_>,
    variant: &VariantTrials<'_>,
    name: &MetricName,
) -> Option<String> {
    let metric = name.key.metric;
    if !matches!(metric, Metric::Rss | Metric::Anon | Metric::File | Metric::Shared) {
        return None;
    }
    [variant, baseline].into_iter().find_map(|of| {
        let at_end = |metric| {
            let name = MetricName { key: MetricKey::gauge(metric, Stat::End), ..name.clone() };
            let values: Vec<f64> = of.trials.iter().filter_map(|trial| trial.figure(&name).measured().copied()).collect();
            Some((name, summary(&values)?.median))
        };
        let (_, processes) = at_end(Metric::Processes)?;
        let ((sum, summed), (once, pss)) = (at_end(metric)?, at_end(Metric::Pss)?);
        (processes > 1.0 && summed > MOST * pss && summed - pss > LEAST).then(|| {
            let bytes = |bytes: f64| Bytes::from_bytes(bytes as u64);
            format!(
                "`{name}` counts pages that processes share once for each of them: `{sum}` of `{}` is {}, and all its memory, each \
                 page counted once, is {}: compare `{once}`",
                of.name,
                bytes(summed),
                bytes(pss)
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use prony_model::reading::Reading;
    use prony_model::record::{MetricKeyText, TrialRecord};

    use super::super::tests::{phase, record, spec, variant_trials};
    use super::*;

    /// A trial whose processes, so many, have these bytes at the end of its phase.
    fn trial(processes: f64, [rss, anon, pss]: [f64; 3]) -> TrialRecord {
        let mut phase = phase("load", &[]);
        let all = [(Metric::Processes, processes), (Metric::Rss, rss), (Metric::Anon, anon), (Metric::Pss, pss)];
        let all =
            all.map(|(metric, value)| (MetricKeyText(MetricKey::gauge(metric, Stat::End)), Reading::Measured(value)));
        phase.readings = BTreeMap::from([(String::new(), all.into_iter().collect())]);
        record(vec![phase])
    }

    #[test]
    fn sums_that_exceed_all_memory_are_not_compared() {
        let spec = spec("lmdb");
        let one = trial(1.0, [40e6, 30e6, 28e6]);
        let why = |several: TrialRecord, metric: &str| {
            let (a, b) = (variant_trials("a", &spec, &one), variant_trials("b", &spec, &several));
            let of = |a, b| counted_repeatedly(a, b, &metric.parse().unwrap());
            assert_eq!(of(&a, &b), of(&b, &a));
            of(&a, &b)
        };
        let server = || trial(12.0, [446e6, 20e6, 190e6]);
        let expected = "`load.rss.max` counts pages that processes share once for each of them: `load.rss.end` of `b` is 446.0 MB, and \
                        all its memory, each page counted once, is 190.0 MB: compare `load.pss.end`";
        assert_eq!(why(server(), "load.rss.max").as_deref(), Some(expected));
        assert_eq!(why(server(), "load.anon.max"), None, "it may be private");
        assert_eq!(why(server(), "load.pss.end"), None);
        assert!(why(trial(5.0, [300e6, 290e6, 80e6]), "load.anon.max").is_some(), "pages since a `fork`");
        assert_eq!(why(trial(2.0, [9e6, 5e6, 4e6]), "load.rss.max"), None, "a shell and its libraries");
        assert_eq!(why(trial(1.0, [90e6, 5e6, 40e6]), "load.rss.max"), None, "shared with other programs");
    }
}
