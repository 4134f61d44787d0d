"""The original's rules, written down plainly and slowly.

What the fast code of data/squad must equal: lists, dictionaries and double
loops, as the original has them.
"""

import math

from data.text.tokenization import BasicTokenizer


def split_words(text):
    """Cuts a text, character by character."""
    words, after_space = [], True
    for char in text:
        is_space = char in " \t\r\n" or ord(char) == 0x202F
        if not is_space:
            if after_space:
                words.append(char)
            else:
                words[-1] += char
        after_space = is_space
    return words


def spans(num_tokens, room, stride):
    """All (start, length), until one reaches the end."""
    found, start = [], 0
    while start < num_tokens:
        length = min(num_tokens - start, room)
        found.append((start, length))
        if start + length == num_tokens:
            break
        start += min(length, stride)
    return found


def is_max_context(all_spans, number, token):
    """Whether no other span has more context around a token."""
    best_score, best_number = None, None
    for i, (start, length) in enumerate(all_spans):
        if not start <= token < start + length:
            continue
        left, right = token - start, start + length - 1 - token
        score = min(left, right) + 0.01 * length
        if best_score is None or score > best_score:
            best_score, best_number = score, i
    return best_number == number


def windows(question, words, tokenizer, *, length, stride, max_query):
    """The windows of a question, as dictionaries."""
    query = tokenizer.tokenize(question)[:max_query]
    pieces, word_of_piece = [], []
    for number, word in enumerate(words):
        for piece in tokenizer.tokenize(word):
            pieces.append(piece)
            word_of_piece.append(number)
    all_spans = spans(len(pieces), length - len(query) - 3, stride)
    made = []
    for number, (start, size) in enumerate(all_spans):
        tokens, words_of, is_best = ["[CLS]", *query, "[SEP]"], {}, {}
        for i in range(start, start + size):
            words_of[len(tokens)] = word_of_piece[i]
            is_best[len(tokens)] = is_max_context(all_spans, number, i)
            tokens.append(pieces[i])
        tokens.append("[SEP]")
        made.append(
            {
                "tokens": tokens,
                "token_to_orig_map": words_of,
                "token_is_max_context": is_best,
            }
        )
    return made


def answer_span(pieces, start, end, answer, tokenizer):
    """The least span of wordpieces that is the answer; else the given one."""
    wanted = " ".join(tokenizer.tokenize(answer))
    for new_start in range(start, end + 1):
        for new_end in range(end, new_start - 1, -1):
            if " ".join(pieces[new_start : new_end + 1]) == wanted:
                return new_start, new_end
    return start, end


def final_text(predicted, original, do_lower_case):
    """The part of the original text that matches a normalized text."""
    normalized = " ".join(BasicTokenizer(do_lower_case).tokenize(original))
    start = normalized.find(predicted)
    if start == -1:
        return original
    end = start + len(predicted) - 1
    original_places = [i for i, char in enumerate(original) if char != " "]
    places = [i for i, char in enumerate(normalized) if char != " "]
    if len(original_places) != len(places):
        return original
    rank = {place: i for i, place in enumerate(places)}
    if start not in rank or end not in rank:
        return original
    return original[
        original_places[rank[start]] : original_places[rank[end]] + 1
    ]


def _is_answer(feature, start, end, max_length):
    """Whether a pair of places can be an answer."""
    if start >= len(feature["tokens"]) or end >= len(feature["tokens"]):
        return False
    if start not in feature["token_to_orig_map"]:
        return False
    if end not in feature["token_to_orig_map"]:
        return False
    if not feature["token_is_max_context"].get(start, False):
        return False
    return start <= end < start + max_length


def _null(scores):
    """The lowest score of no answer, and its pair."""
    null_score, null_pair = 1000000, (0, 0, 0, 0, 0)
    for number, (starts, ends) in enumerate(scores):
        if starts[0] + ends[0] < null_score:
            null_score = starts[0] + ends[0]
            null_pair = (number, 0, 0, starts[0], ends[0])
    return null_score, null_pair


def _best_texts(pairs, features, words, n_best, do_lower_case):
    """The first pairs with different texts: (text, start and end score)."""
    seen, found = set(), []
    for number, start, end, start_logit, end_logit in pairs:
        if len(found) >= n_best:
            break
        text = ""
        if start > 0:
            text = _text(features[number], start, end, words, do_lower_case)
            if text in seen:
                continue
        seen.add(text)
        found.append((text, start_logit, end_logit))
    return found


def _with_probabilities(found):
    scores = [start + end for _, start, end in found]
    exponentials = [math.exp(score - max(scores)) for score in scores]
    total = 0.0
    for one in exponentials:
        total += one
    return [
        (text, one / total, *logits)
        for (text, *logits), one in zip(found, exponentials, strict=True)
    ]


def predict(
    words,
    features,
    scores,
    *,
    n_best,
    max_length,
    do_lower_case,
    with_null,
    threshold=0.0,
):
    """The answer, the n best and the score difference of one question.

    Args:
      words: of the paragraph.
      features: of `windows`.
      scores: (start scores, end scores), lists of floats, of each window.
      n_best, max_length, do_lower_case, with_null, threshold: the flags.
    """
    pairs = []
    null_score, null_pair = _null(scores) if with_null else (None, None)
    for number, (starts, ends) in enumerate(scores):
        pairs += [
            (number, start, end, starts[start], ends[end])
            for start in _best(starts, n_best)
            for end in _best(ends, n_best)
            if _is_answer(features[number], start, end, max_length)
        ]
    if with_null:
        pairs.append(null_pair)
    pairs = sorted(pairs, key=lambda pair: pair[3] + pair[4], reverse=True)
    found = _best_texts(pairs, features, words, n_best, do_lower_case)
    if with_null and "" not in {text for text, *_ in found}:
        found.append(("", *null_pair[3:]))
    if not found:
        found.append(("empty", 0.0, 0.0))
    answers = _with_probabilities(found)
    if not with_null:
        return answers[0][0], answers, None
    best = next((one for one in found if one[0]), None)
    if best is None:  # where the original stops
        return "", answers, None
    difference = null_score - best[1] - best[2]
    return "" if difference > threshold else best[0], answers, difference


def _best(scores, number):
    ranked = sorted(enumerate(scores), key=lambda one: one[1], reverse=True)
    return [place for place, _ in ranked[:number]]


def _text(feature, start, end, words, do_lower_case):
    text = " ".join(feature["tokens"][start : end + 1])
    text = text.replace(" ##", "").replace("##", "").strip()
    text = " ".join(text.split())
    word_of = feature["token_to_orig_map"]
    original = " ".join(words[word_of[start] : word_of[end] + 1])
    return final_text(text, original, do_lower_case)
