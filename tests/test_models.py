"""The model file: it gives back what was put in, and meets everything else with a `ModelFileError`."""

import errno
import hashlib
import json
import os
import pickle
import random
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from maxmargin import __version__
from maxmargin.models import ModelFileError, read_model, write_model
from maxmargin.models import _header as rules

DTYPES = ["f8", "f4", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]
INFO = {"classes": ["ham", "spam"], "C": 0.1, "n_iter": 7, "converged": True, "note": None}
ARRAYS = {
    "coef": np.array([[0.5, -1.25, 3.0]]),
    "mask": np.array([True, False, True]),
    "indices": np.arange(5, dtype=np.int32),
    "empty": np.zeros((0, 3), dtype=np.float32),
    "scalar": np.array(2.5),
}


@pytest.fixture
def path(tmp_path):
    """A model file."""
    write_model(tmp_path / "a.model", "LinearSVC", INFO, ARRAYS)
    return tmp_path / "a.model"


def assert_same_arrays(read, written):
    assert read.keys() == written.keys()
    for name, array in written.items():
        assert read[name].dtype == array.dtype.newbyteorder("=")
        assert read[name].shape == array.shape
        np.testing.assert_array_equal(read[name], array)


def assert_refused(path, match=None):
    """The file is refused as a model file and in no other way; the error names it."""
    with pytest.raises(ModelFileError, match=match) as caught:
        read_model(path)
    assert str(caught.value).startswith(f"{path}: ")


# ---------------------------------------------------------------- there and back

names = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=100).filter(
    lambda name: name != "__metadata__"
)
numbers = st.integers(-(2**128), 2**128) | st.floats(allow_nan=False, allow_infinity=False)
anything = st.text(st.characters()) | st.just("0" * 64) | numbers | st.booleans() | st.none()
infos = st.dictionaries(st.text(), st.recursive(anything, lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
stored = arrays_of.arrays(
    st.sampled_from([order + dtype for dtype in DTYPES for order in "<>"]),
    arrays_of.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
)


@settings(deadline=None, max_examples=60)
@given(kind=names, info=infos, arrays=st.dictionaries(names, stored, max_size=5), mapped=st.booleans())
def test_what_is_written_is_read(tmp_path_factory, kind, info, arrays, mapped):
    path = tmp_path_factory.mktemp("models") / "a.model"
    write_model(path, kind, info, arrays)
    model = read_model(path, mmap=mapped)
    assert (model.kind, model.info, model.written_by) == (kind, info, __version__)
    assert_same_arrays(model.arrays, arrays)
    assert all(array.flags.aligned for array in model.arrays.values())
    assert all(array.flags.writeable is not mapped for array in model.arrays.values())


def test_there_is_a_limit_of_dimensions(path):
    write_model(path, "a", {}, {"x": np.ones((1,) * 16)})
    assert read_model(path).arrays["x"].ndim == 16
    with pytest.raises(ValueError, match="array 'x' has 17 dimensions, more than 16"):
        write_model(path, "a", {}, {"x": np.ones((1,) * 17)})
    assert read_model(path).arrays["x"].ndim == 16  # the old one


def test_memory_order_does_not_matter(tmp_path):
    grid = np.arange(24.0).reshape(4, 6)
    arrays = {"fortran": np.asfortranarray(grid), "transposed": grid.T, "strided": grid[::2, ::-3]}
    write_model(tmp_path / "m", "Grid", {}, arrays)
    assert_same_arrays(read_model(tmp_path / "m").arrays, arrays)


def test_numpy_numbers_in_info_come_back_as_python_numbers(tmp_path):
    write_model(tmp_path / "m", "K", {"i": np.int32(3), "f": np.float64(0.1), "b": np.True_}, {})
    assert read_model(tmp_path / "m").info == {"i": 3, "f": 0.1, "b": True}


def test_arrays_may_be_mapped_and_survive_a_new_model_of_the_same_name(path):
    first = read_model(path, mmap=True)
    assert first.arrays["coef"].ctypes.data % 64 == 0
    assert not first.arrays["coef"].flags.writeable
    write_model(path, "LinearSVC", {}, {"coef": np.zeros((1, 3))})
    np.testing.assert_array_equal(first.arrays["coef"], ARRAYS["coef"])
    assert read_model(path).arrays["coef"].sum() == 0.0
    write_model(path, "LinearSVC", {}, read_model(path, mmap=True).arrays)  # from the mapped file to itself
    assert read_model(path).arrays.keys() == {"coef"}


@pytest.mark.parametrize("content", [b"", b"another model, shorter than the first"])
def test_what_was_loaded_does_not_mind_what_becomes_of_the_file(path, content):
    """`cp new.mm model.mm` writes into the same file: arrays that are mapped from it would be gone."""
    loaded = read_model(path)
    path.write_bytes(content)
    assert_same_arrays(loaded.arrays, ARRAYS)


def test_large_files_are_mapped(path, monkeypatch):
    monkeypatch.setattr("maxmargin.models.file.MAPPED_ABOVE", 10)
    assert not read_model(path).arrays["coef"].flags.writeable
    assert read_model(path, mmap=False).arrays["coef"].flags.writeable


# ---------------------------------------------------------------- what was read off a clock


def test_the_clock_comes_last_and_is_no_part_of_the_model(tmp_path):
    paths = [tmp_path / name for name in "abc"]
    clocks = [np.array([0.25, np.inf]), np.array([7.0, np.nan]), None]
    for path, clock in zip(paths, clocks):
        write_model(path, "LinearSVC", INFO, ARRAYS, clock)
    models = [read_model(path) for path in paths]
    for model, clock in zip(models, clocks):
        assert_same_arrays(model.arrays, ARRAYS)
        np.testing.assert_array_equal(model.clock, [] if clock is None else clock)
    assert models[0].sha256 == models[1].sha256
    first, second = paths[0].read_bytes(), paths[1].read_bytes()
    assert len(first) == len(second)
    assert next(k for k in range(len(first)) if first[k] != second[k]) >= len(first) - 2 * 8 - 32
    for name in (rules.CLOCK, "__metadata__"):
        with pytest.raises(ValueError, match="an array's name"):
            write_model(paths[0], "K", {}, {name: np.ones(1)})


def test_a_damaged_clock_is_refused(tmp_path):
    write_model(tmp_path / "a", "LinearSVC", INFO, ARRAYS, np.array([1.0, 2.0]))
    whole = (tmp_path / "a").read_bytes()
    for position in range(len(whole) - 48, len(whole)):
        (tmp_path / "a").write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        assert_refused(tmp_path / "a", "damaged")


def test_a_clock_is_the_last_array_of_a_file_of_version_2(tmp_path):
    path = tmp_path / "a"
    write_model(path, "K", {}, {"x": np.ones(2)}, np.ones(1))
    table = table_of(path)
    data = path.read_bytes()[-(16 + 8 + 32) :]
    table["__metadata__"]["format_version"] = "1"
    forge(path, table, data)
    assert_refused(path, "the name of an array, '__clock__'")


def test_safetensors_opens_the_file(path):
    assert_same_arrays(safetensors.numpy.load_file(path), ARRAYS)
    with safetensors.safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    assert metadata["format"] == "maxmargin"
    assert metadata["kind"] == "LinearSVC"
    assert json.loads(metadata["info"]) == INFO


# ---------------------------------------------------------------- what cannot be stored


@pytest.mark.parametrize(
    "array",
    [
        np.array([{"a": 1}], dtype=object),
        np.array(["ham", "spam"]),
        np.array([b"ham"]),
        np.array([1j]),
        np.array(["2026-01-01"], dtype="datetime64[D]"),
        np.zeros(2, dtype=[("a", "f8")]),
        np.zeros(2, dtype=np.float16),
        np.array(["ham"], dtype=np.dtypes.StringDType()),
    ],
    ids=lambda array: array.dtype.name,
)
def test_other_dtypes_are_refused_by_name(path, array):
    before = path.read_bytes()
    with pytest.raises(ValueError, match="array 'bad' is of dtype"):
        write_model(path, "K", {}, {"bad": array})
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["", "x" * 101, "__metadata__", "new\nline", "ünicode", 3])
def test_bad_names_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match="name must be a string"):
        write_model(tmp_path / "m", "K", {}, {name: np.zeros(1)})
    with pytest.raises(ValueError, match="kind must be a string"):
        write_model(tmp_path / "m", name, {}, {})


@pytest.mark.parametrize(
    "info",
    [
        {"a": np.nan},
        {"a": -np.inf},
        {"a": 10**100},
        {"a": (1, 2)},
        {"a": {2, 3}},
        {"a": b"bytes"},
        {"a": np.zeros(2)},
        {1: "a"},
        {1: "a", "1": "b"},
        [1, 2],
        None,
    ],
    ids=str,
)
def test_info_that_would_not_come_back_is_refused(tmp_path, info):
    with pytest.raises(ValueError, match="info"):
        write_model(tmp_path / "m", "K", info, {})
    assert os.listdir(tmp_path) == []


def test_info_that_contains_itself_or_is_too_large_is_refused(tmp_path):
    info = {}
    info["itself"] = info
    with pytest.raises(ValueError, match="info cannot be stored"):
        write_model(tmp_path / "m", "K", info, {})
    with pytest.raises(ValueError, match="a model file allows 8388608"):
        write_model(tmp_path / "m", "K", {"a": "x" * (8 << 20)}, {})


# ---------------------------------------------------------------- damage: every change is noticed


def test_every_flipped_byte_every_truncation_and_every_insertion_is_noticed(tmp_path):
    path = tmp_path / "small.model"
    write_model(path, "K", {"a": 1}, {"x": np.array([1.0, -2.0]), "b": np.array([True])})
    content = path.read_bytes()
    damaged_path = tmp_path / "damaged.model"
    for i in range(len(content)):
        for damaged in (
            content[:i] + bytes([content[i] ^ (1 << i % 8)]) + content[i + 1 :],
            content[:i],
            content[:i] + b"0" + content[i:],
            content[:i] + content[i + 1 :],
        ):
            damaged_path.write_bytes(damaged)
            assert_refused(damaged_path)
    damaged_path.write_bytes(content + b"\0")
    assert_refused(damaged_path, "truncated or extended")
    damaged_path.write_bytes(content)
    assert read_model(damaged_path).info == {"a": 1}


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "other"
    for content in [b"", b"\0" * 8, b"\0" * 1000, pickle.dumps(ARRAYS), b"solver_type L2R_LR\nnr_class 2\n" * 9]:
        path.write_bytes(content)
        assert_refused(path, "not a model file of maxmargin")
    safetensors.numpy.save_file({"x": np.zeros(2)}, path)
    assert_refused(path, "a safetensors file, but not a model of maxmargin")
    with pytest.raises(FileNotFoundError):
        read_model(tmp_path / "absent")
    with pytest.raises(ModelFileError, match="not a regular file"):
        read_model(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert_refused(tmp_path / "pipe", "not a regular file")


# ---------------------------------------------------------------- malice: headers with a checksum that fits


def forge(path, header, data=None, pad=True):
    """Write a file with this header (text or a table) and the checksum that belongs to it."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    data = content[8 + length :] if data is None else data
    text = header if isinstance(header, str) else json.dumps(header, separators=(",", ":"))
    raw = text.encode("utf-8", "surrogateescape")
    if pad:
        raw += b" " * (-(8 + len(raw)) % 64)
    digest = json.loads(content[8 : 8 + length])["__metadata__"]["sha256"].encode()
    blank = raw.replace(digest, b"0" * 64, 1)
    fitting = hashlib.sha256(len(raw).to_bytes(8, "little") + blank + data).hexdigest().encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw.replace(digest, fitting, 1) + data)


def table_of(path):
    content = path.read_bytes()
    return json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])


def test_a_forged_file_is_read_if_nothing_is_wrong_with_it(path):
    """Otherwise the tests below would show nothing."""
    table = table_of(path)
    table["__metadata__"]["kind"] = "Forged"
    forge(path, table)
    assert read_model(path).kind == "Forged"
    assert_same_arrays(read_model(path).arrays, ARRAYS)


METADATA_FORGERIES = [
    ("format_version", "3", "made by a newer maxmargin .*: upgrade maxmargin"),
    ("format_version", "9" * 50, "made by a newer maxmargin"),
    ("format_version", "0", "no version 0"),
    ("format_version", "one", "is no number"),
    ("format_version", 1, "is no number"),
    ("format_version", None, "is no number"),
    ("format", "other", "not a model of maxmargin"),
    ("kind", None, "kind is not a string"),
    ("kind", "", "kind is not a string"),
    ("kind", ["LinearSVC"], "kind is not a string"),
    ("maxmargin_version", 3, "maxmargin_version is not a string"),
    ("sha256", None, "sha256 is not a string"),
    ("sha256", "0" * 64, "does not match its checksum"),
    ("info", None, "no info"),
    ("info", "[1]", "is not a dictionary"),
    ("info", '{"a": 1', "not valid JSON"),
    ("info", '{"a": NaN}', "the number NaN is not allowed"),
    ("info", '{"a": -Infinity}', "the number -Infinity is not allowed"),
    ("info", '{"a": 1e999}', "the number 1e999 is not allowed"),
    ("info", '{"a": 1, "a": 2}', "a key occurs twice"),
    ("info", '{"a": ' + "9" * 5000 + "}", "the number 9{20} is not allowed"),
    ("info", '{"a": 0.' + "9" * 5000 + "}", "the number 0.9{18} is not allowed"),
    ("info", '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "not valid JSON"),
]


@pytest.mark.parametrize(("key", "value", "message"), METADATA_FORGERIES)
def test_forged_metadata_are_refused(path, key, value, message):
    table = table_of(path)
    table["__metadata__"][key] = value
    forge(path, table)
    assert_refused(path, message)


COEF = {"dtype": "F64", "shape": [1, 3], "data_offsets": [0, 24]}
ENTRY_FORGERIES = [
    ({"dtype": "F16"}, "dtype 'F16'"),
    ({"dtype": "O"}, "dtype 'O'"),
    ({"dtype": ["F64"]}, "dtype"),
    ({"dtype": "F32"}, "does not fill its 24 bytes"),
    ({"shape": [1, 4]}, "does not fill its 24 bytes"),
    ({"shape": [2**61, 24]}, "does not fill"),
    ({"shape": [2**32, 2**32, 0]}, "does not fill"),
    ({"shape": [-1, -3]}, "shape"),
    ({"shape": [1.0, 3.0]}, "shape"),
    ({"shape": [True, 3]}, "shape"),
    ({"shape": "13"}, "shape"),
    ({"shape": [1] * 40 + [3]}, "shape"),
    ({"shape": [10**90]}, "does not fill"),
    ({"data_offsets": [0]}, "data_offsets"),
    ({"data_offsets": [0, 24, 48]}, "data_offsets"),
    ({"data_offsets": [0, "24"]}, "data_offsets"),
    ({"data_offsets": [-8, 16]}, "data_offsets"),
    ({"data_offsets": [8, 32]}, "should begin at 0"),
    ({"data_offsets": [24, 0]}, "should begin at 0"),
    ({"data_offsets": [0, 2**63]}, "should begin at 0"),
    ({"more": 1}, "not described by"),
]


@pytest.mark.parametrize(("change", "message"), ENTRY_FORGERIES, ids=lambda value: str(value)[:40])
def test_forged_arrays_are_refused(path, change, message):
    table = table_of(path)
    assert table["coef"] == COEF
    table["coef"] = COEF | change
    forge(path, table)
    assert_refused(path, message)


def test_arrays_that_overlap_leave_gaps_or_are_misaligned_are_refused(tmp_path):
    path = tmp_path / "m"
    write_model(path, "K", {}, {"a": np.zeros(2), "b": np.zeros(2, np.uint8)})
    metadata = table_of(path)["__metadata__"]
    a, b = {"dtype": "F64", "shape": [2]}, {"dtype": "U8", "shape": [2]}

    def forge_two(a_offsets, b_offsets, first="a"):
        entries = {"a": a | {"data_offsets": a_offsets}, "b": b | {"data_offsets": b_offsets}}
        order = sorted(entries, key=lambda name: name != first)
        forge(path, {"__metadata__": metadata, **{name: entries[name] for name in order}}, bytes(18))

    forge_two([0, 16], [16, 18])
    assert read_model(path).arrays.keys() == {"a", "b"}
    for offsets in [([0, 16], [0, 2]), ([0, 16], [15, 17]), ([0, 16], [17, 19])]:
        forge_two(*offsets)
        assert_refused(path, "array 'b' has data_offsets")
    forge_two([2, 18], [0, 2], first="b")
    assert_refused(path, "begins at 2, which is no multiple of 8")


def test_forged_headers_are_refused(path):
    table = table_of(path)
    text = json.dumps(table, separators=(",", ":"))
    last = '"mask":{"dtype":"BOOL","shape":[3],"data_offsets":'
    assert last in text
    for forged, message in [
        ([], "not a model file"),
        (" " + text, "not a model file"),
        (text[:-1], "not valid JSON"),
        (text + "{}", "not valid JSON"),
        (text[:-1] + ',"mask":' + text.split('"mask":')[1], "a key occurs twice"),
        (text.replace('"coef"', '"co\\u0000ef"'), "the name of an array"),
        (text.replace('"coef"', '"' + "c" * 101 + '"'), "the name of an array"),
        (text.replace('"coef"', '"\udcff\udcfe"'), "not valid JSON"),
        (text.replace('"coef"', '"\\ud800"'), "the name of an array"),
        ("{" * 100_000, "not valid JSON"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "not valid JSON"),
        ("{}", "not a model of maxmargin"),
        ('{"__metadata__":[]}', "not a model of maxmargin"),
    ]:
        write_model(path, "LinearSVC", INFO, ARRAYS)
        forge(path, forged)
        assert_refused(path, message)
    write_model(path, "LinearSVC", INFO, ARRAYS)
    forge(path, text + " " * (1 + -(8 + len(text)) % 64), pad=False)
    assert_refused(path, "no multiple of 64")


def test_bools_must_be_bools(path):
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    data = bytearray(content[8 + length :])
    begin, end = table_of(path)["mask"]["data_offsets"]
    assert list(data[begin:end]) == [1, 0, 1]
    data[begin] = 2
    forge(path, table_of(path), bytes(data))
    assert_refused(path, "other bytes than 0 and 1")


def test_no_number_in_a_file_makes_memory_be_allocated(path):
    """Each of these announces between 9 MB and an exabyte; the file has a kilobyte."""
    table, content = table_of(path), path.read_bytes()
    tracemalloc.start()
    try:
        for length in [9 << 20, 2**40, 2**63, 2**64 - 1]:
            path.write_bytes(length.to_bytes(8, "little") + content[8:])
            assert_refused(path, "not a model file of maxmargin")
        for size in [10**8, 2**40, 2**62]:
            path.write_bytes(content)
            forge(path, table | {"coef": {"dtype": "F64", "shape": [size], "data_offsets": [0, 8 * size]}})
            assert_refused(path, "data_offsets")
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


def test_a_header_that_is_really_too_long_is_refused_unread(path):
    with open(path, "wb") as file:
        file.write((1 << 30).to_bytes(8, "little") + b"{")
        file.truncate(2 << 30)  # sparse: it takes no space on the disk
    assert_refused(path, "the header takes 1073741824 bytes")


def test_headers_mutated_at_random_are_read_or_refused(path):
    """With a fitting checksum; any other exception, a crash or a hang fails."""
    rng = random.Random(0)
    content = path.read_bytes()
    text = json.dumps(table_of(path), separators=(",", ":"))
    pieces = [
        "0",
        "-1",
        "9999999999999999999999",
        "[",
        "]",
        "{",
        "}",
        '"',
        ",",
        ":",
        "null",
        "true",
        "1e5",
        "NaN",
        "\\",
    ]
    pieces += ['"F32"', '"U8"', '"coef"', '"shape"', '"data_offsets"', "[0,24]", "[]", "{}", " ", "\0", "é", "\\ud800"]
    refused = 0
    for _ in range(1500):
        mutant = text
        for _ in range(rng.randint(1, 3)):
            i = rng.randrange(len(mutant))
            mutant = mutant[:i] + rng.choice(pieces) + mutant[i + rng.randint(0, 12) :]
        path.write_bytes(content)
        forge(path, mutant)
        try:
            model = read_model(path)
        except ModelFileError:
            refused += 1
        else:
            assert sum(array.nbytes for array in model.arrays.values()) < 100
    assert refused > 1000


# ---------------------------------------------------------------- saving that fails


def test_a_full_disk_leaves_the_old_model(path, monkeypatch):
    class FullDisk:
        def __init__(self, file):
            self.file, self.left = file, 500

        def write(self, content):
            self.left -= len(content)
            if self.left < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return self.file.write(content)

        def __getattr__(self, name):
            return getattr(self.file, name)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

    before, fdopen = path.read_bytes(), os.fdopen
    monkeypatch.setattr(os, "fdopen", lambda *arguments: FullDisk(fdopen(*arguments)))
    with pytest.raises(OSError, match=r"No space left on device: .*a\.model") as full:
        write_model(path, "LinearSVC", {}, {"coef": np.ones(1000)})
    assert full.value.errno == errno.ENOSPC
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["a.model"]


def test_a_model_beyond_the_limit_of_the_system_leaves_the_old_one(path):
    pytest.importorskip("resource")
    script = """
import resource, sys
import numpy as np
from maxmargin.models import write_model
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    write_model(sys.argv[1], "LinearSVC", {}, {"coef": np.ones(100_000)})
except OSError as error:
    print("refused", error.filename)
"""
    before = path.read_bytes()
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"refused {path}"
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["a.model"]


def test_an_unwritable_path_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent/a\.model"):
        write_model(tmp_path / "absent" / "a.model", "K", {}, {})
