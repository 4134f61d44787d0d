"""Makes small data sets for the tests of tensorflow-datasets."""

import pathlib

import tensorflow as tf
import tensorflow_datasets as tfds
from tensorflow_datasets.core import registered

# Wiki40B's own form: marks are lines, _NEWLINE_ is not.
ARTICLE = """
_START_ARTICLE_
The title
_START_PARAGRAPH_
One. Two._NEWLINE_Three.
_START_SECTION_
A heading
_START_PARAGRAPH_
Four.
"""
TITLE_ONLY = "\n_START_ARTICLE_\nThe title\n_START_SECTION_\nA heading"
PLAIN = [f"Text {i}.\n \n\xa0\n  Café {i}!\t\r\n\n" for i in range(40)]
TEXT = tfds.features.Text()


def prepare(folder, name, features, splits, config=None, **options):
    """Prepares a data set, unknown to this process as a user's own is.

    Args:
      folder: the data_dir, which is returned as text.
      name: of the data set.
      features: of an example, name -> feature.
      splits: name -> examples.
      config: name of its only configuration; None = it has none.
      **options: of `tfds.download.DownloadConfig`.
    """
    with registered.skip_registration():

        class MadeHere(tfds.core.GeneratorBasedBuilder):
            __module__ = name  # a user's own, in no package
            VERSION = tfds.core.Version("1.2.0")
            BUILDER_CONFIGS = (
                [tfds.core.BuilderConfig(name=config)] if config else []
            )

            def _info(self):
                return tfds.core.DatasetInfo(
                    builder=self, features=tfds.features.FeaturesDict(features)
                )

            def _split_generators(self, _):
                return {
                    split: iter(enumerate(examples))
                    for split, examples in splits.items()
                }

            def _generate_examples(self):
                # Abstract in tfds; the splits above are the examples.
                raise AssertionError("not to be called")

    MadeHere.name = name
    tfds.disable_progress_bar()
    MadeHere(data_dir=str(folder)).download_and_prepare(
        download_config=tfds.download.DownloadConfig(**options)
    )
    return str(folder)


def prepare_texts(folder, name, texts, config=None, **features):
    """Prepares a data set of two files whose strings are all the text."""
    features = features or {"text": TEXT, "id": tf.int64}
    examples = [
        {
            key: i if feature == tf.int64 else text
            for key, feature in features.items()
        }
        for i, text in enumerate(texts)
    ]
    prepare(folder, name, features, {"train": examples}, config, num_shards=2)


def text_of(paths):
    """The bytes of all files together."""
    return b"".join(pathlib.Path(path).read_bytes() for path in paths)
