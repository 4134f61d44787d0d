"""The sizes and settings of a study on a small machine.

`small` is for 2 cores and an hour a study. `tiny` shows in a minute or two
that a command works; its numbers mean nothing.
"""

import dataclasses

PAPER = "paper"
LENGTH = 64
# Members of bert_config.json, where neither study nor row says otherwise.
SIZES = {
    "attention_probs_dropout_prob": 0.0,
    "hidden_dropout_prob": 0.0,
    "hidden_size": 128,
    "intermediate_size": 512,
    "max_position_embeddings": LENGTH,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "type_vocab_size": 2,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scale:
    """Settings that all rows of a study share.

    `num_steps` are updates of a pretraining (0 = the study's), and
    `share_of_minutes` is of the study's minutes, if it goes by minutes.
    `epochs` is a factor of those of fine-tuning. `casing_sentences` are to
    train on and to score. `max_eval_steps` are batches of held-out text. `xla`
    compiles the pretraining.
    """

    vocab_size: int = 8000
    batch_size: int = 32
    num_steps: int = 0
    share_of_minutes: float = 1.0
    epochs: float = 1.0
    casing_sentences: tuple[int, int] = (2000, 1000)
    max_eval_steps: int = 50
    xla: bool = True


SCALES = {
    "small": Scale(),
    "tiny": Scale(
        vocab_size=2000,
        batch_size=8,
        num_steps=12,
        share_of_minutes=0.005,
        epochs=0.1,
        casing_sentences=(200, 100),
        max_eval_steps=2,
        xla=False,  # compiling takes longer than 12 steps
    ),
}
NAMES = (*SCALES, PAPER)
