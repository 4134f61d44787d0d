"""What the tests of vectors share."""

import dataclasses


def changed(options, vectors=None, **fields):
    if vectors:
        fields["vectors"] = dataclasses.replace(options.vectors, **vectors)
    return dataclasses.replace(options, **fields)
