"""What run_pretraining.py makes of records that are damaged."""

import json

import pytest

from data.storage import files
from modeling import BertConfig
from tests.support.pretraining_support import RECORDS
from training.pretraining import run_records
from training.runs import pretraining


@pytest.fixture
def damaged(goldens, tmp_path):
    """The golden records, the contents of the second damaged."""
    content = bytearray((goldens / RECORDS).read_bytes())
    second = 16 + int.from_bytes(content[:8], "little")
    content[second + 100] ^= 1
    (tmp_path / "damaged.tf_record").write_bytes(content)
    return str(tmp_path / "damaged.tf_record"), second


def test_damage_is_refused_with_its_place_and_the_remedy(options, damaged):
    path, second = damaged
    with pytest.raises(ValueError) as error:
        pretraining.run(options.replace(input_file=path))
    message = str(error.value)
    place = f"{path}: record 2, at byte {second} of {files.size(path)}, is cut"
    assert message.startswith(place)
    assert "copy or write the file again. Or pass --skip_bad_records" in message


def test_damage_is_left_out_on_request(options, damaged, caplog):
    path, second = damaged
    with caplog.at_level("INFO", logger="absl"):
        pretraining.run(options.replace(input_file=path, skip_bad_records=True))
    # The golden file holds 337.
    assert f"{path}: 1 files, 336 examples." in caplog.messages
    assert (
        "--skip_bad_records: 1 of 1 files are damaged (records kept: 336; left "
        "out: 1, and 0 bytes after damage)."
    ) in caplog.messages


def test_an_empty_file_is_left_out_on_request(
    options, goldens, tmp_path, caplog
):
    path = tmp_path / "empty"
    path.touch()
    options = options.replace(input_file=f"{path},{goldens / RECORDS}")
    with pytest.raises(ValueError) as error:
        pretraining.run(options)
    message = f"{path} holds no records; write it again. Or pass --skip_bad_rec"
    assert str(error.value).startswith(message)
    with caplog.at_level("INFO", logger="absl"):
        pretraining.run(options.replace(skip_bad_records=True))
    assert f"{options.input_file}: 2 files, 337 examples." in caplog.messages
    assert (
        f"--skip_bad_records: {path} holds no records (records kept: 0; left "
        "out: 0, and 0 bytes after damage)."
    ) in caplog.messages


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
        return run_records.open_records(path, changed, config, {}, {})

    with pytest.raises(ValueError) as error:
        open_records()
    assert str(error.value).startswith(
        f"{path} has 1 of 337 records of its manifest; copy or write the file "
        "again. Or pass --skip_bad_records"
    )
    with caplog.at_level("WARNING", logger="absl"):
        assert open_records(skip_bad_records=True).count == 1
    assert caplog.messages == [
        f"--skip_bad_records: {path} has 1 of 337 records of its manifest."
    ]
    # A shard in another folder has the same name.
    other = {"file": "damaged.tf_record", "counts": {"examples": 1}}
    for shards in ([shard, other], [other, shard]):
        manifest = {"made_from": {}, "shards": shards}
        files.write_text(path + files.MANIFEST_SUFFIX, json.dumps(manifest))
        assert open_records().count == 1


def test_damage_under_the_run_is_named(options, goldens, tmp_path, monkeypatch):
    path = tmp_path / "records"
    content = bytearray((goldens / RECORDS).read_bytes())
    path.write_bytes(content)

    def damage(*_):
        content[100] ^= 1
        path.write_bytes(content)

    # All input is checked before.
    monkeypatch.setattr(pretraining.Start, "keep", damage)
    with pytest.raises(ValueError) as error:
        pretraining.run(options.replace(input_file=str(path)))
    message = str(error.value)
    assert message.startswith(
        f"{path}: record 1, at byte 0 of {len(content)}, "
    )
    assert "undamaged when the run began; the same command resumes" in message
