//! Reads the keys that say how operations of a phase are repeated: `count`, `order`, `threads` and others.

use super::View;
use super::view::{named, rate, whole};
use crate::grammar;
use crate::node::Node;
use crate::problem::{Problem, Problems};
use crate::shape::TableShape;
use prony_model::spec::{
    Amount, Arrivals, Grouping, MixSpec, MixWeights, Ops, Order, PauseEvery, References, Sampling, ScanLength,
    ScanSpec, Sharing,
};

/// YCSB's exponent.
const YCSB_THETA: f64 = 0.99;

/// The operations of an action with this name.
pub(crate) fn ops(action: &str, node: &Node, shape: &'static TableShape, problems: &mut Problems<'_>) -> Option<Ops> {
    let view = View::new(Some(node), shape);
    let ops = Ops {
        collection: view.text("collection"),
        amount: amount(&view, problems),
        transaction: view.get("transaction").and_then(grouping).unwrap_or(Grouping::Each),
        order: match view.get("order") {
            Some(node) => order(node, problems)?,
            None => default_order(action),
        },
        replicas: view.whole("replicas").map(|count| count as u32),
        threads: view.whole("threads").unwrap_or(1) as u32,
        share: view.word("share").unwrap_or(Sharing::Equal),
        pause: view.get("pause").and_then(pause),
        rate: view.get("rate").and_then(arrivals),
        sample: view.get("sample").and_then(sampling).unwrap_or(Sampling::Every),
        touch: shape.field("touch").is_none() || view.flag("touch").unwrap_or(true),
        references: node.get("references").and_then(Node::text).and_then(References::named).unwrap_or_default(),
    };
    if ops.rate.is_some() && ops.sample != Sampling::Every {
        let message = "with a `rate` each operation is timed, as its latency begins when the schedule intends it";
        problems.fault(node.span_of("sample"), message, "remove `sample`");
    }
    let draws = !matches!(ops.order, Order::Record | Order::Key | Order::Shuffled);
    if action == "put" && draws {
        let message = "`put` inserts each record once, but this order repeats records";
        problems.fault(node.span_of("order"), message, "write `update` to overwrite, or `mix` with `insert`");
    }
    Some(ops)
}

fn amount(view: &View<'_>, problems: &mut Problems<'_>) -> Amount {
    match (view.whole("count"), view.time("duration")) {
        (Some(_), Some(_)) => {
            let problem = Problem::new(view.key_span("duration"), "`count` and `duration` exclude each other");
            problems.add(problem.label(&view.key_span("count"), "`count` stands"));
            Amount::Records
        }
        (Some(count), None) => Amount::Count(count),
        (None, Some(time)) => Amount::Duration(time),
        (None, None) => Amount::Records,
    }
}

/// Record order where writes build the data, each once at random where it is read or changed.
fn default_order(action: &str) -> Order {
    match action {
        "put" | "compute" => Order::Record,
        "mix" => Order::Uniform,
        _ => Order::Shuffled,
    }
}

fn grouping(node: &Node) -> Option<Grouping> {
    if node.text().is_some() {
        return named(node);
    }
    match View::new(Some(node), &grammar::BATCH).whole("batch")? {
        1 => Some(Grouping::Each),
        n => Some(Grouping::Batch(n)),
    }
}

pub(super) fn order(node: &Node, problems: &mut Problems<'_>) -> Option<Order> {
    if let Some(word) = node.text() {
        return match word {
            "record" => Some(Order::Record),
            "key" => Some(Order::Key),
            "shuffled" => Some(Order::Shuffled),
            "uniform" => Some(Order::Uniform),
            "zipfian" => Some(Order::Zipfian { theta: YCSB_THETA }),
            "latest" => Some(Order::Latest { theta: YCSB_THETA }),
            _ => None,
        };
    }
    let view = View::new(Some(node), &grammar::ZIPFIAN);
    if let Some(shares) = view.get("hotspot") {
        let view = View::new(Some(shares), &grammar::HOTSPOT_SHARES);
        return Some(Order::Hotspot { records: view.share("records")?, operations: view.share("operations")? });
    }
    let mut theta = |key: &str| {
        let theta = view.number(key)?;
        if theta >= 1.0 {
            let place = view.get(key)?;
            problems.fault(place, format!("the exponent of `{key}` must be below 1"), "YCSB uses 0.99");
        }
        Some(theta)
    };
    let zipfian = theta("zipfian").map(|theta| Order::Zipfian { theta });
    zipfian.or_else(|| theta("latest").map(|theta| Order::Latest { theta }))
}

fn pause(node: &Node) -> Option<PauseEvery> {
    let view = View::new(Some(node), &grammar::PAUSE_EVERY);
    Some(PauseEvery { every: view.whole("every")?, time: view.time("for")? })
}

pub(super) fn arrivals(node: &Node) -> Option<Arrivals> {
    if let Some(rate) = rate(node) {
        return Some(Arrivals { rate, poisson: false });
    }
    let view = View::new(Some(node), &grammar::RATE);
    Some(Arrivals { rate: view.rate("rate")?, poisson: view.plain("arrivals") == Some("poisson") })
}

fn sampling(node: &Node) -> Option<Sampling> {
    if node.text().is_some() {
        return named(node);
    }
    let view = View::new(Some(node), &grammar::ONE_IN);
    view.whole("operations").map(Sampling::Group).or_else(|| view.whole("one_in").map(Sampling::OneIn))
}

/// `scan`; without a length it is one scan over everything, unless a count says otherwise.
pub(crate) fn scan(node: &Node, problems: &mut Problems<'_>) -> Option<ScanSpec> {
    let mut ops = ops("scan", node, &grammar::SCAN, problems)?;
    let length = View::new(Some(node), &grammar::SCAN).get("length").and_then(scan_length);
    if length.is_none() && ops.amount == Amount::Records {
        ops.amount = Amount::Count(1);
    }
    Some(ScanSpec { ops, length })
}

fn scan_length(node: &Node) -> Option<ScanLength> {
    let fixed = whole(node).map(ScanLength::Fixed);
    fixed.or_else(|| View::new(Some(node), &grammar::SCAN_UNIFORM).whole("uniform").map(ScanLength::UniformTo))
}

/// `mix`.
pub(crate) fn mix(node: &Node, problems: &mut Problems<'_>) -> Option<MixSpec> {
    let ops = ops("mix", node, &grammar::MIX, problems)?;
    let view = View::new(Some(node), &grammar::MIX);
    let weight = |key: &str| view.number(key).unwrap_or(0.0);
    let weights = MixWeights {
        read: weight("read"),
        update: weight("update"),
        insert: weight("insert"),
        scan: weight("scan"),
        read_modify_write: weight("read_modify_write"),
        delete: weight("delete"),
    };
    if weights == MixWeights::default() {
        let message = "every weight of this mix is zero";
        problems.fault(&node.span, message, "write for example `mix = { read = 0.95, update = 0.05 }`");
    }
    let scan_length = view.get("scan_length").and_then(scan_length).unwrap_or(ScanLength::UniformTo(100));
    Some(MixSpec { ops, weights, scan_length })
}
