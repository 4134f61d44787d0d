"""SQuAD: questions on paragraphs, answered by a part of them.

`articles` (what a file holds, piece by piece) -> `examples` (questions with
the place of their answer) -> `windows` (rows as long as the model takes) ->
`rows`, `records` (windows to record files, made once). Back from the model:
`candidates` (the best pairs of start and end) -> `final_text`, `answers` (pairs
to texts) -> `prediction_files`, `page` (what is written) -> `scoring` (exact
match, F1, the null threshold); `ensembling`, `ensemble_files` (several runs to
one).
"""
