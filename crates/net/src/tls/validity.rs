//! The validity dates of a certificate. The TLS library hands out no parsed certificate, and its own date check needs a
//! certificate authority, so the few fields before the dates are walked here (RFC 5280, section 4.1).

use crate::error::NetError;

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// First and last second of validity, both inclusive, in Unix time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// First second.
    pub not_before: i64,
    /// Last second.
    pub not_after: i64,
}

impl Validity {
    /// Reads the dates of a certificate in DER; `what` names it in an error.
    ///
    /// # Errors
    /// `Certificate` when the bytes are no X.509 certificate.
    pub fn of_certificate(what: &str, der: &[u8]) -> Result<Self, NetError> {
        parse(der).ok_or_else(|| NetError::Certificate {
            what: what.to_owned(),
            expected: "an X.509 certificate in DER with validity dates".to_owned(),
            got: format!("{} bytes that are none", der.len()),
        })
    }

    /// Checks a moment, in Unix time.
    ///
    /// # Errors
    /// `Expired` or `NotYetValid`.
    pub fn check(&self, now: i64) -> Result<(), NetError> {
        if now > self.not_after {
            return Err(NetError::Expired {
                not_after: self.not_after,
                now,
            });
        }
        if now < self.not_before {
            return Err(NetError::NotYetValid {
                not_before: self.not_before,
                now,
            });
        }
        Ok(())
    }
}

/// The rest of a DER string.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// Splits off one element: tag and contents.
    fn element(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let mut len = usize::from(first);
        if first >= 0x80 {
            let n = usize::from(first & 0x7f);
            if n == 0 || n > 4 {
                return None;
            }
            let (digits, after) = rest.split_at_checked(n)?;
            len = digits.iter().fold(0, |l, &d| l << 8 | usize::from(d));
            rest = after;
        }
        let (contents, after) = rest.split_at_checked(len)?;
        self.0 = after;
        Some((tag, contents))
    }

    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (t, contents) = self.element()?;
        (t == tag).then_some(contents)
    }
}

fn parse(der: &[u8]) -> Option<Validity> {
    let mut outer = Der(der);
    let mut certificate = Der(outer.expect(SEQUENCE)?);
    let mut tbs = Der(certificate.expect(SEQUENCE)?);
    // Serial number, signature algorithm, issuer; the version is left out in version 1.
    if tbs.0.first() == Some(&VERSION) {
        tbs.expect(VERSION)?;
    }
    tbs.expect(INTEGER)?;
    tbs.expect(SEQUENCE)?;
    tbs.expect(SEQUENCE)?;
    let mut dates = Der(tbs.expect(SEQUENCE)?);
    Some(Validity {
        not_before: time(&mut dates)?,
        not_after: time(&mut dates)?,
    })
}

/// `YYMMDDHHMMSSZ` (years 1950 to 2049) or `YYYYMMDDHHMMSSZ`.
fn time(dates: &mut Der<'_>) -> Option<i64> {
    let (tag, text) = dates.element()?;
    let number = |range: std::ops::Range<usize>| {
        text.get(range)?.iter().try_fold(0i64, |n, c| {
            c.is_ascii_digit().then(|| n * 10 + i64::from(c - b'0'))
        })
    };
    let (year, at) = match (tag, text.len()) {
        (UTC_TIME, 13) => {
            let y = number(0..2)?;
            (if y < 50 { 2000 + y } else { 1900 + y }, 2)
        }
        (GENERALIZED_TIME, 15) => (number(0..4)?, 4),
        _ => return None,
    };
    if text.last() != Some(&b'Z') {
        return None;
    }
    let field = |i: usize| number(at + 2 * i..at + 2 * i + 2);
    let (month, day) = (field(0)?, field(1)?);
    let (hour, minute, second) = (field(2)?, field(3)?, field(4)?);
    let whole = (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    whole.then(|| day_number(year, month, day) * 86400 + hour * 3600 + minute * 60 + second)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days before 1 January of a year, up to a constant.
fn days_before_year(year: i64) -> i64 {
    let y = year - 1;
    year * 365 + y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400)
}

/// Days since 1 January 1970.
fn day_number(year: i64, month: i64, day: i64) -> i64 {
    let months: i64 = (1..month).map(|m| days_in_month(year, m)).sum();
    days_before_year(year) - days_before_year(1970) + months + day - 1
}

/// A Unix time as `YYYY-MM-DD HH:MM:SS UTC`.
pub(crate) fn utc(t: i64) -> String {
    let (days, seconds) = (t.div_euclid(86400), t.rem_euclid(86400));
    // 365.2425 days a year: at most one year off, corrected below.
    let mut year = 1970 + (days * 400).div_euclid(146_097);
    while day_number(year, 1, 1) > days {
        year -= 1;
    }
    while day_number(year + 1, 1, 1) <= days {
        year += 1;
    }
    let mut month = 1;
    while month < 12 && day_number(year, month + 1, 1) <= days {
        month += 1;
    }
    let day = days - day_number(year, month, 1) + 1;
    let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {h:02}:{m:02}:{s:02} UTC")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(tag: u8, text: &str) -> Option<i64> {
        let mut der = vec![tag, u8::try_from(text.len()).unwrap()];
        der.extend_from_slice(text.as_bytes());
        time(&mut Der(&der))
    }

    #[test]
    fn dates_agree_with_known_unix_times() {
        // Checked with `date -u -d ... +%s`.
        for (text, t) in [
            ("19700101000000Z", 0),
            ("20000229123456Z", 951_827_696),
            ("20380119031408Z", 2_147_483_648),
            ("21000301000000Z", 4_107_542_400),
            ("20241231235959Z", 1_735_689_599),
            ("99991231235959Z", 253_402_300_799),
        ] {
            assert_eq!(read(GENERALIZED_TIME, text), Some(t), "{text}");
            let shown: String = utc(t).chars().filter(char::is_ascii_digit).collect();
            assert_eq!(shown, text[..14], "{text}");
            if (1950..2050).contains(&text[..4].parse::<i64>().unwrap()) {
                assert_eq!(read(UTC_TIME, &text[2..]), Some(t), "{text}");
            }
        }
        assert_eq!(utc(-1), "1969-12-31 23:59:59 UTC");
        assert_eq!(read(UTC_TIME, "500101000000Z"), Some(-631_152_000));
    }

    #[test]
    fn every_day_of_four_centuries_is_read_back() {
        let first = day_number(1800, 1, 1);
        for d in first..first + 146_097 {
            let shown: String = utc(d * 86400)
                .chars()
                .filter(char::is_ascii_digit)
                .collect();
            assert_eq!(
                read(GENERALIZED_TIME, &format!("{shown}Z")),
                Some(d * 86400)
            );
        }
    }

    #[test]
    fn impossible_dates_are_refused() {
        for bad in [
            "20230229000000Z",
            "21000229000000Z",
            "20231301000000Z",
            "20230001000000Z",
            "20230100000000Z",
            "20230431000000Z",
            "20230101240000Z",
            "20230101006000Z",
            "20230101000060Z",
            "202301010000000",
            "2023010100000+Z",
            "2023-1-1000000Z",
        ] {
            assert_eq!(read(GENERALIZED_TIME, bad), None, "{bad}");
        }
        assert_eq!(read(UTC_TIME, "20230101000000Z"), None);
        assert_eq!(read(0x16, "20230101000000Z"), None);
    }

    #[test]
    fn a_cut_or_changed_certificate_never_panics() {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2024, 2, 29);
        params.not_after = rcgen::date_time_ymd(2099, 12, 31);
        let der = params.self_signed(&key).unwrap().der().to_vec();
        let v = Validity::of_certificate("x", &der).unwrap();
        assert_eq!(
            (v.not_before, v.not_after),
            (1_709_164_800, 4_102_358_400),
            "one UTCTime, one GeneralizedTime"
        );
        for cut in 0..der.len() {
            assert!(Validity::of_certificate("x", &der[..cut]).is_err(), "{cut}");
        }
        for at in 0..der.len() {
            for flip in [0x01, 0x40, 0x80, 0xff] {
                let mut changed = der.clone();
                changed[at] ^= flip;
                let _ = Validity::of_certificate("x", &changed);
            }
        }
        assert!(Validity::of_certificate("x", &[0x30, 0x80, 0, 0]).is_err());
        assert!(Validity::of_certificate("x", &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]).is_err());
        v.check(v.not_before).unwrap();
        v.check(v.not_after).unwrap();
        assert!(matches!(
            v.check(v.not_after + 1),
            Err(NetError::Expired { .. })
        ));
        assert!(matches!(
            v.check(v.not_before - 1),
            Err(NetError::NotYetValid { .. })
        ));
    }
}
