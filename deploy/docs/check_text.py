"""Checks README.md, deploy/README.md and the book: links, length of the README, readability.

A link is right when its file is in the tree and its heading is in the file. Readability is measured on prose alone,
without code and tables, of the README and of each part of the book. When one is too hard to read, its worst sentences
are printed.
"""

import re
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parent
REPO = DOCS.parent.parent
README = REPO / "README.md"

MOST_LINES = 150
MEDIAN_WORDS = 18
GRADE = 9.0
WORST = 10

FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(`])|\n{2,}")


@dataclass(frozen=True)
class Sentence:
    """A sentence of prose, and where it stands."""

    path: Path
    text: str

    @property
    def words(self) -> list[str]:
        """The words of the sentence."""
        return re.findall(r"[A-Za-z0-9][A-Za-z0-9'_-]*", self.text)


def pages() -> list[Path]:
    """Return what is checked: the generated pages are made of the program's own words, and are not."""
    book = [path for path in sorted((DOCS / "book").rglob("*.md")) if "generated" not in path.parts]
    return [README, REPO / "deploy" / "README.md", *book]


def prose(text: str) -> str:
    """Return the text without blocks, tables and headings.

    The items of a list are paragraphs. A piece of code counts as one word.
    """
    text = FENCE.sub("\n", text)
    text = LINK.sub(r"\1", text)
    text = re.sub(r"`[^`]*`", "code", text)
    lines = ["" if line.startswith(("|", "#", "!")) else line for line in text.splitlines()]
    return re.sub(r"^\s*(?:[-*]|\d+\.) ", "\n\n", "\n".join(lines), flags=re.MULTILINE).replace("**", "")


def sentences(path: Path) -> list[Sentence]:
    """Return the sentences of a page."""
    parts = (" ".join(part.split()) for part in SENTENCE_END.split(prose(path.read_text())))
    found = [Sentence(path, part) for part in parts]
    return [sentence for sentence in found if len(sentence.words) > 2]


def syllables(word: str) -> int:
    """Return about how many syllables a word has: its groups of vowels, without a silent e at its end."""
    word = re.sub(r"[^a-z]", "", word.lower())
    groups = len(re.findall(r"[aeiouy]+", word))
    if word.endswith("e") and not word.endswith("le") and groups > 1:
        groups -= 1
    if word.endswith("ed") and not word.endswith(("ted", "ded")) and groups > 1:
        groups -= 1
    return max(groups, 1)


def grade(found: list[Sentence]) -> float:
    """Return the Flesch-Kincaid grade."""
    words = [word for sentence in found for word in sentence.words]
    return 0.39 * len(words) / len(found) + 11.8 * sum(map(syllables, words)) / len(words) - 15.59


def unreadable(name: str, found: list[Sentence]) -> list[str]:
    """Return what is wrong with how texts read, and prints their figures."""
    median, level = statistics.median(len(sentence.words) for sentence in found), grade(found)
    print(f"{name}: {len(found)} sentences, median {median:g} words, grade {level:.1f}")
    if median <= MEDIAN_WORDS and level <= GRADE:
        return []
    worst = sorted(found, key=lambda sentence: grade([sentence]), reverse=True)[:WORST]
    return [
        f"{name}: a median of at most {MEDIAN_WORDS} words and a grade of at most {GRADE:g} are wanted; the worst are",
        *(f"  {sentence.path.relative_to(REPO)}: {sentence.text}" for sentence in worst),
    ]


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MyST name them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken_links(path: Path) -> list[str]:
    """Return the links of a page that lead nowhere in the tree."""
    wrong = []
    for _, link in LINK.findall(FENCE.sub("", path.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists():
            wrong.append(f"{path.relative_to(REPO)}: {link}: there is no such file")
        elif anchor and anchor not in anchors(target):
            wrong.append(f"{path.relative_to(REPO)}: {link}: there is no such heading")
    return wrong


def main() -> None:
    """Check all of it."""
    wrong = [line for path in pages() for line in broken_links(path)]
    if (lines := len(README.read_text().splitlines())) > MOST_LINES:
        wrong.append(f"README.md has {lines} lines, at most {MOST_LINES} are wanted")
    wrong += unreadable("README.md", sentences(README))
    for part in ("use", "run", "reference", "develop"):
        found = [sentence for path in pages() if DOCS / "book" / part in path.parents for sentence in sentences(path)]
        wrong += unreadable(part, found)
    print("\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
