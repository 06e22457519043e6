//! Reads times of the calendar.

/// Seconds since 1970 of a day, whose time is midnight, or of a time in whole seconds, in UTC where it names no offset;
/// from the year 0 to 9999, so that all have four digits.
pub(crate) fn seconds(text: &str) -> Option<i64> {
    let zoned = text.parse::<jiff::Timestamp>();
    let at = zoned.or_else(|error| {
        let civil = text.parse::<jiff::civil::DateTime>().map_err(|_| error)?;
        Ok(civil.to_zoned(jiff::tz::TimeZone::UTC)?.timestamp())
    });
    let at = at.map_err(|_: jiff::Error| ()).ok().filter(|at| at.subsec_nanosecond() == 0)?.as_second();
    (-62_167_219_200..=253_402_207_200).contains(&at).then_some(at)
}

/// The same time as documents have it: text after RFC 3339 in UTC, in whole seconds.
pub(crate) fn in_utc(text: &str) -> Option<String> {
    jiff::Timestamp::from_second(seconds(text)?).ok().map(|at| at.to_string())
}
