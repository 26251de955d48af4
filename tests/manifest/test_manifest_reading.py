"""Manifests are read as kubectl reads them, with lines, and with errors that help.

The spellings and documents in the tables were compared once with sigs.k8s.io/yaml v1.6
and the decoder of k8s.io/apimachinery v0.36; the tables keep what came out.
"""

import json
import random
import re
from textwrap import dedent
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from jobyard.manifest import parsing
from jobyard.manifest.composing import DEPTH_LIMIT
from jobyard.manifest.reading import (
    Document,
    Path,
    Position,
    Repeated,
    UnreadableManifest,
    read,
)

SOURCE = "job.yaml"

# The machine may be busy with other tests: only the answer counts, not when it comes.
patient = settings(deadline=None)


def values(text: str) -> list[Any]:
    return [document.value for document in read(text, SOURCE)]


def only(text: str) -> Document:
    (document,) = read(text, SOURCE)
    return document


def error(text: str, source: str = SOURCE) -> str:
    with pytest.raises(UnreadableManifest) as caught:
        read(text, source)
    return str(caught.value)


def same(found: Any, wanted: Any) -> bool:
    """Equal, and of the same types: True is not 1 here, nor is 1.0."""
    return json.dumps(found, sort_keys=True) == json.dumps(wanted, sort_keys=True)


def each(words: str, want: Any) -> dict[str, Any]:
    return dict.fromkeys(words.split(), want)


def as_text(words: str) -> dict[str, Any]:
    return {word: word for word in words.split()}


# fmt: off
SPELLINGS: dict[str, dict[str, Any]] = {
    "YAML 1.1's words are booleans": {
        **each("y Y yes Yes YES true True TRUE on On ON", True),
        **each("n N no No NO false False FALSE off Off OFF", False),
    },
    "no other case of them is": as_text("yEs tRue oN nO oFF yep"),
    "null has five spellings": {"": None, **each("~ null Null NULL", None)},
    "integers come in four bases": {
        "12": 12, "+12": 12, "-12": -12, "0": 0, "-0": 0, "0x1F": 31, "0X1f": 31, "-0x1f": -31,
        "0b11": 3, "-0b1": -1, "0b-1": -1, "0o17": 15, "0777": 511, "00": 0,
    },
    "digits of another base make no integer": as_text("0o8 0x1g 0b2 0x 0b"),
    "a leading zero before 8 or 9 is decimal": {"08": 8, "09": 9},
    "underscores are dropped": {"1_000": 1000, "1__0": 10, "1_": 1, "0x_F": 15, "1_0.5": 10.5},
    "some underscores make text": as_text("_1 ._5 .5_"),
    "floats that are whole numbers are integers": {
        "1.0": 1, "3.": 3, "1e3": 1000, "1E+3": 1000, "-0.0": 0, "1e18": 10**18,
    },
    "floats may begin with a dot": {".5": 0.5, "-.5": -0.5, ".5e3": 500, ".5_0": 0.5},
    "integers up to 64 bits are exact": {
        "9223372036854775807": 2**63 - 1,
        "-9223372036854775808": -(2**63),
        "18446744073709551615": 2**64 - 1,
    },
    "beyond that they are floats": {
        "18446744073709551616": 1.8446744073709552e19,
        "-9223372036854775809": -9.223372036854775808e18,
        "1" * 300: float("1" * 300),
    },
    "large floats have the digits that Go writes": {"4611686018427387904.0": 4611686018427388000},
    "hexadecimal beyond that is text": as_text("0x1FFFFFFFFFFFFFFFF"),
    "a float that overflows is text": as_text("1e999 .1e999 " + "9" * 400),
    "a float that underflows is zero": {"1e-999": 0},
    "dates and times are text": as_text("2001-01-01 2001-01-01T00:00:00Z 12:30:45 190:20:30.15"),
    "amounts and versions are text": as_text("1Gi 500m v1 1.2.3 1a inf NaN"),
    "digits of other scripts are text": as_text("١٢ ²"),
}
# fmt: on


@pytest.mark.parametrize(
    ("spelling", "want"),
    [
        pytest.param(spelling, want, id=f"{sentence}: {spelling[:24] or 'nothing'}")
        for sentence, spellings in SPELLINGS.items()
        for spelling, want in spellings.items()
    ],
)
def test_plain_scalars_mean_what_they_mean_to_go(spelling: str, want: Any) -> None:
    assert same(only(f"a: {spelling}\n").value, {"a": want})
    assert same(only(f"a: '{spelling}'\n").value, {"a": spelling}), "in quotes it is text"
    assert same(only(f'a: "{spelling}"\n').value, {"a": spelling}), "in quotes it is text"
    assert same(only(f"a: !!str {spelling}\n").value, {"a": spelling}), "tagged as text it is text"
    assert same(only(f"a: ! '{spelling}'\n").value, {"a": spelling}), "'!' tags text"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("!!int '12'", 12, id="a tag makes a number of text"),
        pytest.param("!!float 3", 3, id="a float without fraction is whole"),
        pytest.param("!!bool yes", True, id="booleans may be tagged"),
        pytest.param("!!null ''", None, id="null may be tagged"),
        pytest.param("!!timestamp 2001-01-01", "2001-01-01", id="times stay text"),
        pytest.param("!!binary aGVsbG8=", "hello", id="base64 is decoded"),
        pytest.param("!!binary /w==", "\ufffd", id="bytes that are no text are replaced"),
        pytest.param("!!map {b: 1}", {"b": 1}, id="maps may be tagged"),
        pytest.param("!!seq [1]", [1], id="lists may be tagged"),
        pytest.param("!<tag:yaml.org,2002:int> '3'", 3, id="tags may be written out"),
    ],
)
def test_tags_are_honoured(text: str, want: Any) -> None:
    assert same(only(f"a: {text}\n").value, {"a": want})


@pytest.mark.parametrize(
    ("key", "want"),
    [
        pytest.param("1", "1", id="integers become text"),
        pytest.param("0x1F", "31", id="in decimal"),
        pytest.param("yes", "true", id="booleans become text"),
        pytest.param("2.50", "2.5", id="floats become text"),
        pytest.param("1e6", "1e+06", id="large floats with an exponent"),
        pytest.param("0.00001", "1e-05", id="small floats with an exponent"),
        pytest.param("100000.0", "100000", id="middling ones without"),
        pytest.param("3.14159265358979", "3.1415927", id="floats lose half their precision"),
        pytest.param("1e300", ".inf", id="and may overflow"),
        pytest.param("-.inf", "-.inf", id="infinity is a fine key"),
        pytest.param(".NaN", ".nan", id="NaN too"),
        pytest.param("2001-01-01", "2001-01-01", id="dates stay"),
        pytest.param("'<<'", "<<", id="in quotes << is just a key"),
    ],
)
def test_keys_become_strings_as_in_sigs_yaml(key: str, want: str) -> None:
    assert only(f"{key}: v\n").value == {want: "v"}


DOCUMENTS = [
    ("a: 1\n---\nb: 2\n", [{"a": 1}, {"b": 2}], "a line of dashes parts documents"),
    ("---\n---\n# c\n---\nnull\n---\na: 1\n...\n", [{"a": 1}], "empty ones are left out"),
    ("", [], "no text has no documents"),
    ("# only a comment", [], "neither has a comment"),
    ("---\n...\n---\na: 1\n", [{"a": 1}], "an empty document may be ended"),
    ("--- # first\na: 1\n--- # second\nb: 2", [{"a": 1}, {"b": 2}], "separators take comments"),
    ("a: |\n  ---\n  x\n", [{"a": "---\nx\n"}], "dashes in a block scalar are text"),
    ("a: |\n  x", [{"a": "x\n"}], "the last line has an end, also if the file lacks it"),
    ("\ufeffa: 1\n---\n\ufeffb: 2\n", [{"a": 1}, {"b": 2}], "byte order marks are skipped"),
    ("a: |\r\n  x\r\n  y\r\n---\r\nb: 2\r\n", [{"a": "x\ny\n"}, {"b": 2}], "Windows line ends"),
    ("a: 1\r---\rb: 2\r", [{"a": 1}, {"b": 2}], "old Macintosh line ends"),
    ("- a\n- b\n", [["a", "b"]], "what is not an object is for the caller to refuse"),
    ("a: {b, c: }\n", [{"a": {"b": None, "c": None}}], "flow maps take keys without values"),
    ("a: [b: 1, c]\n", [{"a": [{"b": 1}, "c"]}], "flow lists take pairs"),
    ("a: &x {b: 1}\nc: *x\n", [{"a": {"b": 1}, "c": {"b": 1}}], "aliases are expanded"),
    ("a: &x 1\nb: &x 2\nc: *x\n", [{"a": 1, "b": 2, "c": 2}], "anchors may be set again"),
    ("&k a: 1\nb: {*k : 2}\n", [{"a": 1, "b": {"a": 2}}], "keys may be aliases"),
    ("a:\n  <<: {b: 1, c: 2}\n  b: 3\n", [{"a": {"b": 3, "c": 2}}], "a key overrides a merge"),
    ("a:\n  b: 3\n  <<: {b: 1}\n", [{"a": {"b": 1}}], "unless the merge comes later"),
    (
        "p: &p {a: 1}\nq: &q {a: 2, b: 2}\nr: {<<: [*p, *q]}\n",
        [{"p": {"a": 1}, "q": {"a": 2, "b": 2}, "r": {"a": 1, "b": 2}}],
        "of several merged maps the first counts",
    ),
    ("a: 1\na: 2\n", [{"a": 2}], "of a repeated field the last counts"),
    ('{"a": "\\ud83d\\ude00\\/"}', [{"a": "😀/"}], "JSON has surrogate pairs"),
    ('{"a": "\\ud83d"}', [{"a": "\ufffd"}], "half of a pair is replaced"),
    ('\t{\n\t\t"a":\t[1,\n\t\t2]}', [{"a": [1, 2]}], "JSON may be indented with tabs"),
    ('{"a": 1.0, "b": 1e3, "c": 0.5}', [{"a": 1, "b": 1000, "c": 0.5}], "numbers as in YAML"),
    ('{"a": 1}{"b": 2}\n{"c": 3}', [{"a": 1}, {"b": 2}, {"c": 3}], "a stream of JSON objects"),
    ('{"a": 1}\n---\nb: 2\n', [{"a": 1}, {"b": 2}], "JSON first, then YAML"),
    ('{"a": 1} # comment\n', [{"a": 1}], "a comment after JSON is YAML's"),
    ("{a: 1, 'b': 2,}", [{"a": 1, "b": 2}], "a brace may also begin YAML"),
    (f'{{"{"x" * 2000}": 1}}', [{"x" * 2000: 1}], "JSON takes keys too long for YAML"),
    ('{"a": "\x7f\ufffe"}', [{"a": "\x7f\ufffe"}], "JSON takes characters that YAML does not"),
]


@pytest.mark.parametrize(
    ("text", "want"), [pytest.param(text, want, id=sentence) for text, want, sentence in DOCUMENTS]
)
def test_files_fall_into_documents_as_with_kubectl(text: str, want: list[Any]) -> None:
    assert same(values(text), want)
    assert [document.index for document in read(text, SOURCE)] == list(range(len(want)))


def test_an_alias_is_a_copy_that_can_be_changed_alone() -> None:
    value = only("a: &x [1]\nb: *x\n").value
    value["a"].append(2)
    assert value["b"] == [1]


MANIFEST = dedent("""\
    # A comment.
    apiVersion: batch/v1
    kind: Job
    metadata: {name: train, labels: {app: x,
      tier: y}}
    base: &base
      cpu: 1
      memory: |
        two
        lines
    spec:
      containers:
        - name: a

          resources:
            <<: *base
            gpu: 1
        -
          name: b
        - *base
    """)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        pytest.param((), 2, id="the document begins at its first field"),
        pytest.param(("kind",), 3, id="a field has the line of its key"),
        pytest.param(("metadata", "labels", "app"), 4, id="also inside braces"),
        pytest.param(("metadata", "labels", "tier"), 5, id="on each line of them"),
        pytest.param(("spec", "containers"), 12, id="a list has the line of its key"),
        pytest.param(("spec", "containers", 0), 13, id="an item its own line"),
        pytest.param(("spec", "containers", 1), 19, id="which is that of its first field"),
        pytest.param(("spec", "containers", 1, "name"), 19, id="a field in an item"),
        pytest.param(("spec", "containers", 0, "resources", "gpu"), 17, id="after a merge"),
        pytest.param(("spec", "containers", 0, "resources", "cpu"), 7, id="merged: where written"),
        pytest.param(("spec", "containers", 2), 20, id="an alias is where it is used"),
        pytest.param(("spec", "containers", 2, "cpu"), 7, id="what is in it where it is written"),
        pytest.param(("spec", "containers", 9, "name"), 12, id="no such item: the list"),
        pytest.param(("spec", "replicas", "x"), 11, id="no such field: the map"),
        pytest.param(("kind", "x", 0), 3, id="nothing is inside a scalar"),
        pytest.param(("spec", 0), 11, id="a map has no items"),
        pytest.param(("spec", "containers", "name"), 12, id="a list has no fields"),
        pytest.param(("nowhere",), 2, id="nothing at all: the document"),
    ],
)
def test_fields_know_their_line(path: Path, line: int) -> None:
    assert only(MANIFEST).line_of(path) == line
    assert only(MANIFEST.replace("\n", "\r\n")).line_of(path) == line
    assert read("a: 1\n---\n" + MANIFEST, SOURCE)[1].line_of(path) == line + 2


def test_positions_have_columns_and_odd_line_ends_do_not_count() -> None:
    document = only("\ufeffé: {b: 1, cd: 2}\nx: 'a\u2028b'\nz: 1\n")
    assert document.position_of(("é", "cd")) == Position(1, 11)
    assert document.position_of(("z",)) == Position(3, 1)


LIST = dedent("""\
    apiVersion: v1
    kind: List
    items:
    - kind: A
      a: 1
      a: 2
    - apiVersion: v1
      kind: ConfigMapList
      items:
      - kind: B
        b: {c: 1, c: 2}
    - kind: C
    ---
    kind: D
    """)


def test_the_items_of_a_list_are_documents_in_kubectls_order() -> None:
    documents = read(LIST, SOURCE)
    assert [document.value["kind"] for document in documents] == ["A", "C", "B", "D"]
    assert [document.index for document in documents] == [0, 1, 2, 3]
    assert [document.line_of(("kind",)) for document in documents] == [4, 12, 10, 14]
    assert [document.line_of(("absent",)) for document in documents] == [4, 12, 10, 14]
    assert documents[0].repeated == (Repeated(("a",), 5, 6),)
    assert documents[2].repeated == (Repeated(("b", "c"), 11, 11),)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"apiVersion": "v2", "kind": "List", "items": []}, id="of another version"),
        pytest.param({"apiVersion": "v1", "kind": "Listing", "items": []}, id="of another kind"),
        pytest.param({"apiVersion": "v1", "kind": "List", "items": None}, id="without items"),
        pytest.param({"apiVersion": "v1", "kind": ["List"], "items": []}, id="with an odd kind"),
    ],
)
def test_what_only_resembles_a_list_is_a_document(value: dict[str, Any]) -> None:
    assert values(json.dumps(value)) == [value]


@pytest.mark.parametrize(
    ("text", "repeated"),
    [
        pytest.param("a: 1\nb: 2\na: 3\n", [(("a",), 1, 3)], id="a field written twice"),
        pytest.param("a: 1\na: 2\na: 3\n", [(("a",), 1, 2), (("a",), 2, 3)], id="three times"),
        pytest.param("a:\n- {b: 1,\n b: 2}\n", [(("a", 0, "b"), 2, 3)], id="inside a list"),
        pytest.param("1: a\n'1': b\n", [(("1",), 1, 2)], id="as a number and as text"),
        pytest.param("a: {b: 1, b: 2}\na: {c: 1}\n", [(("a",), 1, 2)], id="in what is gone"),
        pytest.param("a: 1\na: {b: 1, b: 2}\n", [(("a",), 1, 2), (("a", "b"), 2, 2)], id="in both"),
        pytest.param("<<: {a: 1}\na: 2\n", [], id="overriding a merge is no repetition"),
        pytest.param('{"a": {"b": 1, "b": 2},\n"a": 1,\n"c": {"d": 1, "d": 2}}',
                     [(("a",), 1, 2), (("c", "d"), 3, 3)], id="in JSON"),
    ],
)  # fmt: skip
def test_repeated_fields_are_told(text: str, repeated: list[tuple[Path, int, int]]) -> None:
    assert only(text).repeated == tuple(Repeated(*each) for each in repeated)


ERRORS = [
    ("a:\n\tb: 1\n", "2:1: found a tab for indentation; indent with spaces"),
    ("a: 1\n\tb: 2\n", "2:1: found a tab for indentation; indent with spaces"),
    ("a: |\n\tx\n", "2:1: found a tab for indentation; indent with spaces"),
    ("name:x\nimage: y\n", "1:6: found 'name:' without a space after it; write 'name: …'"),
    ("- name:x\n  image: y\n", "1:8: found 'name:' without a space after it; write 'name: …'"),
    ("a: 1\nfoo\nb: 2\n", "2:1: found 'foo' without a colon; a field is written 'name: value'"),
    ("foo\nb: 1\n", "1:1: found 'foo' without a colon; a field is written 'name: value'"),
    ("a: b: c\n", "1:5: found a second ': ' in one line; put the value in quotes, or the field in "
                  "a line of its own"),
    ("a: 1\n  b: 2\n", "2:4: found a field below line 1, which has a value already; align the "
                       "two, or end that line with its colon"),
    ("a:\n  b: 1\n c: 2\n", "3:2: found 'c: 2' instead of a field of the map that begins in line "
                            "1; align it with that, or indent it deeper"),
    ("- a\nb: 1\n", "2:1: found 'b: 1' instead of an item '- …' of the list that begins in line 1; "
                    "align it with that, or indent it deeper"),
    ("  a: 1\nb: 2\n", "2:1: found 'b: 2' after the end of the document; check the indentation, or "
                       "put '---' before it"),
    ("a: 'x\nb: 2\n", "1:4: found a quote that is not closed; end the value with '"),
    ('a: "x\n---\nb: 2\n', '1:4: found a quote that is not closed; end the value with "'),
    ("a: 'it's'\n", "1:8: found 's'' after the closing '; put all of the value in one pair of "
                    "quotes"),
    ("a: [1, 2\nb: 3\n", "2:2: found ': 3'; a ',' goes here, or a ']' to end the '[' of line 1"),
    ("a: {b: 1\n", "2:1: found the end; a ',' goes here, or a '}' to end the '{' of line 1"),
    ("a: [1,", "1:7: found the end inside brackets; close them"),
    ("a: {b:}\n", "1:6: found a ':' inside brackets without a space after it; write ': '"),
    ("a: [x?y]\n", "1:5: found a '?' in 'x?y' inside brackets; put the text in quotes"),
    ("a: ]\n", "1:4: found ']' where a value goes; put it in quotes if it's text"),
    ("a: - b\n", "1:4: found a list item '-' where no list can be; begin the list in the next "
                 "line, or put the text in quotes"),
    ("a: |x\n", "1:5: found 'x' after '|' or '>'; the text begins in the next line"),
    ("cron: */5 * * * *\n", "1:7: found '*' at the start of a value, which makes it a reference; "
                            "put the value in quotes"),
    ("a: &\n", "1:4: found '&' at the start of a value, which makes it an anchor; put the value in "
               "quotes"),
    ("a: @x\n", "1:4: found '@' at the start of a value; put the value in quotes"),
    ('a: "\\d"\n', "1:5: found '\\d' in double quotes; write a backslash as '\\\\', or use single "
                   "quotes"),
    ('a: "\\/"\n', "1:5: found '\\/' in double quotes; write '/' without the backslash"),
    ('a: "\\ud83d\\ude00"\n', "1:7: found an escape that is not a character; YAML has no surrogate "
                              "pairs, write the character itself"),
    ("a: !%ED%A0%80 x\n", "1:1: found an escape that is not a character; write the character "
                          "itself"),
    ("image: {{ .Values.image }}\n", "1:9: found '{{', which is a template's; render the template "
                                     "first"),
    ("a: !foo b\n", "1:4: found the tag !foo, which Kubernetes does not know; remove it"),
    ("a: !!set {b}\n", "1:4: found the tag !!set, which Kubernetes does not know; remove it"),
    ("a: !!int x\n", "1:4: found 'x' tagged !!int, but it is a !!str; remove the tag"),
    ("a: !!binary x\n", "1:4: found a !!binary value that is not base64; encode it, or remove the "
                        "tag"),
    ("a: [.inf]\n", "1:5: found an infinite number or NaN, which JSON has not; quote it if it's "
                    "text"),
    ("~: 1\n", "1:1: found an empty field name; write a name before the colon, or quote it"),
    ("? [a]\n: 1\n", "1:3: found a list as a field name; field names are text"),
    ("18446744073709551615: 1\n", "1:1: found the number 18446744073709551615 as a field name; "
                                  "quote it"),
    ("<<: 1\n", "1:5: found '<<' without a map; it takes a map or a list of maps"),
    ("a: &a [{}]\nb: {<<: *a}\n", "2:9: found '<<' without a map; it takes a map or a list of "
                                  "maps"),
    ("a: *b\n", "1:4: found *b, but no &b before it; quote it if it's text"),
    ("a: &a [*a]\n", "1:8: found *a inside &a itself; a value can't contain itself"),
    ("%YAML 1.1\n---\na: 1\n", "1:1: found the directive '%YAML 1.1'; kubectl takes none, remove "
                               "it"),
    ("a: 1\n--- b\n", "2:1: found '--- b'; a line '---' parts documents and has nothing else in "
                      "it, other text must be indented or quoted"),
    ("a: 1\n...\nb: 2\n", "3:1: found 'b: 2' after the end of the document; check the indentation, "
                          "or put '---' before it"),
    ("a: \x00", "1:4: found a NUL character; if the file is UTF-16, save it as UTF-8"),
    ("a: \x07", '1:4: found the control character U+0007; remove it, or write it in double quotes '
                'as "\\u0007"'),
    ("é: \udce9", "1:4: found the byte 0xE9, which is not UTF-8; save the file as UTF-8"),
    ("a: \ud83d", "1:4: found half of a surrogate pair; save the file as UTF-8"),
    ('{"a": 1, "b": 1e999}', "1:15: found a number that is too large; quote it if it's text"),
    ('{"a": 1}{"b": 1} c', "1:18: found 'c'; a JSON value goes here"),
    ("apiVersion: v1\nkind: List\nitems: []\nitems: []\n", "4:1: found 'items' again after line 3; "
                                                           "a List has one"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "want"), [pytest.param(text, want, id=want.split(": ", 1)[1]) for text, want in ERRORS]
)
def test_errors_say_what_was_found_and_what_would_be_right(text: str, want: str) -> None:
    assert error(text) == f"{SOURCE}:{want}"
    line = int(want.partition(":")[0])
    assert error("z: 1\n---\n" + text).startswith(f"{SOURCE}:{line + 2}:"), "lines of the file"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ('{"a": 1 "b": 2}', "1:9: found '\"b\": 2}'; a ',' goes here, or a '}' to end what begins "
                            "in line 1"),
        ('{"a" 1}', "1:6: found '1}'; a ':' goes after a field name"),
        ('{"a": 1, b: [}', "1:10: found 'b: [}'; a field name in double quotes goes here"),
        ('{"a": [1,\n', "2:1: found the end of the document; a JSON value goes here"),
        ('{"a": "x\n}', "1:7: found a string that is not closed; end it with '\"' in the same "
                        "line"),
        ('{"a": "\\x"}', "1:8: found '\\x' in a string; write a backslash as '\\\\'"),
        ('{"a": "\x01"}', "1:8: found the control character U+0001 in a string; write it as "
                          "'\\u0001'"),
    ],
)  # fmt: skip
def test_errors_in_json_files_are_told_in_json_terms(text: str, want: str) -> None:
    assert error(text, "job.json") == f"job.json:{want}"


def nested(opening: str, closing: str, depth: int) -> str:
    return opening * depth + closing * depth


@pytest.mark.parametrize(
    ("opening", "closing"), [("[", "]"), ("{a: ", "}"), ("- ", ""), ('{"a":', "}")]
)
def test_depth_has_a_limit(opening: str, closing: str) -> None:
    inner = "1" if opening == '{"a":' else ""
    at_limit = opening * DEPTH_LIMIT + inner + closing * DEPTH_LIMIT
    assert len(read(at_limit, SOURCE)) == 1
    for depth in (DEPTH_LIMIT + 1, 50_000):
        assert f"found more than {DEPTH_LIMIT}" in error(nested(opening, closing, depth))


def test_aliases_cannot_make_a_file_deeper_than_that() -> None:
    text = f"a: &a {nested('[', ']', 150)}\nb: {'[' * 60}*a{']' * 60}\n"
    assert f"found more than {DEPTH_LIMIT}" in error(text)


@pytest.mark.parametrize("fan", [2, 9])
def test_a_file_expands_only_so_far(fan: int) -> None:
    """The "billion laughs": each line has the line above several times."""
    levels = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * fan)}]" for i in range(1, 60)]
    assert "expands too far" in error("\n".join(["a0: &a0 [x]", *levels]))


def test_many_aliases_of_small_things_are_fine() -> None:
    text = "a: &a {x: 1, y: 2}\n" + "".join(f"b{i}: *a\n" for i in range(5_000))
    assert len(only(text).value) == 5_001


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: abs(x) < 2**53)
    | st.text()
)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@patient
@given(
    st.dictionaries(st.text(), trees, min_size=1), st.booleans(), st.sampled_from([None, 2, "\t"])
)
def test_json_is_read_as_itself(value: Any, ascii_only: bool, indent: int | str | None) -> None:
    assert values(json.dumps(value, ensure_ascii=ascii_only, indent=indent)) == [value]


@patient
@given(st.text(alphabet=st.characters(codec=None, exclude_categories=())))
def test_no_text_does_worse_than_being_unreadable(text: str) -> None:
    check(text)


@patient
@given(
    st.lists(
        st.sampled_from(
            [
                *" \n\t:-?,[]{}#&*!|>'\"%@`\\~.0a<=\r\ufeff\u2028",
                "---\n",
                ": ",
                "- ",
                "&a ",
                "*a",
                "<<: ",
                "!!int ",
                "...\n",
                "\n  ",
                "\\u00",
            ]
        )
    )
)
def test_no_heap_of_signs_does_worse_either(parts: list[str]) -> None:
    check("".join(parts))


@patient
@given(st.randoms(use_true_random=False), st.sampled_from([MANIFEST, LIST, json.dumps(SPELLINGS)]))
def test_no_damage_to_a_manifest_does_worse_either(rng: random.Random, text: str) -> None:
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(text))
        to = min(at + rng.randint(0, 3), len(text) - 1)
        text = text[:at] + rng.choice([*" \n\t:-?,[]{}#&*!|>'\"%\\", ""]) + text[to:]
    check(text)


def check(text: str) -> None:
    """Whatever the text: documents of plain JSON with lines in the file, or a good error."""
    lines = len(re.split(r"\r?\r\n|\r|\n", text))
    try:
        documents = read(text, SOURCE)
    except UnreadableManifest as unreadable:
        found = re.fullmatch(r"job\.yaml:(\d+):\d+: found .+; .+", str(unreadable), re.DOTALL)
        assert found, str(unreadable)  # noqa: PT017 - most texts have no error
        assert 1 <= int(found[1]) <= lines
        return
    for document in documents:
        json.dumps(document.value, allow_nan=False).encode()
        for path in paths(document.value):
            assert 1 <= document.line_of(path) <= lines


def paths(value: Any, path: Path = ()) -> list[Path]:
    parts: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        parts = list(value.items())
    elif isinstance(value, list):
        parts = list(enumerate(value))
    return [path, *(found for step, part in parts for found in paths(part, (*path, step)))]


names = st.text("abcxz", min_size=1, max_size=3)
# Of the characters only those that JSON's escapes mean in YAML too.
basic_text = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]))
blocks = st.dictionaries(
    names,
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | basic_text,
        lambda inner: (
            st.lists(inner, min_size=1, max_size=3)
            | st.dictionaries(names, inner, min_size=1, max_size=3)
        ),
        max_leaves=10,
    ),
    min_size=1,
)


class Writer:
    """Writes values and notes in which line each path went."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.out: list[str] = []
        self.lines: dict[Path, int] = {}

    def yaml(self, value: Any, path: Path = ()) -> int:
        """In block style, now and then with comments; returns the line of the first part."""
        begin = 0
        indent = "  " * len(path)
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            self.out += self.rng.choices(["", "# a: b", f"{indent}# - b"], k=self.rng.randint(0, 2))
            self.out.append(f"{indent}{key}:" if isinstance(key, str) else f"{indent}-")
            line = len(self.out)
            begin = begin or line
            if isinstance(inner, dict | list):
                first = self.yaml(inner, (*path, key))
                self.lines[*path, key] = line if isinstance(key, str) else first
            else:
                self.out[-1] += f" {json.dumps(inner)}"
                self.lines[*path, key] = line
        return begin

    def json(self, value: Any, path: Path = ()) -> None:
        """As json.dumps with an indent does it: each part begins a line, and each bracket ends."""
        is_map = isinstance(value, dict)
        self._add("{" if is_map else "[")
        parts = list(value.items() if is_map else enumerate(value))
        for count, (key, inner) in enumerate(parts, start=1):
            self.out.append(f"{json.dumps(key)}: " if is_map else "")
            self.lines[*path, key] = len(self.out)
            if isinstance(inner, dict | list):
                self.json(inner, (*path, key))
            else:
                self._add(json.dumps(inner))
            self._add("," if count < len(parts) else "")
        self.out.append("}" if is_map else "]")

    def _add(self, text: str) -> None:
        self.out = [*self.out[:-1], (self.out[-1] if self.out else "") + text]


@patient
@given(blocks, st.randoms(use_true_random=False), st.sampled_from(["\n", "\r\n"]))
def test_every_path_knows_the_line_it_was_written_in(
    value: Any, rng: random.Random, line_end: str
) -> None:
    for style in ("yaml", "json"):
        writer = Writer(rng)
        getattr(writer, style)(value)
        document = only(line_end.join(writer.out))
        assert document.value == value
        assert {path: document.line_of(path) for path in paths(value) if path} == writer.lines


def test_without_libyaml_manifests_read_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [read(text, SOURCE) for text in (MANIFEST, LIST)]
    monkeypatch.setattr(parsing, "_Parser", yaml.SafeLoader)
    assert [read(text, SOURCE) for text in (MANIFEST, LIST)] == wanted


@pytest.mark.parametrize("escape", ["\\ud83d", "\\U00110000", "\\UFFFFFFFF", "\\/"])
def test_without_libyaml_odd_escapes_are_refused_too(
    escape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsing, "_Parser", yaml.SafeLoader)
    assert error(f'a: "{escape}"\n').startswith(f"{SOURCE}:1:")


def test_a_document_shows_itself_briefly() -> None:
    assert repr(only("a: 1\n")) == "Document('job.yaml', 0, {'a': 1}, ())"
