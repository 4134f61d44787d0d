"""TEXT -> TOKENS -> RECORDS -> BATCHES; and scores back to answers.

The road, in the order of the files: `files`, `tfrecord`, `progress` (how
anything is read, written and shown) -> `vocabulary`, `tokenization`,
`tokenization_in_graph` (text to wordpieces, in Python and in TensorFlow) ->
`vocabulary_building` (text to a vocabulary) -> `records`, `record_reading`,
`record_damage` (what an example is on disk, and what is left of a damaged file)
-> `packing` (token ids to a row) ->
`input_pipeline`, `length_batches` (record files to batches, those without
needless padding).

Fine-tuning: `metrics` (scores) -> `tasks/` (what the files of each task hold)
-> `tagging`, `feature_report`, `features` (examples to rows) ->
`task_records` (rows to record files, made once).

Vectors of text: `text_features` (lines to rows) -> `vector_files`,
`attention_picture` (what the model made of them).

`squad/` is questions to windows, and scores back to answers. `pretraining/` is
text to pretraining records, of any size of text.
"""
