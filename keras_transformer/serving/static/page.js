"use strict";

const $ = (id) => document.getElementById(id);
let server = {beam_size: 1, attention: false, limits: {sentences: 128}};
let key = "";
let lines = [];       // what was translated
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
  if (response.status === 401) askForKey();
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
  if (server.knows) {
    $("knows").textContent = `The model knows ${server.knows}.`;
    $("knows").hidden = false;
    if (server.examples.length) $("source").placeholder = server.examples[0];
  }
  const pair = [server.source_language, server.target_language];
  const about = [server.name, server.engine, server.weights && `${(server.weights / 1e6).toFixed(1)} M weights`];
  $("model").textContent = about.filter(Boolean).join(" · ");
  ["source", "target"].forEach((side, i) => {
    if (!pair[i]) return;
    $(`${side}-language`).textContent = ` · ${languageName(pair[i])}`;
    $(side === "source" ? "source" : "translations").lang = pair[i];
  });
}

function languageName(code) {
  try {
    return new Intl.DisplayNames(["en"], {type: "language"}).of(code);
  } catch {
    return code;
  }
}

// === Translating ===

async function translate() {
  const text = $("source").value.replace(/\s+$/, "");
  if (!text.trim()) return $("source").focus();
  running?.abort();
  explaining?.abort();
  running = new AbortController();
  const {signal} = running;
  lines = text.split("\n");
  busy(true);
  show(null);
  try {
    const start = performance.now();
    const {translations, unknown_words: unknown = []} = await ask("translate", {texts: lines, details: true}, signal);
    const seconds = (performance.now() - start) / 1000;
    showTranslations(translations, unknown);
    say(`${translations.length === 1 ? "1 sentence" : `${translations.length} sentences`}, ${seconds.toFixed(2)} s`);
    await explain(lines.findIndex((line) => line.trim()));
  } catch (error) {
    show(error);
  } finally {
    if (running?.signal === signal) busy(false);
  }
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
  $("error").hidden = !error;
  $("error").textContent = error ? error.message : "";
  if (error) say("");
}

function make(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

function showTranslations(translations, unknown) {
  const items = translations.map((text, i) => {
    if (!text) return make("li", {}, make("br"));
    const button = make("button", {type: "button", textContent: text, dir: "auto"});
    button.addEventListener("click", () => explain(i).catch(show));
    const item = make("li", {}, button);
    if (unknown[i]?.length) {
      const words = make("span", {textContent: unknown[i].join(", "), lang: $("source").lang, dir: "auto"});
      item.append(make("p", {className: "unknown", lang: "en"}, "unknown words: ", words));
    }
    return item;
  });
  $("translations").replaceChildren(...items);
  $("copy").hidden = false;
}

// === How the model got there ===

async function explain(i) {
  explaining?.abort();
  if (i < 0) return;
  explaining = new AbortController();
  const {signal} = explaining;
  [...$("translations").children].forEach((item, j) => item.firstChild.setAttribute?.("aria-pressed", i === j));
  const body = {text: lines[i], n_best: server.beam_size, attention: server.attention, details: true};
  const {details} = await ask("translate", body, signal).catch((error) => {
    if (error.name !== "AbortError") $("inside").hidden = true;  // it is of another line
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
  const {tokens, source_tokens: source, attention} = hypothesis;
  const sourceWords = source.map((token) => word("span", token));
  const targetWords = tokens.map((token, t) => {
    const element = word("button", token);
    element.type = "button";
    element.tabIndex = t === 0 ? 0 : -1;
    const look = () => lookAt(t, targetWords, sourceWords, hypothesis);
    element.addEventListener("focus", look);
    element.addEventListener("click", look);
    element.addEventListener("mouseenter", look);
    return element;
  });
  $("source-words").replaceChildren(...sourceWords);
  $("target-words").replaceChildren(...targetWords);
  $("looked").textContent = "";
  $("matrix").replaceChildren(matrix(tokens, source, attention));
  if (targetWords.length) lookAt(0, targetWords, sourceWords, hypothesis);
}

function spelled(token) {
  return token === "</s>" ? "end" : token.replaceAll("▁", " ").trim() || "␣";
}

function word(name, token) {
  return make(name, {textContent: spelled(token), className: token.startsWith("▁") ? "starts" : ""});
}

function lookAt(t, targetWords, sourceWords, {tokens, source_tokens: source, attention}) {
  const weights = attention[t] || [];
  targetWords.forEach((element, i) => {
    element.tabIndex = i === t ? 0 : -1;
    element.setAttribute("aria-pressed", i === t);
  });
  sourceWords.forEach((element, s) => element.style.setProperty("--weight", weights[s] || 0));
  const order = weights.map((weight, s) => [weight, s]).sort((a, b) => b[0] - a[0]).slice(0, 3);
  const parts = order.map(([weight, s]) => `${spelled(source[s])} ${Math.round(weight * 100)} %`);
  $("looked").textContent = `${spelled(tokens[t])}: ${parts.join(", ")}`;
}

function matrix(tokens, source, attention) {
  const heads = source.map((token) => make("th", {scope: "col"}, make("span", {textContent: spelled(token)})));
  const rows = tokens.map((token, t) => {
    const cells = source.map((_, s) => {
      const weight = attention[t]?.[s] ?? 0;
      const cell = make("td", {textContent: weight < 0.005 ? "" : Math.round(weight * 100)});
      cell.style.setProperty("--weight", weight);
      return cell;
    });
    return make("tr", {}, make("th", {scope: "row", textContent: spelled(token)}), ...cells);
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
  const text = [...$("translations").children].map((item) => item.firstChild.textContent).join("\n");
  try {
    await navigator.clipboard.writeText(text);
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
