"""Claims about `vaswani.text_records`."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaswani.errors import InputError
from vaswani.text_records import TextRecords

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(st.text(), VALUES, max_size=5), st.text(), st.text(), st.booleans())
def test_other_fields_pass_through_unchanged_and_in_order(
    fields, text, translation, escaped
) -> None:
    fields = {k: v for k, v in fields.items() if k not in ("text", "translation")}
    fields["text"] = text
    line = json.dumps(fields, ensure_ascii=escaped)
    records = TextRecords("jsonl")
    record = records.read(line, "x", 1)
    assert record.text == text
    written = records.write(record, translation)
    assert list(json.loads(written).items()) == [*fields.items(), ("translation", translation)]
    assert len(written.splitlines()) == 1


def test_half_a_surrogate_pair_in_another_field_is_kept() -> None:
    line = '{"text": "a", "other": "\\ud800"}'
    records = TextRecords("jsonl")
    written = records.write(records.read(line, "x", 1), "ä")
    assert written.encode("utf-8") and json.loads(written)["other"] == "\ud800"


def test_translation_form_of_hugging_face_gains_a_language() -> None:
    records = TextRecords("jsonl", "translation.en", "translation.de")
    record = records.read('{"id": 1, "translation": {"en": "a", "note": 2}, "z": 3}', "x", 1)
    assert record.text == "a"
    assert records.write(record, "b") == (
        '{"id": 1, "translation": {"en": "a", "note": 2, "de": "b"}, "z": 3}'
    )
    # What was read is not changed.
    assert record.fields == {"id": 1, "translation": {"en": "a", "note": 2}, "z": 3}


def test_field_whose_name_has_a_dot_is_found() -> None:
    records = TextRecords("jsonl", "a.b")
    assert records.read('{"a.b": "x", "a": {"b": "y"}}', "x", 1).text == "x"
    assert records.read('{"a": {"b": "y"}}', "x", 1).text == "y"


BAD = [
    ('{"text": "cut o', "must be one JSON object"),
    ("[]", "must be one JSON object"),
    ('"text"', "must be one JSON object"),
    ("[" * 100_000, "must be one JSON object"),
    ("1" * 10_000, "must be one JSON object"),
    ('{"txt": "a"}', "must be the field 'text', got none"),
    ('{"text": null}', "must be a string, got null"),
    ('{"text": ["a"]}', "must be a string, got list"),
    ('{"text": "\\udc00"}', "must be valid Unicode"),
    ('{"text": "a", "text": "b"}', "each field must be there once"),
    ('{"text": "a", "n": 1e999}', "numbers must fit 64 bits"),
    ('{"text": "a", "translation": null}', "must not exist yet"),
]


@pytest.mark.parametrize(("line", "message"), BAD)
def test_bad_record_is_named_or_written_with_its_error(line, message) -> None:
    with pytest.raises(InputError, match=f"x, line 7: .*{message}"):
        TextRecords("jsonl").read(line, "x", 7)
    records = TextRecords("jsonl", bad_lines="skip")
    record = records.read(line, "x", 7)
    assert record.text == ""
    written = json.loads(records.write(record, ""))
    assert message in written.pop("error")
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        fields = None
    # Nothing of the line is lost: its fields, or the line itself.
    assert written in (fields, {"line": line})


def test_error_field_of_a_bad_record_is_not_overwritten() -> None:
    records = TextRecords("jsonl", bad_lines="skip")
    written = json.loads(records.write(records.read('{"error": 5}', "x", 1), ""))
    assert written["record"] == {"error": 5}


def test_nested_output_needs_an_object() -> None:
    with pytest.raises(InputError, match="'a' must be an object to write into"):
        TextRecords("jsonl", "text", "a.b").read('{"text": "x", "a": 1}', "x", 1)


def test_blank_line_stays_blank() -> None:
    records = TextRecords("jsonl")
    assert records.write(records.read("  \r", "x", 1), "") == ""


def test_line_that_is_no_text_is_kept_as_an_empty_one() -> None:
    assert TextRecords("text", bad_lines="skip").read(None, "x", 1).error
