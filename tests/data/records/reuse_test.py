import hashlib

import pytest

from data.records import reuse


@pytest.fixture
def make(tmp_path):
    """Makes a file of its number; returns whether it was used again."""
    path, written = tmp_path / "records", []

    def write():
        written.append(b"%d" % len(written))
        path.write_bytes(written[-1])
        return reuse.RowsReport(3), hashlib.sha256(written[-1]).hexdigest()

    def make_once(**facts):
        report = reuse.make_once(str(path), facts, reuse.RowsReport, write)
        assert report.num_examples == 3
        assert reuse.made_from(str(path)) == facts
        assert path.read_bytes() == written[-1]
        return report.reused

    return make_once


def test_the_same_facts_make_a_file_once(make):
    assert [make(seed=1), make(seed=1), make(seed=1)] == [False, True, True]
    assert [make(seed=2), make(seed=1), make(seed=1)] == [False, False, True]


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"made_from": {}, "report": {"x": 1}}']
)
def test_a_manifest_of_other_content_does_not_count(make, tmp_path, content):
    make()
    (tmp_path / "records.manifest.json").write_text(content)
    assert [make(), make()] == [False, True]


def test_a_changed_file_is_made_again(make, tmp_path):
    make()
    (tmp_path / "records").write_bytes(b"x")
    assert [make(), make()] == [False, True]
