"""Answers of a pretrained model: words for [MASK], whether B follows A."""

import os
from collections.abc import Iterable, Mapping, Sequence

import tensorflow as tf
from absl import logging

from data.pretraining import queries as query_lines
from data.pretraining.queries import Query
from data.progress import Progress
from data.storage import files
from data.text.tokenization import FullTokenizer
from modeling.objectives.pretraining import PretrainingModel
from training.config.pretraining_options import PretrainingOptions
from training.inference import Inference, in_order
from training.loop.model import Batch

RESULTS = "predict_results.jsonl"  # in output_dir


def require_pair_head(
    model: PretrainingModel, queries: Iterable[Query]
) -> None:
    """Raises ValueError for a query of a pair if its head is untrained."""
    pair = next((query for query in queries if query.is_pair), None)
    if pair and "next sentence" not in model.trained_heads():
        raise ValueError(
            f"--predict_file asks about a pair ({pair.text!r}), but the "
            "next-sentence head is untrained (cls/seq_relationship/output_bias "
            "is 0), as after training on records of "
            "--next_sentence_prediction=false. Remove the pairs from "
            "--predict_file, or give a checkpoint that was trained on pairs."
        )


def predict(
    options: PretrainingOptions,
    model: PretrainingModel,
    tokenizer: FullTokenizer,
    queries: Sequence[Query],
) -> None:
    """Answers the queries; writes and prints predict_results.jsonl."""
    require_pair_head(model, queries)
    inference = _Probabilities(model)
    count = tf.distribute.get_strategy().num_replicas_in_sync
    max_predictions = max(1, *(len(q.masked_positions) for q in queries))

    def answer(some: list[Query]) -> list[dict]:
        fillers = [some[-1]] * (-len(some) % count)
        found = inference.given(
            query_lines.query_batch(
                some + fillers,
                tokenizer,
                max_seq_length=options.max_seq_length,
                max_predictions=max_predictions,
            )
        )
        return [
            query_lines.answer(
                query,
                found["words"][i],
                found["pair"][i],
                tokenizer.inv_vocab,
                options.predict_top_k,
            )
            for i, query in enumerate(some)
        ]

    with Progress("answering", total=len(queries), unit="queries") as progress:
        answers = in_order(
            queries,
            answer,
            length=lambda query: 0,  # all are padded to the same length
            batch_size=options.eval_batch_size,
            done=progress.advance,
        )
    lines = query_lines.to_json_lines(answers)
    path = os.path.join(options.train.output_dir, RESULTS)
    files.write_text(path, lines)
    print(lines, end="")
    logging.info("%d answers written to %s.", len(answers), path)


class _Probabilities(Inference):
    """Computes `probabilities` of batches of queries."""

    def __init__(self, model: PretrainingModel):
        super().__init__(model.layers[0].compute_dtype)
        self._model = model

    def compute(self, batch: Batch) -> dict[str, tf.Tensor]:
        """See `probabilities`."""
        words, pair = probabilities(self._model, batch)
        return {"words": words, "pair": pair}


def probabilities(
    model: PretrainingModel, batch: Mapping[str, tf.Tensor]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the probabilities of words and of pairs.

    They are float32 [B, P, V] for the words at the masked positions, and [B,
    2]. `batch` is made by `data.pretraining.queries.query_batch`.
    """
    masked_lm, next_sentence = model.logits(batch)
    shape = [-1, batch["masked_lm_positions"].shape[1], model.config.vocab_size]
    return (
        tf.reshape(tf.nn.softmax(masked_lm), shape),
        tf.nn.softmax(next_sentence),
    )
