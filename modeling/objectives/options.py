"""Flags of single pretraining objectives, in a file without TensorFlow."""

import dataclasses
from typing import Any

from data.settings import Settings, fields_of, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class LeftToRightOptions(Settings):
    """Flags of `left_to_right`."""

    num_predicted_positions: int = setting(
        0,
        "[new] With --objective=left_to_right: positions of an example whose "
        "next wordpiece is predicted in training, drawn at random in each "
        "step; 0 = all. Evaluation predicts all.",
        least=0,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ObjectiveOptions(Settings):
    """The flags of all objectives, in groups with their names."""

    left_to_right: LeftToRightOptions = LeftToRightOptions()

    def check(self, objective: str) -> None:
        """Refuses values for another objective, which would have no effect.

        Args:
          objective: name of the one that is trained.

        Raises:
          ValueError: names the flag and its objective.
        """
        for group in fields_of(type(self)):
            if group.name == objective:
                continue
            options = getattr(self, group.name)
            for field in fields_of(type(options)):
                value = getattr(options, field.name)
                if value != field.default:
                    raise ValueError(
                        f"--{field.flag}={value} is for "
                        f"--objective={group.name}, but the objective is "
                        f"{objective}; leave one of them out."
                    )

    def arguments(self, objective: str) -> dict[str, Any]:
        """Returns the arguments of an objective's class that are flags.

        Args:
          objective: its name.
        """
        options = getattr(self, objective, None)
        return dataclasses.asdict(options) if options else {}
