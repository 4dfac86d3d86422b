"""Checks TOML by JSON Schemas.

schema.py FILE, which has {"schemas": {NAME: SCHEMA}, "texts": [[NAME, TEXT], …]}; writes what is
wrong with each text, null where nothing is.
"""

import datetime
import json
import sys
import tomllib

import jsonschema


def as_json(value):
    """What TOML has and JSON has not, as texts."""
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_json(item) for item in value]
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return value


def wrong(validator, text):
    error = jsonschema.exceptions.best_match(validator.iter_errors(as_json(tomllib.loads(text))))
    return error and f"{error.json_path}: {error.message}"


with open(sys.argv[1], encoding="utf-8") as file:
    asked = json.load(file)
validators = {}
for name, schema in asked["schemas"].items():
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    validators[name] = kind(schema)
print(json.dumps([wrong(validators[name], text) for name, text in asked["texts"]]))
