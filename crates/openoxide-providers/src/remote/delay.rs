//! How long to wait before another attempt: what the provider asks for, and what we choose where it asks for nothing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::{StatusCode, header::HeaderMap};

/// First pause; each further one is twice as long.
const FIRST_DELAY: Duration = Duration::from_millis(200);
/// Longest pause of our own choosing.
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// Longest pause a provider can ask for. One that asks for more is taken at its word that it cannot answer now.
pub(super) const LONGEST_ASKED: Duration = Duration::from_secs(60);

/// The pause before retry number `n` (from 0): 200 ms x 2^n, a tenth more or less so that many clients do not come
/// back at once.
pub(super) fn backoff(n: u32) -> Duration {
    let delay = FIRST_DELAY.saturating_mul(2u32.saturating_pow(n)).min(LONGEST_DELAY);
    delay.mul_f64(0.9 + 0.2 * fastrand::f64())
}

/// What the headers ask for: `retry-after-ms`; `retry-after` in seconds or as a date; with 429 the end of a rate limit
/// that is used up (`x-ratelimit-remaining-*: 0` with `x-ratelimit-reset-*`).
pub(super) fn asked_delay(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
    if let Some(ms) = text("retry-after-ms").and_then(|ms| ms.parse::<f64>().ok()) {
        return seconds(ms / 1000.0);
    }
    // The server's clock where it shows one: only the difference counts.
    let now = || {
        text("date")
            .and_then(http_date)
            .unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    };
    if let Some(asked) = text("retry-after") {
        return match asked.parse::<f64>() {
            Ok(number) => seconds(number),
            Err(_) => http_date(asked).map(|at| at.saturating_sub(now())),
        };
    }
    if status != StatusCode::TOO_MANY_REQUESTS {
        return None;
    }
    let spent = |what: &str| {
        let remaining = text(&format!("x-ratelimit-remaining{what}"))?;
        let reset = text(&format!("x-ratelimit-reset{what}"))?;
        if remaining.parse::<f64>().ok()? > 0.0 {
            return None;
        }
        match reset.parse::<f64>() {
            // Milliseconds since 1970, as OpenRouter has it; seconds since 1970; or seconds from now.
            Ok(at) if at > 1e11 => Some(seconds(at / 1000.0)?.saturating_sub(now())),
            Ok(at) if at > 1e8 => Some(seconds(at)?.saturating_sub(now())),
            Ok(left) => seconds(left),
            Err(_) => spelled_out(reset),
        }
    };
    ["", "-requests", "-tokens"].into_iter().filter_map(spent).max()
}

/// The delay in a message like `Please try again in 1.5s`, or with a capital at the beginning of a sentence.
pub(super) fn delay_in(message: &str) -> Option<Duration> {
    const PHRASE: &str = "ry again in ";
    let (_, rest) = message.split_once(PHRASE)?;
    spelled_out(rest)
}

/// A leading duration like `1m30.5s`, `20ms` or `7 s`.
fn spelled_out(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = None;
    while let Some(end) = rest.find(|c: char| !c.is_ascii_digit() && c != '.') {
        let Ok(number) = rest[..end].parse::<f64>() else { break };
        let after = rest[end..].trim_start();
        let unit_length = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_length);
        let factor = match unit {
            "ms" => 0.001,
            "s" | "sec" | "second" | "seconds" => 1.0,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86_400.0,
            _ => break,
        };
        sum = Some(sum.unwrap_or(0.0) + number * factor);
        rest = after;
    }
    Duration::try_from_secs_f64(sum?).ok()
}

/// A date as HTTP writes it (`Wed, 21 Oct 2026 07:28:00 GMT`, RFC 9110 section 5.6.7), as time since 1970.
fn http_date(text: &str) -> Option<Duration> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut parts = text.split_once(", ")?.1.split(' ');
    let day: i64 = parts.next()?.parse().ok()?;
    let month = parts.next()?;
    let month = i64::try_from(MONTHS.iter().position(|known| *known == month)?).ok()? + 1;
    let year: i64 = parts.next()?.parse().ok()?;
    let mut clock = parts.next()?.split(':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    if parts.next() != Some("GMT") || !(1970..=9999).contains(&year) {
        return None;
    }
    // Years that begin in March, so that the leap day is the last.
    let (shifted_year, shifted_month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let days = 365 * shifted_year + shifted_year / 4 - shifted_year / 100 + shifted_year / 400 + day_of_year - 719_468;
    u64::try_from(((days * 24 + hour) * 60 + minute) * 60 + second).ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(status: u16, headers: &[(&'static str, &str)]) -> Option<Duration> {
        let headers = headers
            .iter()
            .map(|(name, value)| (reqwest::header::HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        asked_delay(StatusCode::from_u16(status).unwrap(), &headers)
    }

    #[test]
    fn every_way_to_ask_is_read() {
        let ms = |ms| Some(Duration::from_millis(ms));
        let date = ("date", "Wed, 21 Oct 2026 07:27:50 GMT");
        for (status, headers, expected) in [
            (429, vec![("retry-after", "7")], ms(7000)),
            (503, vec![("retry-after", "0.25")], ms(250)),
            (429, vec![("retry-after-ms", "70"), ("retry-after", "7")], ms(70)),
            (503, vec![("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"), date], ms(10_000)),
            (503, vec![("retry-after", "Wed, 21 Oct 2026 07:27:00 GMT"), date], ms(0)),
            (503, vec![("retry-after", "soon")], None),
            (503, vec![("retry-after", "-1")], None),
            (429, vec![("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "1m0.5s")], ms(60_500)),
            (429, vec![("x-ratelimit-remaining-tokens", "9"), ("x-ratelimit-reset-tokens", "6m0s")], None),
            (429, vec![("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1792567673000"), date], ms(3000)),
            (500, vec![("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "5")], None),
            (429, vec![("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "20ms")], ms(20)),
        ] {
            assert_eq!(asked(status, &headers), expected, "{status} {headers:?}");
        }
    }

    #[test]
    fn a_message_may_name_the_pause() {
        for (message, ms) in [
            ("Please try again in 1.5s. Visit", Some(1500)),
            ("try again in 20ms", Some(20)),
            ("try again in 7 seconds", Some(7000)),
            ("Try again in 5 seconds.", Some(5000)),
            ("try again in a while", None),
            ("no hint", None),
        ] {
            assert_eq!(delay_in(message), ms.map(Duration::from_millis), "{message}");
        }
    }

    #[test]
    fn dates_are_counted_from_1970() {
        for (date, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Tue, 29 Feb 2000 12:00:01 GMT", Some(951_825_601)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Sun, 06 Nov 1994 08:49:37 CET", None),
            ("tomorrow", None),
        ] {
            assert_eq!(http_date(date), seconds.map(Duration::from_secs), "{date}");
        }
    }

    #[test]
    fn pauses_double_within_a_tenth() {
        for (n, ms) in [(0, 200.0), (1, 400.0), (4, 3200.0), (60, 30_000.0)] {
            let ratio = backoff(n).as_secs_f64() * 1000.0 / ms;
            assert!((0.9..=1.1).contains(&ratio), "{n}: {ratio}");
        }
    }
}
