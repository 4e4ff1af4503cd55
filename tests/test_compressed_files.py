"""Packed files are read as what was packed or not at all, and written whole or not at all."""

import gzip
import io
import lzma
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani.compressed_files import opened_for_reading, opened_for_writing, plain_suffix
from vaswani.errors import InputError

# The libraries themselves pack what the reader must unpack.
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "zst": lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data),
}
UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.decompress,
    "xz": lzma.decompress,
    "zst": lambda data: zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)).read(),
}
NAMES = {"gz": "gzip", "xz": "xz", "zst": "zstd"}
CONTENT = "".join(f"line {k} {random.Random(k).random()}\n" for k in range(9000)).encode()


def read(path: Path) -> bytes:
    with opened_for_reading(path) as stream:
        return stream.read()


@pytest.mark.parametrize("suffix", PACK)
def test_packed_bytes_come_out_by_name_and_by_first_bytes(tmp_path: Path, suffix: str) -> None:
    packed = PACK[suffix](CONTENT)
    middle = len(CONTENT) // 2
    in_two = PACK[suffix](CONTENT[:middle]) + PACK[suffix](CONTENT[middle:])
    for name, data in {
        f"a.tsv.{suffix}": packed,
        f"a.TSV.{suffix.upper()}": packed,
        "plain.tsv": packed,
        f"two.{suffix}": in_two,
        f"padded.{suffix}": packed + bytes(8192),
        "other_name.gz": packed,
    }.items():
        (tmp_path / name).write_bytes(data)
        assert read(tmp_path / name) == CONTENT, name
    (tmp_path / f"empty.{suffix}").write_bytes(PACK[suffix](b""))
    assert read(tmp_path / f"empty.{suffix}") == b""


@pytest.mark.parametrize("suffix", PACK)
def test_packed_file_that_is_not_whole_is_an_error(tmp_path: Path, suffix: str) -> None:
    packed = PACK[suffix](CONTENT)
    path = tmp_path / f"a.tsv.{suffix}"
    cuts = [0, 1, 5, len(packed) // 2, len(packed) - 1]
    damaged = [packed[:cut] for cut in cuts]
    damaged += [packed + b"tail", b"plain\ttext\n", PACK[suffix](b"") + packed[:-1]]
    for place in (len(packed) // 3, len(packed) - 2):
        damaged.append(packed[:place] + bytes([packed[place] ^ 0x10]) + packed[place + 1 :])
    for data in damaged:
        path.write_bytes(data)
        with pytest.raises(InputError, match=rf"a.tsv.{suffix} .*damaged {NAMES[suffix]} \("):
            read(path)


@pytest.mark.parametrize("suffix", PACK)
def test_every_cut_of_a_packed_file_is_noticed(tmp_path: Path, suffix: str) -> None:
    packed = PACK[suffix](b"one\ttwo\n" * 40)
    path = tmp_path / f"a.{suffix}"
    for length in range(len(packed)):
        path.write_bytes(packed[:length])
        with pytest.raises(InputError, match="truncated or damaged"):
            read(path)


def test_file_made_to_burst_is_unpacked_bit_by_bit(tmp_path: Path) -> None:
    """A hundred times the memory at hand must not be needed at once."""
    path = tmp_path / "zeros.zst"
    with path.open("wb") as raw, zstandard.ZstdCompressor().stream_writer(raw) as stream:
        for _ in range(512):
            stream.write(bytes(1 << 20))
    assert path.stat().st_size < 100_000
    with opened_for_reading(path) as stream:
        assert stream.read(10) == bytes(10)
        assert len(stream.raw.ready) < 1 << 28  # type: ignore[attr-defined]


@pytest.mark.parametrize("suffix", ["", *PACK])
def test_writing_packs_as_the_name_says_and_the_same_each_time(tmp_path: Path, suffix: str) -> None:
    written = []
    for name in ("one", "two"):
        path = tmp_path / f"{name}.tsv{'.' * bool(suffix)}{suffix}"
        with opened_for_writing(path) as (stream,):
            stream.write(CONTENT)
            assert not path.exists()
        written.append(path.read_bytes())
        assert UNPACK.get(suffix, bytes)(written[-1]) == CONTENT == read(path)
    assert written[0] == written[1]
    assert sorted(path.name.split(".")[0] for path in tmp_path.iterdir()) == ["one", "two"]


@pytest.mark.parametrize("suffix", ["", *PACK])
def test_failure_leaves_what_was_there_and_nothing_else(tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    first.write_bytes(b"before")
    with pytest.raises(RuntimeError, match="stop"), opened_for_writing(first, second) as streams:
        for stream in streams:
            stream.write(CONTENT)
        raise RuntimeError("stop")
    assert first.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [first]


def test_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be a file to write, got a folder"):
        opened_for_writing(tmp_path).__enter__()
    with pytest.raises(InputError, match=r"must be in an existing folder\. Make "):
        opened_for_writing(tmp_path / "none" / "a.tsv").__enter__()
    with opened_for_writing("/dev/null") as (stream,):
        stream.write(b"gone")


def test_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with opened_for_writing(tmp_path / "link") as (stream,):
        stream.write(b"text")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_bytes() == b"text"


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("a.tmx", ".tmx"), ("a.TMX.Gz", ".tmx"), ("a.b.po.zst", ".po"), ("a.xz", ""), ("a", "")],
)
def test_suffix_is_that_of_the_plain_file(name: str, suffix: str) -> None:
    assert plain_suffix(name) == suffix


@settings(max_examples=100, deadline=None)
@given(content=st.binary(max_size=4000), suffix=st.sampled_from(["", ".gz", ".xz", ".zst"]))
def test_any_bytes_come_back(tmp_path_factory, content: bytes, suffix: str) -> None:
    path = tmp_path_factory.mktemp("packed") / f"a{suffix}"
    with opened_for_writing(path) as (stream,):
        stream.write(content)
    if suffix or not content.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0")):
        assert read(path) == content


def test_missing_library_names_the_extra(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    (tmp_path / "a.zst").write_bytes(PACK["zst"](b"a"))
    with pytest.raises(ImportError, match=r"pip install 'vaswani\[data\]'"):
        read(tmp_path / "a.zst")
