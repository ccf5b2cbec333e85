"""Two conversations made comparable, and what differs in them."""

import base64
import json
import re
from collections import Counter
from difflib import SequenceMatcher

ABSENT = object()
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# Numbers that no two runs have alike.
TIMES = {"started_at", "completed_at", "started_at_ms", "completed_at_ms", "duration_ms", "time_to_first_token_ms", "secs",
         "nanos", "create_time"}
NAMES = {"process_id", "item_id"}
MERGED = {"agent_message_content_delta": "delta", "reasoning_content_delta": "delta", "exec_command_output_delta": "chunk"}


def normalised(value, ids, key=None):
    """A value without what no two runs have alike: times, places and ids. Each keeps its type."""
    if isinstance(value, dict):
        return {ids.text(name): normalised(inner, ids, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [normalised(inner, ids) for inner in value]
    if key in TIMES and isinstance(value, (int, float)):
        return "<time>"
    if isinstance(value, str):
        return f"<{key}>" if key in NAMES else ids.text(value)
    return value


class Ids:
    """Names for the ids of one conversation, by what they are and in order of their first use."""

    def __init__(self, messages, place):
        self.names, self.place = {}, place
        for _, message in messages:
            params = message.get("params", {})
            self.learn("thread", params.get("_meta", {}).get("threadId"))
            self.learn("turn", params.get("msg", {}).get("turn_id"))

    def learn(self, kind, value):
        if value and UUID.fullmatch(value) and value not in self.names:
            number = sum(name.startswith(f"<{kind}") for name in self.names.values()) + 1
            self.names[value] = f"<{kind} {number}>"

    def text(self, text):
        text = text.replace(str(self.place), "<place>").replace(self.place.name, "<place>")
        return UUID.sub(lambda found: self.names.get(found[0], "<id>"), text)


def key_of(way, message, asked):
    """What a message is, and what tells it from others of its kind. `asked` has what the client's requests were."""
    arrow = {"client": "->", "server": "<-"}[way]
    if "method" not in message:
        return (f"{arrow} answer to {asked[message['id']]}", message["id"]) if way == "server" else (f"{arrow} decision", None)
    if message["method"] != "codex/event":
        return f"{arrow} {message['method']}", None
    told = message["params"]["msg"]
    item = told.get("item", {}).get("type")
    return f"{arrow} {told['type']}" + (f" {item}" if item else ""), told.get("call_id")


def pieces_joined(messages):
    """Pieces of one text are one message, at the place of the first: how a stream is cut is nobody's business."""
    joined, open_pieces = [], {}
    for way, message in messages:
        told = message.get("params", {}).get("msg", {})
        field = MERGED.get(told.get("type"))
        if not field:
            if told.get("type") in ("agent_message", "agent_reasoning"):
                open_pieces = {}
            joined.append((way, message))
            continue
        piece = base64.b64decode(told[field]).decode() if field == "chunk" else told[field]
        which = (told["type"], told.get("item_id") or told.get("call_id"))
        if which in open_pieces:
            open_pieces[which][field] += piece
        else:
            message = json.loads(json.dumps(message))
            open_pieces[which] = message["params"]["msg"]
            open_pieces[which][field] = piece
            joined.append((way, message))
    return joined


class Conversation:
    """What one program said and was told: messages in order, the model's requests, and the files that are left."""

    def __init__(self, messages, requests, left, place):
        ids, seen = Ids(messages, place), Counter()
        asked = {message["id"]: message["method"] for way, message in messages if way == "client" and "method" in message
                 and "id" in message}
        self.messages = {}
        for way, message in pieces_joined(messages):
            kind, which = key_of(way, message, asked)
            seen[kind, which] += 1
            self.messages[kind, which, seen[kind, which]] = normalised(message, ids)
        self.requests = {}
        for prompt, place_in_turn, body in requests:
            seen[prompt, place_in_turn] += 1
            given = {name: body.get(name, ABSENT) for name in ("model", "reasoning", "store", "stream", "include")}
            self.requests["model request", (prompt, place_in_turn), seen[prompt, place_in_turn]] = {
                name: value for name, value in given.items() if value is not ABSENT}
        self.left = {("files", None, 1): left}


def fields(theirs, ours, path=""):
    """Each field that differs, with both values."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in sorted(theirs.keys() | ours.keys()):
            yield from fields(theirs.get(name, ABSENT), ours.get(name, ABSENT), f"{path}.{name}" if path else name)
    elif isinstance(theirs, list) and isinstance(ours, list):
        if all(isinstance(inner, dict) and "name" in inner for inner in theirs + ours):
            yield from fields({inner["name"]: inner for inner in theirs}, {inner["name"]: inner for inner in ours}, path)
            return
        for index in range(max(len(theirs), len(ours))):
            yield from fields(*(side[index] if index < len(side) else ABSENT for side in (theirs, ours)), f"{path}[{index}]")
    elif theirs is ABSENT or ours is ABSENT or type(theirs) is not type(ours) or theirs != ours:
        yield path, theirs, ours


def differences(theirs, ours):
    """Each difference of two conversations: (message, field, Codex's value, our value), the values as text."""
    for whole in ("messages", "requests", "left"):
        left, right = getattr(theirs, whole), getattr(ours, whole)
        for key in [*left, *(key for key in right if key not in left)]:
            if key not in left or key not in right:
                yield key[0], "", "sent" if key in left else "not sent", "sent" if key in right else "not sent"
            else:
                for path, one, other in fields(left[key], right[key]):
                    yield key[0], path, shown(one), shown(other)
    yield from moved([key for key in theirs.messages if key in ours.messages],
                     [key for key in ours.messages if key in theirs.messages])


def moved(theirs, ours):
    """Messages that both programs send, but not in the same order, with what comes before each."""
    kept = set()
    for block in SequenceMatcher(a=theirs, b=ours, autojunk=False).get_matching_blocks():
        kept.update(theirs[block.a:block.a + block.size])
    for key in theirs:
        if key not in kept:
            yield key[0], "order", *(f"after {side[side.index(key) - 1][0][3:]}" for side in (theirs, ours))


def shown(value):
    return "absent" if value is ABSENT else json.dumps(value, ensure_ascii=False, sort_keys=True)
