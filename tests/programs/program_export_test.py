import json
import shutil

import numpy as np
import pytest

from data.tasks import get_task
from tests.support import rounding
from tests.support.fork_server import run_golden
from training.export.predictor import Predictor


@pytest.mark.all
def test_a_classifier_answers_as_the_program(goldens, tmp_path):
    data_dir = goldens / "classifier/MRPC"
    run_golden(
        goldens,
        "run_classifier.py",
        tmp_path,
        "--task_name=MRPC",
        "--max_seq_length=64",
        f"--data_dir={data_dir}",
        "--do_predict",
        "--do_export",
        f"--export_dir={tmp_path}/export",
        f"--init_checkpoint={data_dir}/expected/model.ckpt-16",
    )
    texts = [
        (example.text_a, example.text_b)
        for example in get_task("mrpc", str(data_dir)).examples("test")
    ]
    answers = Predictor.load(f"{tmp_path}/export").predict(texts)
    wanted = np.loadtxt(data_dir / "expected/test_results.tsv", delimiter="\t")
    got = [answer["probabilities"] for answer in answers]
    rounding.assert_equal(got, wanted)
    lines = (tmp_path / "predictions.tsv").read_text("utf-8").splitlines()
    labels = [line.split("\t")[1] for line in lines[1:]]
    assert [answer["label"] for answer in answers] == labels
    facts = json.loads((tmp_path / "task.json").read_text("utf-8"))
    assert (facts["task_name"], facts["is_pair"]) == ("mrpc", True)


@pytest.mark.all
def test_a_pretrained_model_is_exported_alone(goldens, tmp_path):
    def export(model, *flags):
        return run_golden(
            goldens,
            "run_pretraining.py",
            tmp_path,
            "--do_export",
            f"--export_dir={tmp_path}/export",
            f"--init_checkpoint={model}",
            *flags,
        ).stderr.splitlines()

    lines = export(
        f"{goldens}/model/trained", "--max_seq_length=32", "--predict_top_k=2"
    )
    assert any(line.endswith(", serve_text, serve_pair") for line in lines)
    assert (tmp_path / "export/1/saved_model.pb").exists()
    card = (tmp_path / "export/1/README.md").read_text("utf-8")
    assert "it gives each `[MASK]` the 2 likeliest wordpieces" in card
    # Another model has its own settings, not those of the first.
    shutil.copytree(goldens / "model/trained", tmp_path / "cased")
    settings = json.dumps({"do_lower_case": False})
    (tmp_path / "cased/tokenizer_config.json").write_text(settings)
    export(tmp_path / "cased", "--max_seq_length=24")
    made = (tmp_path / "export/2/assets/task.json").read_text()
    said = {n: json.loads(made)[n] for n in ("do_lower_case", "top_k")}
    assert said == {"do_lower_case": False, "top_k": 5}
