"""Judges what lies in deploy/ by the schemas of those who read it, and prints it as JSON.

    deployment.py kubernetes|compose FILE…

One line for each document. A document that its schema refuses is an error.
"""

import importlib.resources
import json
import sys

import jsonschema
import kubernetes_validate
import yaml

# Not Kubernetes' own: there is no schema of them here.
OTHERS = ("monitoring.coreos.com/", "kustomize.config.k8s.io/")


def kubernetes(document):
    if not document["apiVersion"].startswith(OTHERS):
        kubernetes_validate.validate(document, "1.34", strict=True)


def compose(document):
    vendored = importlib.resources.files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json"
    jsonschema.validate(document, json.loads(vendored.read_text()))


kind, files = sys.argv[1], sys.argv[2:]
for file in files:
    with open(file) as text:
        for document in yaml.safe_load_all(text):
            {"kubernetes": kubernetes, "compose": compose}[kind](document)
            print(json.dumps(document))
