//! Text templates that have a number filled into each gap.

/// Parts of text with one number between each two.
#[derive(Clone, Debug)]
pub(super) struct Text {
    parts: Vec<Vec<u8>>,
    /// Least digits of a number.
    pub(super) pad: usize,
    fixed: usize,
}

impl Text {
    /// Numbers of at least `pad` digits between these parts.
    pub(super) fn new(parts: &[String], pad: u8) -> Self {
        let parts: Vec<Vec<u8>> = parts.iter().map(|part| part.clone().into_bytes()).collect();
        let fixed = parts.iter().map(Vec::len).sum();
        Self { parts, pad: usize::from(pad).max(1), fixed }
    }

    /// Whether the number shows at all.
    pub(super) fn has_number(&self) -> bool {
        self.parts.len() > 1
    }

    /// Length with this number filled in.
    pub(super) fn len(&self, number: u64) -> usize {
        self.fixed + self.parts.len().saturating_sub(1) * digits(number).max(self.pad)
    }

    /// Appends the text with this number filled in.
    #[inline]
    pub(super) fn write(&self, number: u64, out: &mut Vec<u8>) {
        let Some((first, rest)) = self.parts.split_first() else { return };
        out.extend_from_slice(first);
        if rest.is_empty() {
            return;
        }
        let (buffer, from) = decimal(number);
        let digits = &buffer[from..];
        for part in rest {
            for _ in digits.len()..self.pad {
                out.push(b'0');
            }
            out.extend_from_slice(digits);
            out.extend_from_slice(part);
        }
    }
}

/// Decimal digits of a number; 1 for zero.
pub(super) const fn digits(number: u64) -> usize {
    match number.checked_ilog10() {
        Some(log) => log as usize + 1,
        None => 1,
    }
}

/// Appends a number in decimal digits.
#[inline]
pub fn write_decimal(number: u64, out: &mut Vec<u8>) {
    let (buffer, from) = decimal(number);
    out.extend_from_slice(&buffer[from..]);
}

/// The digits, at the end of the array, and where they begin.
#[inline]
fn decimal(mut number: u64) -> ([u8; 20], usize) {
    let mut buffer = [0u8; 20];
    let mut at = 20;
    loop {
        at -= 1;
        buffer[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return (buffer, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_between_the_parts(number: u64, pad in 0u8..30) {
            let text = Text::new(&["/a/".into(), "-".into(), "".into()], pad);
            let mut out = Vec::new();
            text.write(number, &mut out);
            let shown = format!("{number:0width$}", width = usize::from(pad));
            prop_assert_eq!(String::from_utf8(out.clone()).unwrap(), format!("/a/{shown}-{shown}"));
            prop_assert_eq!(text.len(number), out.len());
        }
    }

    #[test]
    fn no_parts_and_one_part_have_no_number() {
        let mut out = Vec::new();
        Text::new(&[], 0).write(7, &mut out);
        assert!(out.is_empty());
        let one = Text::new(&["fixed".into()], 9);
        one.write(7, &mut out);
        assert_eq!((out.as_slice(), one.len(7), one.has_number()), (b"fixed".as_slice(), 5, false));
    }
}
