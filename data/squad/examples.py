"""Questions of articles, with the place of the answer in the paragraph."""

import bisect
import dataclasses
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from absl import logging

from data.records.reuse import RowsReport
from data.squad.articles import SquadArticles

# As in the original, no other white space separates words: a no-break space is
# part of a word.
_WORD = re.compile("[^ \t\r\n\u202f]+")
_EXCERPT = 60  # characters of bad input in an error


class Paragraph(NamedTuple):
    """The text (`context`) of some questions, from the article `title`.

    `doc_tokens` are its words, split at white space only, `offsets` the places
    of their first characters.
    """

    title: str
    context: str
    doc_tokens: list[str]
    offsets: list[int]


@dataclasses.dataclass(slots=True)
class SquadExample:
    """A question.

    Attributes:
      qas_id: its id.
      question_text: the question.
      paragraph: the text that it asks about.
      orig_answer_text: the answer to train on; "" = unanswerable, None = not
        read.
      start_position: the answer's first word; -1 = unanswerable, None = not
        read.
      end_position: the answer's last word; likewise.
      is_impossible: whether the question is marked as unanswerable; read only
        for training.
      answers: all given answers, for scores; () = unanswerable, None = the
        file has no `answers`.

    Source: SquadExample in run_squad.py; paragraph and answers are new.
    """

    qas_id: str
    question_text: str
    paragraph: Paragraph
    orig_answer_text: str | None = None
    start_position: int | None = None
    end_position: int | None = None
    is_impossible: bool = False
    answers: tuple[str, ...] | None = None

    def is_scored(self, version_2: bool) -> bool:
        """Whether the right answer is known, which may be no answer."""
        return bool(self.answers) or version_2 and self.answers is not None


@dataclasses.dataclass
class SquadReport(RowsReport):
    """Counts of questions and their windows.

    The original computes the number of training steps from `num_examples`, the
    questions that have not been left out.

    `num_without_answer` are rows of answerable questions that do not contain
    the answer; their label is position 0. Questions in `not_found` were left
    out because the text at the answer's place does not contain the answer.
    Questions without a word are kept, as by the original.
    """

    num_windows: int = 0
    num_without_answer: int = 0
    num_several_answers: int = 0
    num_queries_cut: int = 0
    num_empty_questions: int = 0
    num_empty_paragraphs: int = 0
    not_found: list[dict[str, str]] = dataclasses.field(default_factory=list)

    def counts(self) -> list[str]:
        """See `RowsReport.counts`."""
        more = {
            "windows without the answer": self.num_without_answer,
            "questions with several answers": self.num_several_answers,
            "answers not found": len(self.not_found),
            "questions cut to --max_query_length": self.num_queries_cut,
            "questions without a word": self.num_empty_questions,
            "paragraphs without a word": self.num_empty_paragraphs,
        }
        return [
            f"{self.num_examples:,} questions",
            f"{self.num_windows:,} windows",
            *(f"{number:,} {what}" for what, number in more.items() if number),
        ]


def read_examples(
    data: SquadArticles,
    is_training: bool = False,
    version_2_with_negative: bool = False,
    report: SquadReport | None = None,
) -> Iterator[SquadExample]:
    """Yields the questions in the order of the file, and counts them.

    Only training reads the place of an answer: a question is left out and
    reported if the text there does not contain the answer.

    Raises:
      ValueError: an article is not in SQuAD's form, or two questions have the
        same id; in training also if a question has no answer or one outside
        the text.

    Source: read_squad_examples in run_squad.py.
    """
    report = SquadReport() if report is None else report
    seen: set[str] = set()
    for article in data.articles:
        for where, paragraph, content in _questions(*article, report):
            example = _example(where, paragraph, content)
            report.num_empty_questions += not example.question_text.strip()
            has_null = version_2_with_negative
            if is_training and _is_impossible(content, where, has_null):
                example.is_impossible, example.orig_answer_text = True, ""
                example.start_position = example.end_position = -1
            elif is_training:
                # Differs from the original: the first of several answers is
                # used, because an error would make every development set
                # useless for training.
                answer = content["answers"][0]
                report.num_several_answers += len(example.answers) > 1
                if not _set_answer(example, answer, report, where):
                    continue
            # Differs from the original: it keeps the answer of one of them.
            if example.qas_id in seen:
                raise ValueError(
                    f"{data.name}: two questions have the id "
                    f"{example.qas_id!r}; make the ids unique."
                )
            seen.add(example.qas_id)
            yield example


def _questions(
    article: str, content: Any, report: SquadReport
) -> Iterator[tuple[str, Paragraph, Any]]:
    """Yields place, paragraph and JSON of the questions of one article."""
    paragraphs = _get(content, "paragraphs", list, article)
    title = str(content.get("title") or "")
    for number, content in enumerate(paragraphs, start=1):
        where = f"{article}, paragraph {number}"
        context = _get(content, "context", str, where)
        words = list(_WORD.finditer(context))
        doc_tokens = [word.group() for word in words]
        offsets = [word.start() for word in words]
        paragraph = Paragraph(title, context, doc_tokens, offsets)
        report.num_empty_paragraphs += not words
        questions = _get(content, "qas", list, where)
        for place, question in enumerate(questions, start=1):
            asked = f"{where}, question {place}"
            if isinstance(question, dict) and type(question.get("id")) is int:
                question = question | {"id": str(question["id"])}  # as a key
            qas_id = _get(question, "id", str, asked)
            yield f"{asked} (id {qas_id!r})", paragraph, question


def _example(where: str, paragraph: Paragraph, content: Any) -> SquadExample:
    """Reads a question and the texts of its answers."""
    text = _get(content, "question", str, where)
    example = SquadExample(content["id"], text, paragraph)
    if "answers" in content:
        answers = _get(content, "answers", list, where)
        example.answers = tuple(_get(x, "text", str, where) for x in answers)
    elif content.get("is_impossible") is True:
        example.answers = ()
    return example


def _is_impossible(content: dict, where: str, has_null: bool) -> bool:
    """Whether a question is unanswerable; refuses any other without an answer.

    Hugging Face's form of SQuAD 2.0 has no `is_impossible`, but no answers.
    """
    is_impossible = content.get("is_impossible", content.get("answers") == [])
    # Differs from the original: it takes any value but "" and 0 for true, also
    # the text "False".
    if not isinstance(is_impossible, bool):
        raise ValueError(
            f"{where}: is_impossible is {is_impossible!r:.{_EXCERPT}}, "
            "expected true or false without quotes; correct the file."
        )
    if is_impossible and has_null:
        return True
    if not content.get("answers"):
        remedy = "give it one, or leave it out"
        if is_impossible:
            remedy = "pass --version_2_with_negative if that is meant"
        raise ValueError(
            f"{where}: there is no answer, expected one to train on; {remedy}."
        )
    return False


def _set_answer(
    example: SquadExample, answer: dict, report: SquadReport, where: str
) -> bool:
    """Sets the answer's position; False = the text there is different."""
    text, first = answer["text"], _get(answer, "answer_start", int, where)
    length = len(example.paragraph.context)
    if not 0 <= first <= first + len(text) <= length:
        raise ValueError(
            f"{where}: answer {text[:_EXCERPT]!r} begins at character "
            f"{first} (answer_start), but the context has {length} characters; "
            "correct the file (answer_start counts characters, not bytes)."
        )
    offsets = example.paragraph.offsets
    # Differs from the original: an answer that begins in the white space
    # before the first word begins with the first word, because the original
    # takes word -1, finds no answer of several words and drops the question.
    start = max(bisect.bisect_right(offsets, first) - 1, 0)
    end = bisect.bisect_right(offsets, first + len(text) - 1) - 1
    found = " ".join(example.paragraph.doc_tokens[start : end + 1])
    cleaned = " ".join(text.split())
    # Differs from the original: an answer of only white space counts as not
    # found, because every text contains it.
    if not cleaned or cleaned not in found:
        logging.warning("Could not find answer: '%s' vs. '%s'", found, cleaned)
        lost = {"qas_id": example.qas_id, "answer": text, "found": found}
        report.not_found.append(lost)
        return False
    example.orig_answer_text = text
    example.start_position, example.end_position = start, end
    return True


def _get(content: Any, name: str, kind: type, where: str) -> Any:
    """Returns a member of an object after checking its type."""
    value = content.get(name) if isinstance(content, dict) else None
    if type(value) is kind:  # True is an int, too
        return value
    expected = {list: "a list", str: "a text", int: "a whole number"}[kind]
    raise ValueError(
        f"{where}: {name} is {value!r:.{_EXCERPT}}, expected {expected}. Is it "
        f"in SQuAD's form? It is {content!r:.{_EXCERPT}}"
    )
