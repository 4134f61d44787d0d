"""Public data sets, read whole; needs --slow and --real_data."""

import gzip
import re

import pytest

from data.finetuning import features, records
from data.tasks import get_task
from data.text.tokenization import FullTokenizer

pytestmark = pytest.mark.slow


@pytest.fixture
def tokenizer(real_data):
    return FullTokenizer(str(real_data / "vocab/uncased/vocab.txt"))


@pytest.mark.parametrize(
    ("name", "folder", "counts"),
    [
        ("cola", "glue/CoLA", (8551, 1043, 1063)),
        ("rte", "glue/RTE", (2490, 277, 3000)),
        ("sts-b", "glue/STS-B", (5749, 1500, 1379)),
        ("codah", "codah", (2222, 277, 277)),
    ],
)
def test_every_row_becomes_a_record(
    name, folder, counts, real_data, tokenizer, tmp_path
):
    task = get_task(name, str(real_data / folder))
    for set_name, count in zip(("train", "dev", "test"), counts, strict=True):
        report, _ = records.write_records(
            task.examples(set_name),
            str(tmp_path / "records"),
            tokenizer,
            features.FeatureOptions.of_task(task, 64),
        )
        assert report.num_examples == report.num_records == count


@pytest.mark.parametrize("document_context", [False, True])
def test_every_word_of_a_treebank_is_tagged(
    document_context, real_data, tokenizer, tmp_path
):
    for name, source in (("train", "dev"), ("test", "test")):
        path = real_data / f"ewt/en_ewt-ud-{source}.conllu.gz"
        text = gzip.decompress(path.read_bytes())
        (tmp_path / f"{name}.conllu").write_bytes(text)
    task = get_task("conllu", str(tmp_path))
    assert len(task.labels) == 17
    made = features.FeatureOptions.of_task(
        task, 64, document_context=document_context
    )
    sentences = list(task.examples("test"))
    rows = features.Converter(tokenizer, made).rows(iter(sentences))
    num_tagged = sum(sum(row["label_mask"]) for row in rows)
    # As grep counts lines that begin with a whole number.
    num_words = len(re.findall(rb"^\d+\t", text, re.MULTILINE))
    assert num_tagged == sum(len(s.words) for s in sentences) == num_words
    documents = {sentence.document for sentence in sentences}
    assert len(documents) == text.count(b"# newdoc id")
