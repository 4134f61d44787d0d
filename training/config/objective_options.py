"""Flags of single pretraining objectives."""

import dataclasses
from typing import Any, ClassVar

from data.settings import Settings, amount, setting, share


class LeftToRightOptions(Settings):
    """For --objective=left_to_right."""

    num_predicted_positions: int = amount(
        0,
        "[new] Positions of an example whose next wordpiece is predicted in "
        "training, drawn in each step; 0 = all. Evaluation predicts all.",
    )


class ReplacedTokensOptions(Settings):
    """For --objective=replaced_tokens."""

    TOKENS: ClassVar[tuple[str, ...]] = ("[MASK]", "[CLS]", "[SEP]")

    discriminator_weight: float = setting(
        50.0, "[new] Weight of its loss; the generator's is 1.", above=0.0
    )
    generator_size: float = setting(
        0.25,
        "[new] Hidden size of the generator as a share of the discriminator's, "
        "at most 1: a larger generator costs more and trains the discriminator "
        "worse. ELECTRA's: 0.25, for its base size 0.33333.",
        above=0.0,
        most=1.0,
    )
    predicted_share: float = setting(
        0.15,
        "[new] Share of a text's wordpieces that the generator predicts, drawn "
        "in each step. ELECTRA's: 0.15, for its large size 0.25.",
        above=0.0,
        most=1.0,
    )
    mask_token_share: float = share(
        0.85,
        "[new] Share of the predicted wordpieces that the generator sees as "
        "[MASK]; it sees the others as they are.",
    )


class ObjectiveOptions(Settings):
    """The flags of all objectives, in groups with their names."""

    left_to_right: LeftToRightOptions = LeftToRightOptions()
    replaced_tokens: ReplacedTokensOptions = ReplacedTokensOptions()

    def check(self, objective: str) -> None:
        """Raises ValueError for values that belong to another objective.

        They would have no effect.
        """
        for name, options in vars(self).items():
            if name != objective and (changed := options.changed()):
                flag, value = next(iter(changed.items()))
                raise ValueError(
                    f"--{flag}={value} is for --objective={name}, but the "
                    f"objective is {objective}; leave one of them out."
                )

    def tokens(self, objective: str) -> tuple[str, ...]:
        """Returns the tokens whose ids an objective's class takes; () = none.

        They are the class's argument `token_ids`, from --vocab_file, such as
        `("[MASK]",)`.
        """
        return getattr(getattr(self, objective, None), "TOKENS", ())

    def arguments(self, objective: str) -> dict[str, Any]:
        """Returns the arguments of an objective's class that are flags."""
        options = getattr(self, objective, None)
        return dataclasses.asdict(options) if options else {}
