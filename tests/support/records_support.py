"""Small record files."""

from data.records import feature_spec, tfrecord


def write_examples(path, specs, columns, compression="none"):
    """Writes rows, feature name -> values [N, length]; returns the path."""
    with tfrecord.RecordWriter(str(path), compression) as writer:
        for record in feature_spec.encode_examples(specs, columns):
            writer.write(record)
    return str(path)


def flipped(data, i, bits=0x10):
    """Bytes with one of them wrong."""
    return data[:i] + bytes([data[i] ^ bits]) + data[i + 1 :]
