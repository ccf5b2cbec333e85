//! What clients are told of that has changed.

/// A list that clients may keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum List {
    /// `tools/list`.
    Tools,
    /// `prompts/list`.
    Prompts,
    /// `resources/list`.
    Resources,
}

/// Something that is not as clients were told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The list that is another one.
    pub list: Option<List>,
    /// The resources that are others.
    pub resources: Changed,
}

/// Which resources have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// These.
    Some(Vec<String>),
    /// It may be any.
    Any,
}
