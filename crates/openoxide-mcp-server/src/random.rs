//! Random numbers of the system.

/// Hexadecimal digits of an [`id`].
pub(crate) const ID_DIGITS: usize = 32;

/// Random bytes.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    bytes
}

/// An id that cannot be guessed: 128 random bits in hexadecimal digits.
pub(crate) fn id() -> String {
    format!("{:0digits$x}", u128::from_ne_bytes(bytes()), digits = ID_DIGITS)
}

/// A random UUID (version 4).
pub(crate) fn uuid() -> String {
    let [mut high, mut low] = [u64::from_ne_bytes(bytes()), u64::from_ne_bytes(bytes())];
    high = high & !0xf000 | 0x4000;
    low = low & (u64::MAX >> 2) | 1 << 63;
    let digits = format!("{high:016x}{low:016x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}
