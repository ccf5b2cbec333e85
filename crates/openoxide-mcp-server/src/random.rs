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
