//! A message of a client, its `_meta` read once.

use openoxide_rpc::{Envelope, EnvelopeError, Outcome, RequestId};
use serde_json::value::RawValue;

use crate::{Era, RequestMeta, parse_line};

/// A request.
#[derive(Debug)]
pub struct Incoming {
    /// To be answered under.
    pub id: RequestId,
    /// The method.
    pub method: String,
    /// Its `_meta`, and with it its era.
    pub meta: RequestMeta,
    /// Its parameters, for the method to parse.
    pub params: Option<Box<RawValue>>,
}

impl Incoming {
    /// The era it belongs to.
    pub fn era(&self) -> Era {
        self.meta.era()
    }
}

/// What a client sends.
#[derive(Debug)]
pub enum Message {
    /// Wants an answer.
    Request(Incoming),
    /// Wants none.
    Notification {
        /// The method.
        method: String,
        /// The `params` object, if any.
        params: Option<Box<RawValue>>,
    },
    /// Answers a question of ours.
    Response {
        /// The question.
        id: RequestId,
        /// What came back.
        outcome: Outcome,
    },
    /// Several messages, each judged by itself (MCP 2025-03-26 only).
    Batch(Vec<Result<Message, EnvelopeError>>),
}

impl Message {
    /// Reads one line, or the body of one POST.
    ///
    /// # Errors
    /// Those of [`parse_line`] and of [`Message::read`].
    pub fn parse(line: &[u8]) -> Result<Self, EnvelopeError> {
        parse_line(line).and_then(Self::read)
    }

    /// Reads what an envelope holds.
    ///
    /// # Errors
    /// Those of [`RequestMeta::parse`], under the request's id. In a batch they belong to the message they are in.
    pub fn read(envelope: Envelope) -> Result<Self, EnvelopeError> {
        Ok(match envelope {
            Envelope::Request { id, method, params } => match RequestMeta::parse(&method, params.as_deref()) {
                Ok(meta) => Self::Request(Incoming { id, method, meta, params }),
                Err(error) => return Err(EnvelopeError { id: Some(id), error }),
            },
            Envelope::Notification { method, params } => Self::Notification { method, params },
            Envelope::Response { id, outcome } => Self::Response { id, outcome },
            Envelope::Batch(entries) => {
                Self::Batch(entries.into_iter().map(|entry| entry.and_then(Self::read)).collect())
            }
        })
    }

    /// The id of a request.
    pub fn id(&self) -> Option<&RequestId> {
        match self {
            Self::Request(request) => Some(&request.id),
            Self::Notification { .. } | Self::Response { .. } | Self::Batch(_) => None,
        }
    }

    /// Whether it is answered.
    pub fn wants_answer(&self) -> bool {
        match self {
            Self::Request(_) => true,
            Self::Batch(entries) => entries.iter().any(|entry| entry.as_ref().map_or(true, Self::wants_answer)),
            Self::Notification { .. } | Self::Response { .. } => false,
        }
    }
}
