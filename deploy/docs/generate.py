"""Writes the generated pages of the book's reference: commands, configuration, options of %%grid, routes, metrics.

    generate.py PROGRAM

PROGRAM is the built `slipway`. Its help and its schema are what is printed, so the pages cannot differ from it.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
REPO = DOCS.parent.parent
OUT = DOCS / "book" / "reference" / "generated"

HEADS = re.compile(r"(Aliases|Examples|Flags|Global Flags):\n|Use \"")  # of what lists no commands
COMMAND = re.compile(r"^  ([a-z][a-z-]*) +\S")
METRIC = re.compile(r'"([a-z_]+)",\s*"([A-Z0-9](?:[^"\\]|\\.)+)"')
NAMED = re.compile(r'Name:\s*"([a-z_]+)",\s*Help:\s*"((?:[^"\\]|\\.)+)"')
PREFIX = re.compile(r'NewDesc\("(slipway_[a-z_]*)"\+name')


def run(*argv: str) -> str:
    """Return what a command prints."""
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout  # noqa: S603


def block(text: str, language: str = "text") -> str:
    """Return text as a block of code."""
    return f"```{language}\n{text.rstrip()}\n```\n"


def subcommands(text: str) -> list[str]:
    """Return the names of the commands in the help of a command, of all its groups."""
    _, _, after = text.partition("\nUsage:\n")
    groups = [group for group in after.split("\n\n")[1:] if not HEADS.match(group)]
    names = [match[1] for group in groups for line in group.splitlines()[1:] if (match := COMMAND.match(line))]
    return [name for name in names if name not in ("help", "completion")]


def commands(program: str, path: list[str]) -> str:
    """Return the help of a command and of all below it."""
    text = run(program, *path, "--help")
    level = "#" * min(len(path) + 1, 3)
    title = " ".join(["slipway", *path]) if path else "The commands"
    return "\n".join(
        [f"{level} {title}\n", block(text), *(commands(program, [*path, name]) for name in subcommands(text))]
    )


def cell(text: str) -> str:
    """Return text as it stands in a cell of a table: only what is in backquotes keeps its marks."""
    parts = re.split(r"(`[^`]*`)", text)
    plain = [part if part.startswith("`") else re.sub(r"([\\*_\[\]{}$<>])", r"\\\1", part) for part in parts]
    return "".join(plain).replace("|", "\\|").replace("\n", "<br>")


def keys(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the keys below a part of a JSON Schema, by their paths, with what the schema says of each."""
    for name, key in schema.get("properties", {}).items():
        yield path + name, key
        yield from keys(key, f"{path}{name}.")
        yield from keys(key.get("items", {}), f"{path}{name}[].")


def default(key: dict[str, Any]) -> str:
    """Return the default of a key as the file would have it; nothing where there is none."""
    value = key.get("default")
    if value is None:
        return ""
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def configuration(schema: dict[str, Any]) -> str:
    """Return a table of the keys of the configuration, for each key at its left margin."""
    page = (
        "# The configuration\n\n"
        "`slipway config example` prints all of it as a file, and `slipway config schema` as a JSON Schema, by which "
        "editors complete and explain the keys. A key that is left out has its default.\n\n"
    )
    for name, section in schema["properties"].items():
        below = {"properties": {name: section}}
        page += f"## {name}\n\n| key | default | meaning |\n|---|---|---|\n"
        for path, key in keys(below):
            page += f"| `{path}` | {default(key)} | {cell(key['description'])} |\n"
        page += "\n"
    return page


def grid_options() -> str:
    """Return what `%grid --help` prints."""
    code = "from slipway._options import option_parser; print(option_parser().format_help())"
    return run("env", f"PYTHONPATH={REPO / 'notebooks' / 'src'}", sys.executable, "-c", code)


def metrics() -> list[tuple[str, str]]:
    """Return the names of the metrics and what each tells, from the sources that make them."""
    found: dict[str, str] = {}
    for path in sorted((REPO / "internal" / "metrics").glob("*.go")):
        if path.name.endswith("_test.go"):
            continue
        source = path.read_text()
        prefix = match[1] if (match := PREFIX.search(source)) else ""
        for name, text in METRIC.findall(source) + NAMED.findall(source):
            full = name if name.startswith("slipway_") else prefix + name
            if full.startswith("slipway_"):
                found[full] = text
    return sorted(found.items())


def routes() -> str:
    """Return a table for each group of the API's routes, from its document."""
    document = json.loads((REPO / "hubapi" / "openapi" / "openapi.json").read_text())
    page = ""
    for tag in document["tags"]:
        page += f"## {tag['name']}\n\n| route | does |\n|---|---|\n"
        for path, methods in sorted(document["paths"].items()):
            for method, operation in methods.items():
                if tag["name"] in operation["tags"]:
                    page += f"| `{method.upper()} {path}` | {operation['summary']} |\n"
        page += "\n"
    return page


ALERT = re.compile(r"- alert: (\w+)\n +expr: (.+)\n(?: +for: (\w+)\n)?(?:.*\n){2} +summary: (.+)\n +remedy: \"(.+)\"\n")


def alerts() -> str:
    """Return a table of the alert rules, which name no metric that is not there."""
    known = {name for name, _ in metrics()}
    for file in sorted((REPO / "deploy" / "monitoring").iterdir()):
        for name in sorted(set(re.findall(r"\bslipway_\w+", file.read_text()))):
            if re.sub(r"_(bucket|count|sum)$", "", name) not in known:
                sys.exit(f"{file.relative_to(REPO)}: there is no metric {name}")
    text = (REPO / "deploy" / "monitoring" / "alerts.yaml").read_text()
    table = "| alert | when | what to do |\n|---|---|---|\n"
    found = ALERT.findall(text)
    if len(found) != text.count("- alert:"):
        sys.exit("deploy/monitoring/alerts.yaml: an alert has another form than the others")
    for name, condition, lasting, _, remedy in found:
        when = f"`{condition}`" + (f" for {lasting}" if lasting else "")
        table += f"| {name} | {when.replace('|', chr(92) + '|')} | {cell(remedy)} |\n"
    return table


def main() -> None:
    """Write the pages."""
    program = sys.argv[1]
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "commands.md").write_text(commands(program, []))
    (OUT / "configuration.md").write_text(configuration(json.loads(run(program, "config", "schema"))))
    (OUT / "grid.md").write_text("# The options of %%grid\n\n`%grid --help` prints them.\n\n" + block(grid_options()))
    (OUT / "routes.inc").write_text(routes())
    (OUT / "alerts.inc").write_text(alerts())
    rows = "".join(f"| `{name}` | {text.replace('|', chr(92) + '|')} |\n" for name, text in metrics())
    (OUT / "metrics.md").write_text(
        "# The metrics\n\n`/metrics` serves them in the format of Prometheus.\n\n| metric | tells |\n|---|---|\n" + rows
    )


if __name__ == "__main__":
    main()
