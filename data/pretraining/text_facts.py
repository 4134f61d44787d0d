"""What the manifests beside record files say about their text."""

import os
from typing import NamedTuple

from data.storage import files, manifests


class TextFacts(NamedTuple):
    """What manifests say about records; None = they say nothing.

    Attributes:
      vocab_size: ids of the vocabulary.
      wordpieces: of the text, each counted once.
    """

    vocab_size: int | None
    wordpieces: int | None


def read_facts(patterns: str) -> TextFacts:
    """Reads the manifests beside record files.

    One that does not know a file, or knows it with another size, does not
    count. Raises ValueError if the vocabularies have several sizes.
    """
    counts, sizes = {}, {}
    for path in files.expand_patterns(patterns):
        manifest = manifests.of_shard(path)
        shards = manifest["shards"] if manifest else ()
        name, num_bytes = os.path.basename(path), files.size(path)
        found = [x["counts"].get("bytes") for x in shards if x["file"] == name]
        if found != [num_bytes]:
            return TextFacts(None, None)
        # Files of one command have equal manifests, and one text.
        text = repr((manifest["made_from"], manifest["counts"]))
        counts[text] = manifest["counts"]["wordpieces"]
        sizes.setdefault(manifest.get("vocab_size"), path)
    if len(sizes) > 1:
        raise ValueError(
            "the records were made with several vocabularies: "
            + ", ".join(f"{path} of {size}" for size, path in sizes.items())
            + " wordpieces; make all with one --vocab_file of "
            "create_pretraining_data.py."
        )
    return TextFacts(next(iter(sizes)), sum(counts.values()))
