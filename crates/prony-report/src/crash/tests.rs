use prony_model::spec::Durability;

use super::*;

pub(crate) fn summary(images: u32, unreadable: u32) -> CrashSummary {
    let spread = |most: f64| Spread { least: 0.0, median: 0.0, most };
    CrashSummary {
        variant: 0,
        phase: "cut".to_owned(),
        during: "write".to_owned(),
        kind: CutKind::PowerCut,
        durability: None,
        promise: None,
        cuts: 4,
        planned: 4,
        uncounted: None,
        images,
        acknowledged: None,
        lost: (unreadable < images).then(|| spread(48.0)),
        lost_time: (unreadable < images).then(|| spread(2e8)),
        with_holes: 0,
        with_partial: 0,
        corrupt: unreadable,
        unreadable,
        open: None,
        open_written: None,
        remarks: Vec::new(),
        verdict: CrashVerdict::NothingPromised,
    }
}

/// `0 [0..48.0]` stood beside `10 of 16` corrupt, as if half of the images had lost nothing.
#[test]
fn number_of_lost_commits_says_of_how_many_images_it_is() {
    let of = |unreadable: u32| {
        let mut notes = Notes::default();
        let cells = found(&summary(16, unreadable), &mut notes);
        let marked: Vec<bool> = cells.iter().map(|cell| !cell.marks.is_empty()).collect();
        (marked, notes.finish().into_iter().map(|note| note.text).collect::<Vec<String>>())
    };
    assert_eq!(of(0), (vec![false; 4], Vec::new()));
    for (unreadable, read) in [(10, 6), (16, 0)] {
        let said = format!("what is lost is known of {read} of 16 stores: the others cannot be read");
        assert_eq!(of(unreadable), (vec![true, true, false, false], vec![said]));
    }
}

/// Of two variants that are `none` after a process crash, one note said that nothing is lost, and one that anything is.
#[test]
fn class_with_several_promises_names_the_variants_of_each() {
    let of = |variant: usize, class: Durability, promise: &str| CrashSummary {
        variant,
        durability: Some(class),
        promise: Some(promise.to_owned()),
        ..summary(1, 0)
    };
    let all = [
        of(0, Durability::Strict, "keeps all"),
        of(1, Durability::None, "keeps all"),
        of(2, Durability::None, "promises nothing"),
        of(3, Durability::None, "promises nothing"),
    ];
    let notes = |of: &[CrashSummary]| promises(&of.iter().collect::<Vec<_>>(), |variant| format!("v{variant}"));
    assert_eq!(
        notes(&all),
        ["promise of `strict`, `none` in `v1`: keeps all", "promise of `none` in `v2`, `v3`: promises nothing"]
    );
    assert_eq!(notes(&all[..2]), ["promise of `strict`, `none`: keeps all"]);
}

/// 26.0 ms were lost, and `at most 10.00 ms can be lost` was said: that was when cuts were planned, not when they came.
#[test]
fn latest_cut_is_the_one_that_came_last() {
    let cut = |phase: &str, after: u64| CutRecord {
        variant: 0,
        phase: phase.to_owned(),
        cut: 0,
        kind: CutKind::PowerCut,
        seed: 1,
        moment: Nanos::from_millis(9),
        effective: None,
        ending: CutEnding::Cut {
            acknowledged: 1,
            after: Nanos::from_millis(after),
            images: Vec::new(),
            remarks: Vec::new(),
            saved: Reading::default(),
        },
        took: Nanos::ZERO,
    };
    let cuts = [cut("cut", 12), cut("cut", 26), cut("other", 90)];
    assert_eq!(latest(&cuts, "cut"), Some(Nanos::from_millis(26)));
    assert_eq!(latest(&cuts, "none"), None);
}

/// 5000 cuts gave `< 0.1 %`, and 60,000 gave `< 0 %`.
#[test]
fn bound_of_an_unbroken_promise_is_rounded_up() {
    let text = |cuts: u32| {
        let below = 1.0 - 0.05f64.powf(1.0 / f64::from(cuts));
        finding(
            &CrashSummary { cuts, verdict: CrashVerdict::Unbroken { below }, ..summary(1, 0) },
            &mut Notes::default(),
        )
        .main
    };
    assert_eq!(text(10), "held in 10 cuts (< 26 %)");
    assert_eq!(text(200), "held in 200 cuts (< 1.5 %)");
    assert_eq!(text(5000), "held in 5000 cuts (< 0.06 %)");
    assert_eq!(text(60_000), "held in 60000 cuts (< 0.01 %)");
    // The documents show what is printed.
    let page = |name: &str| {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        std::fs::read_to_string(docs.join(name)).unwrap()
    };
    for (name, cuts) in [("power-cut.md", 5), ("durability.md", 30)] {
        assert!(page(name).contains(&text(cuts)), "{name}: {}", text(cuts));
    }
    let bound = text(30).split(&['<', ')'][..]).nth(1).unwrap_or_default().replace(' ', "");
    assert!(page("reference.md").contains(&format!("with confidence 95%: {bound} after 30 cuts")), "{bound}");
}
