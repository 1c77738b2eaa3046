"""Writes the types of the Python package from the API's document.

    python_models.py [--check]

The types that Client answers with, and what these are made of, become frozen dataclasses in
notebooks/src/slipway/_models.py. What the API leaves out or has as null gets the default that is written here: so a
package that is newer than its service can read it. What a type can do beside holding data, _model_bases.py says.
With --check nothing is written, and it fails where the file is not what it would write.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parent.parent.parent
DOCUMENT = REPO / "hubapi" / "openapi" / "openapi.json"
MODELS = REPO / "notebooks" / "src" / "slipway" / "_models.py"

BASES = MODELS.with_name("_model_bases.py")

TYPES = [
    *("DataURL", "EnvironmentDiff", "Event", "Explanation", "File", "GPUs", "Job", "JobPlan", "JobsUsage"),
    *("KernelSpec", "Me", "PointEvent", "Profile", "Progress", "ScanChange", "Session", "Storage"),
]
"""What is read of answers; what these hold comes with them."""

NAMES = {"File": "JobFile", "Progress": "FreezeStep", "DataMount": "Mount", "EnvironmentDiff": "Difference"}
"""What users of the package call types that the API, where their path says what they are of, calls otherwise."""

MAPPINGS = ("KernelSwitch",)
"""Those that are read as a mapping of texts: which of its fields are there is what they say."""

DEFAULTS = {
    ("Environment", "mine"): True,
    ("Job", "attempt"): 1,
    ("Outcome", "exit_code"): None,
    ("PointEvent", "attempt"): 1,
    ("Share", "with"): "private",
}
"""What a value is that is not there, where it is none of the usual: false, 0, empty, and -1 where that is unknown."""

HEADER = '"""What the service says, as plain values. Written by deploy/dev/python_models.py from the API."""'

JSON = dict[str, Any]


def needed(schemas: JSON) -> JSON:
    """Return the schemas of TYPES, and of what they hold, by the names that they have in Python."""
    found: JSON = {}
    rest = list(TYPES)
    while rest:
        name = rest.pop()
        if name not in found and name not in MAPPINGS:
            found[name] = schemas[name]
            rest += references(schemas[name])
    return {NAMES.get(name, name): found[name] for name in sorted(found)}


def references(part: Any) -> list[str]:
    """Return the names of the schemas to which a part of the document refers."""
    if isinstance(part, list):
        return [name for item in part for name in references(item)]
    if not isinstance(part, dict):
        return []
    own = [part["$ref"].rsplit("/", 1)[1]] if "$ref" in part else []
    return own + [name for value in part.values() for name in references(value)]


def field(of: str, name: str, schema: JSON | bool, *, required: bool) -> JSON:
    """Return a field's schema with its default."""
    value: JSON = {} if isinstance(schema, bool) else dict(schema)
    told = value.pop("description", "")
    if "oneOf" in value:
        value = nullable(value["oneOf"][0])
    elif value.get("$ref", "").endswith(tuple(f"/{name}" for name in MAPPINGS)):
        value = {"type": "object", "additionalProperties": {"type": "string"}, "default": {}}
    elif "$ref" in value:
        value = {"allOf": [refer(value)], "default": {}} if required else nullable(value)
    elif value.get("type") == "string":
        value = {"type": "string", "default": ""}  # a time stays the text that it is
    elif value.get("type") in ("integer", "number"):
        value["default"] = -1 if "-1:" in told else 0
    elif value.get("type") == "boolean":
        value["default"] = False
    elif value.get("type") == "array":
        value = {"type": "array", "items": refer(value["items"]), "default": []}
    else:
        value["default"] = {}
        value.setdefault("type", "object")
    if (of, name) in DEFAULTS:
        value = nullable(value) if DEFAULTS[of, name] is None else value | {"default": DEFAULTS[of, name]}
    return value | ({"description": told} if told else {})


def nullable(value: JSON) -> JSON:
    """Return the schema of what may be null: a text is empty then."""
    if value.get("type") == "string":
        return {"type": "string", "default": ""}
    value = {key: said for key, said in value.items() if key != "default"}
    return {"anyOf": [refer(value), {"type": "null"}], "default": None}


def refer(value: JSON) -> JSON:
    """Return a schema, with a reference by the name that the type has in Python."""
    if "$ref" not in value:
        return value
    path, _, name = value["$ref"].rpartition("/")
    return {"$ref": f"{path}/{NAMES.get(name, name)}"}


def prepared(document: JSON) -> JSON:
    """Return a document of the types that are wanted alone."""
    schemas: JSON = {}
    for name, schema in needed(document["components"]["schemas"]).items():
        required = schema.get("required", ())
        fields = {key: field(name, key, value, required=key in required) for key, value in schema["properties"].items()}
        schemas[name] = {"type": "object", "properties": fields, "description": described(schema)}
    return {"openapi": "3.1.0", "info": document["info"], "paths": {}, "components": {"schemas": schemas}}


def described(schema: JSON) -> str:
    """Return what a type is, as Python tells it: without its name, with which Go begins."""
    told = str(schema.get("description", "")).partition(" ")[2].removeprefix("is ")
    return told[:1].upper() + told[1:]


def bases() -> dict[str, str]:
    """Return the base of each type that can do more than hold data."""
    names = re.findall(r"^class (\w+)Base\(Model\):", BASES.read_text(), re.MULTILINE)
    return {name: f"slipway.{BASES.stem}.{name}Base" for name in names}


def generate() -> str:
    """Return the module."""
    with tempfile.TemporaryDirectory() as at:
        source, out = Path(at, "openapi.json"), Path(at, "models.py")
        source.write_text(json.dumps(prepared(json.loads(DOCUMENT.read_text()))))
        options = [
            *("--input-file-type=openapi", "--output-model-type=dataclasses.dataclass", "--target-python-version=3.11"),
            *("--frozen-dataclasses", "--strict-nullable", "--use-generic-container-types"),
            *("--use-schema-description", "--use-field-description", "--use-single-line-docstring"),
            *("--base-class=slipway._model_bases.Model", f"--base-class-map={json.dumps(bases())}"),
            *("--disable-timestamp", f"--custom-file-header={HEADER}", "--formatters", "ruff-check", "ruff-format"),
        ]
        generator = [sys.executable, "-m", "datamodel_code_generator", f"--input={source}", f"--output={out}"]
        subprocess.run([*generator, *options], check=True)  # noqa: S603
        # How it is shown, its base says: the generator leaves out arguments that are false. A list cannot be changed.
        text = out.read_text().replace("@dataclass(frozen=True)", "@dataclass(frozen=True, repr=False)")
        return text.replace("field(default_factory=list)", "()")


def main() -> int:
    """Write the module, or check it."""
    text = generate()
    if sys.argv[1:] != ["--check"]:
        MODELS.write_text(text)
        return 0
    if MODELS.read_text() == text:
        return 0
    sys.stderr.write(f"{MODELS.name} is not what {Path(__file__).name} makes of {DOCUMENT.name}: run it and commit\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
