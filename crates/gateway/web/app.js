// The page: it reads the stream of states, keeps the last hour, and shows both.

import { Chart, short } from "./charts.js";
import * as tables from "./tables.js";

const { Table, span, write } = tables;
const at = (id) => document.getElementById(id);
const HOUR = 3600;
// The gateway sends an event each second. Without one for so long, the page shows the past.
const SILENT_MS = 5000;
// A header has no other characters, and neither has a key.
const KEY = /^[\x21-\x7e]+$/;
const BANDS = ["critical", "high", "normal", "best_effort"];

// The page may be below a path prefix, so every URL is relative to its own.
const base = new URL(".", location.href);
const view = { paused: false, latest: null, points: [], range: 300, token: stored() };

const bandSeries = (prefix, stacked) => [...BANDS].reverse().map((band, number) => ({
  name: `${prefix}_${band}`, label: band.replace("_", " "), colour: `--band-${number}`, stacked,
}));
const charts = [
  new Chart(at("stock"), [
    { name: "watermark", label: "bound", colour: "--soft", dashed: true },
    { name: "stock", label: "stock", colour: "--band-2" },
  ]),
  new Chart(at("waiting"), bandSeries("waiting", true)),
  new Chart(at("oldest"), bandSeries("oldest", false)),
  new Chart(at("rates"), [
    { name: "arriving", label: "arriving", colour: "--band-3" },
    { name: "starting", label: "starting", colour: "--band-1" },
    { name: "refused", label: "refused", colour: "--bad" },
  ]),
];
const shown = {
  backends: new Table(at("backends"), tables.BACKENDS, "Backends"),
  flows: new Table(at("flows"), tables.FLOWS, "Flows"),
  bands: new Table(at("bands"), tables.BANDS, "Bands"),
  models: new Table(at("models"), tables.MODELS, "Models"),
  tenants: new Table(at("tenants"), tables.TENANTS, "Tenants"),
  refusals: new Table(at("refusals"), tables.REFUSALS, "Refusals"),
  gates: new Table(at("gates"), tables.GATES, "Gates"),
  batches: new Table(at("batches"), tables.BATCHES, "Batch work"),
};

/** The key of this tab, if it is one. */
function stored() {
  const key = sessionStorage.token;
  return key && KEY.test(key) ? key : undefined;
}

/** A request to the gateway, with the key if there is one. */
function ask(path, options = {}) {
  const headers = view.token ? { Authorization: `Bearer ${view.token}` } : {};
  return fetch(new URL(path, base), { headers, cache: "no-store", ...options });
}

/** Reads the stream until it breaks off, then begins again. */
async function follow() {
  let pause = 500;
  for (;;) {
    const watch = watchdog();
    try {
      const response = await ask("status/stream", { signal: watch.signal });
      if (response.status === 401 || response.status === 403) {
        watch.stop();
        await login(response);
        continue;
      }
      if (!response.ok) throw new Error(await refusal(response));
      await remember(watch.signal);
      for await (const state of events(response.body)) {
        watch.reset();
        pause = 500;
        live(true, "live");
        take(state);
      }
      throw new Error("the stream ended");
    } catch (error) {
      const why = watch.signal.aborted ? `no event for ${SILENT_MS / 1e3} s` : error.message;
      live(false, `no connection, trying again (${why})`);
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(pause * 2, 5000);
    } finally {
      watch.stop();
    }
  }
}

/** Gives a connection up on which nothing comes: a hung gateway or proxy does not close it. */
function watchdog() {
  const cut = new AbortController();
  let timer;
  const stop = () => clearTimeout(timer);
  const reset = () => { stop(); timer = setTimeout(() => cut.abort(), SILENT_MS); };
  reset();
  return { signal: cut.signal, reset, stop };
}

async function refusal(response) {
  const said = await response.json().catch(() => null);
  return said?.error?.message ?? `status ${response.status}`;
}

/** The events of a stream, as objects. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const event = text.slice(0, end);
      text = text.slice(end + 2);
      if (event.startsWith("data: ")) yield JSON.parse(event.slice(6));
    }
  }
}

/** Takes over the hour that the gateway remembers. */
async function remember(signal) {
  const response = await ask("status/history", { signal });
  if (response.ok) view.points = (await response.json()).samples;
}

async function login(response) {
  const said = await response.json().catch(() => null);
  write(at("refused"), view.token ? said?.error?.message ?? "This key is not accepted." : "");
  const entered = new Promise((done) => {
    at("login").onsubmit = (event) => {
      event.preventDefault();
      const key = at("token").value.trim();
      if (!KEY.test(key)) {
        write(at("refused"), "This is no key: a key has only ASCII letters, digits and signs.");
        return;
      }
      view.token = key;
      sessionStorage.token = key;
      done();
    };
  });
  // Shown last: a form without its handler would send the key in the address of the page.
  at("main").hidden = true;
  at("login").hidden = false;
  live(false, "needs a key");
  at("token").focus();
  await entered;
  at("login").hidden = true;
}

function live(is, text) {
  at("link").dataset.live = is ? "yes" : "no";
  write(at("link"), view.paused && is ? "paused" : text);
}

function take(state) {
  view.points.push(point(state));
  const oldest = state.time - HOUR;
  while (view.points.length && view.points[0].t < oldest) view.points.shift();
  if (view.points.length > 5000) view.points.splice(0, view.points.length - 5000);
  if (!view.paused) {
    view.latest = state;
    show();
  }
}

/** The numbers of a state that the charts show. */
function point(state) {
  const one = {
    t: state.time, stock: state.stock.now, watermark: state.stock.watermark,
    arriving: state.queue.arriving_per_second, starting: state.queue.starting_per_second,
    refused: 0,
  };
  for (const band of state.bands) {
    one[`waiting_${band.name}`] = band.waiting;
    one[`oldest_${band.name}`] = band.oldest_seconds ?? 0;
    one.refused += band.refused_per_second;
  }
  return one;
}

function show() {
  const state = view.latest;
  if (!state) return;
  at("main").hidden = false;
  document.title = `${state.level === "ok" ? "" : "! "}Tidegate: ${state.queue.depth} wait`;
  write(at("about"), `${state.version}, up ${span(state.uptime_seconds)}`);
  at("verdict").dataset.level = state.level;
  write(at("sentence"), state.sentence);
  showFindings(state.findings);
  showRecent(state.recent ?? []);
  showFigures(state);
  showTables(state);
  const { stock } = state;
  const binding = stock.binding ? `, bound by ${stock.binding}` : ", no bound holds any back";
  write(at("stock-note"), `${stock.unit}, ${stock.mode}${binding}`);
  for (const chart of charts) chart.show(view.points, view.range);
}

function showFindings(findings) {
  const list = at("findings");
  const wanted = JSON.stringify(findings.map((one) => [one.id, one.text, one.advice]));
  if (list.dataset.shown === wanted) return;
  list.dataset.shown = wanted;
  list.replaceChildren(...findings.slice(0, 20).map((one) => {
    const item = document.createElement("li");
    item.dataset.level = one.level;
    const [title, advice, where] = ["b", "p", "p"].map((tag) => document.createElement(tag));
    title.textContent = one.text;
    advice.textContent = one.advice;
    where.textContent = `More: tidegate explain ${one.id}`;
    where.className = "quiet";
    item.append(title, advice, where);
    return item;
  }));
}

/** Findings that have ended: the load may stop before an operator looks. */
function showRecent(recent) {
  const list = at("recent");
  const ended = recent.slice(0, 5);
  while (list.children.length > ended.length) list.lastChild.remove();
  ended.forEach((one, index) => {
    const item = list.children[index] ?? list.appendChild(document.createElement("li"));
    write(item, `Ended ${span(one.ended_seconds_ago)} ago, after ${span(one.lasted_seconds)}. It said: ${one.text}`);
  });
}

/** The time until the queue is empty, and what it depends on. */
function emptyIn(queue) {
  const secs = queue.drains_in_seconds;
  if (secs == null) return ["Empty in", "–", queue.depth ? "not known" : ""];
  if (queue.drain_is_least) return ["Empty in", `≥ ${span(secs)}`, "late ones go last"];
  return ["Empty in", span(secs), queue.depth ? "if none arrives" : ""];
}

function showFigures(state) {
  const { queue } = state;
  const refused = state.refusals.reduce((sum, one) => sum + one.last_minute, 0);
  const figures = [
    ["Waiting", short(queue.depth), `of ${short(queue.capacity)}`],
    ["Oldest wait", span(queue.oldest_seconds ?? 0), `of ${span(queue.ttl_seconds)}`],
    emptyIn(queue),
    ["In flight", short(queue.in_flight), ""],
    ["Arriving", short(queue.arriving_per_second), "a second"],
    ["Starting", short(queue.starting_per_second), "a second"],
    ...(state.has_backends
      ? [["Backends ready", short(state.backends_ready), `of ${short(state.backends_total)}`]] : []),
    ["Not served", short(refused), "last minute"],
  ];
  const list = at("figures");
  while (list.children.length > figures.length) list.lastChild.remove();
  figures.forEach(([title, value, note], index) => {
    let entry = list.children[index];
    if (!entry) {
      entry = document.createElement("div");
      const figure = document.createElement("dd");
      figure.append(document.createElement("span"), " ", document.createElement("small"));
      entry.append(document.createElement("dt"), figure);
      list.append(entry);
    }
    write(entry.firstChild, title);
    write(entry.lastChild.firstChild, value);
    write(entry.lastChild.lastChild, note);
  });
}

function showTables(state) {
  const text = at("filter").value.trim().toLowerCase();
  const band = at("band").value;
  const has = (...names) => !text || names.some((name) => name.toLowerCase().includes(text));
  const waits = (one) => !band || one.waiting[band] > 0;
  const rest = (count) => (count ? `and ${count} more` : "");
  const flows = state.flows.filter((one) => has(one.name) && waits(one));
  shown.flows.show(flows, rest(state.flows_left_out));
  shown.models.show(state.models.filter((one) => has(one.name) && waits(one)),
    rest(state.models_left_out));
  shown.backends.show(state.backends.filter((one) => has(one.id, one.url, ...one.models)),
    rest(state.backends_left_out));
  shown.tenants.show(state.tenants.filter((one) => has(one.name)), rest(state.tenants_left_out));
  shown.bands.show(state.bands.filter((one) => !band || one.name === band));
  shown.refusals.show(state.refusals);
  shown.gates.show(state.gates.filter((one) => has(one.name)));
  shown.batches.show(state.batch_queues.filter((one) => has(one.name)));
  at("tenants-section").hidden = !state.tenants.length;
  at("gates-section").hidden = !state.gates.length;
  at("batches-section").hidden = !state.batch_queues.length;
}

async function lookUp(event) {
  event.preventDefault();
  const list = at("request");
  const response = await ask(`requests/${encodeURIComponent(at("request-id").value.trim())}`);
  const found = await response.json().catch(() => null);
  const facts = response.ok ? Object.entries(found) : [["", found?.error?.message ?? "failed"]];
  list.replaceChildren(...facts.filter(([, value]) => value != null).flatMap(([name, value]) => {
    const [term, fact] = [document.createElement("dt"), document.createElement("dd")];
    term.textContent = name.replaceAll("_", " ");
    fact.textContent = typeof value === "object" ? JSON.stringify(value) : String(value);
    return [term, fact];
  }));
}

function pause() {
  view.paused = !view.paused;
  at("pause").setAttribute("aria-pressed", String(view.paused));
  live(at("link").dataset.live === "yes", view.paused ? "paused" : "live");
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  for (const chart of charts) chart.draw();
}

function range(secs) {
  view.range = secs;
  for (const button of document.querySelectorAll("[data-range]")) {
    button.setAttribute("aria-pressed", String(Number(button.dataset.range) === secs));
  }
  for (const chart of charts) chart.show(view.points, view.range);
}

const dark = matchMedia("(prefers-color-scheme: dark)");
theme(localStorage.theme ?? (dark.matches ? "dark" : "light"));
dark.addEventListener("change", () => theme(dark.matches ? "dark" : "light"));
at("theme").onclick = () => {
  localStorage.theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  theme(localStorage.theme);
};
at("pause").onclick = pause;
at("filter").oninput = show;
at("band").onchange = show;
at("lookup").onsubmit = lookUp;
for (const button of document.querySelectorAll("[data-range]")) {
  button.onclick = () => range(Number(button.dataset.range));
}
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, select") || event.ctrlKey || event.metaKey) return;
  const keys = {
    "/": () => at("filter").focus(), p: pause, t: () => at("theme").click(),
    h: () => range(view.range === 300 ? HOUR : 300),
  };
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
follow();
