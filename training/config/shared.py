"""What options classes share: their base, and help of several programs."""

from data.settings import Settings
from data.storage import files

# Help of flags that several programs have.
OF_MODEL = "The model's. Default: the file beside --init_checkpoint."
BERT_CONFIG_FILE = (
    "JSON of the model's sizes, as configs/uncased_L-12_H-768_A-12.json. "
    "Default: in --output_dir or beside --init_checkpoint."
)
INIT_CHECKPOINT = (
    "Checkpoint to start from: a prefix such as DIR/bert_model.ckpt, or a "
    "folder. For a finished run, its best weights if saved; for trials, the "
    "chosen trial's. Only the weights are loaded; the log reports which."
)
VOCAB_FILE = "Vocabulary. Default: in --output_dir or beside --init_checkpoint."
DO_LOWER_CASE = "False for cased models. Not given: as --init_checkpoint says."
NEVER_SPLIT = (
    "[new] Vocabulary tokens, comma-separated, that stay whole in any text, "
    "such as [ENTITY]. Default: those of --init_checkpoint's folder."
)
DO_EXPORT = "[new] Export the model of --output_dir, see --export_format."
ONE_HOT = "Look words up by matrix product; always so on a TPU."


class Options(Settings):
    """Options that can refuse flags by their names."""

    def _need(self, name: str, *others: str) -> None:
        """Refuses a flag, if it is given, without the others."""
        if self.changed().get(name) and not all(map(self.find, others)):
            needed = " and ".join(f"--{other}" for other in others)
            raise ValueError(
                f"--{name} needs {needed}; give that, too, or drop --{name}."
            )

    def _exclude(self, name: str, *others: str) -> None:
        """Refuses a flag, if it is given, with any of the others."""
        given = {n: x for n, x in self.changed().items() if x not in (None, "")}
        for other in others:
            if name in given and other in given:
                raise ValueError(
                    f"--{name}={given[name]} contradicts "
                    f"--{other}={given[other]}; drop one."
                )

    def _require(self, *flags: str) -> None:
        """Refuses files that are not given and cannot be found."""
        folder = self.find("output_dir")
        others = map(self.find, ("init_checkpoint", "continue_from"))
        if any(others) or "://" in folder:
            return
        missing = [flag for flag in flags if not self.find(flag)]
        if missing and not files.exists(folder):
            raise ValueError(
                f"Flag --{missing[0]} must have a value other than None: there "
                "is no --init_checkpoint to look beside, and nothing yet in "
                f"--output_dir={folder}. Give the flag, or the folder of a run."
            )
