//! What a model provider is to the agent: a request goes in, a stream of events comes out.

use std::pin::Pin;

use futures_util::Stream;

use crate::{ModelError, ModelEvent, ModelFacts, ModelRequest, ReasoningChoice};

/// The events of one response. Dropping it closes the connection to the provider at once.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + Send>>;

/// Something that answers a conversation with one model response at a time.
pub trait Provider: Send + Sync {
    /// The provider's id in configuration, for messages (`offline`, `openai`, ...).
    fn id(&self) -> &str;

    /// What is known of a model of this provider.
    fn facts(&self, model: &str) -> ModelFacts;

    /// How the requests of a thread ask for thinking, in a word that is the same for all that the provider's cache takes for the
    /// same. It is a part of what a thread's requests begin with.
    fn thinking(&self, model: &str, reasoning: ReasoningChoice<'_>) -> &'static str {
        let _ = (model, reasoning);
        ""
    }

    /// Starts one response. The request is written out before this returns; what can fail later fails in the stream,
    /// whose first error is its last item.
    fn stream(&self, request: ModelRequest<'_>) -> ModelStream;
}
