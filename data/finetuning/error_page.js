// The page of a dev set's predictions: a card for each example.

const facts = {{facts}};
const tone = x => x.right === undefined ? "unknown" : x.right ? "right" : "wrong";
const pair = x => `${x.gold} \u2192 ${x.prediction}`;

const page = {
  itemsOf: example => [example],
  textsOf: example => [...example.texts, ...(example.choices || []).map(([, text]) => text)],
  textsIn: example => [example.id, example.gold, example.prediction],
  shown: examples => `Examples shown: ${count(examples)}`,
  card,
  filters: () => [
    ["All", () => true],
    ["Wrong", x => x.right === false],
    ["Right", x => x.right === true],
    ...confusions().map(found => [found, x => x.right === false && pair(x) === found]),
  ],
  legend: () => [
    ...calibrationTables(),
    "The example with the highest loss is first. A button such as ",
    element("b", "", "a \u2192 b"), " shows the examples of a that were predicted as b.",
  ],
  scores: () => {
    const wrong = groups.filter(x => x.right === false).length;
    const parts = [["", count(groups.length), " examples"]];
    if (groups.some(x => x.right !== undefined)) parts.push(["", count(wrong), " wrong"]);
    return parts;
  },
};

// The most frequent pairs of the right label and another one.
function confusions() {
  const found = new Map();
  for (const x of groups)
    if (x.right === false) found.set(pair(x), (found.get(pair(x)) || 0) + 1);
  return [...found].sort((a, b) => b[1] - a[1]).slice(0, 8).map(([name]) => name);
}

// The temperature, the threshold of each label, and how many answers have a
// higher probability, and how many of these are right.
function calibrationTables() {
  const {temperature, thresholds, answers_above: above} = facts.calibrated;
  const percent = x => x === null ? "none" : `${(100 * x).toFixed(1)} %`;
  const ofLabels = Object.entries(thresholds || {});
  const found = [];
  if (temperature) found.push(element("p", "", `Temperature of the probabilities: ${temperature.toFixed(4)}`));
  if (ofLabels.length) found.push(table(["Label", "Best threshold", "F1"],
    ofLabels.map(([label, x]) => [label, x.threshold.toFixed(4), x.f1.toFixed(4)])));
  if (above) found.push(table(["Answer only above", "Coverage", "Accuracy"],
    above.map(x => [x.above.toFixed(2), percent(x.coverage), percent(x.accuracy)])));
  return found;
}

function table(names, rows) {
  const made = element("table");
  for (const [kind, cells] of [["th", names], ...rows.map(cells => ["td", cells])]) {
    const line = element("tr");
    for (const cell of cells) line.append(element(kind, "", cell));
    made.append(line);
  }
  return made;
}

// Words that speak for a label are green, those against it red.
function shadedTexts(example) {
  const values = example.shaded.flat().map(([, value]) => Math.abs(value));
  const most = Math.max(...values, 1e-9);
  const found = example.shaded.map(parts => {
    const made = element("p", "context");
    made.dir = "auto";
    for (const [text, value] of parts) {
      const mark = element(value ? "mark" : "span", value > 0 ? "right" : "wrong", text);
      mark.dir = "";
      if (value) mark.title = `${value > 0 ? "+" : ""}${value}`;
      const share = Math.round(60 * Math.abs(value) / most);
      if (value) mark.style.background = `color-mix(in srgb, var(--tone) ${share}%, transparent)`;
      made.append(mark);
    }
    return made;
  });
  const label = element("p", "number", `Shaded: for (green) and against (red) ${example.explained}`);
  return [...found, label];
}

function card(example) {
  const section = element("section"), text = element("div", "text");
  text.append(element("h2", "", example.id));
  if (example.shaded) text.append(...shadedTexts(example));
  else for (const each of example.texts) text.append(element("p", "context", each));
  if (example.choices) {
    const list = element("ol");
    for (const [label, each] of example.choices) {
      const isRight = label === example.gold;
      const is = [isRight && "right", label === example.prediction && "predicted"];
      const choice = element("li", isRight ? "right" : "");
      choice.append(row(label, element("span", "answer", each),
        element("span", "number", is.filter(Boolean).join(", "))));
      list.append(choice);
    }
    text.append(list);
  }
  const facts = element("div", `facts ${tone(example)}`);
  const said = { right: "right", wrong: "wrong", unknown: "" }[tone(example)];
  facts.append(
    row("Predicted", answerText(example.prediction), element("span", "verdict", said)),
    row("Gold", element("b", "", example.gold || "none")),
    row("Loss", element("span", "number", String(example.loss))));
  for (const [label, probability] of example.scores)
    facts.append(row("", element("span", "", label), meter(probability)));
  section.append(text, facts);
  return section;
}

function answerText(text) {
  return text ? element("span", "answer", text) : element("span", "none", "none");
}
