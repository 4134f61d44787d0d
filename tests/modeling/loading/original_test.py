import json
import shutil

import numpy as np

import modeling
from modeling import BertModel, SpanModel, checkpoints
from tests.support import huggingface_support as theirs
from tests.support import rounding
from tests.support.model_folder_support import (
    assert_has_weights,
    variables_of,
    write_huggingface,
    write_weights,
)


def test_a_folder_of_the_original_gives_its_vectors(original, goldens):
    loaded = modeling.load(str(original))
    assert loaded.kind == "pretraining"
    assert loaded.encoder is loaded.model.bert
    assert_has_weights(loaded, original)
    assert (loaded.labels, loaded.max_seq_length) == (None, None)
    lines = (goldens / "extract_features/input.txt").read_text("utf-8")
    golden = (goldens / "extract_features/expected.jsonl").read_text("utf-8")
    count = 0
    for line, expected in zip(
        lines.splitlines(), golden.splitlines(), strict=True
    ):
        if "|||" in line:
            continue
        tokens = ["[CLS]", *loaded.tokenizer.tokenize(line)[:62], "[SEP]"]
        features = json.loads(expected)["features"]
        assert tokens == [feature["token"] for feature in features]
        ids = [loaded.tokenizer.convert_tokens_to_ids(tokens)]
        np.testing.assert_allclose(
            loaded.encoder(np.array(ids, np.int32)).get_sequence_output()[0],
            [feature["layers"][0]["values"] for feature in features],
            rtol=0,
            atol=rounding.SIX_DECIMALS,
        )
        count += 1
    assert count


def test_the_tokenizer_of_a_masked_lm_leaves_masks_whole(original):
    loaded = modeling.load(str(original))
    assert loaded.tokenizer.tokenize("the [MASK].") == ["the", "[MASK]", "."]
    encoder = modeling.load(str(original), kind="encoder")
    assert "[MASK]" not in encoder.tokenizer.tokenize("the [MASK].")
    assert encoder.model is encoder.encoder
    assert "cls/predictions/output_bias" in encoder.report.unused


def test_from_folder_is_the_encoder_alone(original, goldens, tmp_path, caplog):
    bert = BertModel.from_folder(str(original), whole_last_layer=True)
    golden = checkpoints.open_checkpoint(str(original))
    for name, variable in variables_of(bert).items():
        np.testing.assert_array_equal(variable, golden.read(name))
    named = BertModel.from_folder(str(original), name="question")
    for mine, other in zip(named.weights, bert.weights, strict=True):
        np.testing.assert_array_equal(mine, other)
    shared = BertModel(bert.config, name="query").embeddings
    BertModel.from_folder(str(original), name="text", embeddings=shared)
    for mine, other in zip(
        shared.weights, bert.embeddings.weights, strict=True
    ):
        np.testing.assert_array_equal(mine, other)
    # Without a pooler, which stays random, there is a warning.
    write_huggingface(goldens, tmp_path / "span", "BertForQuestionAnswering")
    caplog.clear()
    BertModel.from_folder(str(tmp_path / "span"))
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "missing: bert/pooler/dense/kernel" in record.message
    # It needs no vocabulary.
    write_huggingface(goldens, tmp_path / "theirs", "BertForMultipleChoice")
    (tmp_path / "theirs/vocab.txt").unlink()
    bert = BertModel.from_folder(str(tmp_path / "theirs"))
    assert bert.config.hidden_size == theirs.H


def test_the_newest_checkpoint_of_a_pretraining_run_is_taken(original, goldens):
    # As after an export, and more training.
    facts = {
        "kind": "pretraining",
        "weights": "bert_model.ckpt",
        "model": {},
        "max_seq_length": 64,
        "do_lower_case": False,
    }
    (original / "task.json").write_text(json.dumps(facts))
    for path in (goldens / "model/trained").iterdir():
        shutil.copy(path, original)
    loaded = modeling.load(str(original))
    assert loaded.report.source.endswith("uncased/model.ckpt-60")
    assert loaded.max_seq_length == 64
    assert not loaded.tokenizer.basic_tokenizer.do_lower_case


def test_span_models_are_known_by_their_head(original):
    model = SpanModel(modeling.load(str(original)).config)
    write_weights(original / "bert_model.ckpt", model)
    loaded = modeling.load(str(original))
    assert loaded.kind == "span"
    assert_has_weights(loaded, original)


def test_the_case_is_that_of_the_tokenizer_or_the_vocabulary(
    goldens, tmp_path, original
):
    def lowers(folder, **options):
        tokenizer = modeling.load(str(folder), **options).tokenizer
        return tokenizer.basic_tokenizer.do_lower_case

    assert lowers(original)
    assert not lowers(original, do_lower_case=False)
    vocab = (original / "vocab.txt").read_text("utf-8").splitlines()
    vocab[-300:] = [f"W{i}" for i in range(300)]
    (original / "vocab.txt").write_text("\n".join(vocab), "utf-8")
    assert not lowers(original)
    folder = tmp_path / "theirs"
    write_huggingface(goldens, folder)
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert not lowers(folder)
    (folder / "tokenizer_config.json").write_text("{}")
    assert lowers(folder)


def test_a_prefix_may_be_in_the_current_folder(original, monkeypatch):
    monkeypatch.chdir(original)
    assert modeling.load("bert_model.ckpt").kind == "pretraining"
    assert modeling.load(".").kind == "pretraining"
