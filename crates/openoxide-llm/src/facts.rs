//! What is known of a model before it is called. The catalogue of known models is with the providers.

/// How a model reasons, as far as a request must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reasoning {
    /// It does not, and a request that speaks of it fails.
    None,
    /// Nothing is known: no request asks for it unless configuration does; what comes is kept and replayed.
    Unknown,
    /// By a level of effort, or as it sees fit.
    Effort,
    /// Only when asked, within a budget of tokens (Claude before 4.6).
    Budget,
}

/// What is known of one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelFacts {
    /// Most tokens of a request.
    pub context_window: u64,
    /// Most tokens of a response.
    pub max_output_tokens: u64,
    /// How it reasons.
    pub reasoning: Reasoning,
    /// Whether it takes freeform tools over Responses.
    pub freeform: bool,
    /// Whether it takes images.
    pub images: bool,
    /// Whether the name was in the catalogue; otherwise these are the cautious defaults.
    pub is_known: bool,
}

/// Facts that configuration gives; `None` leaves the catalogue's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FactOverrides {
    /// Most tokens of a request (`model_context_window`).
    pub context_window: Option<u64>,
    /// Most tokens of a response (`model_max_output_tokens`).
    pub max_output_tokens: Option<u64>,
    /// How it reasons.
    pub reasoning: Option<Reasoning>,
    /// Whether it takes freeform tools over Responses.
    pub freeform: Option<bool>,
    /// Whether it takes images.
    pub images: Option<bool>,
}

impl FactOverrides {
    /// `facts` with what is given here.
    pub fn apply(&self, facts: ModelFacts) -> ModelFacts {
        ModelFacts {
            context_window: self.context_window.unwrap_or(facts.context_window),
            max_output_tokens: self.max_output_tokens.unwrap_or(facts.max_output_tokens),
            reasoning: self.reasoning.unwrap_or(facts.reasoning),
            freeform: self.freeform.unwrap_or(facts.freeform),
            images: self.images.unwrap_or(facts.images),
            is_known: facts.is_known,
        }
    }
}

impl ModelFacts {
    /// For a model that nothing is known of: small, and with nothing a server might refuse.
    pub const UNKNOWN: Self = Self {
        context_window: 32_768,
        max_output_tokens: 8_192,
        reasoning: Reasoning::Unknown,
        freeform: false,
        images: false,
        is_known: false,
    };
}
