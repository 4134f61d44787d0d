"""Answers of a pretrained model: words for [MASK], whether B follows A."""

import itertools
import json
import os
from collections.abc import Iterable

import tensorflow as tf
from absl import logging

from data.pretraining import queries as query_lines
from data.pretraining.queries import Query
from data.progress import Progress
from data.storage import files
from data.text.tokenization import FullTokenizer
from modeling import objectives
from modeling.objectives.base import Batch
from modeling.objectives.pretraining import PretrainingModel
from training.config.pretraining_options import PretrainingOptions
from training.inference import Inference, in_order

RESULTS = "predict_results.jsonl"  # in output_dir


def require_pair_head(model: PretrainingModel, queries: list[Query]) -> None:
    """Raises ValueError for a query of a pair if its head is untrained."""
    pair = next((query for query in queries if query.is_pair), None)
    if pair and "next sentence" not in model.trained_heads():
        raise ValueError(
            f"--predict_file asks about a pair ({pair.text!r}), but the "
            "next-sentence head is untrained (cls/seq_relationship/output_bias "
            "is 0). Remove the pairs, or give a checkpoint trained on pairs."
        )


def require_heads(
    options: PretrainingOptions,
    untrained: Iterable[str],
    has_pairs: bool,
    queries: list[Query],
) -> None:
    """Refuses to evaluate or predict with the random weights of a head.

    The run does not train. `untrained` are the names of the random variables,
    `has_pairs` says whether it evaluates on pairs of sentences.
    """
    heads = objectives.get(options.objective).head_variables
    scored = [head for head in heads if has_pairs or head != "next sentence"]
    has_masks = any(query.masked_positions for query in queries)
    asks_pairs = any(query.is_pair for query in queries)
    asked = {
        "--do_eval": scored if options.do_eval else (),
        "--do_predict": itertools.compress(heads, (has_masks, asks_pairs)),
    }
    for flag, needed in asked.items():
        names = {
            head: [n for n in sorted(untrained) if n.startswith(heads[head])]
            for head in needed
        }
        lacking = [head for head, of_head in names.items() if of_head]
        # Differs from the original: it answers with random weights.
        if lacking:
            raise ValueError(
                f"{flag} needs the {' and '.join(lacking)}, but "
                f"--init_checkpoint={options.init_checkpoint} has no "
                f"{', '.join(itertools.chain(*names.values()))}; give one that "
                "has, or train first (--do_train)."
            )


class Answers(Inference):
    """Answers queries; create it in the strategy's scope."""

    def __init__(
        self,
        options: PretrainingOptions,
        model: PretrainingModel,
        tokenizer: FullTokenizer,
        queries: list[Query],
    ):
        super().__init__(model.layers[0].compute_dtype)
        self._options, self._model = options, model
        self._tokenizer, self._queries = tokenizer, queries
        masks = (len(query.masked_positions) for query in queries)
        self._max_predictions = max((1, *masks))

    def write(self) -> None:
        """Answers the queries; writes and prints predict_results.jsonl."""
        require_pair_head(self._model, self._queries)
        count = len(self._queries)
        with Progress("answering", total=count, unit="queries") as progress:
            answers = in_order(
                self._queries,
                self._batch,
                length=lambda query: 0,  # all are padded to the same length
                batch_size=self._options.eval_batch_size,
                done=progress.advance,
            )
        lines = [json.dumps(x, ensure_ascii=False) + "\n" for x in answers]
        path = os.path.join(self._options.train.output_dir, RESULTS)
        files.write_text(path, "".join(lines))
        print(*lines, sep="", end="")
        logging.info("%d answers written to %s.", count, path)

    def _batch(self, queries: list[Query]) -> list[dict]:
        fillers = -len(queries) % self._strategy.num_replicas_in_sync
        whole = queries + queries[-1:] * fillers
        sizes = self._options.max_seq_length, self._max_predictions
        found = self.given(query_lines.query_batch(whole, *sizes))
        rows = zip(queries, found["words"], found["pair"], strict=False)
        made_with = self._tokenizer.inv_vocab, self._options.predict_top_k
        return [query_lines.answer(*row, *made_with) for row in rows]

    def compute(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Computes probabilities of words [B, P, V] and of pairs [B, 2].

        `batch` is made by `data.pretraining.queries.query_batch`.
        """
        masked_lm, pair = self._model.logits(batch)
        size = self._model.config.vocab_size
        shape = [-1, batch["masked_lm_positions"].shape[1], size]
        words = tf.reshape(tf.nn.softmax(masked_lm), shape)
        return {"words": words, "pair": tf.nn.softmax(pair)}
