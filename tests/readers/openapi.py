"""Checks an OpenAPI document by a validator of its own, and answers against it.

The file holds {"document": {}, "answers": [{"template", "status", "type", "body"}]}. Prints what
does not fit, as a JSON list of texts.
"""

import json
import sys

from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

# Of longer lists the first and the last items are looked at.
SOME = 100


def strict(schema):
    """The schema, by which objects have no members but those that it names."""
    if isinstance(schema, dict):
        schema = {name: strict(part) for name, part in schema.items()}
        if "properties" in schema and "required" in schema:
            schema["additionalProperties"] = False
    elif isinstance(schema, list):
        schema = [strict(part) for part in schema]
    return schema


def shortened(value):
    if isinstance(value, list):
        items = value if len(value) <= 2 * SOME else value[:SOME] + value[-SOME:]
        return [shortened(item) for item in items]
    if isinstance(value, dict):
        return {name: shortened(part) for name, part in value.items()}
    return value


def some(items):
    items = list(items)
    return items if len(items) <= 2 * SOME else items[:SOME] + items[-SOME:]


def events(body):
    for event in body.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in event.split("\n") if ": " in line)
        # An event without data reaches no listener.
        if "data" in fields:
            yield fields


def items(kind, body):
    if kind == "application/x-ndjson":
        return some(map(json.loads, body.rstrip("\n").split("\n")))
    if kind == "application/json-seq":
        return some(json.loads(item) for item in body.split("\x1e") if item)
    return some(events(body))


def wrong(document, answer):
    components = {"components": {"schemas": strict(document["components"]["schemas"])}}
    components["components"]["schemas"]["Problem"] = document["components"]["schemas"]["Problem"]
    response = document["paths"][answer["template"]]["get"]["responses"][str(answer["status"])]
    if "$ref" in response:
        response = document["components"]["responses"][response["$ref"].rsplit("/", 1)[1]]
    content = response["content"]
    described = content[answer["type"]]

    def check(value, schema):
        for error in Draft202012Validator({**components, **strict(schema)}).iter_errors(value):
            yield f"{answer['template']} {answer['type']}: {error.json_path}: {error.message:.300}"

    kind, body = answer["type"], answer["body"]
    item = described.get("itemSchema", described.get("x-itemSchema"))
    if item is not None:
        found = items(kind, body)
        if not found:
            yield f"{answer['template']} {kind}: no items"
        for value in found:
            yield from check(value, item)
            if kind == "text/event-stream":
                data = item["properties"]["data"]["contentSchema"]
                yield from check(json.loads(value["data"]), data)
    elif kind.endswith("json"):
        yield from check(shortened(json.loads(body)), described["schema"])
    else:
        yield f"{answer['template']} {kind}: there is nothing to check it by"


def main():
    with open(sys.argv[1]) as file:
        asked = json.load(file)
    validate(asked["document"])
    json.dump([text for answer in asked["answers"] for text in wrong(asked["document"], answer)], sys.stdout)


main()
