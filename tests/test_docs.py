"""What the documents show is what happens."""

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(autouse=True)
def _hidden_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRACEJIT_FULL_TRACEBACK", raising=False)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_sessions(name: str) -> None:
    # Fences would be taken for output.
    lines = (ROOT / name).read_text().splitlines()
    text = "\n".join("" if line.startswith("```") else line for line in lines)
    test = doctest.DocTestParser().get_doctest(text, {"__name__": "__main__"}, name, name, 0)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(test, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)
    assert bool(test.examples) == (">>> " in text)


def test_a_wrong_document_would_be_noticed() -> None:
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", "wrong", 0)
    assert doctest.DocTestRunner(verbose=False).run(test, out=[].append).failed == 1


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    document = ROOT / name
    targets = [part.partition(")")[0] for part in document.read_text().split("](")[1:]]
    assert [t for t in targets if "://" not in t and not (document.parent / t).exists()] == []


def test_the_picture_is_small() -> None:
    assert (ROOT / "docs" / "field_gradient.png").stat().st_size < 100_000
