"""One shard: a function of its task, in memory that does not grow."""

import dataclasses
import os

import numpy as np
import pytest

from data.pretraining.streaming import disk_shuffle, shards
from data.pretraining.streaming.corpus import scan_file
from data.pretraining.streaming.shards import ShardTask, write_shard
from data.records import tfrecord
from data.storage import files
from tests.data.pretraining.support import (
    MASK,
    decode,
    documents_of,
    recipe_of,
    records_of,
    write_corpus,
)


@pytest.fixture
def make_task(tmp_path, vocab):
    def make(text, index=0, spare=(), **options):
        blocks = scan_file(str(text), 0).blocks
        return ShardTask(
            recipe_of(vocab, **options),
            index,
            str(tmp_path / f"out-{index}-of-9"),
            blocks[: len(blocks) - len(spare)],
            tuple(spare),
            output="",
        )

    return make


def test_the_report_counts_what_the_shard_holds(tmp_path, make_task):
    text = write_corpus(tmp_path / "a", 30)
    text.write_text(text.read_text() + "\nunheard of\n")
    task = make_task(text)
    report = write_shard(task)
    rows = decode(task.recipe, records_of(tmp_path))
    assert report["counts"] == {
        "documents": 31,
        "sentences": 30 * 4 + 1,
        "wordpieces": 30 * 12 + 2,
        "unknown": 2,
        "examples": len(rows["input_ids"]),
        "tokens": rows["input_mask"].sum(),
        "masked": rows["masked_lm_weights"].sum(),
        "label_1": rows["next_sentence_labels"].sum(),
        "bytes": files.size(task.path),
    }
    assert report["sha256"] == files.sha256(task.path)
    assert len(report["samples"]) == 3
    assert shards.load_report(task.path) == report


def test_progress_tells_all_bytes_and_all_examples(
    tmp_path, make_task, monkeypatch
):
    monkeypatch.setattr(shards, "_GROUP_BYTES", 100)
    told = []
    task = make_task(write_corpus(tmp_path / "a", 40))
    task = dataclasses.replace(task, spare_blocks=task.blocks[:2])
    report = write_shard(task, lambda *more: told.append(more))
    num_bytes, num_examples = map(sum, zip(*told, strict=True))
    assert num_bytes == task.num_bytes == (tmp_path / "a").stat().st_size
    assert num_examples == report["counts"]["examples"]


@pytest.mark.parametrize(
    ("num_books", "expected"), [(200, shards._MIN_DOCUMENTS), (20, 20)]
)
def test_a_shard_of_few_documents_borrows_passages_of_others(
    tmp_path, make_task, num_books, expected
):
    # Else a shard of two books tells a random next sentence by its book.
    text = write_corpus(tmp_path / "books", num_books, num_sentences=60)
    spare = scan_file(str(text), 0).blocks[2:]
    task = make_task(text, spare=spare, dupe_factor=60)
    report = write_shard(task)
    rows = decode(task.recipe, records_of(tmp_path))
    pairs = documents_of(rows)
    labels = rows["next_sentence_labels"].ravel()
    random_next = [b for (_, b), x in zip(pairs, labels, strict=True) if x]
    assert {a for a, _ in pairs} == {0, 1}
    assert report["counts"]["documents"] == 2
    assert len(set(random_next) | {0, 1}) == pytest.approx(expected, rel=0.15)
    # None of them is everywhere: most b of a book are not of the other one.
    assert random_next.count(1) < 0.5 * len(random_next)


def test_shards_of_the_same_text_differ_by_index_and_seed(tmp_path, make_task):
    text = write_corpus(tmp_path / "a", 30)
    found = set()
    for index, seed in (0, 1), (1, 1), (0, 2), (0, -1):
        task = make_task(text, index, random_seed=seed)
        path = str(tmp_path / f"shard-{index}-{seed}")
        report = write_shard(dataclasses.replace(task, path=path))
        assert bool(report["samples"]) == (index == 0)
        found.add(tuple(sorted(tfrecord.read_records(path))))
    assert len(found) == 4


@pytest.mark.parametrize("group_bytes", [1, 100, 10**6])
def test_random_next_sentences_are_of_other_documents(
    tmp_path, make_task, monkeypatch, group_bytes
):
    # Groups of one document, of a few, and of all.
    monkeypatch.setattr(shards, "_GROUP_BYTES", group_bytes)
    text = write_corpus(tmp_path / "a", 30)
    task = make_task(text, spare=scan_file(str(text), 0).blocks[-2:])
    report = write_shard(task)
    rows = decode(task.recipe, records_of(tmp_path))
    documents = documents_of(rows)
    labels = rows["next_sentence_labels"].ravel()
    assert [a != b for a, b in documents] == labels.tolist()
    # Documents that only give random sentences are not counted.
    assert {a for a, _ in documents} == {*range(28)}
    assert report["counts"]["documents"] == 28
    if group_bytes == 1:
        assert {b for a, b in documents if a != b} == {28, 29}


def test_a_finished_shard_is_not_written_again(tmp_path, make_task):
    task = make_task(write_corpus(tmp_path / "a", 9))
    report = write_shard(task)
    (tmp_path / "a").unlink()
    assert write_shard(task) == report


@pytest.mark.parametrize("text", ["{", '{"counts": {}}', '{"sha256": ""}'])
def test_a_damaged_report_is_none(tmp_path, make_task, text):
    task = make_task(write_corpus(tmp_path / "a", 9))
    report = write_shard(task)
    (tmp_path / "out-0-of-9.json").write_text(text)
    assert shards.load_report(task.path) is None
    assert write_shard(task) == report


def test_text_that_makes_no_tokens_is_refused(tmp_path, make_task):
    (tmp_path / "a").write_text("\u200b\n\n\u200b\u200b\n", "utf-8")
    with pytest.raises(ValueError, match="--output_file .* 3 is .*name fewer"):
        write_shard(make_task(tmp_path / "a", index=3))
    assert not list(tmp_path.glob("out*"))


def test_an_error_leaves_nothing_on_disk(tmp_path, make_task, monkeypatch):
    monkeypatch.setattr(disk_shuffle, "BUCKET_BYTES", 1000)
    task = make_task(write_corpus(tmp_path / "a", 30))

    def advance(num_bytes, num_examples):
        # Asked once more while the shard is written: that is the last time.
        if not num_bytes and not num_examples:
            # Under the shard's name, so that the next run finds what a killed
            # one left, and globs for finished files leave it out.
            assert list(tmp_path.glob("out-0-of-9.shuffle-*"))
            assert list(tmp_path.glob("out-0-of-9.incomplete-*"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_shard(task, advance)
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("num_words", [1, 40])
def test_a_bucket_has_a_bounded_size_however_short_the_documents(
    tmp_path, make_task, monkeypatch, num_words
):
    monkeypatch.setattr(disk_shuffle, "BUCKET_BYTES", 1 << 16)
    sizes = []

    def read_records(path, inner=tfrecord.read_records):
        sizes.append(os.path.getsize(path))
        return inner(path)

    monkeypatch.setattr(disk_shuffle.tfrecord, "read_records", read_records)
    num_documents = 3000 // num_words
    (tmp_path / "a").write_text(("7 8 9 " * num_words + "\n\n") * num_documents)
    report = write_shard(make_task(tmp_path / "a", max_seq_length=512))
    assert len(sizes) > 3
    assert sum(sizes) == report["counts"]["bytes"]
    assert max(sizes) < 2 * disk_shuffle.BUCKET_BYTES


def test_records_are_shuffled(tmp_path, make_task):
    task = make_task(write_corpus(tmp_path / "a", 90))
    write_shard(task)
    rows = decode(task.recipe, records_of(tmp_path))
    # Of a random order, about half of the steps go up: n / 2 +- sqrt(n) / 2.
    steps = np.sign(np.diff([a for a, _ in documents_of(rows)]))
    assert abs(steps.sum()) < 4.5 * len(steps) ** 0.5


def test_gzip_holds_the_same_records(tmp_path, make_task):
    text = write_corpus(tmp_path / "a", 30)
    plain = make_task(text)
    zipped = make_task(text, compression="gzip")
    zipped = dataclasses.replace(zipped, path=str(tmp_path / "zip"))
    sizes = [write_shard(task)["counts"]["bytes"] for task in (plain, zipped)]
    assert records_of(tmp_path) == records_of(tmp_path, "zip")
    assert sizes[1] < sizes[0] / 2
    assert (tmp_path / "zip").read_bytes()[:2] == b"\x1f\x8b"


def test_records_for_dynamic_masking_have_no_masks(tmp_path, make_task):
    text = write_corpus(tmp_path / "a", 30)
    task = make_task(text, masking="dynamic", dupe_factor=1)
    assert "masked" not in write_shard(task)["counts"]
    assert MASK not in decode(task.recipe, records_of(tmp_path))["input_ids"]
    assert not any(b"masked_lm" in record for record in records_of(tmp_path))


def test_paragraphs_are_cut_into_sentences(tmp_path, make_task):
    (tmp_path / "a").write_text("1 2 3. 4 5 6. 7 8 9.\n\n10 11 12.\n")
    for splits, count in (False, 2), (True, 4):
        task = make_task(tmp_path / "a", index=count, split_sentences=splits)
        assert write_shard(task)["counts"]["sentences"] == count
