"""Request bodies against the types that the OpenAI and Anthropic client libraries publish."""

from typing import get_type_hints

import anthropic.types
import openai.types.chat
import openai.types.responses
from pydantic import TypeAdapter, ValidationError

PUBLISHED = {
    "chat": openai.types.chat.completion_create_params.CompletionCreateParamsStreaming,
    "responses": openai.types.responses.response_create_params.ResponseCreateParamsStreaming,
    "messages": anthropic.types.message_create_params.MessageCreateParamsStreaming,
}
# What compatible servers want replayed, and OpenAI's own types do not know.
BEYOND = {"chat": {"reasoning_content"}, "responses": set(), "messages": set()}

ADAPTERS = {dialect: TypeAdapter(kind) for dialect, kind in PUBLISHED.items()}
FIELDS = {dialect: set(get_type_hints(kind)) for dialect, kind in PUBLISHED.items()}


def consume(value):
    """Walks a validated value: what is declared as an iterable is validated only when it is read."""
    if isinstance(value, dict):
        for inner in value.values():
            consume(inner)
    elif isinstance(value, list):
        for inner in value:
            consume(inner)
    elif hasattr(value, "__next__"):
        for inner in value:
            consume(inner)


def misfit(dialect, body):
    """Why a body does not fit what is published; nothing where it does."""
    unknown = set(body) - FIELDS[dialect] - BEYOND[dialect]
    if unknown:
        return f"unknown fields: {sorted(unknown)}"
    try:
        consume(ADAPTERS[dialect].validate_python(body))
    except ValidationError as error:
        return str(error)
    return None
