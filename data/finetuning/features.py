"""Converts examples of a task to rows of fixed length.

Axes: S sequence, C choices, L labels.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence

from data.finetuning import tagging
from data.finetuning.feature_options import EXAMPLE_NUMBER, FeatureOptions
from data.records import reuse
from data.tasks.examples import (
    ChoiceExample,
    Example,
    InputExample,
    TaggingExample,
    TextExample,
)
from data.text import packing
from data.text.spans import starts_of
from data.text.tokenization import FullTokenizer

Row = dict[str, list]
# Kind of task -> class of its examples; the others have `InputExample`s.
_EXAMPLES = {
    "choice": ChoiceExample,
    "tagging": TaggingExample,
    "texts": TextExample,
}


@dataclasses.dataclass
class RecordsReport(reuse.RowsReport):
    """Counts of a task's rows.

    `num_records` may exceed the examples, if sentences were split;
    `num_shortened` counts examples that lost tokens, `num_split` texts and
    tagged sentences that continue in another row and lose no words.
    """

    num_records: int = 0
    num_shortened: int = 0
    num_split: int = 0

    def counts(self) -> list[str]:
        """See `RowsReport.counts`."""
        share = self.num_shortened / max(self.num_examples, 1)
        shortened = f"{self.num_shortened:,} shortened to --max_seq_length"
        parts = [*super().counts(), f"{shortened} ({share:.1%})"]
        if self.num_split:
            parts.append(f"{self.num_split:,} split over several rows")
        return parts


class Converter:
    """Converts examples to rows, and counts the rows so far in `report`.

    The tokenizer has [CLS], [SEP] and [UNK].

    Source: convert_single_example in run_classifier.py.
    """

    def __init__(self, tokenizer: FullTokenizer, options: FeatureOptions):
        self.report = RecordsReport()
        self._options = options
        self._encode, vocab = tokenizer.encode, tokenizer.vocab
        self._unknown = [vocab["[UNK]"]]
        self._marks = {"cls_id": vocab["[CLS]"], "sep_id": vocab["[SEP]"]}
        self._label_ids = {label: i for i, label in enumerate(options.labels)}

    def rows(self, examples: Iterable[Example]) -> Iterator[Row]:
        """Yields the rows of examples, feature name -> values.

        An example has one row, or with a stride one for each window. A tagged
        sentence longer than a row has several, and each word has its label in
        one of them (see `tagging.words_of_rows`). Raises ValueError or
        TypeError if an example does not fit the options.
        """
        if self._options.kind == "tagging":
            made = self._tagging_rows(examples)
        else:
            numbered = enumerate(examples)
            made = (row for one in numbered for row in self._rows_of(*one))
        for row in made:
            row.setdefault("is_real_example", [1])
            self.report.num_records += 1
            self.report.num_tokens += sum(row["input_mask"])
            self.report.num_places += len(row["input_mask"])
            yield row

    def _count(self, example: Example) -> None:
        """Counts an example; refuses one of another kind of task."""
        self.report.num_examples += 1
        kind = self._options.kind
        expected = _EXAMPLES.get(kind, InputExample)
        if not isinstance(example, expected):
            raise TypeError(
                f"a {type(example).__name__} in a task of kind {kind}, "
                f"expected a {expected.__name__}."
            )

    def _rows_of(self, number: int, example: Example) -> Iterable[Row]:
        """Returns the rows of an example of any kind except tagging."""
        self._count(example)
        if self._options.stride:
            return self._windows(number, example)
        if self._options.kind == "choice":
            pairs = self._choices(example)
        elif self._options.kind == "texts":
            pairs = [(text, "") for text in example.texts]
        else:
            pairs = [(example.text_a, example.text_b or "")]
        return [self._inputs_of(pairs) | {"label_ids": self._answer(example)}]

    def _windows(self, number: int, example: InputExample) -> Iterator[Row]:
        """Yields the rows of a text, which may have several."""
        if example.text_b is not None:
            raise ValueError(
                f"--long_text=windows is for single texts, but example "
                f"{example.guid} is a pair; leave it out."
            )
        ids = self._encode(example.text_a)
        room = self._options.max_seq_length - 2
        starts = starts_of(len(ids), room, self._options.stride)
        self.report.num_split += len(starts) > 1
        more = {"label_ids": self._answer(example), EXAMPLE_NUMBER: [number]}
        for start in starts:
            yield self._inputs(ids[start : start + room], []) | more

    def _inputs_of(self, pairs: Sequence[tuple[str, str]]) -> Row:
        """Returns the inputs of all pairs, one after the other."""
        # Often one context for all.
        ids = {text: self._encode(text) for text in {*itertools.chain(*pairs)}}
        rows, num_lost = [], 0
        for first, second in pairs:
            ids_a, ids_b = list(ids[first]), list(ids[second])
            room = self._options.max_seq_length - (3 if ids_b else 2)
            texts = ids_a, ids_b, room, self._options.cut
            num_lost += packing.truncate_ends(*texts)
            rows.append(self._inputs(ids_a, ids_b))
        self.report.num_shortened += num_lost > 0
        return {x: [i for row in rows for i in row[x]] for x in packing.INPUTS}

    def _inputs(self, ids_a: list[int], ids_b: list[int]) -> Row:
        """Adds [CLS], [SEP] and padding to texts that fit."""
        ids, segments = packing.add_special_tokens(ids_a, ids_b, **self._marks)
        length = self._options.max_seq_length
        return {
            "input_ids": packing.pad(ids, length),
            "input_mask": packing.pad([1] * len(ids), length),
            "segment_ids": packing.pad(segments, length),
        }

    def _choices(self, example: ChoiceExample) -> list[tuple[str, str]]:
        """Pairs the contexts with the choices."""
        sizes = len(example.contexts), len(example.choices)
        if set(sizes) != {len(self._options.labels)}:
            raise ValueError(
                f"example {example.guid}: {sizes[0]} contexts and {sizes[1]} "
                f"choices, expected {len(self._options.labels)} of each."
            )
        return list(zip(example.contexts, example.choices, strict=True))

    def _answer(
        self, example: InputExample | ChoiceExample | TextExample
    ) -> Sequence[float]:
        """Returns `label_ids`; 0 for an unknown label, as in the original."""
        kind = self._options.kind
        if kind == "texts":
            return example.vector if len(example.vector) else [example.score]
        if kind == "multilabel":
            chosen = {self._id(example, one) for one in example.label or ()}
            return [int(i in chosen) for i in range(len(self._label_ids))]
        if example.label is None:
            return [0]
        if kind == "regression":
            return [float(example.label)]
        return [self._id(example, example.label)]

    def _id(self, example: Example, label: str) -> int:
        if label not in self._label_ids:
            raise ValueError(
                f"example {example.guid}: label {label!r}, expected one of "
                f"{', '.join(self._options.labels)}."
            )
        return self._label_ids[label]

    def _tagging_rows(
        self, sentences: Iterable[TaggingExample]
    ) -> Iterator[Row]:
        """Yields the rows of sentences, grouped by document if asked to."""
        documents = ([sentence] for sentence in sentences)
        if self._options.document_context:
            groups = itertools.groupby(sentences, lambda e: e.document)
            documents = (list(group) for _, group in groups)
        for document in documents:
            yield from self._document(document)

    def _document(self, sentences: list[TaggingExample]) -> Iterator[Row]:
        """Yields the rows of sentences that are each other's context."""
        length, stride = self._options.max_seq_length, self._options.stride
        room, start = length - 2, 0
        words = [word for one in sentences for word in self._words(one, room)]
        pieces = list(itertools.chain.from_iterable(words))
        places = [0, *itertools.accumulate(map(len, words))]
        for sentence in sentences:
            labels = self._word_labels(sentence)
            end = start + len(labels)
            cuts = tagging.cut_sentence(places, start, end, room, stride)
            self.report.num_split += len(cuts) > 1
            for part in cuts:
                left, right = tagging.surroundings(places, *part, room)
                row = self._inputs(pieces[places[left] : places[right]], [])
                row["label_ids"], row["label_mask"] = [0] * length, [0] * length
                for word in range(*part):
                    place = 1 + places[word] - places[left]  # after [CLS]
                    row["label_ids"][place] = labels[word - start]
                    row["label_mask"][place] = 1
                yield row
            start = end

    def _words(self, sentence: TaggingExample, room: int) -> list[list[int]]:
        """Returns the wordpieces of each word: 1 to `room`."""
        self._count(sentence)
        if not sentence.words:
            raise ValueError(f"example {sentence.guid} has no words.")
        # A word of control characters has a label but no wordpieces.
        words = [self._encode(x) or self._unknown for x in sentence.words]
        self.report.num_shortened += any(len(word) > room for word in words)
        return [word[:room] for word in words]

    def _word_labels(self, sentence: TaggingExample) -> list[int]:
        """Returns the label id of each word; 0 if labels are unknown."""
        if sentence.labels is None:
            return [0] * len(sentence.words)
        if len(sentence.labels) != len(sentence.words):
            raise ValueError(
                f"example {sentence.guid}: {len(sentence.labels)} labels for "
                f"{len(sentence.words)} words."
            )
        return [self._id(sentence, label) for label in sentence.labels]
