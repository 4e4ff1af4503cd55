"""Measures translations: BLEU, chrF, and the loss of the references under a model.

corpus_scores         BLEU and chrF of two lists, with sacreBLEU's signatures
tokenized_compound_split_bleu
                      BLEU as the paper reports it
TranslationMetric     the same as a metric of the library `evaluate`, without the network
decode_predictions    texts from the padded ids that a Trainer hands to `compute_metrics`
evaluate_translator   everything about a model on a test set
"""

import math
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vaswani.errors import InputError
from vaswani.tokenization_vaswani import target_side
from vaswani.translation import Translation, Translator

try:
    import datasets
    import sacrebleu
    from evaluate.info import MetricInfo
    from evaluate.module import Metric
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"`vaswani.evaluation` needs {error.name}. Install it with `pip install 'vaswani[train]'`.",
        name=error.name,
    ) from error

_IGNORED_LABEL = -100
_WITHOUT_SPACES = frozenset(("zh", "yue", "wuu", "ja", "th", "lo", "km", "my", "bo", "dz"))


def corpus_scores(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    *,
    paper_bleu: str | None = None,
) -> dict[str, Any]:
    """Scores a corpus with sacreBLEU's defaults.

    Source: Post (2018), BLEU on detokenized text with the tokenizer 13a; Popović (2015), chrF2.
    The paper's BLEU is another one, see `tokenized_compound_split_bleu`.

    Args:
        hypotheses: translations, one a sentence.
        references: as many references, or as many lists with one length of references each.
        paper_bleu: code of the target language, to add `tokenized_compound_split_bleu`.

    Returns:
        `bleu` and `chrf` from 0 to 100, `bleu_signature` and `chrf_signature`, `length_ratio`
        (tokens of hypotheses / tokens of references) and `sentences`, their number.

    Raises:
        InputError: if the numbers differ or are 0, or the language has no words to count.
    """
    streams = _reference_streams(hypotheses, references)
    bleu, chrf = sacrebleu.BLEU(), sacrebleu.CHRF()
    bleu_score = bleu.corpus_score(hypotheses, streams)
    chrf_score = chrf.corpus_score(hypotheses, streams)
    scores = {
        "bleu": bleu_score.score,
        "chrf": chrf_score.score,
        "bleu_signature": str(bleu.get_signature()),
        "chrf_signature": str(chrf.get_signature()),
        "length_ratio": bleu_score.sys_len / bleu_score.ref_len if bleu_score.ref_len else 0.0,
        "sentences": len(hypotheses),
    }
    if paper_bleu is not None:
        scores |= tokenized_compound_split_bleu(hypotheses, references, paper_bleu)
    return scores


def _reference_streams(
    hypotheses: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]]
) -> list[list[str]]:
    """The references as sacreBLEU wants them: first ones, second ones, ..."""
    if len(hypotheses) != len(references):
        raise InputError(
            "`hypotheses` and `references` must have the same number of sentences, "
            f"got {len(hypotheses)} and {len(references)}."
        )
    if not hypotheses:
        raise InputError("`hypotheses` must hold at least one sentence, got none.")
    alike = [[reference] if isinstance(reference, str) else reference for reference in references]
    counts = {len(several) for several in alike}
    if len(counts) > 1 or 0 in counts:
        raise InputError(
            "`references` must have as many references for each sentence, "
            f"got between {min(counts)} and {max(counts)}."
        )
    return [list(stream) for stream in zip(*alike, strict=True)]


def tokenized_compound_split_bleu(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    language: str,
) -> dict[str, Any]:
    """Scores a corpus as the paper does: BLEU of tokenized text with hyphenated compounds split.

    Source: Section 6.1 and the authors' script get_ende_bleu.sh. Each text is tokenized as the
    Moses tokenizer does it for the language; a hyphen between two characters becomes
    " ##AT##-##AT## "; then case-sensitive BLEU of up to four tokens, without smoothing, over the
    whole corpus, as multi-bleu.perl computes it.

    Departs from the paper: references are tokenized here too. The script reads ones that are
    tokenized already.

    Args:
        hypotheses, references: as of `corpus_scores`, plain text.
        language: code of their language, such as "de"; it decides about abbreviations and
            apostrophes.

    Returns:
        `paper_bleu` from 0 to 100 and `paper_bleu_signature`.

    Raises:
        InputError: as `corpus_scores`.
        ModuleNotFoundError: if sacremoses is missing.
    """
    code = check_spaced_language(language)
    streams = _reference_streams(hypotheses, references)
    try:
        import sacremoses
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "`paper_bleu` needs sacremoses. Install it with `pip install 'vaswani[train]'`.",
            name=error.name,
        ) from error
    tokenizer = sacremoses.MosesTokenizer(lang=code)

    def prepared(texts: Sequence[str]) -> list[str]:
        return [split_compounds(tokenizer.tokenize(text, return_str=True)) for text in texts]

    # Forced: sacreBLEU would warn that the text is tokenized.
    bleu = sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True)
    score = bleu.corpus_score(prepared(hypotheses), [prepared(stream) for stream in streams])
    signature = str(bleu.get_signature()).replace("tok:none", f"tok:moses-{code}+compound-split")
    return {
        "paper_bleu": score.score,
        "paper_bleu_signature": f"{signature}|sacremoses:{sacremoses.__version__}",
    }


def check_spaced_language(language: str) -> str:
    """Returns the two or three letters of a language that writes spaces between its words.

    Raises:
        InputError: if it writes none, so that a sentence would count as a single word.
    """
    code = language.replace("_", "-").partition("-")[0].lower()
    if code in _WITHOUT_SPACES:
        raise InputError(
            "`paper_bleu` must be left out for languages without spaces between words, "
            f"got {language!r}. Use chrF, which counts characters."
        )
    return code


def split_compounds(text: str) -> str:
    """Returns tokenized text with its compounds split at hyphens, as papers of 2016 to 2018 do it.

    Source: get_ende_bleu.sh, which takes pairs of characters from the left: in "a-b-c" the second
    hyphen stays, because its left neighbor belongs to the first.
    """
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", text)


class TranslationMetric(Metric):
    """`corpus_scores` as a metric of `evaluate`: `add_batch`, `compute`, several processes.

    `evaluate.load("sacrebleu")` fetches code from the Hub; this class needs no network.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # One process needs no files to exchange, so none are written.
        kwargs.setdefault("keep_in_memory", kwargs.get("num_process", 1) == 1)
        super().__init__(*args, **kwargs)

    def _info(self) -> MetricInfo:
        text = datasets.Value("string")
        return MetricInfo(
            description="BLEU and chrF by sacreBLEU.",
            citation="Post (2018), A Call for Clarity in Reporting BLEU Scores.",
            inputs_description="predictions: texts; references: texts, or lists of texts.",
            features=[
                datasets.Features({"predictions": text, "references": text}),
                datasets.Features({"predictions": text, "references": datasets.List(text)}),
            ],
        )

    def _compute(self, predictions: list[str], references: list[Any]) -> dict[str, Any]:
        return corpus_scores(predictions, references)


def decode_predictions(tokenizer: Any, ids: Any) -> list[str]:
    """Texts of generated ids or labels as `compute_metrics` of a Trainer gets them.

    -100, which pads labels and gathered predictions, becomes padding; as an id it would stop most
    tokenizers with an overflow.

    Args:
        tokenizer: any; of one with separate vocabularies the target side is used.
        ids: `(B, T)` int64 as array, tensor or lists, or a tuple that begins with them.
    """
    if isinstance(ids, tuple):
        ids = ids[0]
    rows = [np.asarray(row) for row in ids]
    tokenizer = target_side(tokenizer)
    replaced = [np.where(row == _IGNORED_LABEL, tokenizer.pad_token_id, row) for row in rows]
    return tokenizer.batch_decode([row.tolist() for row in replaced], skip_special_tokens=True)


def evaluate_translator(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    paper_bleu: str | None = None,
    progress: bool | Callable[[int], object] = False,
    **search: Any,
) -> tuple[dict[str, Any], list[Translation]]:
    """Everything measured about a model on a test set, and its translations.

    Args:
        translator: the model.
        sources: source texts.
        references: their reference translations.
        paper_bleu: as of `corpus_scores`.
        progress: as of `Translator.translate`.
        search: further arguments of `Translator.translate`.

    Returns:
        The dictionary of `corpus_scores` with `loss` (plain negative log-likelihood in nats per
        reference token, end tokens included, no label smoothing), `perplexity` (its exponential),
        `truncated` (translations cut short), `seconds` of the search and `tokens_per_second`
        (generated tokens); and the translations in order.

    Raises:
        InputError: if the numbers of texts differ or are 0.
    """
    if len(sources) != len(references):
        raise InputError(
            "`sources` and `references` must have the same number of texts, "
            f"got {len(sources)} and {len(references)}."
        )
    if not sources:
        raise InputError("`sources` must hold at least one text, got none.")
    # First, since a text that is too long for the model must not be found out after the search.
    likelihoods = translator.score(sources, references)
    start = time.perf_counter()
    translations = translator.translate(sources, progress=progress, **search)
    seconds = time.perf_counter() - start
    scores = corpus_scores(
        [translation.text for translation in translations], references, paper_bleu=paper_bleu
    )
    loss = -sum(s.log_probability for s in likelihoods) / sum(s.tokens for s in likelihoods)
    scores |= {
        "loss": loss,
        "perplexity": math.exp(min(loss, 700.0)),
        "truncated": sum(translation.truncated for translation in translations),
        "seconds": seconds,
        "tokens_per_second": sum(translation.tokens for translation in translations) / seconds,
    }
    return scores, translations
