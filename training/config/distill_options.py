"""Options of learning from a larger model."""

import dataclasses
from typing import Any

from data.settings import Settings, setting, share
from data.storage import files


class DistillOptions(Settings):
    """A larger model of the same task that teaches this one."""

    teacher_dir: str = setting(
        "",
        "[new] Distil from this finished output_dir: same task, labels, "
        "vocabulary and case. --init_checkpoint can be some of its layers "
        "(convert_checkpoint.py --keep_layers).",
    )
    distill_weight: float = share(
        0.5, "[new] Share of the teacher in the loss; labels have the rest."
    )
    distill_temperature: float = setting(
        2.0,
        "[new] Divides teacher and student logits; above 1 softens them.",
        above=0,
    )
    unlabeled_file: str = setting(
        "", "[new] Tables, conll, conllu: a test set that the teacher labels."
    )

    def _check(self) -> None:
        if not self.teacher_dir and self.changed():
            raise ValueError(
                f"--{min(self.changed())} needs --teacher_dir, the output_dir "
                "of a finished run; give it, or leave the flag out."
            )
        for name in ("teacher_dir", "unlabeled_file"):
            # task.json keeps it for commands from other folders.
            object.__setattr__(self, name, files.absolute(getattr(self, name)))

    @property
    def remembered(self) -> dict[str, Any]:
        """What `task.json` keeps; {} = there is no teacher."""
        return dataclasses.asdict(self) if self.teacher_dir else {}
