"""A model's vocabulary and the size of a text, from what records say."""

import json
import random
import shutil

import pytest

from data.pretraining import text_facts
from data.pretraining.exact import in_memory
from data.storage import files
from modeling.config import BertConfig
from tests.data.pretraining.support import recipe_of
from tests.support.model_folders import change_json, write_config
from tests.support.pretraining_support import make_options, refused
from training.pretraining import text_size
from training.runs import pretraining
from training.start.source import Source

WORDS = ["old", "mill", "river", "corn", "stone"]
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


@pytest.fixture
def records(tmp_path):
    """Records of a text of 480 wordpieces and a vocabulary of ten."""
    draw = random.Random(5)
    lines = [" ".join(draw.choices(WORDS, k=4)) for _ in range(120)]
    text = "\n\n".join("\n".join(lines[i : i + 6]) for i in range(0, 120, 6))
    (tmp_path / "in.txt").write_text(text)
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENS))
    in_memory.write_pretraining_data(
        [str(tmp_path / "in.txt")],
        [str(tmp_path / "a"), str(tmp_path / "b")],
        recipe_of(tmp_path / "vocab.txt", dupe_factor=3),
    )
    return f"{tmp_path}/a,{tmp_path}/b"


@pytest.fixture
def options(goldens, tmp_path, records):
    return make_options(goldens, tmp_path / "run").replace(
        init_checkpoint=None, input_file=records
    )


def sized(options, **changes):
    options = options.replace(**changes)
    config = BertConfig.from_json_file(options.bert_config_file)
    source = Source(options.init_checkpoint)
    return text_size.with_vocab_size(options, config, source).vocab_size


def test_each_wordpiece_of_the_text_counts_once(tmp_path, records):
    assert text_facts.read_facts(records) == (10, 480)
    recipe = recipe_of(tmp_path / "vocab.txt", random_seed=7)
    text, again = str(tmp_path / "in.txt"), str(tmp_path / "again")
    in_memory.write_pretraining_data([text], [again], recipe)
    assert text_facts.read_facts(f"{records},{again}") == (10, 480)


def test_records_that_a_manifest_does_not_describe_say_nothing(records):
    files.write_text(records.split(",")[0], "of another program")
    assert text_facts.read_facts(records) == (None, None)


def test_a_new_model_has_the_vocabulary_of_its_records(options, tmp_path):
    assert sized(options) == 10
    (tmp_path / "other.txt").write_text("\n".join(TOKENS[:-1]))
    assert sized(options, vocab_file=str(tmp_path / "other.txt")) == 9


def test_a_size_that_is_known_otherwise_stays(options, goldens, tmp_path):
    assert sized(options, init_checkpoint=str(goldens / "model/init")) == 1200
    config_file = write_config(goldens, tmp_path / "c.json", vocab_size=64)
    assert sized(options, bert_config_file=config_file) == 64
    # The original writes no configuration beside its checkpoints.
    begun = tmp_path / "begun"
    shutil.copytree(goldens / "model/trained", begun)
    assert sized(options, output_dir=str(begun)) == 1200
    for name in "ab":
        files.remove(str(tmp_path / f"{name}.manifest.json"))
    assert sized(options) == 1200


def test_records_of_two_vocabularies_are_refused(options, tmp_path):
    change_json(tmp_path / "b.manifest.json", vocab_size=11)
    with pytest.raises(ValueError, match=r"a of 10, .*b of 11 .*--vocab_file"):
        sized(options)


@pytest.mark.all
def test_a_run_says_the_size_and_is_resumed_with_the_same_command(
    options, tmp_path, logged
):
    options = options.replace(do_eval=True, max_eval_steps=1)
    pretraining.run(options)
    text = (tmp_path / "run/bert_config.json").read_text()
    assert json.loads(text)["vocab_size"] == 10
    assert "vocab_size is 10, as the vocabulary has; " in logged.text
    assert "480 wordpieces of text" in logged.text
    # The same flags still name a configuration of 1200.
    later = options.replace(do_train=False)
    pretraining.run(later)
    change_json(tmp_path / "run/bert_config.json", vocab_size=1200)
    refused(later, "1200")
