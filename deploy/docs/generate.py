"""Writes the generated pages of the book's reference: commands, configuration, options of %%grid, routes, metrics.

    generate.py PROGRAM

PROGRAM is the built `slipway`. Its help and its example are what is printed, so the pages cannot differ from it.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

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


def configuration(example: str) -> str:
    """Return the example of a configuration, a heading and a block for each key of the file."""
    page = "# The configuration\n\n`slipway config example` prints the same as one file.\n\n"
    comment: list[str] = []
    body: list[str] = []
    key = ""
    for line in [*example.splitlines(), "end:"]:
        if match := re.match(r"([a-z_]+):", line):
            if key:
                page += f"## {key}\n\n" + block("\n".join(body).strip("\n"), "yaml") + "\n"
            key, body, comment = match[1], [*comment, line], []
        elif line.startswith("#") or not line:
            comment.append(line)
        else:
            body, comment = [*body, *comment, line], []
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


def main() -> None:
    """Write the pages."""
    program = sys.argv[1]
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "commands.md").write_text(commands(program, []))
    (OUT / "configuration.md").write_text(configuration(run(program, "config", "example")))
    (OUT / "grid.md").write_text("# The options of %%grid\n\n`%grid --help` prints them.\n\n" + block(grid_options()))
    (OUT / "routes.inc").write_text(routes())
    rows = "".join(f"| `{name}` | {text.replace('|', chr(92) + '|')} |\n" for name, text in metrics())
    (OUT / "metrics.md").write_text(
        "# The metrics\n\n`/metrics` serves them in the format of Prometheus.\n\n| metric | tells |\n|---|---|\n" + rows
    )


if __name__ == "__main__":
    main()
