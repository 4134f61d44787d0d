"""What the tests of the streaming writer share."""

import math

import numpy as np

from data.pretraining.data_options import PretrainingDataOptions, Wordpieces
from data.pretraining.exact import in_memory
from data.pretraining.groups import DocumentGroup
from data.pretraining.recipe import Recipe
from data.pretraining.streaming import all_shards
from data.pretraining.streaming.corpus import read_block
from data.records import tfrecord
from data.storage import files

CLS, SEP, MASK = 2, 3, 4
# Ids 20 to 29 continue a word.
VOCAB = {"[PAD]": 0, "[UNK]": 1, "[CLS]": CLS, "[SEP]": SEP, "[MASK]": MASK}
VOCAB |= {f"{'##' * (20 <= i < 30)}{i}": i for i in range(5, 30)}
WORDPIECES = Wordpieces.from_vocab(VOCAB)


def assert_share(count, total, share, z=4.5):
    """A binomial count is within z standard deviations (4.5: 1 in 150,000)."""
    deviation = math.sqrt(total * share * (1 - share))
    assert abs(count - total * share) <= z * deviation + 1e-9, (
        f"{count / total:.4f} of {total}, expected {share:.4f}"
    )


def assert_same_shares(ours, theirs, z=4.5):
    """Two histograms are samples of one distribution, bin by bin."""
    ours, theirs = (np.asarray(x, float).ravel() for x in (ours, theirs))
    pooled = (ours + theirs) / (ours.sum() + theirs.sum())
    variance = pooled * (1 - pooled) * (1 / ours.sum() + 1 / theirs.sum())
    difference = np.abs(ours / ours.sum() - theirs / theirs.sum())
    worst = np.argmax(difference - z * np.sqrt(variance))
    assert difference[worst] <= z * np.sqrt(variance[worst]) + 1e-12, (
        f"bin {worst}: {ours[worst]} of {ours.sum()}, "
        f"theirs {theirs[worst]} of {theirs.sum()}"
    )


def assert_same_means(ours, theirs, z=4.5):
    """Two samples have one mean, by their own variances."""
    ours, theirs = (np.asarray(x, float).ravel() for x in (ours, theirs))
    error = math.sqrt(ours.var() / len(ours) + theirs.var() / len(theirs))
    assert abs(ours.mean() - theirs.mean()) <= z * error + 1e-9, (
        f"{ours.mean():.4f}, theirs {theirs.mean():.4f}, error {error:.4f}"
    )


def pad_rows(rows):
    """Lists of ids -> input_ids [N, S] and lengths [N]."""
    lengths = np.array([len(row) for row in rows])
    input_ids = np.zeros((len(rows), lengths.max()), np.int32)
    for i, row in enumerate(rows):
        input_ids[i, : len(row)] = row
    return input_ids, lengths


def group_of(documents):
    """Documents of sentences of ids, as the writers hold them."""
    group = DocumentGroup("H")
    for number, sentences in enumerate(documents):
        group.add(number, sentences)
    return group


def recipe_of(vocab_file, compression="none", split_sentences=False, **options):
    """The settings of the goldens, or others."""
    settings = {"max_seq_length": 64, "max_predictions_per_seq": 10}
    settings |= {"dupe_factor": 2} | options
    return Recipe(
        PretrainingDataOptions(**settings),
        str(vocab_file),
        compression=compression,
        split_sentences=split_sentences,
    )


def shard_names(folder, num_shards):
    return files.expand_shards(f"{folder}/out@{num_shards}")


def write(inputs, folder, recipe, num_shards=2, **arguments):
    """Runs the writer, with 0 processes that in memory; its report."""
    given = list(map(str, inputs)), shard_names(folder, num_shards), recipe
    if arguments == {"num_processes": 0}:
        return in_memory.write_pretraining_data(*given)
    return all_shards.write_shards(*given, **arguments)


def contents(folder):
    """All that is in a folder: name -> bytes."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def records_of(folder, pattern="out-*-of-*[0-9]"):
    return [
        record
        for path in sorted(folder.glob(pattern))
        for record in tfrecord.read_records(str(path))
    ]


def write_corpus(path, num_documents, num_sentences=4, first=0):
    """Documents whose every word names its document: `7 7 7`."""
    documents = [
        "".join(f"{d} {d} {d}\n" for _ in range(num_sentences))
        for d in range(first, first + num_documents)
    ]
    path.write_text("\n".join(documents), "utf-8")
    return path


def lines_of(blocks):
    """Joins the documents of blocks: number -> lines."""
    documents = {}
    for block in blocks:
        numbers = []
        for number, lines in read_block(block):
            documents.setdefault(number, []).extend(lines)
            numbers.append(number)
        # A block's documents are counted on from its first.
        assert numbers == [
            *range(block.number, block.number + block.num_documents)
        ]
    return documents


def decode(recipe, serialized):
    """Parses records with TensorFlow: name -> array [N, length]."""
    import tensorflow as tf

    from data.records import feature_spec, reading

    specs = feature_spec.pretraining_features(
        recipe.options.max_seq_length,
        recipe.options.max_predictions_per_seq,
        masked=recipe.options.masking == "static",
    )
    for record in serialized:
        reading.check_record(specs, "records", record)
    features = reading.parse_batch(specs, tf.constant(serialized))
    return {name: value.numpy() for name, value in features.items()}


def parts_of(rows):
    """Each row's tokens of a and of b, as before masking."""
    for i, tokens in enumerate(rows["input_ids"].copy()):
        if "masked_lm_ids" in rows:
            is_prediction = rows["masked_lm_weights"][i] == 1
            positions = rows["masked_lm_positions"][i][is_prediction]
            tokens[positions] = rows["masked_lm_ids"][i][is_prediction]
        tokens = tokens[rows["input_mask"][i] == 1].tolist()
        first_sep = tokens.index(SEP)
        yield tokens[1:first_sep], tokens[first_sep + 1 : -1]


def documents_of(rows):
    """The documents of `write_corpus` that each row's a and b are from."""
    found = []
    for a, b in parts_of(rows):
        (of_a,), (of_b,) = set(a), set(b)
        found.append((of_a - 5, of_b - 5))
    return found
