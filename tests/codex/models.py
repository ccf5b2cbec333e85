"""Holds what is known of models against the list that Codex carries in its program.

usage: models.py FACTS CODEX     FACTS: the example `facts` of openoxide-providers; CODEX: Codex's program

A model of that list that is unknown here, or that is said here to hold more than Codex ever sends it, to take no freeform
tools or no pictures where it does, is an error: the table is older than its source.
"""

import json
import re
import subprocess
import sys


def listed(program):
    """The models of the list in the program."""
    with open(program, "rb") as file:
        data = file.read()
    for start in re.finditer(rb'\{\s*"models":\s*\[', data):
        text = data[start.start() : start.start() + 4_000_000].decode("utf-8", "ignore")
        try:
            found, _ = json.JSONDecoder().raw_decode(text)
        except ValueError:
            continue
        models = [model for model in found["models"] if "slug" in model]
        if models:
            return models
    raise SystemExit("there is no list of models in Codex's program any more: look for where it went")


def main():
    facts_program, codex = sys.argv[1:]
    models = listed(codex)
    output = subprocess.run([facts_program, *(model["slug"] for model in models)], check=True, capture_output=True)
    ours = [json.loads(line) for line in output.stdout.splitlines()]
    wrong = []
    for model, facts in zip(models, ours, strict=True):
        name = model["slug"]
        most = model.get("max_context_window") or model["context_window"]
        if not facts["known"]:
            wrong.append(f"{name} is not known")
        if facts["context_window"] > most:
            wrong.append(f"{name} holds {facts['context_window']} tokens here and {most} there")
        if facts["freeform"] != (model.get("apply_patch_tool_type") == "freeform"):
            wrong.append(f"{name}: freeform tools are {facts['freeform']} here")
        if facts["images"] != ("image" in model.get("input_modalities", [])):
            wrong.append(f"{name}: pictures are {facts['images']} here")
    if wrong:
        raise SystemExit("the table of models differs from Codex's list:\n  " + "\n  ".join(wrong))
    print(f"{len(models)} models are as Codex's list has them")


main()
