//! How the description of a view travels.

use std::path::PathBuf;

use openoxide_sandbox::ViewDescription;

use super::wire::{Input, List, Wire};

/// Far more than any machine has.
const MAX_PATHS: usize = 100_000;

type Paths = List<PathBuf, MAX_PATHS>;

impl Wire for ViewDescription {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { workspace, place, hidden, above, private_tmp } = self;
        workspace.put(out);
        place.put(out);
        List::<_, MAX_PATHS>(hidden.clone()).put(out);
        above.clone().map(List::<_, MAX_PATHS>).put(out);
        private_tmp.clone().map(|(directory, roots)| (directory, List::<_, MAX_PATHS>(roots))).put(out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        Some(Self {
            workspace: Wire::take(input)?,
            place: Wire::take(input)?,
            hidden: Paths::take(input)?.0,
            above: <Option<Paths> as Wire>::take(input)?.map(|above| above.0),
            private_tmp: <Option<(PathBuf, Paths)> as Wire>::take(input)?
                .map(|(directory, roots)| (directory, roots.0)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::{decode, encode};
    use super::*;

    #[test]
    fn a_description_comes_back_as_it_was() {
        let description = ViewDescription {
            workspace: "/w".into(),
            place: (1, 2),
            hidden: vec!["/h".into()],
            above: Some(vec!["/a".into()]),
            private_tmp: Some(("/t".into(), vec!["/r".into()])),
        };
        assert_eq!(decode::<ViewDescription>(&encode(&description)), Some(description));
    }
}
