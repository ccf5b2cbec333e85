//! How values travel between the server and a helper that reads: numbers of fixed width, lengths before bytes, in an order
//! that both ends know, since they are one program.
//!
//! What is taken apart takes no more memory than a small multiple of the bytes that came: a length is held against what is
//! left, and a list says the most entries it may have.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

/// A value that travels.
pub(crate) trait Wire: Sized {
    /// Writes it down.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads it; none where the bytes are something else.
    fn take(input: &mut Input<'_>) -> Option<Self>;
}

/// Bytes that are taken apart.
pub(crate) struct Input<'a>(&'a [u8]);

/// Bytes that are no text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

/// A list of at most `MOST` entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct List<T, const MOST: usize>(pub(crate) Vec<T>);

/// The bytes of a value.
pub(crate) fn encode(value: &impl Wire) -> Vec<u8> {
    let mut out = Vec::new();
    value.put(&mut out);
    out
}

/// The value that these bytes are, all of them.
pub(crate) fn decode<T: Wire>(bytes: &[u8]) -> Option<T> {
    let mut input = Input(bytes);
    let value = T::take(&mut input)?;
    input.0.is_empty().then_some(value)
}

impl<'a> Input<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(first)
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = usize::take(self)?;
        self.bytes(length)
    }
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    bytes.len().put(out);
    out.extend_from_slice(bytes);
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Wire for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn take(input: &mut Input<'_>) -> Option<Self> {
                let bytes = input.bytes(size_of::<Self>())?;
                Some(Self::from_le_bytes(bytes.try_into().ok()?))
            }
        }
    )*};
}
numbers!(u8, u32, u64, i64);

impl Wire for usize {
    fn put(&self, out: &mut Vec<u8>) {
        (*self as u64).put(out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        Self::try_from(u64::take(input)?).ok()
    }
}

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        match u8::take(input)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Wire for Bytes {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(&self.0, out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        Some(Self(input.text()?.to_vec()))
    }
}

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(self.as_bytes(), out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        Some(str::from_utf8(input.text()?).ok()?.to_owned())
    }
}

impl Wire for PathBuf {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(self.as_os_str().as_bytes(), out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        let bytes = input.text()?;
        // No path has one, and what is given one by mistake would be cut there.
        (!bytes.contains(&0)).then(|| OsString::from_vec(bytes.to_vec()).into())
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|value| value.put(out));
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        match bool::take(input)? {
            true => T::take(input).map(Some),
            false => Some(None),
        }
    }
}

impl<T: Wire, E: Wire> Wire for Result<T, E> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_ok().put(out);
        match self {
            Ok(value) => value.put(out),
            Err(error) => error.put(out),
        }
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        match bool::take(input)? {
            true => T::take(input).map(Ok),
            false => E::take(input).map(Err),
        }
    }
}

impl<T: Wire, const MOST: usize> Wire for List<T, MOST> {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.len().put(out);
        self.0.iter().for_each(|value| value.put(out));
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        let count = usize::take(input)?;
        if count > MOST {
            return None;
        }
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(T::take(input)?);
        }
        Some(Self(values))
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        Some((A::take(input)?, B::take(input)?))
    }
}

/// Says of a struct that it travels, field by field in this order.
macro_rules! wire_fields {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl $crate::tools::reads::wire::Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::tools::reads::wire::Wire::put(&self.$field, out);)*
            }

            fn take(input: &mut $crate::tools::reads::wire::Input<'_>) -> Option<Self> {
                Some(Self { $($field: $crate::tools::reads::wire::Wire::take(input)?),* })
            }
        }
    };
}
pub(crate) use wire_fields;

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fmt::Debug;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Both {
        path: PathBuf,
        texts: List<(String, Option<u64>), 5>,
    }
    wire_fields!(Both { path, texts });

    fn there_and_back<T: Wire + PartialEq + Debug>(value: &T) {
        let bytes = encode(value);
        assert_eq!(decode::<T>(&bytes).as_ref(), Some(value));
        for end in 0..bytes.len() {
            assert_eq!(decode::<T>(&bytes[..end]), None, "{value:?} cut after {end} bytes");
        }
        assert_eq!(decode::<T>(&[bytes, vec![0]].concat()), None, "more than {value:?}");
    }

    #[test]
    fn values_come_back_as_they_were_and_in_no_part() {
        there_and_back(&true);
        there_and_back(&(7_u8, (u64::MAX, -1_i64)));
        there_and_back(&Ok::<String, u32>("é\n".to_owned()));
        there_and_back(&Err::<Bytes, String>("why".to_owned()));
        there_and_back(&Some(Bytes(vec![0, 255])));
        let path = PathBuf::from(OsStr::from_bytes(b"/a/\xff b"));
        there_and_back(&Both { path, texts: List(vec![("a".into(), None), (String::new(), Some(1))]) });
    }

    #[test]
    fn what_says_it_is_longer_than_it_is_takes_no_memory() {
        let mut lie = encode(&(1_usize << 60));
        lie.extend([0; 16]);
        assert_eq!(decode::<String>(&lie), None);
        assert_eq!(decode::<List<bool, 1000>>(&lie), None);
        assert_eq!(decode::<List<bool, 2>>(&encode(&List::<bool, 3>(vec![true; 3]))), None);
        assert_eq!(decode::<PathBuf>(&encode(&"a\0b".to_owned())), None);
        assert_eq!(decode::<String>(&encode(&Bytes(vec![255]))), None);
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_odd(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode::<Both>(&bytes);
            let _ = decode::<Result<List<Option<String>, 9>, (bool, u32)>>(&bytes);
        }
    }
}
