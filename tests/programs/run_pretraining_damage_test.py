import json

import pytest

from data.storage import files
from modeling import BertConfig
from tests.support.pretraining_support import RECORDS, refused
from tests.support.records_support import flipped
from training.pretraining import run_records
from training.runs import pretraining


@pytest.fixture
def damaged(goldens, tmp_path):
    """The golden records, the contents of the second damaged."""
    content = (goldens / RECORDS).read_bytes()
    second = 16 + int.from_bytes(content[:8], "little")
    path = tmp_path / "damaged.tf_record"
    path.write_bytes(flipped(content, second + 100))
    return str(path), second


def test_damage_is_refused_with_its_place_and_the_remedy(options, damaged):
    path, second = damaged
    message = f"^{path}: record 2, at byte {second} of {files.size(path)}, is"
    refused(options, f"{message}.* --skip_bad_records", input_file=path)


def test_damage_is_left_out_on_request(options, damaged, logged):
    path, second = damaged
    pretraining.run(options.replace(input_file=path, skip_bad_records=True))
    # The golden file holds 337.
    assert f"{path}: 1 files, 336 examples." in logged.messages
    message = "1 of 1 files are damaged (records kept: 336; left out: 1, and"
    assert message in logged.text


def test_a_file_cut_between_records_is_told_by_its_manifest(
    options, goldens, damaged, caplog
):
    path, second = damaged
    with open(path, "r+b") as file:
        file.truncate(second)
    shard = {"file": "damaged.tf_record", "counts": {"examples": 337}}
    manifest = {"made_from": {}, "shards": [shard]}
    files.write_text(path + files.MANIFEST_SUFFIX, json.dumps(manifest))
    config = BertConfig.from_json_file(str(goldens / "bert_config.json"))

    def open_records(**changes):
        changed = options.replace(**changes)
        return run_records.open_records(path, changed, config, {}, [])

    message = f"{path} has 1 of 337 records of its manifest"
    with pytest.raises(ValueError, match=f"^{message};.* --skip_bad_records"):
        open_records()
    with caplog.at_level("WARNING", logger="absl"):
        assert open_records(skip_bad_records=True).count == 1
    assert caplog.messages == [f"--skip_bad_records: {message}."]
    # A shard in another folder has the same name.
    other = {"file": "damaged.tf_record", "counts": {"examples": 1}}
    for shards in ([shard, other], [other, shard]):
        manifest = {"made_from": {}, "shards": shards}
        files.write_text(path + files.MANIFEST_SUFFIX, json.dumps(manifest))
        assert open_records().count == 1


def test_damage_under_the_run_is_named(options, goldens, tmp_path, monkeypatch):
    path = tmp_path / "records"
    content = (goldens / RECORDS).read_bytes()
    path.write_bytes(content)

    def damage(*_):
        path.write_bytes(flipped(content, 100))

    # All input is checked before.
    monkeypatch.setattr(pretraining.Start, "keep", damage)
    message = f"^{path}: record 1, at byte 0 of {len(content)}, .*undamaged"
    refused(options, f"{message}.* same command resumes", input_file=str(path))
