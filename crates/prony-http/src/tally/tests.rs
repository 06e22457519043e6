use prony_model::random::Stream;
use prony_model::units::PerSecond;

use super::*;

fn tally(is_open: bool) -> Tally {
    Tally::new(&Shape { is_open, ..Shape::default() }, Nanos::from_secs(1))
}

fn request(measured: bool, late: u64) -> Request {
    let intended = Nanos::from_secs(1);
    Request { number: 0, intended, started: intended + Nanos::from_millis(late), measured, ..Request::default() }
}

#[test]
fn causes_are_counted_apart_up_to_a_bound() {
    let mut tally = tally(false);
    for number in 0..100 {
        let cause = format!("{number}{}", "\u{e4}".repeat(500));
        tally.failed(&request(true, 0), &Exchange::default(), Failure::Tls, cause);
    }
    assert!(tally.causes.len() <= MOST_CAUSES + 1, "{}", tally.causes.len());
    assert!(tally.causes.keys().all(|(_, cause)| cause.len() <= LONGEST_CAUSE));
    assert_eq!((tally.causes.values().sum::<u64>(), tally.failed_requests()), (100, 100));
}

#[test]
fn merged_tallies_are_one_over_all_requests() {
    let (mut one, mut other, mut both) = (tally(true), tally(true), tally(true));
    let end = Nanos::from_secs(2);
    let answered = |tally: &mut Tally, late, status, now| {
        tally.answered(
            &request(true, late),
            &Exchange::default(),
            status,
            status == 200,
            (now, (Nanos::from_secs(1), end)),
        );
    };
    for tally in [&mut one, &mut both] {
        answered(tally, 1, 200, Nanos::from_millis(1_500));
        answered(tally, 2, 500, Nanos::from_millis(1_600));
        tally.given_up(1, &request(true, 900), false, end);
    }
    for tally in [&mut other, &mut both] {
        answered(tally, 3, 200, Nanos::from_millis(1_700));
        tally.failed(&request(true, 4), &Exchange::default(), Failure::Reset, "reset".to_owned());
        tally.failed(&request(false, 4), &Exchange::default(), Failure::Reset, "reset".to_owned());
    }
    one.merge(other);
    assert_eq!((one.ok, one.failed_requests()), (2, 3));
    assert!(one.answers > 1.0 && (one.answers - both.answers).abs() < 1e-9, "{} {}", one.answers, both.answers);
    assert_eq!(one.warm_up, WarmUp { ok: 0, failed: 1 });
    assert_eq!((one.ok, &one.failures, &one.statuses), (both.ok, &both.failures, &both.statuses));
    assert_eq!((&one.latency, &one.causes, one.last_end), (&both.latency, &both.causes, both.last_end));
    let (one, both) = (one.open.unwrap(), both.open.unwrap());
    assert_eq!((one.actual, one.lag), (both.actual, both.lag));
}

/// Of an answer that came as long after the window as it took within it, a closed loop counts half. An open one would count
/// halves of all requests that wait for others.
#[test]
fn answers_after_the_window_count_in_part_in_a_closed_loop_only() {
    for (is_open, expected) in [(false, 1.5), (true, 1.0)] {
        let mut tally = tally(is_open);
        let window = (Nanos::from_secs(1), Nanos::from_secs(2));
        for now in [2, 3].map(Nanos::from_secs) {
            tally.answered(&request(true, 0), &Exchange::default(), 200, true, (now, window));
        }
        assert_eq!((tally.ok, tally.answers), (2, expected));
    }
}

/// It was made when the load had begun, of many threads and steps seconds later.
#[test]
fn account_that_is_made_before_the_load_has_its_instants() {
    let rate = PerSecond::new(1.0).unwrap();
    let steps = vec![RateStep { from: rate, to: rate, time: Nanos::from_secs(3) }; 2];
    let sections = vec![Nanos::from_secs(3); 2];
    let shape = Shape { is_open: true, steps, sections, ..Shape::default() };
    let since = Nanos::from_secs(7);
    let instants = |tally: &Tally| {
        let steps = tally.steps.as_ref().map(|steps| (steps.begin, steps.ends.clone()));
        (tally.since, tally.counted_since, tally.bounds(), steps)
    };
    assert_eq!(instants(&Tally::new(&shape, Nanos::ZERO).later(since)), instants(&Tally::new(&shape, since)));
}

/// What the rate is taken from: the answers and how much of the time they do not count, after a closed loop of so many
/// connections and so long. `answer` gives the end of a request from its start, seconds.
fn closed(connections: usize, time: f64, mut answer: impl FnMut(f64) -> f64) -> (f64, f64) {
    let begin = Nanos::from_secs(1);
    let at = |seconds: f64| begin + Nanos::from_nanos((seconds * 1e9) as u64);
    let mut tally = tally(false);
    let mut all: Vec<(f64, f64)> = (0..connections).map(|_| (answer(0.0), 0.0)).collect();
    while let Some(next) = (0..all.len()).min_by(|a, b| all[*a].0.total_cmp(&all[*b].0)) {
        let (now, started) = all[next];
        let request = Request { intended: at(started), started: at(started), measured: true, ..Request::default() };
        tally.answered(&request, &Exchange::default(), 200, true, (at(now), (begin, at(time))));
        if started == 0.0 {
            tally.first_answered(connections, at(now));
        }
        if now < time {
            all[next] = (answer(now), now);
        } else {
            all.swap_remove(next);
        }
    }
    tally.close(at(time));
    (tally.answers, tally.uncounted().as_secs_f64())
}

/// A worker that answers one request after another.
fn worker(takes: f64) -> impl FnMut(f64) -> f64 {
    let mut free = 0.0f64;
    move |begin| {
        free = free.max(begin) + takes;
        free
    }
}

/// 100 connections and one worker of 20 ms had 54.9/s in 10 s, and 200 of 5 ms 295/s in one: half a request of each connection
/// too much. Answers that came, divided by the time, are as wrong the other way: 8/s of ten connections that wait a second each.
#[test]
fn rate_of_a_closed_loop_is_what_the_server_does() {
    let (answers, uncounted) = closed(100, 10.0, worker(0.02));
    assert!((answers / 10.0 - 50.0).abs() < 0.5 && (uncounted - 1.9).abs() < 1e-6, "{answers} {uncounted}");
    let (answers, _) = closed(10, 2.5, |begin| begin + 1.0);
    assert!((answers / 2.5 - 10.0).abs() < 0.01, "{answers}");
    let (_, uncounted) = closed(200, 1.0, worker(0.005));
    assert!((uncounted - 0.95).abs() < 1e-6, "{uncounted}");
    // One request of many that takes 6 s leaves the rate as it is, whichever it is.
    let mut nth = 0;
    let (answers, uncounted) = closed(50, 10.0, |begin| {
        nth += 1;
        begin + if nth == 7 { 6.0 } else { 0.02 }
    });
    assert!(uncounted < 0.021 && (answers / 10.0 / 2_470.0 - 1.0).abs() < 0.01, "{answers} {uncounted}");
    // Of 50 connections with exponential times of 1 s: 50/s.
    let rate = |seed| {
        let mut times = Stream::new(seed);
        closed(50, 12.0, |begin| begin - (1.0 - times.unit()).ln())
    };
    let rates: Vec<f64> =
        (1..60).map(rate).filter(|(_, late)| *late <= 6.0).map(|(answers, _)| answers / 12.0).collect();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    assert!(rates.len() > 40 && (mean / 50.0 - 1.0).abs() < 0.015, "{mean}");
}
