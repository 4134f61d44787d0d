"""sentence-transformers' and bm25s' side of sentence_vectors.py.

It imports nothing of this project. Standard input has a request, one JSON
object; what the libraries print goes to standard error.
"""

import json
import sys
from pathlib import Path

import bm25s
import datasets
import numpy as np
import sentence_transformers as library
from sentence_transformers.sentence_transformer import losses
from theirs import sentence_model

_SCALE = 20.0  # as --similarity_scale


def train(request):
    """Trains a copy of the weights and writes the vectors of the dev texts."""
    model = sentence_model(request["model"], request["length"])
    rows = [json.loads(line) for line in Path(request["train"]).open()]
    scored = "score" in rows[0]
    loss = (
        losses.CoSENTLoss(model, scale=_SCALE)
        if scored
        else losses.MultipleNegativesRankingLoss(model, scale=_SCALE)
    )
    trainer = library.SentenceTransformerTrainer(
        model=model,
        args=library.SentenceTransformerTrainingArguments(
            output_dir=request["folder"],
            num_train_epochs=request["epochs"],
            per_device_train_batch_size=request["batch"],
            learning_rate=request["rate"],
            warmup_steps=0.1,  # a share of all
            weight_decay=0.01,
            seed=request["seed"],
            batch_sampler="batch_sampler" if scored else "no_duplicates",
            save_strategy="no",
            report_to="none",
            logging_steps=50,
        ),
        train_dataset=datasets.Dataset.from_list(rows),
        loss=loss,
    )
    trainer.train()
    texts = json.loads(Path(request["texts"]).read_text())
    np.save(request["vectors"], model.encode(texts, batch_size=32))


def bm25(request):
    """Writes the scores of every document for every question, float32 [Q, D].

    Stop words are kept: with them removed the scores were lower.
    """
    questions, documents = json.loads(Path(request["texts"]).read_text())
    retriever = bm25s.BM25()
    retriever.index(bm25s.tokenize(documents, stopwords=None))
    tokens = bm25s.tokenize(questions, stopwords=None, return_ids=False)
    scores = [retriever.get_scores(words) for words in tokens]
    np.save(request["vectors"], np.stack(scores).astype(np.float32))


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    {"train": train, "bm25": bm25}[asked["do"]](asked)
