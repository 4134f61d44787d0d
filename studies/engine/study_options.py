"""The flags of run_study.py."""

import functools
import os

from absl import logging

import studies
from data.pretraining import corpus
from data.settings import Settings, amount, optional, positive, setting
from data.storage import files
from studies.engine import casing, scales
from studies.engine.declaring import Study
from studies.engine.measures import HELD_OUT, MEASURES
from training.config.run_options import PRECISIONS

TFDS = ("similarity", "spans")  # measures whose data tensorflow-datasets has
NO_CASING = "the casing of its words hardly differs"
_NEEDS = {measure.run: measure.needs for measure in MEASURES.values()}
# Flag -> names of the files to train on and to score, in its folder; the first
# pair that is there is taken.
_PAIRS = {
    "conllu_dir": (
        ("*train*.conllu", "*dev*.conllu"),
        ("*dev*.conllu", "*test*.conllu"),
    ),
    "glue_dir": tuple(
        (f"{task}/train.tsv", f"{task}/dev.tsv")
        for task in ("STS-B", "sts-b", "stsb")
    ),
    "squad_dir": (("train-v1.1.json", "dev-v1.1.json"),),
}


class StudyData(Settings):
    """Text to pretrain on, and the tasks that measure it."""

    text: str | None = optional(
        "UTF-8 text to pretrain on, a tenth of it held out. Default: the text "
        "of `make demo`, which every Python contains."
    )
    init_checkpoint: str | None = optional(
        "Folder of a pretrained model with vocab.txt and bert_config.json. "
        "Default: the study `features` pretrains one."
    )
    conllu_dir: str | None = optional(
        "Folder of CoNLL-U files, for `tags`: *train*.conllu and *dev*.conllu, "
        "or *dev*.conllu to train on and *test*.conllu to score."
    )
    glue_dir: str | None = optional(
        "Folder of GLUE, for `similarity`: STS-B/train.tsv and dev.tsv."
    )
    squad_dir: str | None = optional(
        "Folder of SQuAD, for `spans`: train-v1.1.json and dev-v1.1.json."
    )
    tfds: tuple[str, ...] = setting(
        (),
        "Take these measures' data from tensorflow-datasets instead: "
        f"{', '.join(TFDS)}.",
    )
    tfds_data_dir: str | None = optional(
        "Folder in which tensorflow-datasets keeps its data sets."
    )

    def _check(self) -> None:
        for name in self.tfds:
            if name not in TFDS:
                raise ValueError(
                    f"--tfds={name} is not one of {', '.join(TFDS)}."
                )
            flag = _NEEDS[name]
            if folder := getattr(self, flag):
                raise ValueError(
                    f"--tfds={name} and --{flag}={folder} are both sources of "
                    "the same data; give one."
                )

    def files_of(self, flag: str) -> tuple[str, str]:
        """Returns the paths to train on and to score, in a flag's folder."""
        folder, pairs = getattr(self, flag), _PAIRS[flag]
        found = {x: files.find_in(folder, x) for pair in pairs for x in pair}
        if all(len(paths) < 2 for paths in found.values()):
            for train, score in pairs:
                if found[train] and found[score] not in ([], found[train]):
                    return found[train][0], found[score][0]
        there = sorted({path for paths in found.values() for path in paths})
        wanted = (f"one {train} and one {score}" for train, score in pairs)
        raise FileNotFoundError(
            f"--{flag}={folder} must hold {', or '.join(wanted)}, not "
            f"compressed; found {', '.join(there) or 'none of them'}."
        )

    def checksums(self, run: str) -> dict[str, str]:
        """Returns the checksum of each file that a measure's run reads."""
        flag = _NEEDS.get(run)
        paths = self.files_of(flag) if flag and getattr(self, flag) else ()
        return {f"{os.path.basename(p)}_sha256": files.sha256(p) for p in paths}

    @property
    def model_sizes(self) -> dict[str, int]:
        """Layers and hidden size of the given model; {} = none is given."""
        if not self.init_checkpoint:
            return {}
        from modeling.checkpoints import model_folder

        config = model_folder.find(self.init_checkpoint).read_config()
        names = ("num_hidden_layers", "hidden_size")
        return {name: getattr(config, name) for name in names}

    def has(self, run: str) -> bool:
        """Whether the data of a run are given; some need no data."""
        flag = _NEEDS.get(run)
        return not flag or bool(getattr(self, flag)) or run in self.tfds

    def check_files(self) -> None:
        """Raises an error that names the flag of a file that is missing."""
        if self.text:
            files.require_file(self.text, "text")
        for flag in _PAIRS:
            if getattr(self, flag):
                self.files_of(flag)

    def check(self, study: Study) -> None:
        """Refuses a study whose data are missing; the error names the flag."""
        self.check_files()
        if self.init_checkpoint and not study.takes_model:
            raise ValueError(
                f"--init_checkpoint={self.init_checkpoint}: the rows of this "
                "study are each pretrained here; leave it out."
            )
        needed = {MEASURES[name].needs for name in study.measures}
        given = {flag: flag for flag in _PAIRS if getattr(self, flag)}
        given |= {f"tfds={name}": _NEEDS[name] for name in self.tfds}
        for flag in (x for x in given if given[x] not in needed):
            logging.warning("--%s: the study has no measure for it.", flag)
        if not self.measures_of(study):
            flags = " or --".join(sorted(needed - {""}))
            raise ValueError(
                f"--text={self.text}: {NO_CASING}, so that it alone measures "
                f"nothing here; give another text, or --{flags}."
            )
        if self.text and not self.init_checkpoint:
            corpus.parts_of(self.text)  # refuses too little

    def measures_of(self, study: Study) -> list[str]:
        """Returns the study's measures whose data are there.

        Those from the text alone serve only where the study has no other data.
        """
        left_out = self.left_out(study)
        return [m for m in self._asked(study) if m not in left_out]

    def left_out(self, study: Study) -> list[str]:
        """Returns the study's measures for which the text has no capitals."""
        found = [m for m in self._asked(study) if m.startswith("casing")]
        return found if found and not self._is_varied else []

    @functools.cached_property
    def _is_varied(self) -> bool:
        """Whether the words of the text are cased differently."""
        return not self.text or casing.is_varied(self.text)

    def _asked(self, study: Study) -> list[str]:
        """The measures of `measures_of`, whatever the text is."""
        found = [m for m in study.measures if self.has(MEASURES[m].run)]
        if self.init_checkpoint:  # pretrained on other text
            found = [m for m in found if MEASURES[m].run != HELD_OUT]
        if any(MEASURES[m].needs for m in found):
            found = [m for m in found if not m.startswith("casing")]
        return found


class StudyOptions(Settings):
    """Which study is made, and how large."""

    study: str = setting(help=f"The study: {', '.join(studies.names())}.")
    output_dir: str = setting(
        help="Folder of the study: study.md, study.tsv, study.png and a folder "
        "for each row, which TensorBoard shows. The same command resumes it."
    )
    scale: str = setting(
        "small",
        "small: 2 layers x 128 or a little more, an hour or less on 2 cores. "
        "tiny: only shows, in a minute or two, that a command works. paper: "
        "only print the commands at the paper's size and what they cost.",
        choices=scales.NAMES,
    )
    rows: tuple[str, ...] = setting((), "Only these rows. Default: all.")
    num_trials: int = positive(
        3,
        "Fine-tunings of each row, with --seed and those after it; the report "
        "has their mean and spread. A later run may ask for more.",
    )
    seed: int = amount(
        12345,
        "Seed of the pretraining and first seed of the fine-tunings.",
        most=2**30,  # those after it, to 2**31 - 1, are seeds of its programs
    )
    precision: str = setting(
        "float32", "Arithmetic; see run_pretraining.py.", choices=PRECISIONS
    )
    data: StudyData = StudyData()


def check_rows(study: Study, options: StudyOptions) -> None:
    """Refuses unknown rows; the error lists the known ones."""
    names = [row.name for row in study.rows_at(options.scale)]
    if unknown := [name for name in options.rows if name not in names]:
        raise ValueError(
            f"--rows={','.join(options.rows)}: the study has no row "
            f"{unknown[0]}; its rows are {', '.join(names)}."
        )
