import pytest

from data.storage import manifests


@pytest.mark.parametrize("text", ["", "[]", "null", "1", "\udcff"])
def test_a_manifest_of_other_content_does_not_count(tmp_path, text):
    path = tmp_path / "manifest.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    assert manifests.read(str(path)) == {}


def test_an_option_that_is_not_set_is_no_change():
    before, now = {"seed": 1}, {"seed": 1, "stride": 0, "never_split": []}
    assert manifests.changes(before, now) == []
    assert manifests.changes(now, before) == []
    assert manifests.changes(before, now | {"stride": 3}) == [
        "stride None -> 3"
    ]


@pytest.mark.parametrize(
    ("output", "manifest"),
    [
        ("x/out-00000-of-00064", "x/out@64.manifest.json"),
        ("out.tf_record", "out.tf_record.manifest.json"),
        ("a-00000-of-00002.gz", "a-00000-of-00002.gz.manifest.json"),
    ],
)
def test_a_manifest_is_named_after_the_shards(output, manifest):
    assert manifests.path_of([output]) == manifest
