"""What the tests of words, layers and positions are given."""

import pytest

from tests.support import conversion_support


@pytest.fixture
def convert(goldens, tmp_path):
    """Converts the golden model, with further words; returns the folder."""

    def run(words=None, name="converted", **options):
        if words is not None:
            path = tmp_path / "words.txt"
            path.write_text("".join(f"{word}\n" for word in words))
            options["extra_words"] = str(path)
        given = {
            "source": str(goldens / "model/trained"),
            "bert_config_file": str(goldens / "bert_config.json"),
            "vocab_file": str(goldens / "vocab.txt"),
            "output_format": "original",
            **options,
        }
        return conversion_support.convert(target=tmp_path / name, **given)

    return run
