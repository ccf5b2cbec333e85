//! stub
use crate::{
    Freeform, ModelFacts, ModelRequest, ProviderConfig,
    remote::{Events, Reader},
};
pub(crate) fn encode(_: &ModelRequest<'_>, _: &ProviderConfig, _: &ModelFacts) -> Result<Vec<u8>, serde_json::Error> {
    Ok(Vec::new())
}
pub(crate) struct ChatReader;
impl ChatReader {
    pub(crate) fn new(_: Freeform) -> Self {
        Self
    }
}
impl Reader for ChatReader {
    fn read(&mut self, _: &[u8], _: &mut Events) {}
}
