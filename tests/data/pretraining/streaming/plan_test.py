"""Which text goes into which shard: a function of text, flags and seed."""

import os
import re

import pytest

from data.pretraining.streaming import corpus
from data.pretraining.streaming import plan as planning
from data.pretraining.streaming.corpus import Block, read_block
from data.storage import manifests
from tests.data.pretraining.support import (
    recipe_of,
    shard_names,
    write_corpus,
    write_number_vocab,
)


@pytest.fixture
def vocab(tmp_path):
    return write_number_vocab(tmp_path / "vocab.txt", 100)


def make(inputs, folder, recipe, num_shards=2, map_=map):
    return planning.make_plan(
        list(map(str, inputs)), shard_names(folder, num_shards), recipe, map_
    )


def mark_of(plan):
    """What tells its unfinished shards from another plan's."""
    (mark,) = {task.path.partition(".incomplete-")[2] for task in plan.tasks}
    return mark


def documents_of(blocks):
    """Number -> lines."""
    documents = {}
    for block in blocks:
        for number, lines in read_block(block):
            documents.setdefault(number, []).extend(lines)
    return documents


def test_every_document_is_in_one_shard(tmp_path, vocab):
    inputs = [
        write_corpus(tmp_path / "a", 37),
        write_corpus(tmp_path / "b", 5, first=37),
        tmp_path / "empty",
        write_corpus(tmp_path / "c", 58, first=42),
    ]
    (tmp_path / "empty").write_text("\n")
    plan = make(inputs, tmp_path, recipe_of(vocab), 3)
    blocks = [block for task in plan.tasks for block in task.blocks]
    assert len(set(blocks)) == len(blocks)
    # Numbers count through all files, in their order.
    assert documents_of(blocks) == {d: [f"{d} {d} {d}"] * 4 for d in range(100)}
    per_shard = [documents_of(task.blocks).keys() for task in plan.tasks]
    assert sum(map(len, per_shard)) == 100
    # Not in the order of the text.
    assert list(documents_of(blocks)) != sorted(documents_of(blocks))


def test_the_plan_does_not_depend_on_time_place_or_scanner(tmp_path, vocab):
    def reversed_map(function, *items):
        items = list(zip(*items, strict=False))
        return [function(*item) for item in items[::-1]][::-1]

    recipe = recipe_of(vocab)
    path = write_corpus(tmp_path / "a", 50)
    other = write_corpus(tmp_path / "b", 50, first=50)
    first = make([path, other], tmp_path, recipe)
    os.utime(path, (1, 1))
    assert make([path, other], tmp_path, recipe) == first
    assert make([path, other], tmp_path, recipe, map_=reversed_map) == first
    (tmp_path / "copy").mkdir()
    copy = path.rename(tmp_path / "copy" / "a")
    assert mark_of(make([copy, other], tmp_path, recipe)) == mark_of(first)


def test_another_seed_deals_otherwise(tmp_path, vocab):
    path = write_corpus(tmp_path / "a", 100)
    dealt = [
        [
            documents_of(task.blocks)
            for task in make(
                [path], tmp_path, recipe_of(vocab, random_seed=seed)
            ).tasks
        ]
        for seed in (1, 2, -1)
    ]
    assert dealt[0] != dealt[1] != dealt[2] != dealt[0]


@pytest.mark.parametrize(
    "changed",
    [
        {"max_seq_length": 65},
        {"max_predictions_per_seq": 11},
        {"dupe_factor": 3},
        {"random_seed": 1},
        {"short_seq_prob": 0.2},
        {"masked_lm_prob": 0.2},
        {"do_whole_word_mask": True},
        {"mask_token_prob": 0.7},
        {"random_token_prob": 0.2},
        {"next_sentence_prediction": False},
        {"next_sentence_prediction": False, "join_documents": True},
        {"sentence_order_prediction": True},
        {"max_ngram_size": 2},
        {"masking": "dynamic"},
        {"compression": "gzip"},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_every_flag_makes_another_plan(tmp_path, vocab, changed):
    path = write_corpus(tmp_path / "a", 9)
    plain = make([path], tmp_path, recipe_of(vocab))
    other = make([path], tmp_path, recipe_of(vocab, **changed))
    assert mark_of(plain) != mark_of(other)
    assert plain.facts != other.facts


def test_other_text_vocabulary_or_shards_make_another_plan(tmp_path, vocab):
    path = write_corpus(tmp_path / "a", 9)
    recipe = recipe_of(vocab)
    marks = [mark_of(make([path], tmp_path, recipe))]
    marks.append(mark_of(make([path], tmp_path, recipe, 3)))
    marks.append(mark_of(make([path, path], tmp_path, recipe)))
    path.write_text(path.read_text().replace("7 7 7", "7 7 8", 1))
    marks.append(mark_of(make([path], tmp_path, recipe)))
    vocab.write_text(vocab.read_text() + "more\n")
    marks.append(mark_of(make([path], tmp_path, recipe)))
    assert len(set(marks)) == 5


def test_facts_say_what_the_output_is_made_from(tmp_path, vocab):
    path = write_corpus(tmp_path / "a.txt", 9)
    facts = make([path], tmp_path, recipe_of(vocab)).facts
    assert facts["random_seed"] == 12345 and facts["num_shards"] == 2
    assert facts["dupe_factor"] == 2 and facts["compression"] == "none"
    assert re.fullmatch("[0-9a-f]{64}", facts["vocab_sha256"])
    (file,) = facts["corpus"]
    assert file["name"] == "a.txt" and file["documents"] == 9
    assert file["bytes"] == path.stat().st_size
    assert re.fullmatch("[0-9a-f]{8}", file["crc32c"])


@pytest.mark.parametrize("num_shards", [1, 7, 64])
def test_shards_are_of_about_one_size(tmp_path, vocab, num_shards):
    path = write_corpus(tmp_path / "a", 3000)
    plan = make([path], tmp_path, recipe_of(vocab), num_shards)
    sizes = [task.num_bytes for task in plan.tasks]
    assert sum(sizes) == path.stat().st_size
    # 16 blocks for each: one more or less, each up to a document too long.
    assert max(sizes) - min(sizes) <= 2 * sum(sizes) / num_shards / 16 + 100


def test_a_shard_with_a_large_document_gets_fewer_others(tmp_path, vocab):
    path = tmp_path / "a"
    small = ["2 2 2\n" * 4] * 1000
    path.write_text("\n".join(["1 1 1\n" * 1000, *small]))
    plan = make([path], tmp_path, recipe_of(vocab), 4)
    sizes = [task.num_bytes for task in plan.tasks]
    # 31,000 bytes, of which the large document has 6,000.
    assert max(sizes) < 1.2 * min(sizes)


def test_few_large_documents_among_small_ones_fill_all_shards(tmp_path, vocab):
    path = tmp_path / "a"
    large = "1 1 1\n" * 20_000
    path.write_text(f"{large}\n2\n\n3\n\n{large}\n4\n")
    plan = make([path], tmp_path, recipe_of(vocab), 5)
    numbers = [list(documents_of(task.blocks)) for task in plan.tasks]
    assert sorted(sum(numbers, [])) == [0, 1, 2, 3, 4]
    assert all(numbers)


def test_a_document_longer_than_a_block_fills_several_shards(
    tmp_path, vocab, monkeypatch
):
    monkeypatch.setattr(corpus, "MAX_BLOCK_BYTES", 100)
    path = tmp_path / "a"
    path.write_text("1 1 1\n" * 100)
    recipe = recipe_of(vocab, next_sentence_prediction=False)
    plan = make([path], tmp_path, recipe, 3)
    assert [len(documents_of(task.blocks)) for task in plan.tasks] == [1, 1, 1]
    assert {block.number for task in plan.tasks for block in task.blocks} == {0}


def test_fewer_documents_than_shards_are_refused(tmp_path, vocab):
    path = write_corpus(tmp_path / "a", 3)
    assert len(make([path], tmp_path, recipe_of(vocab), 3).tasks) == 3
    message = "--output_file names 4 files, .* only 3 documents .*name no more"
    with pytest.raises(ValueError, match=message):
        make([path], tmp_path, recipe_of(vocab), 4)


def test_one_document_is_refused_only_for_pairs(tmp_path, vocab):
    path = write_corpus(tmp_path / "a", 1)
    message = f"--input_file: {path} is a single document.* blank line .*pass "
    message += "--next_sentence_prediction=false"
    with pytest.raises(ValueError, match=message):
        make([path], tmp_path, recipe_of(vocab), 1)
    recipe = recipe_of(vocab, next_sentence_prediction=False)
    (task,) = make([path], tmp_path, recipe, 1).tasks
    assert list(documents_of(task.blocks)) == [0]


def test_a_corpus_without_text_is_refused(tmp_path, vocab):
    path = tmp_path / "a"
    path.write_text("\n \n\u3000\n", "utf-8")
    with pytest.raises(ValueError, match=f"--input_file: no text in {path}; "):
        make([path], tmp_path, recipe_of(vocab), 1)


def test_spare_blocks_have_another_document_than_any(tmp_path, vocab):
    def block(number, num_documents):
        return Block("a", 0, 1, number, num_documents, 0)

    corpora = [
        [block(0, 1), block(1, 1)],
        [block(0, 2)],
        [block(0, 1)] * 5 + [block(0, 2)],  # a long document, and its end
        [block(0, 1)] * 3 + [block(1, 1)] * 3,
        [block(0, 3), block(3, 1), block(3, 1), block(4, 7)],
    ]
    for blocks in corpora:
        for first in range(len(blocks) + 1):
            spare = planning._spare_blocks(blocks, first)
            numbers = {
                number
                for some in spare
                for number in range(
                    some.number, some.number + some.num_documents
                )
            }
            assert len(numbers) > 1, (blocks, first)
            # Where there are others, each document finds all of them.
            everything = {
                number
                for some in blocks
                for number in range(
                    some.number, some.number + some.num_documents
                )
            }
            assert numbers == everything, (blocks, first)
    # With one document there is none.
    assert planning._spare_blocks([block(0, 1)] * 3, 1) == (block(0, 1),)


@pytest.mark.parametrize(
    ("output", "manifest"),
    [
        ("x/out-00000-of-00064", "x/out@64.manifest.json"),
        ("out.tf_record", "out.tf_record.manifest.json"),
        ("a-00000-of-00002.gz", "a-00000-of-00002.gz.manifest.json"),
    ],
)
def test_the_manifest_is_named_after_the_shards(output, manifest):
    assert manifests.path_of([output]) == manifest
