"""Folders of the golden models, as users have them."""

import json
import shutil

from training.start.description import Description


def write_released(goldens, folder, config="first_layer.json"):
    """Writes a folder as the original released them; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    trained = goldens / "model/trained/model.ckpt-60"
    for ending in ".index", ".data-00000-of-00001":
        shutil.copy(f"{trained}{ending}", folder / f"bert_model.ckpt{ending}")
    shutil.copy(goldens / config, folder / "bert_config.json")
    shutil.copy(goldens / "vocab.txt", folder)
    return str(folder)


def change_json(path, **changes):
    """Changes some values in a JSON file; returns what it said before."""
    before = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(before | changes), "utf-8")
    return before


def write_config(goldens, path, **changes):
    """Writes the configuration of one layer with changes; returns its path."""
    config = json.loads((goldens / "first_layer.json").read_text("utf-8"))
    path.write_text(json.dumps(config | changes), "utf-8")
    return str(path)


def description_of(kind, **facts):
    """task.json of a model of a kind."""
    usual = {
        "task_name": "made",
        "kind": kind,
        "do_lower_case": True,
        "model": {},
        "weights": "",
    }
    return Description.classes[kind](**usual | facts)


def span_description(**changes):
    """task.json of a model of questions with the lengths of the goldens."""
    usual = {
        "task_name": "SQuAD",
        "max_seq_length": 96,
        "doc_stride": 32,
        "max_query_length": 16,
        "n_best_size": 20,
        "max_answer_length": 30,
        "version_2_with_negative": False,
        "null_score_diff_threshold": 0.0,
    }
    return description_of("span", **usual | changes)


def write_questions(goldens, folder, version="v1.1", config="first_layer.json"):
    """Writes what run_squad.py leaves behind; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(goldens / config, folder / "bert_config.json")
    span_description(
        weights=str(goldens / f"squad/finetuned_{version}/model.ckpt-60"),
        version_2_with_negative=version == "v2.0",
    ).write(str(folder), str(goldens / "vocab.txt"))
    return str(folder)
