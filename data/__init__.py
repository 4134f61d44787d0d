"""TEXT -> TOKENS -> RECORDS -> BATCHES; and scores back to answers.

The road, in the order of the files: `files`, `progress` (how anything is read,
written and shown) -> `vocabulary`, `tokenization` (text to wordpieces) ->
`vocabulary_building` (text to a vocabulary) -> `records` (what an example is
on disk) -> `packing`, `instances`, `pretraining_examples` (documents to masked
pairs) -> `pretraining_writer` (text files to record files) ->
`input_pipeline` (record files to batches) -> `pretraining_queries` (sentences
with [MASK], and their answers).
"""
