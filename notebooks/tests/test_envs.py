"""Environments in a notebook: tables, %freeze, and what is in the home alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import slipway
from conftest import ROOT
from fake import FakeService
from slipway import Client, Env, InvalidError
from slipway._decode import decode
from slipway._display import Table
from slipway._environments import HomePackage, SecretsError, home_packages, home_warning, split_name
from slipway._models import Difference, Environment
from slipway._units import amount
from slipway.magic import parse_freeze
from test_magic import Notebook, notebook  # noqa: F401 - a fixture

TESTDATA = ROOT / "hubapi" / "testdata"
DIGEST = "sha256:" + "cd" * 32


@pytest.fixture
def here(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> FakeService:
    """The service, found as in a session."""
    monkeypatch.setenv("SLIPWAY_SOCKET", service.socket)
    return service


# --- to look at


def test_envs_are_a_table(here: FakeService) -> None:
    mine = slipway.envs()
    assert len(mine) == 1
    head, row = repr(mine).splitlines()
    assert head.split() == ["environment", "digest", "made", "python", "packages", "size", "own", "shared", "with"]
    assert row.split()[:5] == ["gpu:1", "cd" * 6, "2026-11-20", "10:04", here.python]
    assert " 3 GB " in row
    both = slipway.envs(shared=True)
    assert [env.record.label for env in both] == ["gpu:1", "carol/gpu:1"]
    assert "<td>carol/gpu:1</td>" in both._repr_html_()


def test_no_envs(client: Client) -> None:
    none = slipway.Envs(client, [])
    assert repr(none) == "there are none: %freeze makes one of this session"
    assert "<table>" not in none._repr_html_()


def test_an_env(here: FakeService) -> None:
    env = slipway.env("gpu:1")
    assert env.ref == "gpu:1"
    assert "250 MB of it its own" in repr(env)
    assert "packages     2" in repr(env)
    assert "<td>gpu:1</td>" in env._repr_html_()
    assert env.refresh() is env
    assert "<torch>  2.9.0    pip" in repr(env.packages())
    assert "&lt;torch&gt;" in env.packages()._repr_html_()
    assert [other.ref for other in env.history()] == ["gpu:1", "gpu:0"]


def test_an_env_that_is_not_looked_at_yet(client: Client) -> None:
    env = Env(client, decode(Environment, {"digest": DIGEST, "name": "<b>", "paused": 0.0512, "unchanged": True}))
    assert env.ref == DIGEST  # a name alone may be a newer one's tomorrow
    for words in ("not looked at yet", "held still   51 ms", "nothing has changed"):
        assert words in repr(env)
    assert "<b>" not in env._repr_html_()


def test_what_its_owner_does_with_it(here: FakeService) -> None:
    env = slipway.env("gpu:1")
    assert env.share("group", "higgs").record.share.words == "group higgs"
    assert env.tag("ana:v2").ref == "ana:v2"
    env.remove()
    assert here.environment_changes == [
        ("gpu:1", "share", {"with": "group", "group": "higgs"}),
        ("gpu:1", "tags", {"name": "ana", "tag": "v2"}),
        ("gpu:1", "remove", ""),
    ]


def test_diff(here: FakeService) -> None:
    env = slipway.env("gpu:1")
    before = env.diff()
    assert repr(before) == "gpu:0 -> gpu:1\n+ torch 2.9.0"
    assert "<pre>gpu:0 -&gt; gpu:1" in before._repr_html_()
    env.diff("mine:v 1")
    env.diff(env)
    asked = [query for _, what, query in here.environment_changes if what == "diff"]
    assert asked == ["from=sha256%3A" + "ee" * 32, "from=mine%3Av+1", "from=sha256%3A" + "cd" * 32]
    oldest = env.history()[1]
    with pytest.raises(InvalidError, match="there is none before gpu:0"):
        oldest.diff()


def test_the_shared_example_of_a_diff() -> None:
    doc = json.loads((TESTDATA / "diff.json").read_text())
    read = decode(Difference, doc)
    assert (read.old.digest, read.new.tag, list(read.lines)) == (doc["old"]["digest"], "v1", doc["lines"])
    assert read.full == doc["full"]
    assert repr(decode(Difference, {"lines": 7})).endswith("no difference")


def test_the_shared_example_of_details(here: FakeService) -> None:
    doc = json.loads((TESTDATA / "details.json").read_text())
    record = decode(Environment, doc)
    assert (record.own, record.share.group, record.driver, record.paused) == (88412160, "higgs", "570.26", 0.05)
    assert record.ref == "analysis:v1"
    assert record.imports
    assert (record.imports.state, record.imports.modules, record.imports.broken) == ("tried", 12, 1)
    shown = repr(Env(Client(), record))
    assert "1 of the 12 modules that kernels had imported cannot be imported from the image alone" in shown
    assert "cannot import torch: libcudart.so.12" in shown
    assert {"name", "version", "manager"} <= doc["inventory"]["packages"][0].keys()


def test_tables_and_sizes() -> None:
    assert repr(Table(("a", "b"), [("1", "222"), ("33", "4")])) == "a   b\n1   222\n33  4"
    sizes = [amount(n) for n in (0, 999, 1000, 1500, 250_000, 99_949_999, 999_500_000, 5e9, 53.7e9, 7e15)]
    assert sizes == ["0 B", "999 B", "1 kB", "1.5 kB", "250 kB", "100 MB", "1 GB", "5 GB", "53.7 GB", "7000 TB"]
    assert split_name("ana:v1", "") == split_name("ana", "v1") == split_name("ana:v1", "v1") == ("ana", "v1")
    with pytest.raises(InvalidError, match="another tag"):
        split_name("ana:v1", "v2")


# --- %freeze


def test_freeze(notebook: Notebook, service: FakeService) -> None:  # noqa: F811
    assert notebook.run('%freeze --name ana:v1 --note "with uproot" --allow-secret /opt/t.key') is None
    assert notebook.out.startswith(
        "▸ freezing: squashing 40 % 1 MB\n▸ environment abababababab frozen now, 42 kB of yours on a base of 2.5 GB ("
    )
    assert isinstance(notebook.value, Env)
    assert notebook.value.digest == "sha256:" + "ab" * 32
    asked = dict(service.freeze_asked)
    assert "IPython" in asked.pop("imported")[sys.executable]
    assert asked == {"name": "ana", "tag": "v1", "note": "with uproot", "allow_secret": ["/opt/t.key"]}
    notebook.run("%freeze")
    assert service.freeze_asked.keys() == {"name", "tag", "note", "imported"}
    assert "unchanged" in notebook.out


def test_freeze_says_how_it_is_used(notebook: Notebook, service: FakeService) -> None:  # noqa: F811
    notebook.run("%freeze --help")
    assert "--allow-secret PATH" in notebook.out
    for line in ("--tag v1", "--nonsense", "--name a:b --tag c", '--note "open'):
        assert isinstance(notebook.run(f"%freeze {line}"), InvalidError), line
    assert service.freezes == 0
    service.in_session = ""
    assert isinstance(notebook.run("%freeze"), slipway.MissingError)


REFUSED = {
    "code": "conflict",
    "message": "freeze s-1: nothing was frozen: 2 files hold secrets",
    "details": [{"path": "/opt/a; b.pem", "what": "a private key"}, {"path": "/opt/b", "line": 3, "what": "a token"}],
    "remedy": "delete it, or let it be published with slipway freeze --allow-secret PATH, which is recorded",
}


@pytest.mark.parametrize("cell", ["%freeze", "%%grid\npass"])
def test_secrets_are_shown_readably(notebook: Notebook, service: FakeService, cell: str) -> None:  # noqa: F811
    service.freeze_stream = [("error", {"error": REFUSED})]
    error = notebook.run(cell)
    assert isinstance(error, SecretsError)
    assert error._render_traceback_() == [
        "SecretsError: freeze s-1: nothing was frozen: 2 files hold secrets",
        '  "/opt/a; b.pem": a private key',
        "  /opt/b line 3: a token",
        f"Delete it, or let it be published with {cell.split()[0]} --allow-secret PATH, which is recorded.",
    ]
    assert service.jobs == {}


def test_other_conflicts_are_as_they_are(notebook: Notebook, service: FakeService) -> None:  # noqa: F811
    service.freeze_stream = [("error", {"error": {"code": "conflict", "message": "session s-1 is stopping"}})]
    error = notebook.run("%freeze")
    assert isinstance(error, slipway.ConflictError)
    assert not isinstance(error, SecretsError)


def test_grid_lets_a_secret_through_by_her_word(notebook: Notebook, service: FakeService) -> None:  # noqa: F811
    notebook.grid("--allow-secret /opt/t.key --allow-secret /opt/keys/", "pass")
    assert service.freeze_asked["allow_secret"] == ["/opt/t.key", "/opt/keys/"]


def test_freeze_options() -> None:
    assert parse_freeze("").allow_secret == ()
    assert parse_freeze("--name a --tag b # why").tag == "b"


# --- the home


def install(site: Path, name: str, version: str, top: str = "") -> None:
    """Put a package into a directory as pip does."""
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "RECORD").write_text(f"{top or name}.py,,\n")
    (site / f"{top or name}.py").write_text("x = 1\n")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in whose packages this Python looks."""
    site = tmp_path / "site-packages"
    monkeypatch.setattr("site.getusersitepackages", lambda: str(site))
    monkeypatch.syspath_prepend(str(site))
    return site


def test_packages_in_the_home(home: Path) -> None:
    assert home_packages() == []
    install(home, "slipwaytest_b", "2.0")
    install(home, "slipwaytest_a", "1.0", top="slipwaytest_module")
    (home / "broken-1.dist-info").mkdir()
    assert [p.name for p in home_packages()] == ["slipwaytest_a", "slipwaytest_b"]
    __import__("slipwaytest_b")
    try:
        assert home_packages()[0] == HomePackage("slipwaytest_b", "2.0", used=True)
        assert not home_packages()[1].used
    finally:
        del sys.modules["slipwaytest_b"]


def test_packages_that_the_environment_has_too(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is in the home alone, or in another version there, is missed without it."""
    environment = tmp_path / "environment"
    for name, version in (("slipwaytest_a", "1.0"), ("slipwaytest_b", "2.0"), ("slipwaytest_c", "3.0")):
        install(home, name, version)
    install(environment, "Slipwaytest_A", "1.0")
    install(environment, "slipwaytest_b", "2.1")
    monkeypatch.setattr(sys, "path", [*sys.path, str(environment)])
    found = home_packages()
    assert [(p.name, p.there) for p in found] == [("slipwaytest_b", "2.1"), ("slipwaytest_c", "")]
    assert "slipwaytest_b 2.0 (the environment has 2.1), slipwaytest_c 3.0; " in home_warning(found)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert [p.there for p in home_packages()] == ["", "", ""]  # a directory of the home is none of the environment's


def test_a_home_that_python_does_not_look_into(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(home, "slipwaytest_b", "2.0")
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(home)])
    assert home_packages() == []


def test_home_warning() -> None:
    assert home_warning([]) == ""
    many: list[Any] = [HomePackage(f"p{n}", "1", used=n == 0) for n in range(11)]
    words = home_warning(many)
    assert "p0 1 (imported here), p1 1" in words
    assert "p7 1 and 3 more" in words
    assert words.endswith("%pip install --no-user --ignore-installed p0 p1 p2 p3 p4 p5 p6 p7")


def test_the_home_is_told_of_once(notebook: Notebook, home: Path) -> None:  # noqa: F811
    install(home, "slipwaytest_b", "2.0")
    assert "would miss: slipwaytest_b 2.0; " in notebook.grid("", "pass")
    notebook.run("%freeze")
    assert "would miss" not in notebook.out
    install(home, "slipwaytest_c", "2.0")
    notebook.run("%freeze")
    assert "slipwaytest_c 2.0" in notebook.out
