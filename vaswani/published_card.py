"""A model card on its way to the Hub: is it complete, and does it fit its place there?

    card_problems     what a card lacks to be published
    card_gaps         what it says that nobody knows, which is no reason to keep it back
    card_for_hub      the card with its name on the Hub, its license and a seal
    is_sealed         whether a card is as it was sent, word for word

A card belongs to whoever wrote in it. Lines are replaced here only where they are still as the
template wrote them; everything else stays as it is.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

import yaml
from huggingface_hub import ModelCard
from huggingface_hub.repocard_data import model_index_to_eval_results

from vaswani.model_card import (
    LANGUAGE_CODE,
    LICENSES,
    NO_LICENSE,
    escape_markdown,
    license_metadata,
)

# Headings that a card must have, each as a word or words that its heading begins with.
SECTIONS = (
    "How to use",
    "Training data",
    "Settings",
    "Hardware",
    "Scores",
    "Limitations",
    "License",
    "Citation",
)
# What the template writes where nothing was known.
_UNFILLED = ("Not recorded.", "Not evaluated.")
# Sections where that is an answer: a folder that was averaged or made by hand has no such records.
_MAY_BE_UNKNOWN = ("Hardware", "Scores")
_NAME_LINE = re.compile(
    r"^name = (\".*\")  # the path of this folder, or its name on the Hub$", re.MULTILINE
)
_INDEX_NAME = re.compile(r"^model-index:\n- name: (.*)$", re.MULTILINE)
_SEAL = re.compile(r"\n<!-- card as sent by vaswani push: ([0-9a-f]{64}) -->\n\Z")
_TITLE = re.compile(r"^# .*$", re.MULTILINE)
_HEAD = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)


def card_problems(text: str) -> list[str]:
    """What keeps a card from being published, each in a few words; empty if nothing does."""
    try:
        card = ModelCard(text, ignore_metadata_errors=False)
    except (ValueError, TypeError, AttributeError, yaml.YAMLError) as error:
        return [f"its metadata cannot be read ({' '.join(str(error).split())[:200]})"]
    if not _HEAD.match(text):
        return ["it has no metadata between two lines ---"]
    sections = _sections(card.text)
    return [*_metadata_problems(card, sections), *_section_problems(sections)]


def _metadata_problems(card: ModelCard, sections: dict[str, str]) -> Iterator[str]:
    data: Any = card.data
    languages = [data.language] if isinstance(data.language, str) else data.language
    if not languages:
        yield "`language` of its metadata is missing"
    else:
        wrong = [str(code) for code in languages if not LANGUAGE_CODE.fullmatch(str(code))]
        if wrong:
            yield f"`language` of its metadata holds {', '.join(wrong)}, which is no code"
    if data.library_name != "transformers":
        yield f"`library_name` of its metadata is {data.library_name!r}, not transformers"
    if not data.license:
        if NO_LICENSE in sections.get("License", ""):
            yield "it states no license, which --license does"
    elif data.license != "other" and data.license not in LICENSES:
        yield f"`license` of its metadata is {data.license!r}, which the Hub does not know"
    elif data.license == "other" and not getattr(data, "license_name", None):
        yield "`license` of its metadata is other, without a `license_name`"
    index = data.to_dict().get("model-index")
    if index is not None:
        try:
            model_index_to_eval_results(index)
        except (KeyError, TypeError, ValueError) as error:
            yield f"`model-index` of its metadata is not valid ({error})"


def _section_problems(sections: dict[str, str]) -> Iterator[str]:
    for name in SECTIONS:
        text = sections.get(name)
        if text is None:
            yield f"it has no section {name}"
        elif not text.strip():
            yield f"its section {name} is empty"
        elif name not in _MAY_BE_UNKNOWN:
            yield from _unfilled(name, text)


def card_gaps(text: str) -> list[str]:
    """What a card says is not known, each in a few words."""
    sections = _sections(ModelCard(text, ignore_metadata_errors=True).text)
    return [gap for name in _MAY_BE_UNKNOWN for gap in _unfilled(name, sections.get(name, ""))]


def _unfilled(name: str, text: str) -> Iterator[str]:
    for unfilled in _UNFILLED:
        if unfilled in text.splitlines():
            yield f'its section {name} says "{unfilled}"'


def _sections(body: str) -> dict[str, str]:
    """The text below each heading of the second level that a card must have."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    in_code = False
    for line in body.splitlines():
        if line.startswith("```"):
            in_code = not in_code
        if line.startswith("## ") and not in_code:
            heading = line[3:].strip().lower()
            current = []
            for name in SECTIONS:
                if heading.startswith(name.lower()):
                    current = found.setdefault(name, [])
        else:
            current.append(line)
    return {name: "\n".join(lines) for name, lines in found.items()}


def card_for_hub(text: str, repo_id: str, *, license: str | None = None, note: str = "") -> str:
    """The card as it is sent: examples that name its place, the license, a seal at the end.

    Args:
        text: the card of the folder.
        repo_id: `user/name`.
        license: license to state, unless a card states one; `None` leaves it.
        note: a paragraph to put below the title.
    """
    text = unsealed(text.replace("\r\n", "\n"))
    text = _renamed(text, repo_id)
    if license is not None:
        text = _with_license(text, license)
    if note:
        text = _TITLE.sub(lambda title: f"{title[0]}\n\n{note}", text, count=1)
    text = text.rstrip("\n") + "\n"
    return f"{text}\n<!-- card as sent by vaswani push: {_digest(text)} -->\n"


def _renamed(text: str, repo_id: str) -> str:
    """The card under its name on the Hub, wherever the name of the folder still stands."""
    line = _NAME_LINE.search(text)
    if line is None:
        return text
    old, new = json.loads(line[1]), repo_id.rpartition("/")[2]
    text = text.replace(f"\n# {escape_markdown(old)}\n", f"\n# {escape_markdown(new)}\n", 1)
    index = _INDEX_NAME.search(text)
    if index is not None and yaml.safe_load(index[1]) == old:
        text = text[: index.start(1)] + json.dumps(new) + text[index.end(1) :]
    return _NAME_LINE.sub(lambda _: f"name = {json.dumps(repo_id)}", text)


def is_sealed(text: str) -> bool:
    """Whether a card on the Hub is still as `card_for_hub` made it."""
    text = text.replace("\r\n", "\n")
    seal = _SEAL.search(text)
    return seal is not None and seal[1] == _digest(unsealed(text))


def unsealed(text: str) -> str:
    """The card without the seal that it was sent with."""
    return _SEAL.sub("", text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.rstrip("\n").encode("utf-8", "surrogatepass")).hexdigest()


def _with_license(text: str, license: str) -> str:
    """The card with a license in its metadata, and in the sentence that said there was none."""
    entries = "".join(f"{key}: {json.dumps(x)}\n" for key, x in license_metadata(license).items())
    text = _HEAD.sub(lambda head: f"---\n{entries}{head[1]}\n---\n", text, count=1)
    return text.replace(NO_LICENSE, f"The weights are under {license}.").replace(
        f"The weights are under {license}. The terms of the training data may bind them.",
        f"The weights are under {license}.",
    )
