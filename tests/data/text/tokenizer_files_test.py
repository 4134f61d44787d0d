"""What Hugging Face's files say of a tokenizer is honoured, or refused."""

import json

import pytest

from data.text import tokenizer_files, vocabulary

CONFIG, FAST = "tokenizer_config.json", "tokenizer.json"
NORMALIZER = {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
    "strip_accents": None,
    "lowercase": True,
}
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
MASK = {"id": 4, "content": "[MASK]", "normalized": True, "single_word": True}


@pytest.fixture
def write(tmp_path):
    """Writes files of a folder; returns its path."""

    def write(files):
        for name, content in files.items():
            text = "".join(f"{token}\n" for token in content)
            if name != "vocab.txt":
                text = json.dumps(content)
            (tmp_path / name).write_text(text)
        return str(tmp_path)

    return write


def config(**says):
    return {CONFIG: says}


def fast(**normalizer):
    return {FAST: {"normalizer": NORMALIZER | normalizer}}


def added(token, **others):
    return {
        FAST: {"added_tokens": [MASK, {"id": 6, "content": token} | others]}
    }


def decoder(token_id, token):
    return {CONFIG: {"added_tokens_decoder": {token_id: {"content": token}}}}


def of_class(name):
    return {"tokenizer_class": name}


@pytest.mark.parametrize(
    ("files", "lower", "never_split"),
    [
        ({}, None, ()),
        # As BertTokenizer.
        (config(), True, ()),
        (config(do_lower_case=False, strip_accents=False), False, ()),
        (config(do_lower_case=True, strip_accents=True), True, ()),
        (fast(lowercase=False), False, ()),
        (
            {CONFIG: of_class("PreTrainedTokenizerFast")}
            | fast(lowercase=False),
            False,
            (),
        ),
        (config(do_lower_case=True) | fast(), True, ()),
        (
            {
                CONFIG: of_class("ElectraTokenizerFast"),
                "config.json": of_class("BertTokenizer"),
            },
            True,
            (),
        ),
        ({"added_tokens.json": {"[X]": 6, "[MASK]": 4}}, None, ("[X]",)),
        (added("[X]"), None, ("[X]",)),
        (added("x", normalized=True) | config(), True, ("x",)),
        (decoder("6", "[X]"), True, ("[X]",)),
        (
            {
                CONFIG: {
                    "additional_special_tokens": ["[X]", {"content": "[Y]"}],
                    "mask_token": {"content": "[MASK]"},
                    "pad_token": "[SEP]",
                    "never_split": "[W]",
                },
                "special_tokens_map.json": {
                    "additional_special_tokens": ["[X]", "[CLS]"],
                    "extra_special_tokens": {"z_token": "[Z]"},
                },
            },
            True,
            ("[X]", "[Y]", "[W]", "[Z]"),
        ),
    ],
)
def test_settings_are_honoured(write, files, lower, never_split):
    settings = tokenizer_files.read_settings(write(files))
    assert settings.do_lower_case is lower
    assert settings.never_split == never_split


JAPANESE = of_class("BertJapaneseTokenizer")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (config(strip_accents=False), "strip_accents: false, .* is true"),
        (
            config(do_lower_case=False, strip_accents=True),
            "strip_accents: true, .* is false",
        ),
        (config(do_lower_case="false"), 'do_lower_case: "false", but'),
        (config(tokenize_chinese_chars=False), "chinese_chars: false"),
        (config(do_basic_tokenize=False), "do_basic_tokenize: false"),
        ({CONFIG: JAPANESE}, 'class: "BertJapa.*", .* "BertTokenizer" or'),
        ({"config.json": JAPANESE}, "config.json says tokenizer_class: .BertJ"),
        (
            {"special_tokens_map.json": {"cls_token": {"content": "<s>"}}},
            r'cls_token: "<s>", but here it is "\[CLS\]"',
        ),
        (fast(handle_chinese_chars=False), "handle_chinese_chars: false"),
        (fast(clean_text=False), "normalizer.clean_text: false"),
        (fast(strip_accents=False), "normalizer.strip_accents: false"),
        (fast(type="Lowercase"), 'normalizer.type: "Lowercase", but here'),
        ({FAST: {"normalizer": None}}, 'normalizer.type: "none"'),
        ({FAST: {"pre_tokenizer": {"type": "Whitespace"}}}, "pre_tokenizer.ty"),
        (
            {FAST: {"model": {"continuing_subword_prefix": "@@"}}},
            'prefix: "@@", but here it is "##"',
        ),
        (
            config(do_lower_case=True) | fast(lowercase=False),
            "true, but tokenizer.json beside it says lowercase: false; correct",
        ),
        (config() | fast(lowercase=False), r"true \(which is its default\), b"),
        (
            {FAST: {"model": {"vocab": {"a": 4}}}, "vocab.txt": WORDS},
            "'a' with the id 4, but .*vocab.txt has it with 5; remove",
        ),
        (added("[X]", single_word=True), "token 6, single_word: true"),
        (
            added("Caf\u00e9", normalized=True) | config(x=1),
            'token 6, content: "Caf.u00e9", but here it is "cafe.u0301"',
        ),
        ({FAST: {"added_tokens": [{"id": 6}]}}, "added tokens cannot be read"),
        ({FAST: {"model": 3}}, 'says model.type: 3, but .* is "WordPiece"'),
        ({CONFIG: []}, "tokenizer_config.json is damaged: no JSON object; get"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(write, files, message):
    with pytest.raises(ValueError, match=message) as error:
        tokenizer_files.read_settings(write(files))
    remedies = ("correct the file", "correct the one", "remove the file", "get")
    assert any(remedy in str(error.value) for remedy in remedies)


@pytest.mark.parametrize(
    "files",
    [
        {"added_tokens.json": {"[Y]": 7, "[X]": 6}},
        decoder("7", "[Y]") | added("[X]"),
    ],
)
def test_added_tokens_belong_to_the_vocabulary(write, files):
    folder = write({"vocab.txt": WORDS} | files)
    vocab = vocabulary.load_vocab(f"{folder}/vocab.txt")
    assert list(vocab) == [*WORDS, "[X]", "[Y]"]
    # Another vocabulary of the same folder is not theirs.
    vocabulary.write_vocab(f"{folder}/mine.txt", WORDS)
    assert list(vocabulary.load_vocab(f"{folder}/mine.txt")) == WORDS


def test_tokens_are_added_to_a_tokenizer_json(write):
    model = {"type": "WordPiece", "vocab": {t: i for i, t in enumerate(WORDS)}}
    folder = write({FAST: {"model": model} | added("[X]")[FAST]})
    assert list(vocabulary.load_vocab(f"{folder}/{FAST}")) == [*WORDS, "[X]"]


@pytest.mark.parametrize(
    ("tokens", "more", "message"),
    [
        ({"[X]": 5}, {}, r"\['a'\] with the id 5, but .* say '.X.'; correct"),
        ({"[X]": 8}, {}, "6 tokens, .* id 8, but .* '.X.'; .* or add lines"),
        ({"[X]": "b"}, {}, "added tokens cannot be read"),
        ({"[Y]": 6}, added("[X]"), r"token 6 is '\[X\]', but another"),
    ],
)
def test_added_tokens_without_a_place_are_refused(write, tokens, more, message):
    folder = write({"vocab.txt": WORDS, "added_tokens.json": tokens} | more)
    with pytest.raises(ValueError, match=message):
        vocabulary.load_vocab(f"{folder}/vocab.txt")
