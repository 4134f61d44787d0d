"""--never_split: tokens stay whole in every program and in what it leaves.

`[MASK]` is in every vocabulary and stands here for a mark of one's own; without
the flag it becomes `[`, pieces of `mask`, `]`.
"""

import json

import numpy as np
import pytest

import bert
from data.squad import records as squad_records
from data.squad.window_options import WindowOptions
from data.squad.windows import Questions
from data.storage import manifests
from data.text.tokenization import FullTokenizer
from data.vectors import text_rows
from tests.data.pretraining.support import recipe_of, shard_names, write
from tests.data.squad.support import question, write_paragraph
from tests.support import rounding
from tests.support.classifier_support import write_texts
from tests.support.run_files import rows_in
from tests.training.finetuning_support import run_table
from training.export.predictor import Predictor

MARK = "[MASK]"
TEXTS = [f"The man {MARK} went.", f"x{MARK}y, a dog", "He bought milk", MARK]


@pytest.fixture
def tokenizer(goldens):
    return FullTokenizer(str(goldens / "vocab.txt"), never_split=[MARK])


def ids_in(path):
    return [row["input_ids"] for row in rows_in(path)]


def test_a_run_keeps_them_and_its_model_knows(goldens, tmp_path, tokenizer):
    write_texts(tmp_path / "data", TEXTS)
    run_table(goldens, tmp_path, do_predict=True, never_split=(MARK,))
    out = tmp_path / "out"
    rows = ids_in(out / "predict.tf_record")
    for text, row in zip(TEXTS, rows, strict=True):
        assert row[1 : row.index(3)] == tokenizer.encode(text)
    assert rows[3][:3] == [2, 4, 3]
    manifest = json.loads((out / "predict.tf_record.manifest.json").read_text())
    assert manifest["made_from"]["never_split"] == [MARK]
    written = np.loadtxt(out / "test_results.tsv", delimiter="\t")
    assert bert.load(str(out)).loaded.tokenizer.never_split == (MARK,)
    answers = Predictor.load(str(out)).predict(TEXTS)
    got = [answer["probabilities"] for answer in answers]
    rounding.assert_equal(got, written)


@pytest.mark.parametrize("num_processes", [0, 2])
def test_pretraining_records_have_them(
    goldens, tmp_path, tokenizer, num_processes
):
    text = tmp_path / "text.txt"
    line = f"the man went to {MARK} .\n"
    text.write_text("".join(f"{line * 4}\n" for _ in range(6)))
    options = {"max_seq_length": 32, "max_predictions_per_seq": 1}
    recipe = recipe_of(goldens / "vocab.txt", dupe_factor=1, **options)
    recipe = recipe.replace(never_split=(MARK,))
    write([text], tmp_path, recipe, num_processes=num_processes)
    words = {tokenizer.vocab["["], tokenizer.vocab["]"]}
    shards = shard_names(tmp_path, 2)
    rows = [row for path in shards for row in ids_in(path)]
    assert rows
    for row in rows:
        assert row.count(4) > 1  # one is a mask at most
        assert not words & set(row)
    assert manifests.of_shard(shards[0])["made_from"]["never_split"] == [MARK]


def test_finished_pretraining_records_are_known(goldens, tmp_path, logged):
    text = goldens / "pretraining_data/corpus.txt"
    recipe = recipe_of(goldens / "vocab.txt").replace(never_split=(MARK,))
    write([text], tmp_path, recipe)
    assert "2 of 2 shards are finished already." not in logged.messages
    write([text], tmp_path, recipe)
    assert "2 of 2 shards are finished already." in logged.messages


def test_questions_have_them(tmp_path, tokenizer):
    context = f"The man {MARK} went."
    asked = question("q", f"who {MARK}?", [("man", 4)])
    questions = Questions(
        write_paragraph(tmp_path / "dev.json", context, asked),
        tokenizer,
        WindowOptions(max_seq_length=32, max_query_length=8),
        is_training=True,
    )
    squad_records.make_records(questions, str(tmp_path / "eval.tf_record"))
    (row,) = ids_in(tmp_path / "eval.tf_record")
    first, second = map(tokenizer.encode, (f"who {MARK}?", context))
    used = [2, *first, 3, *second, 3]
    assert row[: len(used)] == used


def test_vectors_have_them_as_words(tokenizer):
    row = text_rows.RowMaker(tokenizer, 16).line(f"The x{MARK} man")
    assert row.words == ["[CLS]", "the", "x", MARK, "man", "[SEP]"]
    assert row.input_ids[3] == 4


def test_a_token_that_the_vocabulary_lacks_is_refused(goldens, tmp_path):
    write_texts(tmp_path / "data", TEXTS)
    message = r"has no \[X\] .*--extra_words of convert_checkp"
    with pytest.raises(ValueError, match=message):
        run_table(goldens, tmp_path, never_split=("[X]",))
