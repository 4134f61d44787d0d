import collections
import string

import pytest

from data.text import vocabulary, vocabulary_building
from data.text.vocabulary import LearningOptions

SPECIAL = list(vocabulary.SPECIAL_TOKENS)


@pytest.fixture(scope="module")
def corpus(goldens):
    return str(goldens / "pretraining_data/corpus.txt")


@pytest.fixture(scope="module")
def counts(corpus):
    return vocabulary_building.count_words([corpus], do_lower_case=True)


def learn(counts, **options):
    options = LearningOptions(**{"vocab_size": 300} | options)
    return vocabulary_building.learn_vocab(counts, options)


def write(folder, content):
    path = folder / "text.txt"
    path.write_bytes(content)
    return [str(path)]


def test_words_are_counted_as_the_tokenizer_cuts_them(tmp_path):
    paths = write(tmp_path, "The dog's the\nDÉJÀ, deja\n".encode())
    assert vocabulary_building.count_words(
        paths + paths, do_lower_case=True
    ) == {"the": 4, "dog": 2, "'": 2, "s": 2, "deja": 4, ",": 2}
    cased = vocabulary_building.count_words(paths, do_lower_case=False)
    assert (cased["The"], cased["DÉJÀ"]) == (1, 1)


def test_rare_words_are_forgotten_when_there_are_too_many(tmp_path, caplog):
    paths = write(tmp_path, b"a a a b b\nc d e\n")
    assert vocabulary_building.count_words(
        paths, do_lower_case=True, max_distinct=4
    ) == {"a": 3, "b": 2}
    assert "5 distinct words; only the 2 most frequent" in caplog.text


def test_vocabulary_has_the_size_asked_for_and_covers_the_text(counts, corpus):
    vocab = learn(counts)
    assert len(vocab) == len(set(vocab)) == 300
    assert vocab[:5] == SPECIAL
    for char in set("".join(counts)):
        assert {char, f"##{char}"} <= set(vocab)
    coverage = vocabulary_building.measure_coverage(counts, vocab)
    assert coverage["unknown"] == 0
    assert coverage["words"] == sum(counts.values()) <= coverage["pieces"]


def test_same_counts_in_any_order_give_the_same_vocabulary(counts):
    assert learn(counts) == learn(dict(reversed(counts.items())))


def test_frequent_words_stay_whole():
    counts = {"low": 100, "lower": 50, "lowest": 50, "slow": 3}
    assert {"low", "lower", "lowest"} <= set(learn(counts, vocab_size=28))


def test_unused_tokens_give_the_released_ids():
    # In the released uncased vocabulary [UNK] is 100 and [MASK] 103.
    vocab = learn({"a": 9}, vocab_size=200, num_unused=99)
    ids = {token: i for i, token in enumerate(vocab)}
    assert (ids["[PAD]"], ids["[unused0]"], ids["[unused98]"]) == (0, 1, 99)
    assert [ids[token] for token in SPECIAL[1:]] == [100, 101, 102, 103]


def test_rare_characters_are_left_out_and_their_words_unknown():
    counts = collections.Counter({"aaa": 50, "bb": 20, "az": 3})
    vocab = learn(counts, vocab_size=20, max_characters=2)
    assert "z" not in vocab
    coverage = vocabulary_building.measure_coverage(counts, vocab)
    assert coverage == {"words": 73, "pieces": 73, "unknown": 3}


def test_small_text_gives_a_smaller_vocabulary():
    vocab = learn({"once": 1}, vocab_size=100)
    assert set("once") < set(vocab) and len(vocab) < 100


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vocab_size": 20}, "vocab_size=20 is too small: .*need 57; raise it"),
        ({"reserved_tokens": ["[UNK]", "[PAD]"]}, r",\[PAD\]; they must begin"),
        ({"reserved_tokens": [*SPECIAL, "a b"]}, ",a b; .* and as one word"),
        ({"reserved_tokens": [*SPECIAL, "[UNK]"]}, r"\[UNK\]; .* each once"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        learn(dict.fromkeys(string.ascii_lowercase, 5), **options)


def test_text_without_a_word_is_refused(tmp_path):
    paths = write(tmp_path, b" \n\n")
    with pytest.raises(ValueError, match=r"no words in .*text\.txt; give text"):
        vocabulary_building.count_words(paths, do_lower_case=True)
