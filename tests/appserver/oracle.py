"""Holds messages of ours against the JSON Schema that Codex's own program makes of its types.

usage: oracle.py SCHEMAS TRACE...     SCHEMAS: what `codex app-server generate-json-schema --experimental --out` has written
"""

import json
import pathlib
import sys

from jsonschema import Draft7Validator

# Answers whose types are not named like the parameters of their methods.
ANSWERS = {"configRequirements/read": "v2/ConfigRequirementsReadResponse", "initialize": "InitializeResponse"}
# Methods whose answers the bundle has no types of.
UNKNOWN = {"getAuthStatus"}


class Oracle:
    def __init__(self, schemas):
        self.bundle = json.loads((pathlib.Path(schemas) / "codex_app_server_protocol.schemas.json").read_text())
        self.definitions = self.bundle["definitions"]
        self.validators = {}
        self.answers = dict(ANSWERS)
        for variant in self.definitions["ClientRequest"]["oneOf"]:
            method = variant["properties"]["method"]["enum"][0]
            params = variant["properties"].get("params", {}).get("$ref", "").removeprefix("#/definitions/")
            answer = params.removesuffix("Params") + "Response"
            if method not in self.answers and self.has(answer):
                self.answers[method] = answer

    def has(self, name):
        scope, _, last = name.rpartition("/")
        return last in (self.definitions[scope] if scope else self.definitions)

    def errors(self, name, value):
        if name not in self.validators:
            schema = {"definitions": self.definitions, "allOf": [{"$ref": f"#/definitions/{name}"}]}
            self.validators[name] = Draft7Validator(schema)
        return [f"{name} at {'/'.join(map(str, error.absolute_path)) or '.'}: {short(error)}"
                for error in self.validators[name].iter_errors(value)]

    def judge(self, lines):
        """What is wrong with the server's messages, and how many of each kind there were."""
        asked, findings, counts = {}, [], {}
        for way, message in lines:
            if way == "client":
                if "method" in message and "id" in message:
                    asked[message["id"]] = message["method"]
                continue
            if "method" in message:
                kind = "ServerRequest" if "id" in message else "ServerNotification"
                found, name = self.errors(kind, message), message["method"]
            elif "error" in message:
                # JSON-RPC has null where no id could be read; the schema does not know that one is answered.
                whole = message if message.get("id") is not None else {**message, "id": 0}
                found, name = self.errors("JSONRPCError", whole), f"error {message['error'].get('code')}"
            else:
                name = asked.get(message["id"])
                if name in UNKNOWN:
                    found = []
                elif name not in self.answers:
                    found = [f"nothing is known of the answer to {name!r}"]
                else:
                    found = self.errors(self.answers[name], message["result"])
            counts[name] = counts.get(name, 0) + 1
            findings += [f"{finding}\n    {json.dumps(message)[:600]}" for finding in found]
        return findings, counts


def short(error):
    """The reason; of a choice that nothing fits, those of the choice that fits best."""
    if error.context:
        kept = {}
        for inner in error.context:
            kept.setdefault(inner.schema_path[0], []).append(inner)
        # The choice of this method or type has no complaint about the word itself.
        best = [all_ for all_ in kept.values() if not any(inner.validator == "enum" for inner in all_)] or list(kept.values())
        return "; ".join(f"{'/'.join(map(str, inner.absolute_path))}: {short(inner)}" for inner in best[0][:4])[:600]
    return error.message[:200]


def lines_of(path):
    for line in pathlib.Path(path).read_text().splitlines():
        way, message = line.split(" ", 1)
        try:
            yield way, json.loads(message)
        except ValueError:
            if way == "server":
                raise


def main(schemas, *traces):
    oracle, failed, all_counts = Oracle(schemas), False, {}
    for trace in traces:
        findings, counts = oracle.judge(lines_of(trace))
        for name, count in counts.items():
            all_counts[name] = all_counts.get(name, 0) + count
        for finding in dict.fromkeys(findings):
            failed = True
            print(f"{pathlib.Path(trace).name}: {finding}", file=sys.stderr)
    print(f"{sum(all_counts.values())} messages of {len(all_counts)} kinds against the schema:",
          ", ".join(f"{name} {count}" for name, count in sorted(all_counts.items())))
    if not all_counts:
        sys.exit("there was no message to judge")
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
