"""--vocab_file and --bert_config_file where no flag gives them."""

import dataclasses
import shutil

import pytest

import modeling
from modeling import checkpoints
from tests.support import huggingface_support as theirs
from tests.support.classifier_support import write_table
from tests.support.model_folder_support import write_original
from tests.support.model_folders import change_json, write_questions
from tests.support.run_files import contents_of
from tests.training import squad_support
from tests.training.finetuning_support import options_of
from training.runs import classifier, questions
from training.start import description, found_files
from training.start.source import Source

NOTHING = {"vocab_file": None, "bert_config_file": None}


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def find(out=None, init=None, needed=tuple(found_files.FILES), **given):
    return found_files.find(
        NOTHING | given,
        output_dir=out and str(out),
        source=Source(init and str(init)),
        needed=needed,
    )


def begin_run(out, released):
    """Makes a folder one of a run with a checkpoint."""
    for name in "vocab.txt", "bert_config.json":
        shutil.copy(released / name, out)
    (out / "model.ckpt-1.index").touch()


@pytest.mark.parametrize(
    "name", ["", "bert_model.ckpt", "bert_model.ckpt.index"]
)
def test_both_lie_beside_the_checkpoint(released, out, name):
    assert find(out, released / name) == {
        "vocab_file": f"{released}/vocab.txt",
        "bert_config_file": f"{released}/bert_config.json",
    }


def test_both_lie_in_a_folder_of_hugging_face(tmp_path):
    folder = tmp_path / "theirs"
    theirs.write_folder(folder, theirs.tensors_of())
    (folder / "tokenizer.json").touch()
    assert find(None, folder) == {
        "vocab_file": f"{folder}/tokenizer.json",
        "bert_config_file": f"{folder}/config.json",
    }


def test_what_is_given_is_taken(released, out):
    begin_run(out, released)
    (out / "vocab.txt").write_text("another\n")
    (out / "bert_config.json").write_text("{}")
    given = {"vocab_file": "v", "bert_config_file": "b"}
    assert find(out, released, **given) == given
    assert find(None, released, vocab_file="v") == {
        "vocab_file": "v",
        "bert_config_file": f"{released}/bert_config.json",
    }


def test_a_run_that_goes_on_has_them_too(released, out, tmp_path):
    begin_run(out, released)
    in_run = {
        "vocab_file": f"{out}/vocab.txt",
        "bert_config_file": f"{out}/bert_config.json",
    }
    assert find(out) == in_run
    assert find(out, released) == in_run
    # Dropout may differ, as when its flag is given.
    change_json(out / "bert_config.json", hidden_dropout_prob=0.3)
    assert find(out, released) == in_run
    # The weights that it began with may be gone, as they are not read again.
    assert find(out, tmp_path / "gone/bert_model.ckpt") == in_run
    (tmp_path / "trials").mkdir()
    (tmp_path / "trials/trials.json").write_text('{"chosen": "../out"}')
    assert find(tmp_path / "trials")["vocab_file"].endswith("../out/vocab.txt")


def test_a_contradiction_is_refused(released, out):
    begin_run(out, released)
    tokens = (out / "vocab.txt").read_text("utf-8").splitlines()
    tokens[7], tokens[9] = tokens[9], tokens[7]
    (out / "vocab.txt").write_text("\n".join(tokens), "utf-8")
    message = (
        "--vocab_file is not given.*out/vocab.txt in .*released/vocab.txt "
        r".*\(token 7: '&' -> '\$' and 1 more\). Give one by --vocab_file"
    )
    with pytest.raises(ValueError, match=message):
        find(out, released)
    (out / "vocab.txt").write_text("\n".join(tokens[:9]), "utf-8")
    with pytest.raises(ValueError, match=r"\(9 -> 1200 tokens\)"):
        find(out, released)
    vocab = str(out / "vocab.txt")
    change_json(out / "bert_config.json", num_attention_heads=8)
    message = r"out/bert_config.json in --output_dir.* 8 -> 4\).*--bert_config_"
    with pytest.raises(ValueError, match=message):
        find(out, released, vocab_file=vocab)


def test_before_its_first_checkpoint_a_run_may_get_another_model(released, out):
    begin_run(out, released)
    (out / "model.ckpt-1.index").unlink()
    # Every Saver of TensorFlow writes it.
    checkpoints.tf1.write_state(str(out), ["bert_model.ckpt"])
    (out / "vocab.txt").write_text("another\n")
    assert find(out, released)["vocab_file"] == f"{released}/vocab.txt"
    assert find(out)["vocab_file"] == f"{out}/vocab.txt"


@pytest.mark.parametrize("form", ["original", "huggingface"])
@pytest.mark.parametrize("trains", [True, False])
def test_a_model_in_output_dir_is_neither_replaced_nor_left_beside(
    goldens, released, tmp_path, form, trains
):
    """Its configuration, vocabulary and labels are files of a run, too."""
    there = write_original(goldens, tmp_path / "there")
    if form == "huggingface":
        there = tmp_path / "theirs"
        theirs.write_folder(there, theirs.tensors_of())
    before = contents_of(there)
    write_table(tmp_path / "data", "single")

    def run(init_checkpoint):
        finetuning = {
            "output_dir": str(there),
            "init_checkpoint": init_checkpoint and str(init_checkpoint),
        }
        works = {"do_train": trains, "do_predict": not trains}
        classifier.run(
            options_of(goldens, tmp_path, finetuning=finetuning, **works)
        )

    for source in (None, released):
        with pytest.raises(ValueError, match="--output_dir.* --init_check"):
            run(source)
    if trains and form == "huggingface":  # two models in one folder
        with pytest.raises(ValueError, match="--output_dir"):
            run(there)
    assert contents_of(there) == before


def test_the_error_names_where_it_looked(released, out):
    (released / "vocab.txt").unlink()
    message = "--vocab_file must .*tokenizer.json is beside .*/released.*/out.$"
    with pytest.raises(ValueError, match=message):
        find(out, released)
    assert find(out, released, needed=["bert_config_file"]) == {
        "vocab_file": None,
        "bert_config_file": f"{released}/bert_config.json",
    }
    with pytest.raises(ValueError, match="no bert_config.json or config.json"):
        find(out, vocab_file="v")
    with pytest.raises(FileNotFoundError, match="'nowhere': there is no such"):
        find(out, "nowhere")


def test_questions_are_answered_without_both(
    goldens, released, tmp_path, answered_questions
):
    for path in (goldens / "squad/finetuned_v1.1").glob("model.ckpt-60.*"):
        shutil.copy(path, released / f"bert_model.ckpt{path.suffix}")
    options = squad_support.make_options(
        goldens, tmp_path / "out", predict_batch_size=3
    )
    questions.run(options.replace(init_checkpoint=str(released), **NOTHING))
    for name in "predictions.json", "nbest_predictions.json":
        one, other = (f / name for f in (tmp_path / "out", answered_questions))
        assert one.read_text() == other.read_text()
    assert modeling.load(str(tmp_path / "out")).kind == "span"


def test_weights_that_are_gone_are_named(goldens, out):
    write_questions(goldens, out)
    described = description.find(str(out))
    gone = dataclasses.replace(described, weights="/gone/model.ckpt-1")
    gone.write(str(out), None)
    options = squad_support.make_options(goldens, out, init_checkpoint=None)
    with pytest.raises(FileNotFoundError, match="names .* /gone/mod.*gone"):
        found_files.fill(options)


def test_a_length_fits_the_questions_of_the_model(goldens, out):
    """Beside the default of 64 wordpieces in a question, 64 are too few."""
    write_questions(goldens, out)
    options = squad_support.make_options(
        *(goldens, out),
        init_checkpoint=None,
        do_train=False,
        max_seq_length=64,
        max_query_length=64,
    )
    options = options.replace(given=frozenset({"max_seq_length"}))
    found, _, _ = found_files.fill(options)
    found.windows.check_room()
    assert found.windows.max_query_length == 16
    assert found.windows.max_seq_length == 64
