"""Which text goes into which shard: a function of text, flags and seed."""

import dataclasses
import os
import re

import pytest

from data.pretraining.data_options import PretrainingDataOptions
from data.pretraining.streaming import corpus
from data.pretraining.streaming import plan as planning
from data.pretraining.streaming.corpus import Block
from tests.data.pretraining.support import (
    lines_of,
    recipe_of,
    shard_names,
    write_corpus,
)


@pytest.fixture
def make(tmp_path, vocab):
    """Makes the plan of text files, with some options."""

    def make(*inputs, num_shards=2, map_=map, **options):
        names = shard_names(tmp_path, num_shards)
        recipe = recipe_of(vocab, **options)
        return planning.make_plan(list(map(str, inputs)), names, recipe, map_)

    return make


def mark_of(plan):
    """What tells its unfinished shards from another plan's."""
    (mark,) = {task.path.partition(".incomplete-")[2] for task in plan.tasks}
    return mark


def test_every_document_is_in_one_shard(tmp_path, make):
    inputs = [
        write_corpus(tmp_path / "a", 37),
        write_corpus(tmp_path / "b", 5, first=37),
        tmp_path / "empty",
        write_corpus(tmp_path / "c", 58, first=42),
    ]
    (tmp_path / "empty").write_text("\n")
    plan = make(*inputs, num_shards=3)
    blocks = [block for task in plan.tasks for block in task.blocks]
    assert len(set(blocks)) == len(blocks)
    # Numbers count through all files, in their order.
    assert lines_of(blocks) == {d: [f"{d} {d} {d}"] * 4 for d in range(100)}
    per_shard = [lines_of(task.blocks).keys() for task in plan.tasks]
    assert sum(map(len, per_shard)) == 100
    # Not in the order of the text.
    assert list(lines_of(blocks)) != sorted(lines_of(blocks))


def test_the_plan_does_not_depend_on_time_place_or_scanner(tmp_path, make):
    def reversed_map(function, *items):
        items = list(zip(*items, strict=False))
        return [function(*item) for item in items[::-1]][::-1]

    path = write_corpus(tmp_path / "a", 50)
    other = write_corpus(tmp_path / "b", 50, first=50)
    first = make(path, other)
    os.utime(path, (1, 1))
    assert make(path, other) == first
    assert make(path, other, map_=reversed_map) == first
    (tmp_path / "copy").mkdir()
    copy = path.rename(tmp_path / "copy" / "a")
    assert mark_of(make(copy, other)) == mark_of(first)


def test_another_seed_deals_otherwise(tmp_path, make):
    path = write_corpus(tmp_path / "a", 100)
    plans = [make(path, random_seed=seed) for seed in (1, 2, -1)]
    first, second, third = (
        [lines_of(task.blocks) for task in plan.tasks] for plan in plans
    )
    assert first != second != third != first


def test_other_text_flags_vocabulary_or_shards_make_another_plan(
    tmp_path, vocab, make
):
    path = write_corpus(tmp_path / "a", 9)
    plans = [make(path), make(path, num_shards=3), make(path, path)]
    plans.append(make(path, max_seq_length=65))
    plans.append(make(path, masking="dynamic"))
    plans.append(make(path, compression="gzip"))
    path.write_text(path.read_text().replace("7 7 7", "7 7 8", 1))
    plans.append(make(path))
    vocab.write_text(vocab.read_text() + "more\n")
    plans.append(make(path))
    assert len(set(map(mark_of, plans))) == len(plans)


def test_facts_say_what_the_output_is_made_from(tmp_path, make):
    path = write_corpus(tmp_path / "a.txt", 9)
    facts = make(path).facts
    options = dataclasses.fields(PretrainingDataOptions)
    assert {option.name for option in options} <= facts.keys()
    assert facts["random_seed"] == 12345 and facts["num_shards"] == 2
    assert facts["dupe_factor"] == 2 and facts["compression"] == "none"
    assert re.fullmatch("[0-9a-f]{64}", facts["vocab_sha256"])
    (file,) = facts["corpus"]
    assert file["name"] == "a.txt" and file["documents"] == 9
    assert file["bytes"] == path.stat().st_size
    assert re.fullmatch("[0-9a-f]{8}", file["crc32c"])


@pytest.mark.parametrize("num_shards", [1, 7, 64])
def test_shards_are_of_about_one_size(tmp_path, make, num_shards):
    path = write_corpus(tmp_path / "a", 3000)
    sizes = [task.num_bytes for task in make(path, num_shards=num_shards).tasks]
    assert sum(sizes) == path.stat().st_size
    # 16 blocks for each: one more or less, each up to a document too long.
    assert max(sizes) - min(sizes) <= 2 * sum(sizes) / num_shards / 16 + 100


def test_a_shard_with_a_large_document_gets_fewer_others(tmp_path, make):
    path = tmp_path / "a"
    small = ["2 2 2\n" * 4] * 1000
    path.write_text("\n".join(["1 1 1\n" * 1000, *small]))
    sizes = [task.num_bytes for task in make(path, num_shards=4).tasks]
    # 31,000 bytes, of which the large document has 6,000.
    assert max(sizes) < 1.2 * min(sizes)


def test_few_large_documents_among_small_ones_fill_all_shards(tmp_path, make):
    path = tmp_path / "a"
    large = "1 1 1\n" * 20_000
    path.write_text(f"{large}\n2\n\n3\n\n{large}\n4\n")
    plan = make(path, num_shards=5)
    numbers = [list(lines_of(task.blocks)) for task in plan.tasks]
    assert sorted(sum(numbers, [])) == [0, 1, 2, 3, 4]
    assert all(numbers)


def test_a_document_longer_than_a_block_fills_several_shards(
    tmp_path, make, monkeypatch
):
    monkeypatch.setattr(corpus, "MAX_BLOCK_BYTES", 100)
    path = tmp_path / "a"
    path.write_text("1 1 1\n" * 100)
    plan = make(path, num_shards=3, next_sentence_prediction=False)
    assert [len(lines_of(task.blocks)) for task in plan.tasks] == [1, 1, 1]
    assert {block.number for task in plan.tasks for block in task.blocks} == {0}


def test_fewer_documents_than_shards_are_refused(tmp_path, make):
    path = write_corpus(tmp_path / "a", 3)
    assert len(make(path, num_shards=3).tasks) == 3
    message = "--output_file names 4 files, .* only 3 documents .*name no more"
    with pytest.raises(ValueError, match=message):
        make(path, num_shards=4)


def test_one_document_is_refused_only_for_pairs(tmp_path, make):
    path = write_corpus(tmp_path / "a", 1)
    message = "--input_file: .*single document.*next_sentence_prediction=false"
    with pytest.raises(ValueError, match=message):
        make(path, num_shards=1)
    (task,) = make(path, num_shards=1, next_sentence_prediction=False).tasks
    assert list(lines_of(task.blocks)) == [0]


def test_a_corpus_without_text_is_refused(tmp_path, make):
    path = tmp_path / "a"
    path.write_text("\n \n\u3000\n", "utf-8")
    with pytest.raises(ValueError, match=f"--input_file: no text in {path}; "):
        make(path, num_shards=1)


def numbers_of(blocks):
    return {
        number
        for block in blocks
        for number in range(block.number, block.number + block.num_documents)
    }


def test_spare_blocks_have_all_documents():
    def block(number, num_documents):
        return Block("a", 0, 1, number, num_documents, 0)

    for blocks in (
        [block(0, 1), block(1, 1)],
        [block(0, 2)],
        [block(0, 1)] * 5 + [block(0, 2)],  # a long document, and its end
        [block(0, 1)] * 3 + [block(1, 1)] * 3,
        [block(0, 3), block(3, 1), block(3, 1), block(4, 7)],
    ):
        for first in range(len(blocks) + 1):
            spare = planning._spare_blocks(blocks, first)
            assert numbers_of(spare) == numbers_of(blocks), (blocks, first)
    # Of one document, one part is enough.
    assert planning._spare_blocks([block(0, 1)] * 3, 1) == (block(0, 1),)
