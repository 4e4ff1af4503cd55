"""The model card: README.md of a model folder, from the template `model_card.md`.

    write_model_card      writes it from what a run knows
    escape_markdown       any value as text that Markdown shows as it is
    license_metadata      a license as the Hub's metadata names it
    stated_license        the license that a card states

`published_card` checks a card and fits it to its place on the Hub.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData

CARD = "README.md"
BLOCK_START = re.compile(r"([-+#]+|\d+[.)])( |$)|-{3}")
# What the Hub takes as a language in a card's metadata.
LANGUAGE_CODE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
# The percentages that `evaluation.corpus_scores` gives, with the names that people know.
METRICS = {"bleu": "BLEU", "chrf": "chrF"}
# Other scores by name, where the card shows a longer one.
SCORE_LABELS = METRICS | {
    "bleu_signature": "BLEU signature",
    "chrf_signature": "chrF signature",
    "paper_bleu": "BLEU as the paper reports it (tokenized, compounds split)",
    "paper_bleu_signature": "signature of the paper's BLEU",
    "loss": "loss, in nats a token",
    "length_ratio": "length of translations / references",
    "truncated": "translations cut off",
    "num_beams": "beam size",
    "averaged_checkpoints": "checkpoints averaged",
    "best_checkpoint_update": "best single checkpoint, in updates",
    "best_checkpoint_loss": "loss of the best single checkpoint, in nats a token",
}
# Licenses that the Hub's metadata has a name for, as far as they suit weights; it calls any other
# one `other`, with the name beside it.
_LICENSES = (
    "agpl-3.0 apache-2.0 bigscience-openrail-m bsd-2-clause bsd-3-clause cc cc-by-2.0 cc-by-3.0 "
    "cc-by-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 "
    "cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc0-1.0 eupl-1.1 "
    "eupl-1.2 gfdl gpl gpl-2.0 gpl-3.0 isc lgpl lgpl-2.1 lgpl-3.0 mit mpl-2.0 odbl odc-by openrail "
    "osl-3.0 pddl unlicense"
)
LICENSES = frozenset(_LICENSES.split())
# In the card of a model for whose weights nobody has chosen a license.
NO_LICENSE = "No license has been stated for the weights."
HUB_DATASET = re.compile(r"[\w.-]+/[\w.-]+(:[^:]*){0,2}")


def write_model_card(
    folder: str | Path,
    *,
    data: Mapping[str, object],
    settings: Mapping[str, object],
    scores: Mapping[str, object],
    source: str | None = None,
    target: str | None = None,
    name: str | None = None,
    compute: Mapping[str, object] | None = None,
    test_scores: Mapping[str, object] | None = None,
    corpora: tuple[str | None, str | None] = (None, None),
    license: str | None = None,
    base_model: str | None = None,
    datasets: Sequence[str] = (),
    limitations: Sequence[str] = (),
) -> Path:
    """Writes README.md into the folder and returns its path.

    Args:
        folder: a model folder; its config.json says whether it carries its own pipeline.
        data: what the model was trained on, shown as a table in this order; for example the
            files, the number of pairs, the license of the text.
        settings: how it was trained, shown as a table in this order.
        scores: `bleu` and `chrf` in percent go into the metadata too, each with its signature if
            `bleu_signature`, `chrf_signature` are there. Any other entry is shown only.
        source: language code of the source, for example `en`; `data["source"]` by default.
        target: language code of the target; `data["target"]` by default.
        name: title of the card; the folder's name by default.
        compute: where it was trained and what that took, shown as a table in this order.
        test_scores: scores of other pairs, which nothing was chosen by, in the form of `scores`.
        corpora: what the pairs of `scores` and of `test_scores` are called.
        license: identifier of the license of the weights, for example `cc-by-4.0`. Left out by
            default: nobody but their owner can choose one.
        base_model: name on the Hub of the model that training went on from.
        datasets: names of data sets on the Hub that the model was trained on.
        limitations: sentences to add to the general ones.

    Raises:
        FileNotFoundError: if the folder does not exist.
        ImportError: if jinja2 is not installed.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"`folder` must be an existing model folder, got {folder}.")
    languages = [source or data.get("source"), target or data.get("target")]
    measured = [
        (split, corpus, found)
        for split, corpus, found in (
            ("validation", corpora[0] or str(data.get("name") or "held-out pairs"), scores),
            ("test", corpora[1] or "test pairs", test_scores),
        )
        if found
    ]
    text = _render(
        folder,
        # YAML reads this line break, which no title needs, as a space.
        title=(name or folder.resolve().name).replace("\x85", " "),
        languages=[str(language) for language in languages if language],
        data=data,
        settings=settings,
        compute=compute or {},
        measured=measured,
        license=license,
        base_model=base_model,
        datasets=datasets,
        limitations=limitations,
    )
    path = folder / CARD
    # A file name from the system may hold bytes that are no text.
    path.write_text(text, encoding="utf-8", errors="backslashreplace")
    return path


def license_metadata(license: str) -> dict[str, str]:
    """The entries of the card's metadata that name a license."""
    # The name must be one word of these characters. People write "Apache 2.0" and "MIT License".
    name = re.sub(r"[^a-z0-9.-]+", "-", license.lower()).strip("-")
    for known in (license.lower(), name, name.removesuffix("-license")):
        if known in LICENSES:
            return {"license": known}
    return {"license": "other", "license_name": name or "other"}


def stated_license(text: str) -> str | None:
    """The license in a card's metadata, if any."""
    data: Any = ModelCard(text, ignore_metadata_errors=True).data
    return getattr(data, "license_name", None) or data.license


def _metadata(values: Mapping[str, Any]) -> ModelCardData:
    """The card's head, which the Hub reads."""
    codes = [code for code in values["languages"] if LANGUAGE_CODE.fullmatch(code)]
    license: dict[str, Any] = license_metadata(values["license"]) if values["license"] else {}
    return ModelCardData(
        language=codes or None,
        library_name="transformers",
        # A folder with this tag and no pipeline of its own cannot be loaded by `pipeline()`.
        pipeline_tag="translation" if values["has_pipeline"] else None,
        tags=["translation", "vaswani", "custom_code"],
        datasets=list(values["datasets"]) or None,
        base_model=values["base_model"],
        model_name=values["title"],
        eval_results=_eval_results(values["measured"], values["languages"]) or None,
        **license,
    )


def _read_json(path: Path) -> dict[str, Any]:
    """The object in the file; an empty one where `check_self_contained` will complain."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _search_in_words(settings: Mapping[str, Any]) -> str:
    """How the model searches unless told otherwise; "" where its settings do not say."""
    beams, alpha = settings.get("num_beams"), settings.get("length_penalty")
    if beams == 1:
        return "`generate` takes the most probable token at each step"
    if not isinstance(beams, int) or not isinstance(alpha, int | float):
        return ""
    kind = "the GNMT" if settings.get("length_penalty_type", "gnmt") == "gnmt" else "a power as"
    limit = settings.get("max_length_b")
    words = f"`generate` searches with beam {beams} and {kind} length penalty of {alpha:g}"
    if settings.get("max_length_a") == 1 and isinstance(limit, int):
        words += f", and writes at most {limit} tokens more than the source has"
    return words


def _eval_results(
    measured: Sequence[tuple[str, str, Mapping[str, object]]], languages: Sequence[str]
) -> list[EvalResult]:
    """The card's machine-readable scores."""
    results = []
    for split, corpus, scores in measured:
        name, configuration, own_split = (*corpus.split(":"), None, None)[:3]
        on_hub = HUB_DATASET.fullmatch(corpus) is not None
        for key, label in METRICS.items():
            value = scores.get(key)
            if not isinstance(value, int | float):
                continue
            signature = scores.get(f"{key}_signature")
            results.append(
                EvalResult(
                    task_type="translation",
                    task_name=f"Translation {' to '.join(languages)}".rstrip(),
                    dataset_type=str(name) if on_hub else _slug(corpus),
                    dataset_name=corpus,
                    dataset_config=(configuration or None) if on_hub else None,
                    dataset_split=(own_split or split) if on_hub else split,
                    metric_type=key,
                    metric_name=label,
                    metric_value=round(float(value), 4),
                    metric_args={"signature": str(signature)} if signature else None,
                )
            )
    return results


def _slug(corpus: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", corpus).strip("-") or "held-out"


def _render(folder: Path, **values: Any) -> str:
    """The text of the card; every value in its body passes a filter of the template.

    Not by `ModelCard.from_template`, which takes no filters and leaves a misspelt name empty.
    """
    try:
        import jinja2
    except ImportError as error:
        raise ImportError(
            "`jinja2` must be installed to write a model card. Run: pip install 'vaswani[train]'"
        ) from error
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["markdown"] = escape_markdown
    template = environment.from_string(_template_path().read_text(encoding="utf-8"))
    values["has_pipeline"] = "translation" in (
        _read_json(folder / "config.json").get("custom_pipelines") or {}
    )
    values["search"] = _search_in_words(_read_json(folder / "generation_config.json"))
    metadata = _metadata(values).to_yaml()
    scores = {
        f"{split.capitalize()} data: {corpus}": {
            SCORE_LABELS.get(name, name): value for name, value in found.items()
        }
        for split, corpus, found in values.pop("measured")
    }
    text = template.render(card_data=metadata, scores=scores, **values)
    # Reading it back checks that the metadata block is one that the Hub can parse.
    return str(ModelCard(text.rstrip() + "\n"))


def _template_path() -> Path:
    """The template beside this module in a wheel, at the top of the project in a checkout."""
    here = Path(__file__).resolve().parent
    beside = here / "model_card.md"
    return beside if beside.is_file() else here.parent / "model_card.md"


def escape_markdown(value: object) -> str:
    """The value as one line of text that Markdown shows as it is, in a table cell too."""
    if isinstance(value, float):
        text = f"{value:.6g}"
    elif isinstance(value, Sequence) and not isinstance(value, str):
        text = ", ".join(str(one) for one in value)
    else:
        text = str(value)
    # Every kind of line break and tab would end a table row or start a block.
    text = re.sub(r"([\\`*_\[\]<>|~$&])", r"\\\1", " ".join(text.split()))
    # At the start of a line these would open a list or a heading.
    return re.sub(r"^(\d*)([-+#.)])", r"\1\\\2", text) if re.match(BLOCK_START, text) else text
