"""Text, vocabulary, records and data sets of a study, each made once."""

import os
from typing import Any

from absl import logging

from data import settings
from data.pretraining import corpus
from data.pretraining.data_options import PretrainingDataOptions
from data.pretraining.recipe import Recipe
from data.pretraining.streaming import all_shards
from data.storage import files
from data.text import vocabulary, vocabulary_building
from modeling.checkpoints import model_folder
from studies.engine import casing, plan
from studies.engine.declaring import Row
from studies.engine.measures import SPANS
from studies.engine.scales import SCALES
from studies.engine.study_options import StudyData, StudyOptions

SETS = ("train", "eval")


class Inputs:
    """The files in a study's folder that its rows share."""

    def __init__(self, options: StudyOptions):
        self._folder = os.path.join(options.output_dir, "inputs")
        self._data = options.data
        self._scale = SCALES[options.scale]

    def path(self, name: str) -> str:
        """Returns the path of a file or folder."""
        return os.path.join(self._folder, name)

    def text(self, set_name: str) -> str:
        """Returns the path of the text to train on or of the held-out text."""
        paths = [self.path(f"{name}.txt") for name in SETS]
        if not all(map(files.exists, paths)):
            corpus.write(*paths, text=self._data.text)
        return paths[SETS.index(set_name)]

    @property
    def vocab_file(self) -> str:
        """The vocabulary learned from the text, or the given model's."""
        if self._data.init_checkpoint:
            return model_folder.find(self._data.init_checkpoint).vocab_file
        path = self.path("vocab.txt")
        if not files.exists(path):
            texts = [self.text("train")]
            words = vocabulary_building.count_words(texts, do_lower_case=True)
            size = self._scale.vocab_size
            options = vocabulary.LearningOptions(vocab_size=size)
            learned = vocabulary_building.learn_vocab(words, options)
            vocabulary.write_vocab(path, learned)
        return path

    def records(self, row: Row, set_name: str) -> str:
        """Returns the path of a row's records, which rows alike share."""
        path = self.path(f"{row.records_name}.{set_name}.tf_record")
        if not files.exists(path):
            flags = plan.record_flags(row)
            options = settings.make(PretrainingDataOptions, flags)
            recipe = Recipe(options, self.vocab_file, do_lower_case=True)
            logging.info("Writing %s.", path)
            all_shards.write_shards([self.text(set_name)], [path], recipe)
        return path

    def task_flags(self, run: str) -> dict[str, Any]:
        """Returns the flags of the program that name a run's data."""
        name = run.removesuffix("_frozen")
        if name == "casing":
            return {"task_name": "conll", "data_dir": self._casing()}
        return task_flags(name, self._data)

    def _casing(self) -> str:
        """Writes the task `casing`; returns its folder."""
        folder = self.path("casing")
        mosts = self._scale.casing_sentences
        sets = zip(SETS, ("train", "dev"), mosts, strict=True)
        for set_name, name, most in sets:
            path = os.path.join(folder, f"{name}.txt")
            if not files.exists(path):
                lines = casing.lines(self.text(set_name), most)
                files.write_text(path, "".join(lines))
        return folder


def task_flags(name: str, data: StudyData) -> dict[str, Any]:
    """Returns the flags of the program that name the data of a task.

    `name` is `tags`, `similarity` or `spans`.
    """
    if name == "tags":
        train, dev = map(os.path.basename, data.files_of("conllu_dir"))
        return {
            "task_name": "conllu",
            "data_dir": data.conllu_dir,
            "task_options": {"train_file": train, "dev_file": dev},
        }
    if name in data.tfds:
        place = {"tfds_data_dir": data.tfds_data_dir}
        if name == SPANS:
            return {"tfds": "squad", **place}
        options = {"tfds": "", **place}
        return {"task_name": "STS-B", "data_dir": None, "task_options": options}
    if name == SPANS:
        train, dev = data.files_of("squad_dir")
        return {"train_file": train, "predict_file": dev}
    folder = os.path.dirname(data.files_of("glue_dir")[0])
    return {"task_name": "STS-B", "data_dir": folder}
