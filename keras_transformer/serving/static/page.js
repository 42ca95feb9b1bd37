"use strict";

const $ = (id) => document.getElementById(id);
let server = {beam_size: 1, attention: false, limits: {sentences: 128}};
let key = "";
let lines = [];       // what was translated: the sentences of each line
let translated = "";  // what Copy copies
let running = null;   // the AbortController of the translation under way
let explaining = null;  // that of the explanation under way

// === Talking to the server ===

async function ask(path, body, signal) {
  const headers = key ? {Authorization: `Bearer ${key}`} : {};
  const options = {headers, signal, cache: "no-store"};
  if (body) Object.assign(options, {method: "POST", body: JSON.stringify(body)});
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Is it still running?");
  }
  const answer = await response.json().catch(() => ({}));
  if (response.status === 401) {
    askForKey();
    throw new Error(key ? "The server does not know this key. Check it, and try again." : "");
  }
  if (!response.ok) throw new Error(answer.error || `The server answered ${response.status}.`);
  return answer;
}

function askForKey() {
  $("key-form").hidden = false;
  $("key").focus();
}

async function introduce() {
  try {
    server = await ask("info");
  } catch (error) {
    return show(error);
  }
  document.title = `Translate · ${server.name}`;
  const about = [server.name, server.engine, server.weights && `${(server.weights / 1e6).toFixed(1)} M weights`];
  $("model").textContent = about.filter(Boolean).join(" · ");
  describe();
  chooseLanguages();
  if (server.splits_sentences) $("form-of-text").textContent = "Text of any length, sentence by sentence";
  if (server.examples?.length) $("source").placeholder = server.examples[0];
}

function describe() {
  const {source_language: from, target_language: to, source_languages: sources, target_languages: targets} = server;
  const facts = [];
  if (targets) facts.push(`The model translates from ${sources.length} languages into ${targets.length}.`);
  else if (from && to) facts.push(`The model translates from ${languageName(from)} into ${languageName(to)}.`);
  else facts.push("The model does not tell its languages.");
  if (server.training_text) facts.push(`It was trained on ${server.training_text}.`);
  if (server.knows) facts.push(`The model knows ${server.knows}.`);
  $("knows").replaceChildren(...facts.map((fact) => make("li", {textContent: fact})));
  $("knows").hidden = false;
}

function chooseLanguages() {
  for (const side of ["source", "target"]) {
    const codes = server[`${side}_languages`] || [];
    const code = server[`${side}_language`];
    const place = $(`${side}-language`);
    if (codes.length > 1) {
      const select = make("select", {id: `${side}-code`, ariaLabel: `Language of the ${side}`},
        ...(code ? [] : [make("option", {value: "", textContent: "choose a language"})]),
        ...codes.map((one) => make("option", {value: one, textContent: languageName(one)})));
      select.value = code || "";
      select.addEventListener("change", () => setLanguage(side, select.value));
      place.replaceChildren(select);
    } else if (code || codes.length) {
      place.textContent = languageName(code || codes[0]);
    }
    setLanguage(side, code || (codes.length === 1 ? codes[0] : ""));
  }
}

function setLanguage(side, code) {
  $(side === "source" ? "source" : "translations").lang = code.replace("_", "-");
}

function languages() {
  const codes = {src_lang: $("source-code")?.value, tgt_lang: $("target-code")?.value};
  return Object.fromEntries(Object.entries(codes).filter(([, code]) => code));
}

function languageName(code) {
  try {
    return new Intl.DisplayNames(["en"], {type: "language"}).of(code.replace("_", "-"));
  } catch {
    return code;
  }
}

// === Translating ===

async function translate() {
  const text = $("source").value.replace(/\s+$/, "");
  if (!text.trim()) return $("source").focus();
  if ($("target-code")?.value === "") return show(new Error("Choose the language to translate into."));
  running?.abort();
  explaining?.abort();
  running = new AbortController();
  const {signal} = running;
  const texts = text.split("\n");
  busy(true);
  show(null);
  try {
    const start = performance.now();
    const split = server.splits_sentences ? {split_sentences: true} : {};
    const answer = await ask("translate", {texts, details: true, ...split, ...languages()}, signal);
    const seconds = (performance.now() - start) / 1000;
    lines = texts.map((line, i) => answer.sentences?.[i] ?? (line.trim() ? [line] : []));
    showTranslations(answer);
    const count = lines.flat().length;
    say(`${count === 1 ? "1 sentence" : `${count} sentences`}, ${seconds.toFixed(2)} s`);
  } catch (error) {
    if (error.name !== "AbortError") forget();
    show(error);
    return;
  } finally {
    if (running?.signal === signal) busy(false);
  }
  document.querySelector("#translations button")?.click();
}

function forget() {  // what belongs to another text
  lines = [];
  $("translations").replaceChildren();
  $("copy").hidden = $("inside").hidden = true;
}

function busy(is) {
  $("go").setAttribute("aria-disabled", is);
  $("translations").classList.toggle("busy", is);
  $("translations").setAttribute("aria-busy", is);
  if (is) say("Translating …");
}

function say(text) {
  $("status").textContent = text;
}

function show(error) {
  if (error?.name === "AbortError") return;  // somebody asked for something else
  $("error").hidden = !error?.message;
  $("error").textContent = error?.message || "";
  if (error) $("error").scrollIntoView({block: "nearest"});
  if (error) say("");
}

function make(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

function showTranslations({translations, details, unknown_words: unknown = []}) {
  const items = lines.map((sentences, i) => {
    if (!sentences.length) return make("li", {}, make("br"));
    const texts = server.splits_sentences ? details[i].map((found) => found[0].text) : [translations[i]];
    const buttons = texts.map((text, s) => {
      const button = make("button", {type: "button", textContent: text, dir: "auto"});
      button.addEventListener("click", () => explain(sentences[s], button).catch(show));
      return button;
    });
    const item = make("li", {className: buttons.length > 1 ? "several" : ""}, ...buttons);
    if (unknown[i]?.length) {
      const words = make("span", {textContent: unknown[i].join(", "), lang: $("source").lang, dir: "auto"});
      item.append(make("p", {className: "unknown", lang: "en"}, "unknown words: ", words));
    }
    return item;
  });
  $("translations").replaceChildren(...items);
  translated = translations.join("\n");
  $("copy").hidden = false;
}

// === How the model got there ===

async function explain(sentence, chosen) {
  explaining?.abort();
  explaining = new AbortController();
  const {signal} = explaining;
  document.querySelectorAll("#translations button").forEach((other) => other.setAttribute("aria-pressed", other === chosen));
  const body = {text: sentence, n_best: server.beam_size, attention: server.attention, details: true, ...languages()};
  const {details} = await ask("translate", body, signal).catch((error) => {
    if (error.name !== "AbortError") $("inside").hidden = true;  // it is of another sentence
    throw error;
  });
  const hypotheses = details[0];
  const best = Math.max(...hypotheses.map((h) => h.score));
  const beams = hypotheses.map((hypothesis) => {
    const bar = make("span", {className: "bar", ariaHidden: "true"}, make("span"));
    bar.style.setProperty("--share", Math.exp(hypothesis.score - best));
    const score = `${hypothesis.score.toFixed(3).replace("-", "−")}${hypothesis.finished ? "" : ", cut off"}`;
    const button = make("button", {type: "button"},
      make("span", {className: "text", textContent: hypothesis.text, dir: "auto"}),
      make("span", {className: "score"}, bar, make("span", {textContent: score})));
    button.addEventListener("click", () => choose(hypothesis, button));
    return make("li", {}, button);
  });
  $("beams").replaceChildren(...beams);
  $("inside").hidden = false;
  $("attention").hidden = $("matrix-details").hidden = !server.attention;
  choose(hypotheses[0], beams[0].firstChild);
}

function choose(hypothesis, button) {
  document.querySelectorAll("#beams button").forEach((other) => other.setAttribute("aria-pressed", other === button));
  if (!server.attention) return;
  const sources = words(hypothesis.source_tokens), targets = words(hypothesis.tokens);
  const weights = targets.map((target) => sources.map((source) => weightBetween(target, source, hypothesis.attention)));
  const sourceElements = sources.map((word) => make("span", {textContent: word.text, className: "starts"}));
  const targetElements = targets.map((word, t) => {
    const element = make("button", {type: "button", textContent: word.text, className: "starts", tabIndex: t === 0 ? 0 : -1});
    const look = () => lookAt(t, targetElements, sourceElements, weights[t]);
    element.addEventListener("focus", look);
    element.addEventListener("click", look);
    element.addEventListener("mouseenter", look);
    return element;
  });
  $("source-words").replaceChildren(...sourceElements);
  $("target-words").replaceChildren(...targetElements);
  $("looked").textContent = "";
  $("matrix").replaceChildren(matrix(targets, sources, weights));
  if (targets.length) lookAt(0, targetElements, sourceElements, weights[0]);
}

// The words of subwords: each with its text, and the places of its first and last one.
// "▁" stands where a word begins. Scripts without spaces keep their subwords.
function words(tokens) {
  const joins = tokens.some((token) => token.startsWith("▁"));
  const special = (token) => /^<.+>$/.test(token);
  const unspaced = (token) => /^▁?[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}\p{sc=Tibetan}]/u.test(token);
  const mark = (token) => /^\p{P}+$/u.test(token);
  const follows = (i) => i === tokens.length || tokens[i].startsWith("▁") || special(tokens[i]);
  const found = [];
  let closing = false;  // within the punctuation behind a word
  tokens.forEach((token, i) => {
    let end = i;
    while (end < tokens.length && mark(tokens[end])) end += 1;
    const closes = mark(token) && follows(end);
    const begins = !joins || !found.length || token.startsWith("▁") || special(token) || special(tokens[i - 1])
      || unspaced(token) || unspaced(tokens[i - 1]) || closes !== closing;
    closing = closes;
    if (begins) found.push({first: i, last: i});
    else found.at(-1).last = i;
  });
  return found.map(({first, last}) => ({first, last, text: spelled(tokens.slice(first, last + 1).join(""))}));
}

// How much of the attention of a target word falls on a source word.
function weightBetween(target, source, attention) {
  let sum = 0;
  for (let t = target.first; t <= target.last; t += 1) {
    for (let s = source.first; s <= source.last; s += 1) sum += attention[t]?.[s] ?? 0;
  }
  return sum / (target.last - target.first + 1);
}

function spelled(token) {
  return token === "</s>" ? "end" : token.replaceAll("▁", " ").trim() || "␣";
}

function lookAt(t, targetElements, sourceElements, weights) {
  targetElements.forEach((element, i) => {
    element.tabIndex = i === t ? 0 : -1;
    element.setAttribute("aria-pressed", i === t);
  });
  sourceElements.forEach((element, s) => element.style.setProperty("--weight", weights[s]));
  const order = weights.map((weight, s) => [weight, s]).sort((a, b) => b[0] - a[0]).slice(0, 3);
  const parts = order.map(([weight, s]) => `${sourceElements[s].textContent} ${Math.round(weight * 100)} %`);
  $("looked").textContent = `${targetElements[t].textContent}: ${parts.join(", ")}`;
}

function matrix(targets, sources, weights) {
  const heads = sources.map((word) => make("th", {scope: "col"}, make("span", {textContent: word.text})));
  const rows = targets.map((word, t) => {
    const cells = weights[t].map((weight) => {
      const cell = make("td", {textContent: weight < 0.005 ? "" : Math.round(weight * 100)});
      cell.style.setProperty("--weight", weight);
      return cell;
    });
    return make("tr", {}, make("th", {scope: "row", textContent: word.text}), ...cells);
  });
  return make("table", {}, make("thead", {}, make("tr", {}, make("td"), ...heads)), make("tbody", {}, ...rows));
}

// === Keys and clicks ===

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  translate();
});

$("source").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    translate();
  }
});

$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key = $("key").value.trim();
  $("key-form").hidden = true;
  show(null);
  introduce();
  $("source").focus();
});

$("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(translated);
    say("Copied");
  } catch {
    say("The browser does not allow copying here");
  }
});

$("target-words").addEventListener("keydown", (event) => {
  const words = [...$("target-words").children];
  const here = words.indexOf(document.activeElement);
  const places = {ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: words.length - 1};
  const next = words[places[event.key]];
  if (next) {
    event.preventDefault();
    next.focus();
  }
});

introduce();
