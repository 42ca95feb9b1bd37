// Translates with the ONNX export of this folder, wholly in the browser: no text leaves
// it. The search and its rules are those of `search.py` and `rules.py`, one line at a
// time; `model.json` says in words what they do.
//
// W beam width, G groups of beams, M = W / G, C continuations, S source positions, V
// vocabulary, L length of the cache.
"use strict";

const NEVER = -Infinity;
const round = Math.fround; // numbers are float32, as in the programs
// A cache starts this long and is doubled when it is full: short ones are faster.
const FIRST_LENGTH = 16;
// Milliseconds of work after which the browser draws, and hears the person.
const PATIENCE = 50;
// What greedy search does not have, and what it has in its place.
const WITHOUT_BEAMS = {
  top_beams: 1,
  coverage_penalty: 0,
  patience: null,
  num_beam_groups: 1,
  diversity_penalty: 0,
};
// White space of Python's `\s`, NUL and the joiners.
const BLANK = /^[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\0\u200c\u200d]*$/;
const BYTE_PIECE = /^<0x([0-9A-F]{2})>$/;

// What the person can mend; anything else is a mistake of this page.
class PageError extends Error {}

// === Search ===

// What may come next, and what a hypothesis is worth.
class Rules {
  constructor(ids, options) {
    this.ids = ids;
    this.end = ids.end;
    this.options = options;
    // Else the best continuations of the step are those of the search.
    this.needsLogits =
      options.min_length > 1 ||
      options.no_repeat_ngram_size > 0 ||
      options.repetition_penalty !== 1 ||
      options.num_beam_groups > 1;
  }

  score(total, length) {
    const alpha = round(this.options.length_penalty);
    switch (this.options.normalization) {
      case "gnmt":
        return round(total / round(round(round(5 + length) / 6) ** alpha));
      case "power":
        return round(total / round(Math.max(length, 1) ** alpha));
      case "average":
        return round(total / Math.max(length, 1));
      case "none":
        return total;
    }
    throw new PageError(
      `search.normalization "${this.options.normalization}" of model.json is none that is known.`,
    );
  }

  // Log-probabilities of what may come next, of each hypothesis C or, where `ids` is
  // null, V; and the attention, null where no option asks for it.
  async continuations(decoder, last, beams, count, tokens, limit) {
    const position = tokens[0].length;
    const names = this.needsLogits ? ["logits"] : ["best_log_probabilities", "best_ids"];
    if (this.options.coverage_penalty) names.push("attention");
    const outputs = await decoder.step(last, position, beams, count, names);
    const attention = outputs.attention ?? null;
    if (this.needsLogits) {
      requireNumbers(outputs.logits);
      const best = outputs.logits.map((row, beam) => this.allowed(row, tokens[beam]));
      return { ...this.forced(best, null, position, limit), attention };
    }
    const best = outputs.best_log_probabilities;
    // Some runtimes pass a NaN over, and take what is never chosen.
    requireNumbers(best.map(([first]) => [first === NEVER ? NaN : first]));
    return { ...this.forced(best, outputs.best_ids, position, limit), attention };
  }

  // Continuations with what is forced in place of others, at no cost.
  forced(best, ids, position, limit) {
    const start = this.options.forced_start;
    if (start !== null && position === 0) return alone(best, ids, start);
    if (this.options.forced_end && position + 1 >= limit) return alone(best, ids, this.end);
    return { best, ids };
  }

  // Log-probabilities (V,), minus infinity of what is forbidden.
  allowed(logits, tokens) {
    const factor = round(this.options.repetition_penalty);
    const logs = Float32Array.from(logits);
    if (factor !== 1) {
      for (const token of new Set(tokens)) {
        logs[token] = logits[token] > 0 ? logits[token] / factor : logits[token] * factor;
      }
    }
    let largest = NEVER;
    for (const value of logs) largest = Math.max(largest, value);
    let sum = 0;
    for (const value of logs) sum += Math.exp(round(value - largest));
    const whole = round(Math.log(sum));
    for (let token = 0; token < logs.length; token++) {
      logs[token] = round(round(logs[token] - largest) - whole);
    }
    for (const token of this.ids.suppressed) logs[token] = NEVER;
    if (tokens.length + 1 < this.options.min_length) logs[this.end] = NEVER;
    const size = this.options.no_repeat_ngram_size;
    for (let first = 0; size > 0 && first + size <= tokens.length; first++) {
      const newest = tokens.length - size + 1;
      let repeats = true;
      for (let i = 0; i < size - 1; i++) repeats &&= tokens[first + i] === tokens[newest + i];
      if (repeats) logs[tokens[first + size - 1]] = NEVER;
    }
    return logs;
  }
}

// NaN, which no model that works gives, would make a plausible text.
function requireNumbers(rows) {
  if (rows.some((row) => row.some(Number.isNaN))) {
    throw new PageError(
      "The model gives NaN: its weights are not finite, or numbers on the way are too " +
        "large. Export a model that works.",
    );
  }
}

// Continuations that have `token` alone.
function alone(best, ids, token) {
  const place = ids === null ? token : 0;
  const only = best.map((row) => new Float32Array(row.length).fill(NEVER));
  for (const row of only) row[place] = 0;
  if (ids === null) return { best: only, ids };
  return { best: only, ids: ids.map((row) => row.with(place, token)) };
}

// Places of the `count` largest scores, ties in order.
function bestPlaces(scores, count) {
  const places = [];
  for (let place = 0; place < scores.length; place++) {
    const score = scores[place];
    if (places.length === count && !(score > scores[places[count - 1]])) continue;
    let at = places.length;
    while (at > 0 && scores[places[at - 1]] < score) at--;
    places.splice(at, 0, place);
    if (places.length > count) places.pop();
  }
  return places;
}

// The `count` best of continuations (W, C), by `rank`: less what the token costs.
function bestContinuations(live, best, ids, count, cost = () => 0) {
  const size = best[0].length;
  const tokenAt = (beam, place) => (ids === null ? place : ids[beam][place]);
  const scores = new Float32Array(best.length * size);
  const ranks = new Float32Array(scores.length);
  best.forEach((row, beam) => {
    for (let place = 0; place < size; place++) {
      const at = beam * size + place;
      scores[at] = live[beam].total + row[place];
      ranks[at] = scores[at] - cost(tokenAt(beam, place));
    }
  });
  return bestPlaces(ranks, count).map((at) => {
    const beam = Math.floor(at / size);
    return { rank: ranks[at], score: scores[at], token: tokenAt(beam, at % size), beam };
  });
}

// The hypotheses of a line, best first: `{ids, total, score}`. None where the rules
// forbid every token.
function search(decoder, limit, rules) {
  const find = rules.options.beam_size === 1 ? greedySearch : beamSearch;
  return find(decoder, limit, rules);
}

async function greedySearch(decoder, limit, rules) {
  const ids = [];
  let last = rules.ids.start;
  let total = 0;
  while (ids.length < limit && last !== rules.end) {
    const next = await rules.continuations(decoder, [last], [0], 1, [ids], limit);
    const [chosen] = bestContinuations([{ total: 0 }], next.best, next.ids, 1);
    last = chosen.token;
    ids.push(last);
    total = round(total + chosen.score);
    if (total === NEVER) return [];
  }
  return [{ ids, total, score: rules.score(total, ids.length) }];
}

// Finished and live hypotheses are kept apart; of all continuations of the live ones the
// best 2 M go on, so that M stay alive however many of them end. The groups of a line
// stop together.
async function beamSearch(decoder, limit, rules) {
  const options = rules.options;
  const numGroups = options.num_beam_groups;
  const width = options.beam_size / numGroups;
  const wanted = Math.min(options.top_beams, width);
  const enough = options.patience
    ? Math.max(Math.ceil(options.patience * width), wanted)
    : Infinity;
  const groups = Array.from({ length: numGroups }, () => new Group(decoder, width, rules));
  for (let position = 0; position < limit; position++) {
    const live = groups.flatMap((group) => group.live);
    const next = await rules.continuations(
      decoder,
      live.map((hypothesis) => hypothesis.last),
      groups.flatMap((group, n) => group.live.map(({ beam }) => n * width + beam)),
      2 * width,
      live.map((hypothesis) => hypothesis.ids),
      limit,
    );
    const taken = new Map(); // how many hypotheses of the groups before go on with a token
    groups.forEach((group, n) => {
      const own = (rows) => rows && rows.slice(n * width, (n + 1) * width);
      group.extend(own(next.best), own(next.ids), own(next.attention), taken);
    });
    const patient = groups.map((group) => group.done || group.numEnded >= enough);
    const settled = groups.map((group) => {
      const bound = rules.score(group.live[0].total, limit);
      return (group.finished[wanted - 1]?.score ?? NEVER) >= bound || position + 1 >= limit;
    });
    const all = groups.every((_, n) => patient[n] || settled[n]);
    groups.forEach((group, n) => (group.done = patient[n] || all));
    if (all) break;
  }
  const found = new Map(); // what several groups have found is one hypothesis
  for (const group of groups) {
    if (group.live[0].ids.length >= limit) group.keep(group.live);
    for (const hypothesis of group.finished) {
      const key = hypothesis.ids.join();
      if (!found.has(key)) found.set(key, hypothesis);
    }
  }
  const best = [...found.values()].sort((a, b) => b.score - a.score);
  return best.slice(0, options.top_beams);
}

// Live and finished hypotheses of a group, each best first.
class Group {
  constructor(decoder, width, rules) {
    this.mask = decoder.mask;
    this.width = width;
    this.rules = rules;
    this.done = false;
    this.numEnded = 0;
    this.finished = [];
    // All beams begin alike: only one may go on.
    this.live = Array.from({ length: width }, (_, n) => ({
      ids: [],
      last: rules.ids.start,
      beam: 0,
      total: n === 0 ? 0 : NEVER,
      coverage: 0,
      attention: new Float32Array(this.mask.length), // the sum over the steps
    }));
  }

  // The next token of each hypothesis.
  extend(best, ids, attention, taken) {
    if (this.done) {
      this.live = this.live.map((hypothesis, beam) => ({
        ...hypothesis,
        beam,
        ids: [...hypothesis.ids, this.rules.end],
        total: NEVER,
      }));
      return;
    }
    const end = this.rules.end;
    const penalty = round(this.rules.options.diversity_penalty);
    const cost = (token) => round(penalty * (taken.get(token) ?? 0));
    const candidates = bestContinuations(this.live, best, ids, 2 * this.width, cost);
    const covered = this.live.map((hypothesis, beam) =>
      this.covered(hypothesis, attention && attention[beam]),
    );
    const extended = candidates.map(({ rank, score, token, beam }) => ({
      ...covered[beam],
      ids: [...this.live[beam].ids, token],
      last: token,
      beam,
      total: score,
      rank: token === end ? NEVER : rank,
    }));
    const ended = ({ last, total }) => last === end && total > NEVER;
    this.numEnded += extended.slice(0, this.width).filter(ended).length;
    this.keep(extended.filter(ended));
    const ranks = extended.map(({ rank }) => rank);
    this.live = bestPlaces(ranks, this.width).map((place) =>
      ranks[place] > NEVER ? extended[place] : { ...extended[place], total: NEVER },
    );
    for (const { last, rank } of this.live) {
      if (rank > NEVER) taken.set(last, (taken.get(last) ?? 0) + 1);
    }
  }

  // What the score of a hypothesis loses for the source it left out.
  covered(hypothesis, attention) {
    if (attention === null) return { attention: hypothesis.attention, coverage: 0 };
    const summed = hypothesis.attention.map((value, place) => value + attention[place]);
    let logs = 0;
    summed.forEach((value, place) => {
      if (this.mask[place]) logs += Math.log(Math.min(Math.max(value, 1e-9), 1));
    });
    const coverage = round(round(this.rules.options.coverage_penalty) * round(logs));
    return { attention: summed, coverage };
  }

  // The best of the finished ones and of these, equal ones in order of age.
  keep(hypotheses) {
    const scored = hypotheses
      .filter(({ total }) => total > NEVER)
      .map(({ ids, total, coverage }) => {
        const score = round(this.rules.score(total, ids.length) + coverage);
        return { ids, total, score };
      });
    const all = [...this.finished, ...scored];
    const places = bestPlaces(all.map(({ score }) => score), this.width);
    this.finished = places.map((place) => all[place]);
  }
}

// === Engine ===

// Until the browser has done what waits.
function nextTask() {
  return new Promise((resolve) => setTimeout(resolve));
}

// The decoder step as `search` calls it; keeps the caches of one line.
class Decoder {
  static async start(engine, source, beamSize, limit) {
    const input = new engine.ort.Tensor("int32", Int32Array.from(source), [1, source.length]);
    const memory = await engine.encoder.run({ source: input });
    return new Decoder(engine, memory, source, beamSize, limit);
  }

  constructor(engine, memory, source, beamSize, limit) {
    this.Tensor = engine.ort.Tensor;
    this.session = engine.step;
    this.memory = memory;
    this.mask = source.map((token) => token !== engine.description.ids.pad);
    this.limit = limit;
    this.rested = performance.now();
    this.length = Math.min(FIRST_LENGTH, limit);
    const inputs = engine.description.graphs.step.inputs;
    this.caches = inputs.filter(({ name }) => name.startsWith("cache_"));
    const sizes = { B: 1, W: beamSize, L: this.length };
    this.cache = {};
    for (const { name, shape } of this.caches) {
      const dims = shape.map((size) => sizes[size] ?? size);
      const zeros = new Float32Array(dims.reduce((product, size) => product * size, 1));
      this.cache[name] = new this.Tensor("float32", zeros, dims);
    }
  }

  // Of each of `names`, what it says of each hypothesis.
  async step(tokens, position, beams, count, names) {
    if (performance.now() - this.rested > PATIENCE) await this.rest();
    if (position === this.length) this.grow();
    const int32 = (values, dims) => new this.Tensor("int32", Int32Array.from(values), dims);
    const feeds = {
      tokens: int32(tokens, [1, tokens.length]),
      position: int32([position], []),
      beams: int32(beams, [1, beams.length]),
      count: int32([count], []),
      ...this.memory,
      ...this.cache,
    };
    const fetched = [...names, ...this.caches.map(({ name }) => `new_${name}`)];
    const outputs = await this.session.run(feeds, fetched);
    for (const { name } of this.caches) this.cache[name] = outputs[`new_${name}`];
    return Object.fromEntries(
      names.map((name) => {
        const { data, dims } = outputs[name];
        const row = (_, beam) => data.slice(beam * dims[2], (beam + 1) * dims[2]);
        return [name, Array.from({ length: dims[1] }, row)];
      }),
    );
  }

  async rest() {
    await nextTask();
    this.rested = performance.now();
  }

  grow() {
    const growth = Math.min(this.length, this.limit - this.length);
    for (const { name, shape } of this.caches) {
      const axis = shape.indexOf("L");
      if (axis === -1) continue;
      const { data, dims } = this.cache[name];
      const block = dims.slice(axis).reduce((product, size) => product * size, 1);
      const longer = (block / this.length) * (this.length + growth);
      const padded = new Float32Array((data.length / block) * longer);
      for (let n = 0; n * block < data.length; n++) {
        padded.set(data.subarray(n * block, (n + 1) * block), n * longer);
      }
      this.cache[name] = new this.Tensor("float32", padded, dims.with(axis, this.length + growth));
    }
    this.length += growth;
  }
}

// The tokenizer of a file.
class Tokenizer {
  static async load(library, model) {
    const processor = new library.SentencePieceProcessor();
    await processor.load(model);
    return new Tokenizer(processor);
  }

  constructor(processor) {
    this.processor = processor;
  }

  encode(text) {
    return this.processor.encodeIds(text);
  }

  decode(ids) {
    return this.processor.decodeIds(ids);
  }

  // Whether the normalization leaves nothing of a line.
  isEmpty(line) {
    const bytes = this.processor.encodePieces(line).flatMap((piece) => {
      const byte = BYTE_PIECE.exec(piece);
      return byte ? [parseInt(byte[1], 16)] : [...new TextEncoder().encode(piece)];
    });
    const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
    return BLANK.test(text.replaceAll("\u2581", " "));
  }
}

// The model of the export: strings to strings.
class Translator {
  constructor({ description, ort, encoder, step, source, target }) {
    this.description = description;
    this.ort = ort;
    this.encoder = encoder;
    this.step = step;
    this.source = source;
    this.target = target;
  }

  // A larger beam has more continuations than there are ids.
  get largestBeamSize() {
    return Math.floor(this.description.target_vocabulary_size / 2);
  }

  // The translation of a line. `warn` gets what the person should know of it.
  async translate(line, number, beamSize, warn) {
    if (this.source.isEmpty(line)) return "";
    const options = this.options(beamSize);
    const source = this.encode(line, number, warn);
    const limit = this.limit(source);
    const decoder = await Decoder.start(this, source, options.beam_size, limit);
    const rules = new Rules(this.description.ids, options);
    const [best] = await search(decoder, limit, rules);
    if (best === undefined) {
      throw new PageError(
        `Line ${number}: the options in model.json forbid every token before a ` +
          "translation can end. Suppress fewer, or allow repetitions.",
      );
    }
    const first = options.forced_start === null ? 0 : 1;
    const ids = best.ids.slice(first).filter((token) => token !== this.description.ids.end);
    return this.target.decode(ids).replaceAll("\n", " ");
  }

  // What `search` in model.json says, with what is given in its place.
  options(beamSize) {
    const options = { ...this.description.search, beam_size: beamSize };
    if (beamSize === 1) Object.assign(options, WITHOUT_BEAMS);
    options.top_beams = Math.min(options.top_beams, beamSize);
    if (beamSize % options.num_beam_groups) {
      throw new PageError(
        `The model's search has ${options.num_beam_groups} groups of beams: the beam size ` +
          "must be a multiple of it.",
      );
    }
    return options;
  }

  encode(line, number, warn) {
    const { before, after, prefix } = this.around();
    const ids = this.source.encode(prefix + line);
    const count = before.length + ids.length + after.length;
    const { limits, search } = this.description;
    const longest = Math.min(
      limits.longest_sequence,
      search.max_source_length ?? limits.longest_sequence,
    );
    if (count <= longest) return [...before, ...ids, ...after];
    if (search.long_lines === "truncate") {
      const kept = longest - after.length;
      warn(`Line ${number} has ${count} tokens: only the first ${kept} are translated.`);
      return [...[...before, ...ids].slice(0, kept), ...after];
    }
    throw new PageError(
      `Line ${number} has ${count} tokens, but the model takes at most ${longest}. Split it ` +
        "into sentences, one a line.",
    );
  }

  // What stands around a line: text before it, ids before and after its own.
  around() {
    const { languages, ids, source_end } = this.description;
    return languages ?? { prefix: "", before: [], after: source_end ? [ids.end] : [] };
  }

  // The most ids of the translation, the end included.
  limit(source) {
    const { limits, search } = this.description;
    const { before, after } = this.around();
    const usual = source.length - before.length - after.length + limits.extra_length;
    const limit = Math.max(search.max_length ?? usual, search.min_length);
    return Math.min(limit, limits.longest_sequence);
  }
}

// === Files ===

// The content of a file of this folder, not that of an export that was here before.
async function read(path) {
  const response = await fetch(path, { cache: "no-cache" });
  if (!response.ok) {
    throw new PageError(
      `This folder has no ${path}. Copy the whole folder of the export to the server.`,
    );
  }
  return new Uint8Array(await response.arrayBuffer());
}

async function readJson(path) {
  return JSON.parse(new TextDecoder().decode(await read(path)));
}

// Reads the files of the npm packages in `libraries.json`, unless they are others.
class Packages {
  constructor(pins) {
    this.pins = pins;
  }

  async read(name, file) {
    const path = `node_modules/${name}/${file}`;
    const { version, files } = this.pins[name];
    try {
      const response = await fetch(path, { integrity: files[file] });
      return new Uint8Array(await response.arrayBuffer());
    } catch {
      const { ok } = await fetch(path, { method: "HEAD" });
      const problem = ok ? `${path} is not that of version ${version}` : `${path} is missing`;
      throw new PageError(
        `${problem}. Run "${this.command()}" in the folder of this page, and load the page ` +
          "again.",
      );
    }
  }

  command() {
    const packages = Object.entries(this.pins).map(([name, { version }]) => `${name}@${version}`);
    return `npm install --ignore-scripts ${packages.join(" ")}`;
  }
}

// The module of a script's text.
function imported(...parts) {
  return import(URL.createObjectURL(new Blob(parts, { type: "text/javascript" })));
}

async function loadOrt(packages) {
  const [script, binary] = await Promise.all(
    ["dist/ort.wasm.bundle.min.mjs", "dist/ort-wasm-simd-threaded.wasm"].map((file) =>
      packages.read("onnxruntime-web", file),
    ),
  );
  const ort = await imported(script);
  ort.env.wasm.numThreads = 1; // several need headers that few servers send
  ort.env.wasm.wasmBinary = binary.buffer;
  return ort;
}

// The library is a CommonJS module, whose model files are here the bytes themselves.
async function loadSentencePiece(packages) {
  const script = await packages.read("@agnai/sentencepiece-js", "dist/index.js");
  const around = [
    "const exports = {}; const require = () => ({readFileSync: (bytes) => bytes});\n",
    "\nexport default exports;",
  ];
  return (await imported(around[0], script, around[1])).default;
}

async function loadTranslator() {
  if (location.protocol === "file:") {
    throw new PageError(
      'A browser does not let a page on a disk read the files beside it. Run "python -m ' +
        'http.server" in its folder, and open http://localhost:8000.',
    );
  }
  const [description, pins] = await Promise.all(["model.json", "libraries.json"].map(readJson));
  const packages = new Packages(pins);
  const { graphs, files } = description;
  const [ort, library, encoder, step, ...models] = await Promise.all([
    loadOrt(packages),
    loadSentencePiece(packages),
    read(graphs.encoder.file),
    read(graphs.step.file),
    ...[files.source_tokenizer, files.target_tokenizer].map(read),
  ]);
  const sessionOptions = { executionProviders: ["wasm"], logSeverityLevel: 3 };
  return new Translator({
    description,
    ort,
    encoder: await ort.InferenceSession.create(encoder, sessionOptions),
    step: await ort.InferenceSession.create(step, sessionOptions),
    source: await Tokenizer.load(library, models[0]),
    target: await Tokenizer.load(library, models[1]),
  });
}

// === Page ===

const one = (selector) => document.querySelector(selector);

// Shows an error, or none, in place of what was there.
function showError(error) {
  if (error !== null && !(error instanceof PageError)) console.error(error);
  one("#error").textContent = error === null ? "" : (error.message ?? String(error));
  one("#error").hidden = error === null;
  if (error !== null) one("#error").scrollIntoView({ block: "nearest" });
}

function showBusy(busy) {
  one("#go").setAttribute("aria-disabled", String(busy));
  one("#status").classList.toggle("busy", busy);
}

function addLine(list, text) {
  const item = document.createElement("li");
  item.textContent = text;
  item.dir = "auto";
  list.append(item);
}

function showLanguages({ languages }) {
  if (!languages) return;
  one("#source").lang = languages.source;
  one("#translations").lang = languages.target;
  one("#languages").textContent = `${languages.source} → ${languages.target}`;
}

async function translateText(translator) {
  showError(null);
  for (const selector of ["#translations", "#warnings"]) one(selector).replaceChildren();
  one("#copy").hidden = true;
  const beamSize = one("#beam-size").valueAsNumber;
  const largest = translator.largestBeamSize;
  if (!(Number.isInteger(beamSize) && beamSize >= 1 && beamSize <= largest)) {
    throw new PageError(
      `The beam size must be a whole number from 1 (greedy search) to ${largest}.`,
    );
  }
  const lines = one("#source").value.replace(/\n$/, "").split("\n");
  const started = performance.now();
  for (const [n, line] of lines.entries()) {
    one("#status").textContent = `Translating line ${n + 1} of ${lines.length} …`;
    await nextTask(); // it is drawn
    const warn = (text) => addLine(one("#warnings"), text);
    addLine(one("#translations"), await translator.translate(line, n + 1, beamSize, warn));
  }
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  const count = lines.length === 1 ? "1 line" : `${lines.length} lines`;
  one("#status").textContent = `${count}, ${seconds} s`;
  one("#copy").hidden = false;
}

// Runs one piece of work at a time, and says what goes wrong.
async function work(task) {
  if (one("#go").getAttribute("aria-disabled") === "true") return;
  showBusy(true);
  try {
    await task();
  } catch (error) {
    one("#status").textContent = "";
    showError(error);
  }
  showBusy(false);
}

async function main() {
  let translator = null;
  await work(async () => {
    one("#status").textContent = "Loading the model …";
    translator = await loadTranslator();
    one("#beam-size").value = translator.description.search.beam_size;
    showLanguages(translator.description);
    one("#status").textContent = "Ready";
  });
  if (translator === null) {
    one("#go").setAttribute("aria-disabled", "true");
    return;
  }
  const translate = () => work(() => translateText(translator));
  one("#form").addEventListener("submit", (event) => {
    event.preventDefault();
    translate();
  });
  one("#source").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translate();
  });
  one("#copy").addEventListener("click", async () => {
    const lines = [...one("#translations").children].map((item) => item.textContent);
    try {
      await navigator.clipboard.writeText(lines.join("\n"));
      one("#status").textContent = "Copied";
    } catch {
      one("#status").textContent = "The browser does not allow copying here";
    }
  });
}

main();
