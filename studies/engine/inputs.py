"""Text, vocabulary, records and data sets of a study, each made once."""

import json
import os
from collections.abc import Iterable
from typing import Any

from absl import logging

from data import settings
from data.pretraining.options import PretrainingDataOptions
from data.pretraining.recipe import Recipe
from data.pretraining.streaming import all_shards
from data.storage import files
from data.text import vocabulary
from demo import corpus
from studies.engine import casing, plan
from studies.engine.declaring import Row
from studies.engine.options import StudyData
from studies.engine.scales import Scale

SETS = ("train", "eval")


class Inputs:
    """The files in a study's folder that its rows share.

    `data` says where text and tasks are, `scale` the sizes.
    """

    def __init__(self, folder: str, data: StudyData, scale: Scale):
        self._folder = os.path.join(folder, "inputs")
        self._data = data
        self._scale = scale

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def text(self, set_name: str) -> str:
        """Returns the path of the text to train on or of the held-out text."""
        paths = [self._path(f"{name}.txt") for name in SETS]
        if not all(map(files.exists, paths)):
            corpus.write(*paths, text=self._data.text)
        return paths[SETS.index(set_name)]

    @property
    def vocab_file(self) -> str:
        """The vocabulary learned from the text, or the given model's."""
        if self._data.init_checkpoint:
            from modeling.checkpoints import model_folder

            return model_folder.find(self._data.init_checkpoint).vocab_file
        path = self._path("vocab.txt")
        if not files.exists(path):
            from data.text import vocabulary_building

            words = vocabulary_building.count_words(
                [self.text("train")], do_lower_case=True
            )
            learned = vocabulary_building.learn_vocab(
                words,
                vocabulary.LearningOptions(vocab_size=self._scale.vocab_size),
            )
            vocabulary.write_vocab(path, learned)
        return path

    @property
    def vocab_size(self) -> int:
        """The number of wordpieces."""
        return len(vocabulary.load_vocab(self.vocab_file))

    @property
    def do_lower_case(self) -> bool:
        """Whether the vocabulary is uncased."""
        return not vocabulary.is_cased(vocabulary.load_vocab(self.vocab_file))

    def records(self, row: Row, set_name: str) -> str:
        """Returns the path of a row's records, which rows alike share."""
        own = "_".join(f"{k}_{v}" for k, v in sorted(row.records.items()))
        name = own or "records"
        path = self._path(f"{name}.{set_name}.tf_record")
        if not files.exists(path):
            recipe = Recipe(
                settings.make(PretrainingDataOptions, plan.record_flags(row)),
                vocab_file=self.vocab_file,
                do_lower_case=True,
            )
            logging.info("Writing %s.", path)
            all_shards.write_shards([self.text(set_name)], [path], recipe)
        return path

    def config_file(self, name: str, sizes: dict[str, Any]) -> str:
        """Writes the sizes of a row; returns the path."""
        path = self._path(f"{name}.json")
        files.write_text(path, json.dumps(sizes, indent=2) + "\n")
        return path

    def task_flags(self, run: str) -> dict[str, Any]:
        """Returns the flags of the program that name a run's data."""
        if run.startswith("casing"):
            return {"task_name": "conll", "data_dir": self._casing()}
        return task_flags(run, self._data)

    def _casing(self) -> str:
        """Writes the task `casing`; returns its folder."""
        folder = self._path("casing")
        names = ("train.txt", "dev.txt")
        for number, name in enumerate(names):
            path = os.path.join(folder, name)
            if files.exists(path):
                continue
            most = self._scale.casing_sentences[number]
            text = self.text(SETS[number])
            files.write_text(path, "".join(casing.lines(text, most)))
        return folder


def checksums(paths: Iterable[str]) -> dict[str, str]:
    """Returns the name of each file -> its checksum."""
    return {os.path.basename(path): files.sha256(path) for path in paths}


def task_flags(run: str, data: StudyData) -> dict[str, Any]:
    """Returns the flags of the program that name a run's data.

    `run` is `tags`, `similarity` or `spans`, or a name that begins with `tags`.
    """
    if run.startswith("tags"):
        train, dev = data.conllu_files
        return {
            "task_name": "conllu",
            "data_dir": data.conllu_dir,
            "task_options": {"train_file": train, "dev_file": dev},
        }
    place = {"tfds_data_dir": data.tfds_data_dir}
    if run == "similarity":
        if run in data.tfds:
            own = {"data_dir": None, "task_options": {"tfds": "", **place}}
        else:
            own = {"data_dir": os.path.dirname(data.glue_files[0])}
        return {"task_name": "STS-B", **own}
    if run in data.tfds:
        return {"tfds": "squad", **place}
    train, dev = data.squad_files
    return {"train_file": train, "predict_file": dev}
