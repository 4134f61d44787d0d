"""Text, records and times of updates, each made once in the ladder's folder."""

import dataclasses
from pathlib import Path

from benchmarks.budget.rungs import Settings
from benchmarks.peers import compare
from benchmarks.peers.cases import CASES, ORIGINAL
from benchmarks.peers.inputs import read_text
from benchmarks.programs import require_same, run_with_log
from data.storage import files
from data.storage.json_files import find_json, read_json, write_json

LENGTH, PREDICTIONS = 128, 20  # of the held-out examples
_ROWS = {"next_sentence_prediction": False, "short_seq_prob": 0}
KINDS = {
    "pairs": {},
    "rows": _ROWS,
    "joined": _ROWS | {"join_documents": True},
}
_HELD_OUT_SHARE = 0.04  # of the documents: the last ones
_PASSES = {"static": 5, "dynamic": 2}  # over the text, that are written
_TURNS = 20  # updates that are timed
_DROPOUT = 0.1
# Mean length of the batches of --group_by_length as a share of the longest:
# pairs of the novels, of which 91 % of the positions hold a wordpiece.
_GROUPED = 0.91


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What the runs in a folder read.

    The text may be gzipped. `megabytes` of it are trained on, 0 = all.
    """

    folder: Path
    whole_text: str
    vocab_file: str
    config_file: str
    megabytes: float = 0

    def check(self) -> None:
        """Refuses a folder that was begun with other inputs."""
        require_same(
            self.folder,
            text=files.sha256(self.whole_text),
            vocab_file=files.sha256(self.vocab_file),
            bert_config_file=files.sha256(self.config_file),
        )

    def records(self, settings: Settings, part: str) -> Path:
        """Returns the file of a rung's records; makes it if it is not there.

        `part` is `train` or `eval`.
        """
        kind, masking = settings["records"], settings["masking"]
        length = settings["max_seq_length"]
        name = f"{part}_{kind}_{length}_{masking}.tf_record"
        path = self.folder / "records" / name
        # What the in-memory program does not have.
        streams = masking == "dynamic" or kind == "joined"
        if not path.exists():
            run_with_log(
                self.folder / "records" / f"{name}.log",
                "create_pretraining_data.py",
                **KINDS[kind],
                input_file=self.text(part),
                vocab_file=self.vocab_file,
                output_file=path,
                max_seq_length=length,
                max_predictions_per_seq=length * PREDICTIONS // LENGTH,
                masking=masking,
                num_processes=1 if streams else None,
                dupe_factor=_PASSES[masking] if part == "train" else 1,
            )
        return path

    def text(self, part: str) -> Path:
        """Returns the text to `train` on, or the last documents, to `eval`."""
        path = self.folder / f"{part}.txt"
        if not path.exists():
            lines, _ = read_text(self.whole_text, 0)
            documents = "\n".join(lines).strip().split("\n\n")
            number = max(1, int(_HELD_OUT_SHARE * len(documents)))
            chosen = {"train": documents[:-number], "eval": documents[-number:]}
            text = "\n\n".join(chosen[part]) + "\n"
            if part == "train" and self.megabytes:
                content = text.encode()
                end = content.find(b"\n", int(1e6 * self.megabytes)) + 1
                text = content[: end or None].decode()
            files.write_text(str(path), text)
        return path

    def seconds(
        self, settings: Settings, num_layers: int = 0, is_original: bool = False
    ) -> float:
        """Returns the time of a rung's update, which is measured once.

        `num_layers` 0 = as the model's configuration says. `is_original`: the
        original's program does it.
        """
        length = settings["max_seq_length"]
        model = num_layers, is_original
        whole = self._seconds(settings, length, *model)
        if not settings.get("group_by_length"):
            return whole
        # The time is taken as linear in the length.
        half = self._seconds(settings, length // 2, *model)
        return whole - 2 * (1 - _GROUPED) * (whole - half)

    def _seconds(self, settings, length, num_layers, is_original):
        """The time of an update of examples of one length."""
        from training.devices import precision, strategy  # loads TensorFlow

        config = read_json(self.config_file)
        dropout = settings.get("dropout_prob", _DROPOUT)
        config["hidden_dropout_prob"] = dropout
        config["attention_probs_dropout_prob"] = dropout
        config["num_hidden_layers"] = num_layers or config["num_hidden_layers"]
        shape = {
            "rows": settings["train_batch_size"],
            "length": length,
            "predictions": settings["max_predictions_per_seq"],
            "precision": precision.choose(
                settings.get("precision", "float32"), strategy.local_bfloat16()
            ),
        }
        if settings.get("separate_documents"):
            shape["separate_documents"] = True
        facts = shape | {
            "dropout": dropout,
            "layers": config["num_hidden_layers"],
        }
        name = ", ".join(f"{key} {value}" for key, value in facts.items())
        request = {"model": config, **shape}
        found = self._once(name, lambda: _measure(request)["ours"]["median"])
        if not is_original:
            return found / 1000

        def measure_both() -> float:
            theirs = _measure(request, ORIGINAL)["peers"][ORIGINAL]
            return theirs["ratio_of_medians"]

        ratio = self._once(f"{name}: the original / ours", measure_both)
        return ratio * found / 1000

    def _once(self, name, measure):
        """A number that is measured if times.json does not have it yet."""
        path = str(self.folder / "times.json")
        known = find_json(path)
        if name not in known:
            known[name] = measure()
            print(f"An update of {name}: {known[name]:.4g}", flush=True)
            write_json(path, known)
        return known[name]


def _measure(request, *peers):
    """Times an update, this project alone or in turns with a peer."""
    case = CASES["pretraining_4x256_float32"]
    case = dataclasses.replace(case, targets=dict.fromkeys(peers, 1), asks=())
    options = compare.Options(turns=_TURNS, threads=0)
    return compare.result(case, options, **request)
