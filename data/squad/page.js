// The page of a SQuAD prediction: a card for each paragraph, with its questions.

function verdict(question) {
  if (question.exact === undefined) return "unknown";
  if (question.exact) return "right";
  return question.f1 > 0 ? "partly" : "wrong";
}

const page = {
  itemsOf: paragraph => paragraph.questions,
  textsOf: paragraph => [paragraph.context, paragraph.title],
  textsIn: q => [q.question, q.answer.text, q.id, ...q.given || []],
  shown: (questions, texts) => `Questions shown: ${count(questions)}, texts: ${count(texts)}`,
  card,
  filters: () => [
    ["All", () => true],
    ["Wrong", q => q.exact === 0],
    ["Right", q => q.exact === 1],
    ["Unanswerable", q => q.given && !q.given.length],
    ["Answered with nothing", q => !q.answer.text],
  ],
  legend: () => [
    "Click a question to see its answer in the text. ",
    element("mark", "right active", "Right"), ", ",
    element("mark", "partly active", "partly right"), ", ",
    element("mark", "wrong active", "wrong"), "; ",
    element("mark", "given", "the words of a given answer"),
    ", wherever they stand. The bar is the model's probability.",
  ],
  scores: () => {
    const questions = groups.flatMap(page.itemsOf);
    const scored = questions.filter(q => q.exact !== undefined);
    const percent = name => (100 * scored.reduce((sum, q) => sum + q[name], 0)
      / scored.length).toFixed(1);
    const parts = [["", count(questions.length), " questions"]];
    if (scored.length) {
      parts.push(["exact match ", percent("exact"), ""], ["F1 ", percent("f1"), ""]);
    }
    return parts;
  },
};

function card(paragraph, found) {
  const section = element("section");
  const text = element("div", "text"), inner = element("div");
  const context = element("p", "context", "");
  const list = element("ol");
  inner.append(element("h2", "", paragraph.title.replaceAll("_", " ")), context);
  text.append(inner);
  section.append(text, list);
  const items = found.map(question => item(question));
  const choose = i => {
    items.forEach((each, j) => {
      each.classList.toggle("active", i === j);
      each.querySelector("button").setAttribute("aria-pressed", i === j);
    });
    paint(context, paragraph.context, found, i);
    const mark = context.querySelector("mark.active") || context.querySelector("mark.given");
    if (mark && context.scrollHeight > context.clientHeight)
      context.scrollTop = mark.offsetTop - context.offsetTop - context.clientHeight / 3;
  };
  items.forEach((each, i) => { each.onclick = () => choose(i); });
  list.append(...items);
  paint(context, paragraph.context, found, 0);
  items[0].classList.add("active");
  items[0].querySelector("button").setAttribute("aria-pressed", true);
  return section;
}

// The text in pieces: each as long as the same answers hold it.
function paint(place, context, found, active) {
  const spans = found
    .map((q, i) => ({ ...q.answer, i, tone: verdict(q) }))
    .filter(span => span.start !== undefined);
  if (found[active].exact !== 1) {
    for (const given of found[active].given || []) {
      let start = given ? context.indexOf(given) : -1;
      for (; start >= 0; start = context.indexOf(given, start + given.length))
        spans.push({ start, end: start + given.length, isGiven: true });
    }
  }
  const cuts = new Set([0, context.length]);
  for (const span of spans) cuts.add(span.start).add(span.end);
  const places = [...cuts].sort((a, b) => a - b);
  const pieces = [];
  for (let k = 0; k + 1 < places.length; k++) {
    const piece = context.slice(places[k], places[k + 1]);
    const here = spans.filter(s => s.start <= places[k] && s.end >= places[k + 1]);
    if (!here.length) { pieces.push(piece); continue; }
    const answers = here.filter(s => !s.isGiven);
    const top = answers.find(s => s.i === active) || answers[0];
    const mark = document.createElement("mark");
    mark.textContent = piece;
    if (top) mark.classList.add(top.tone);
    if (top && top.i === active) mark.classList.add("active");
    if (here.some(s => s.isGiven)) mark.classList.add("given");
    pieces.push(mark);
  }
  place.replaceChildren(...pieces);
}

function answerText(text) {
  return text ? element("span", "answer", text) : element("span", "none", "no answer");
}

function item(question) {
  const tone = verdict(question);
  const made = element("li", tone);
  made.title = question.id;
  made.append(element("button", "ask", question.question));
  const said = { right: "right", wrong: "wrong", unknown: "",
    partly: `partly, F1 ${Math.round(100 * question.f1)}` }[tone];
  made.append(row("Answer", answerText(question.answer.text),
    meter(question.answer.probability), element("span", "verdict", said)));
  if (question.given) {
    const given = element("span", question.given.length ? "" : "none",
      question.given.length ? "" : "no answer");
    question.given.forEach((text, i) => given.append(i ? " \u00b7 " : "", element("bdi", "", text)));
    made.append(row("Given", given));
  }
  const rest = [...question.others.map(x => row("", answerText(x.text), meter(x.probability)))];
  if (question.diff !== undefined)
    rest.push(row("", element("span", "",
      `Score of no answer, less that of the best: ${question.diff}`)));
  if (rest.length) {
    const details = element("details"), summary = element("summary", "", "Other answers");
    details.onclick = event => event.stopPropagation();
    details.append(summary, ...rest);
    made.append(details);
  }
  return made;
}
