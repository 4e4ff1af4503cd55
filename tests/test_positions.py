"""Learned positions and their end, and the two layouts of sinusoids.

Values and gradients of whole models are in test_modeling_reference.py.
"""

from pathlib import Path
from typing import Any

import pytest
import reference
import torch
from tiny_model import decisive_model, endless_model, padded, sentences, tiny_config, tiny_model

from vaswani import VaswaniForConditionalGeneration
from vaswani.cli import main
from vaswani.errors import InputError
from vaswani.modeling_vaswani import VaswaniPositionalEncoding
from vaswani.translation import Translator

ROWS = 16
LEARNED: dict[str, Any] = {"position_encoding": "learned", "max_position_embeddings": ROWS}


def too_long(name: str, tokens: int) -> str:
    """What every refusal says: the argument, the field, both numbers."""
    return rf"`{name}` must have at most `max_position_embeddings` = {ROWS} tokens.* got {tokens}\b"


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
@pytest.mark.parametrize("d_model", [1, 2, 32, 33])
def test_layouts_are_those_of_the_reference(layout: str, d_model: int) -> None:
    encoding = VaswaniPositionalEncoding(d_model, layout)
    expected = torch.stack([reference.sinusoid(p, d_model, layout) for p in range(300)])
    got = encoding(torch.arange(300), torch.float64)
    torch.testing.assert_close(got, expected, atol=1e-10, rtol=0.0)


def test_halves_are_the_same_features_in_another_order() -> None:
    positions = torch.arange(50)
    interleaved = VaswaniPositionalEncoding(10)(positions, torch.float64)
    halves = VaswaniPositionalEncoding(10, "halves")(positions, torch.float64)
    assert torch.equal(halves, torch.cat([interleaved[:, ::2], interleaved[:, 1::2]], dim=1))


def test_each_stack_has_a_table_of_its_own_in_the_checkpoint(tmp_path: Path) -> None:
    model = tiny_model(**LEARNED)
    names = [name for name in model.state_dict() if "position" in name]
    assert names == ["model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"]
    assert all(model.state_dict()[name].shape == (ROWS, 32) for name in names)
    model.save_pretrained(tmp_path)
    loaded = VaswaniForConditionalGeneration.from_pretrained(tmp_path)
    for name in names:
        assert torch.equal(loaded.state_dict()[name], model.state_dict()[name])


def test_learned_positions_start_as_strong_as_sinusoids() -> None:
    torch.manual_seed(0)
    config = tiny_config(position_encoding="learned", max_position_embeddings=1024)
    table = VaswaniForConditionalGeneration(config).model.encoder.embed_positions.weight
    sinusoids = torch.stack([reference.sinusoid(p, 32) for p in range(1024)])
    # 32,768 numbers: the standard error of their mean square is below 1 %.
    expected = sinusoids.square().mean().item()
    assert table.square().mean().item() == pytest.approx(expected, rel=0.05)
    assert abs(table.mean().item()) < 0.02


def test_only_positions_in_use_learn() -> None:
    """Rows beyond the longest sentence get no gradient, however wide the batch is."""
    model = tiny_model(**LEARNED).train()
    input_ids, mask = padded(sentences(40, [7, 3]), extra=4)
    labels, _ = padded(sentences(40, [5, 6], seed=1), pad=-100)
    model(input_ids=input_ids, attention_mask=mask, labels=labels).loss.backward()
    used = {"encoder": 7, "decoder": 6}
    for stack, count in used.items():
        gradient = getattr(model.model, stack).embed_positions.weight.grad
        assert gradient[:count].abs().amax(dim=1).min() > 0
        assert not gradient[count:].any()


@pytest.mark.parametrize("tokens", [17, 64, 5000])
def test_a_source_beyond_the_table_is_refused(tokens: int) -> None:
    """Trial 5: by number and name, in forward and in `generate`, with and without a mask."""
    model = tiny_model(**LEARNED)
    input_ids, mask = padded(sentences(40, [tokens, 5]))
    decoder_ids = torch.tensor([[1, 5], [1, 6]])
    rule = too_long("input_ids", tokens)
    for masks in ({"attention_mask": mask}, {}, {"source_lengths": mask.sum(-1)}):
        with pytest.raises(ValueError, match=rule):
            model(input_ids=input_ids, decoder_input_ids=decoder_ids, **masks)
        with pytest.raises(ValueError, match=rule):
            model.generate(input_ids, **masks)


@pytest.mark.parametrize("tokens", [17, 64, 5000])
def test_a_target_beyond_the_table_is_refused(tokens: int) -> None:
    model = tiny_model(**LEARNED)
    input_ids, mask = padded(sentences(40, [5]))
    (target,) = sentences(40, [tokens], seed=1)
    target[0] = model.config.decoder_start_token_id
    rule = too_long("decoder_input_ids", tokens)
    with pytest.raises(ValueError, match=rule):
        model(input_ids=input_ids, decoder_input_ids=torch.tensor([target]))
    with pytest.raises(ValueError, match=rule):
        model(input_ids=input_ids, labels=torch.tensor([target]))
    with pytest.raises(ValueError, match=rule):
        model.generate(input_ids, attention_mask=mask, decoder_input_ids=torch.tensor([target]))


def test_a_cached_step_beyond_the_table_is_refused() -> None:
    model = tiny_model(**LEARNED)
    input_ids, mask = padded(sentences(40, [5]))
    (target,) = sentences(40, [ROWS], seed=1)
    batch = {"input_ids": input_ids, "attention_mask": mask, "use_cache": True}
    cache = model(**batch, decoder_input_ids=torch.tensor([target])).cache
    with pytest.raises(ValueError, match=too_long("decoder_input_ids", ROWS + 1)):
        model(**batch, decoder_input_ids=torch.tensor([[5]]), cache=cache)


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_padding_beyond_the_table_is_no_token(left: bool) -> None:
    """The table's last row is in use, and padding changes nothing however wide it is."""
    model = tiny_model(**LEARNED).double()
    rows = sentences(40, [ROWS, 9])
    decoder_ids = torch.tensor([[1, 5], [1, 6]])
    with torch.no_grad():
        logits = []
        for extra in (0, 30):
            input_ids, mask = padded(rows, extra=extra, left=left)
            batch = {"input_ids": input_ids, "attention_mask": mask}
            logits.append(model(**batch, decoder_input_ids=decoder_ids).logits)
    torch.testing.assert_close(logits[1], logits[0], atol=1e-12, rtol=0.0)


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("settings", [{}, LEARNED], ids=["sinusoids", "learned"])
def test_padding_gets_no_position_vector(settings: dict[str, Any], left: bool) -> None:
    """What a stack begins with is the embedding alone there, and more elsewhere."""
    model = tiny_model(**settings)
    input_ids, mask = padded(sentences(40, [7, 4]), extra=2, left=left)
    with torch.no_grad():
        begun = model.model.encoder(
            input_ids=input_ids, attention_mask=mask, output_hidden_states=True
        ).hidden_states[0]
        alone = model.get_input_embeddings()(input_ids) * 32**0.5
    is_padding = mask == 0
    assert torch.equal(begun[is_padding], alone[is_padding])
    assert ((begun - alone)[~is_padding].abs().amax(dim=-1) > 0.1).all()


def test_compiling_leaves_the_check_of_positions_out() -> None:
    """It depends on data. Within the table the graph has no break; beyond, nothing is made up."""
    torch.compiler.reset()
    model = tiny_model(**LEARNED)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    decoder_ids = torch.tensor([[1, 5], [1, 6]])
    for lengths, extra in (([ROWS, 5], 0), ([ROWS, 5], 9)):
        input_ids, mask = padded(sentences(40, lengths), extra=extra)
        batch = {"input_ids": input_ids, "attention_mask": mask, "decoder_input_ids": decoder_ids}
        with torch.no_grad():
            got, expected = compiled(**batch, use_cache=False), model(**batch, use_cache=False)
        torch.testing.assert_close(got.logits, expected.logits)
    input_ids, mask = padded(sentences(40, [ROWS + 1, 5]))
    with pytest.raises((IndexError, RuntimeError), match="index out of range"), torch.no_grad():
        compiled(input_ids=input_ids, attention_mask=mask, decoder_input_ids=decoder_ids)


@pytest.mark.parametrize("options", [{}, {"max_new_tokens": 500}, {"max_length": 300}], ids=str)
@pytest.mark.parametrize(
    "search",
    [
        {"num_beams": 1},
        {"num_beams": 3},
        {"num_beams": 1, "do_sample": True},
        {"num_beams": 3, "cache_implementation": "static"},
    ],
    ids=str,
)
def test_an_output_ends_at_the_table(options: dict, search: dict) -> None:
    """Source + 50 tokens would need more positions: the decoder reads the start and 15 tokens."""
    model = endless_model(**LEARNED)
    input_ids, mask = padded(sentences(9, [5, 3]))
    output = model.generate(input_ids, attention_mask=mask, **search, **options)
    assert output.shape == (2, 1 + ROWS)
    # A beginning of the whole table leaves room for the token that is not read any more.
    (beginning,) = sentences(9, [ROWS], seed=1, end=None)
    beginning[0] = model.config.decoder_start_token_id
    output = model.generate(
        input_ids[:1], decoder_input_ids=torch.tensor([beginning]), **search, **options
    )
    assert output.shape == (1, ROWS + 1)


def test_a_smaller_limit_than_the_table_still_wins() -> None:
    model = endless_model(**LEARNED)
    input_ids, mask = padded(sentences(9, [5]))
    assert model.generate(input_ids, attention_mask=mask, max_new_tokens=4).shape == (1, 5)
    assert model.generate(input_ids, attention_mask=mask, max_length_b=2).shape == (1, 1 + 5 + 2)


@pytest.mark.parametrize("num_beams", [1, 3])
def test_search_with_learned_positions_is_that_of_the_reference(num_beams: int) -> None:
    model = decisive_model(**LEARNED)
    settings = {name: getattr(model.config, name) for name in reference.PAPER}
    weights = {name: weight.detach() for name, weight in model.state_dict().items()}
    for source in sentences(9, [5, 3, 8]):
        step = reference.Continuations(weights, settings, source)
        best, _ = reference.beam_search(step, 6, num_beams=num_beams)[0]
        output = model.generate(torch.tensor([source]), num_beams=num_beams, max_new_tokens=6)
        tokens = output[0, 1:].tolist()
        assert tokens[: len(best)] == best
        assert not any(tokens[len(best) :])


@pytest.fixture
def folder(tiny_config: Any, tiny_tokenizer: Any, tmp_path: Path) -> Path:
    """A saved model with a table of 16 rows that never ends a sentence by itself."""
    for name, value in LEARNED.items():
        setattr(tiny_config, name, value)
    tiny_config.output_bias = True
    torch.manual_seed(0)
    model = VaswaniForConditionalGeneration(tiny_config)
    with torch.no_grad():
        model.lm_head.bias[tiny_config.eos_token_id] -= 1e4
    model.save_pretrained(tmp_path / "learned")
    tiny_tokenizer.save_pretrained(tmp_path / "learned")
    return tmp_path / "learned"


LONG = "The baker sees the child. " * 20


@pytest.mark.parametrize("num_beams", [1, 4])
@pytest.mark.parametrize("long_lines", ["split", "truncate"])
def test_translator_reads_no_further_than_the_table(
    folder: Path, num_beams: int, long_lines: str
) -> None:
    """Trial 5: the long source is split or cut as asked, and later texts are translated."""
    translator = Translator.from_pretrained(folder, device="cpu")
    found = translator.translate(
        ["Kind", LONG, "The child."], num_beams=num_beams, long_lines=long_lines
    )
    assert [f.truncated for f in found] == [True] * 3  # the model never ends
    assert found[0].tokens == found[2].tokens == ROWS
    assert found[1].tokens == (ROWS if long_lines == "truncate" else 20 * ROWS)
    assert found[1].long_source == {"split": "sentences", "truncate": "cut"}[long_lines]


def test_translator_refuses_what_has_no_position(folder: Path) -> None:
    translator = Translator.from_pretrained(folder, device="cpu")
    with pytest.raises(
        InputError,
        match=r"`max_source_tokens` must be at most `max_position_embeddings` = 16, .* got 17\.",
    ):
        translator.translate(["Kind"], max_source_tokens=17)
    tokens = len(translator.tokenizer(LONG.strip())["input_ids"])
    with pytest.raises(InputError, match=too_long("sources", tokens) + " in number 2"):
        translator.score(["Kind", LONG], ["Kind", "Kind"])
    with pytest.raises(InputError, match=too_long("targets", tokens) + " in number 1"):
        translator.score(["Kind", "Kind"], [LONG, "Kind"])


def test_command_line_translates_the_lines_after_a_long_one(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    given, written = tmp_path / "given.txt", tmp_path / "written.txt"
    given.write_text(f"Kind\n{LONG}\nThe child.\n", encoding="utf-8")
    command = ["translate", "--model", str(folder), "--input", str(given), "--output", str(written)]
    assert main([*command, "--device", "cpu", "--num-beams", "1"]) == 0
    assert len(written.read_text(encoding="utf-8").splitlines()) == 3
    assert "(0 blank, 3 truncated)" in capsys.readouterr().err
    assert main([*command, "--device", "cpu", "--max-source-tokens", "64"]) == 2
    message = capsys.readouterr().err
    assert "`max_position_embeddings` = 16" in message and "got 64" in message
    assert "Traceback" not in message
