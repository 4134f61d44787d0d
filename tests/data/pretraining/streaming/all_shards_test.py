import collections
import dataclasses
import json
import os
import shutil
from unittest import mock

import pytest

from data.pretraining.streaming.plan import make_plan
from data.pretraining.streaming.shards import write_shard
from data.records import tfrecord
from data.storage import manifests
from tests.data.pretraining.support import (
    contents,
    decode,
    documents_of,
    parts_of,
    recipe_of,
    records_of,
    shard_names,
    write,
    write_corpus,
)


@pytest.fixture
def golden(goldens):
    return {
        "inputs": [goldens / "pretraining_data/corpus.txt"],
        "recipe": recipe_of(goldens / "vocab.txt"),
    }


@pytest.fixture
def numbers(tmp_path, vocab):
    """A corpus whose words tell their documents."""
    return {
        "inputs": [write_corpus(tmp_path / "numbers.txt", 60)],
        "recipe": recipe_of(vocab),
    }


def states(folder):
    """What changes if a file is written: name -> inode, time."""
    return {
        path.name: (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in folder.iterdir()
    }


def test_every_document_is_in_the_shards_as_often_as_asked(out, vocab, numbers):
    runs = {"next_sentence_prediction": False, "short_seq_prob": 0.0}
    recipe = recipe_of(vocab, dupe_factor=3, **runs)
    counted = write(numbers["inputs"], out, recipe, num_shards=7)
    assert counted["documents"] == 60
    rows = decode(recipe, records_of(out))
    counts = collections.Counter()
    for a, _ in parts_of(rows):
        counts.update(a)
    # 4 sentences of 3 words; rows of 62 lose none.
    assert counts == {5 + d: 3 * 12 for d in range(60)}


def test_as_many_shards_as_documents(out, tmp_path, vocab):
    # Each has one document, and lends from elsewhere.
    recipe = recipe_of(vocab)
    text = write_corpus(tmp_path / "a", 6)
    write([text], out, recipe, num_shards=6, num_processes=2)
    seen = set()
    for path in out.glob("out-*"):
        rows = decode(recipe, list(tfrecord.read_records(str(path))))
        labels = rows["next_sentence_labels"].ravel()
        pairs = documents_of(rows)
        assert [a != b for a, b in pairs] == labels.tolist()
        (document,) = {a for a, _ in pairs}
        seen.add(document)
    assert seen == {*range(6)}


def test_a_finished_run_is_left_as_it_is(out, golden, logged):
    first = write(folder=out, **golden)
    before = states(out)
    logged.clear()
    again = write(folder=out, **golden)
    assert states(out) == before
    assert "2 of 2 shards are finished already." in logged.messages
    assert again == first


def test_words_added_beside_the_vocabulary_make_all_shards_again(
    out, tmp_path, numbers, logged
):
    write(folder=out, **numbers)
    before = contents(out)
    size = len((tmp_path / "vocab.txt").read_text().splitlines())
    (tmp_path / "added_tokens.json").write_text(json.dumps({"new": size}))
    for finished in 0, 1:
        logged.clear()
        write(folder=out, **numbers)
        assert ("finished already" in logged.text) == finished
    manifest = json.loads((out / "out@2.manifest.json").read_text())
    assert manifest["vocab_size"] == size + 1
    assert contents(out).keys() == before.keys()


def test_a_damaged_shard_is_made_again_and_no_other(out, golden, logged):
    write(folder=out, num_shards=3, **golden)
    expected, before = contents(out), states(out)
    damaged = out / "out-00001-of-00003"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    write(folder=out, num_shards=3, **golden)
    assert "2 of 3 shards are finished already." in logged.messages
    assert contents(out) == expected
    after = states(out)
    for name in "out-00000-of-00003", "out-00002-of-00003":
        assert after[name] == before[name]
    assert after[damaged.name] != before[damaged.name]


def test_shards_that_no_manifest_lists_are_made_again(out, golden, logged):
    write(folder=out, num_shards=3, **golden)
    expected, path = contents(out), out / "out@3.manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["shards"][2], manifest["shards"][1]["sha256"]
    path.write_text(json.dumps(manifest))
    write(folder=out, num_shards=3, **golden)
    assert "1 of 3 shards are finished already." in logged.messages
    assert contents(out) == expected


def run_some(number):
    """A runner that ends after some shards, and what it was given."""
    given = []

    def run(tasks):
        given.extend(task.index for task in tasks)
        for task in tasks[:number]:
            write_shard(task)
        if number < len(tasks):
            raise RuntimeError("stop")

    return run, given


def test_a_stopped_run_goes_on_with_the_shards_that_are_missing(
    tmp_path, out, golden, logged, monkeypatch
):
    write(folder=tmp_path / "whole", num_shards=5, **golden)
    checked = mock.Mock(wraps=manifests.is_complete)
    monkeypatch.setattr(manifests, "is_complete", checked)
    for number in 1, 2:
        run, _ = run_some(1)
        logged.clear()
        with pytest.raises(RuntimeError, match="stop"):
            write(folder=out, num_shards=5, runner=run, **golden)
        kept = f"{number} of 5 shards are finished and kept; the same command"
        assert logged.messages[-1].startswith(kept)
    # At the start of the second run; the end of a run reads no shard.
    assert checked.call_count == 1
    # No shard has its name yet: what a glob finds is never a part of the run.
    assert not [name for name in contents(out) if ".incomplete-" not in name]
    run, given = run_some(9)
    write(folder=out, num_shards=5, runner=run, **golden)
    assert given == [2, 3, 4]
    assert contents(out) == contents(tmp_path / "whole")


def test_old_shards_stay_until_the_new_ones_are_whole(out, golden):
    write(folder=out, **golden)
    before = contents(out)
    recipe = recipe_of(golden["recipe"].vocab_file, dupe_factor=3)
    run, _ = run_some(1)
    with pytest.raises(RuntimeError):
        write(golden["inputs"], out, recipe, runner=run)
    assert contents(out).items() >= before.items()
    # The files of the old run are still complete.
    state = states(out)
    write(folder=out, **golden)
    for name in before:
        assert states(out)[name] == state[name]


@pytest.mark.parametrize("num_processes", [1, 2])
def test_text_that_turns_out_bad_loses_no_finished_shard(
    out, numbers, num_processes
):
    (text,) = numbers["inputs"]
    good = text.read_bytes()
    # A plan of the good text, of which one shard is finished.
    plan = make_plan([str(text)], shard_names(out, 4), numbers["recipe"])
    write_shard(plan.tasks[0])
    finished = contents(out)
    text.write_bytes(good.replace(b"30 30 30", b"30 30 3\xff"))
    with pytest.raises(ValueError, match="numbers.txt, line 151: byte 8 of"):
        write(folder=out, num_shards=4, num_processes=num_processes, **numbers)
    assert contents(out) == finished
    text.write_bytes(good)
    run, given = run_some(9)
    write(folder=out, num_shards=4, runner=run, **numbers)
    assert given == [1, 2, 3]


def test_an_output_that_is_an_input_is_refused(out, golden):
    path = out / "out-00000-of-00002"
    shutil.copy(golden["inputs"][0], path)
    with pytest.raises(ValueError, match="is a file of --input_file, too"):
        write([path], out, golden["recipe"])
    vocab = dataclasses.replace(golden["recipe"], vocab_file=str(path))
    with pytest.raises(ValueError, match="is a file of --vocab_file, too"):
        write(golden["inputs"], out, vocab)
    assert path.read_bytes() == golden["inputs"][0].read_bytes()


def test_shards_are_written_to_the_targets_of_links(out, tmp_path, golden):
    links = [out / f"out-0000{i}-of-00002" for i in range(2)]
    for i, link in enumerate(links):
        link.symlink_to(tmp_path / f"disk{i}")
    write(folder=out, **golden)
    assert all(link.is_symlink() for link in links)
    names = {link.name for link in links}
    assert {*os.listdir(out)} == names | {"out@2.manifest.json"}
    before = states(out)
    write(folder=out, **golden)  # all shards are found again
    assert states(out) == before


def test_a_pipe_cannot_be_read_again(out, golden):
    os.mkfifo(out / "out-00001-of-00002")
    with pytest.raises(ValueError, match="pipe.*leave out --num_processes"):
        write(folder=out, **golden)
    assert os.listdir(out) == ["out-00001-of-00002"]
    (out / "out-00001-of-00002").rename(out / "text")
    with pytest.raises(ValueError, match="--input_file: .*/text is a .*pipe"):
        write(folder=out, **golden | {"inputs": [out / "text"]})


def test_more_processes_than_shards_are_warned_of(out, golden, logged):
    write(folder=out, num_processes=3, **golden)
    assert "--output_file names 2 files" in logged.messages[0]
    assert "such as NAME@3" in logged.messages[0]
