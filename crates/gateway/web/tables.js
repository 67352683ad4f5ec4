// Tables whose rows are reused, so that a second of two hundred backends costs little.

import { short } from "./charts.js";

/** Seconds as a person would say them. */
export function span(secs) {
  if (secs == null) return "–";
  if (secs < 1) return `${Math.round(secs * 1e3)} ms`;
  if (secs < 10) return `${secs.toFixed(1)} s`;
  if (secs < 120) return `${Math.round(secs)} s`;
  if (secs < 7200) return `${Math.round(secs / 60)} min`;
  return `${Math.round(secs / 3600)} h`;
}

export const percent = (share) => (share == null ? "–" : `${Math.round(share * 100)} %`);
export const millis = (value) => (value == null ? "–" : span(value / 1e3));

/** Writes a text only if it has changed: a write costs a layout. */
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** A cell with a number and a bar: `fill` and `mark` are shares from 0 to 1. */
function bar(cell, text, fill, mark) {
  if (!cell.bar) {
    cell.replaceChildren(document.createElement("span"), document.createElement("span"));
    cell.bar = cell.lastChild;
    cell.bar.className = "bar";
    cell.bar.setAttribute("aria-hidden", "true");
    cell.bar.append(document.createElement("i"), document.createElement("u"));
  }
  write(cell.firstChild, text);
  const [inner, tick] = cell.bar.children;
  const width = `${Math.max(0, Math.min(1, fill || 0)) * 100}%`;
  if (inner.style.width !== width) inner.style.width = width;
  tick.hidden = mark == null;
  if (mark != null) tick.style.left = `${Math.max(0, Math.min(1, mark)) * 100}%`;
}

/** A table: `columns` are {title, kind, minor, show(row, cell)}. */
export class Table {
  constructor(table, columns, label) {
    this.table = table;
    this.columns = columns;
    table.setAttribute("aria-label", label);
    const head = table.createTHead().insertRow();
    for (const column of columns) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = column.title;
      cell.className = names(column);
      head.append(cell);
    }
    this.body = table.createTBody();
    this.caption = table.createCaption();
  }

  show(rows, note) {
    const { body, columns } = this;
    while (body.rows.length > rows.length) body.lastChild.remove();
    while (body.rows.length < rows.length) {
      const row = body.insertRow();
      for (const column of columns) row.insertCell().className = names(column);
    }
    rows.forEach((row, at) => {
      columns.forEach((column, index) => {
        const cell = body.rows[at].cells[index];
        const shown = column.show(row, cell);
        if (shown && typeof shown === "object") bar(cell, shown.text, shown.fill, shown.mark);
        else write(cell, shown ?? "–");
      });
    });
    write(this.caption, rows.length ? note || "" : note || "none");
  }
}

const names = (column) => `${column.kind || ""}${column.minor ? " minor" : ""}`.trim();

const LEVELS = { ready: "ok", starting: "warning", full: "warning", on_trial: "warning",
  leaving: "warning", draining: "warning", unready: "trouble", ejected: "trouble" };

/** The dot before the state of a backend or gate. */
export function state(cell, word, level) {
  cell.classList.add("state");
  cell.dataset.level = level ?? LEVELS[word] ?? "warning";
  // Findings call a backend down that `/backends` calls unready.
  return word === "unready" ? "down" : word.replace("_", " ");
}

const number = (title, show, more = {}) => ({ title, kind: "number", show, ...more });
const minor = { minor: true };

export const BACKENDS = [
  { title: "Backend", kind: "name", show: (one) => one.id },
  { title: "State", show: (one, cell) => state(cell, one.state) },
  number("Load", (one) => ({
    text: `${short(one.in_flight)} of ${short(one.watermark)}`,
    fill: one.watermark ? one.in_flight / one.watermark : 0,
  })),
  { title: "Bound", minor: true, show: (one) => one.binding ?? "–" },
  number("First byte", (one) => millis(one.first_byte_ms)),
  number("Token", (one) => millis(one.token_ms), minor),
  number("Engine queue", (one) => short(one.engine?.waiting), minor),
  number("KV cache", (one) => (one.engine?.kv_used != null
    ? { text: percent(one.engine.kv_used), fill: one.engine.kv_used } : "–"), minor),
  number("Failed/min", (one) => short(one.failed_per_minute), minor),
  { title: "Why", kind: "why", show: (one) => one.reason
    ?? (one.failed_per_minute > 0 ? one.last_error : null) ?? (one.metrics_error ? `no metrics: ${one.metrics_error}` : "") },
];

export const FLOWS = [
  { title: "Flow", kind: "name", show: (one) => one.name },
  number("Waiting", (one) => ({ text: short(one.queue_depth), fill: one.queue_share })),
  number("Oldest", (one) => span(one.oldest_seconds)),
  number("In flight", (one) => short(one.in_flight), minor),
  number("Share and weight", (one) => ({
    text: `${percent(one.share)} of ${percent(one.fair_share)}`,
    fill: one.share,
    mark: one.fair_share,
  })),
  number("Weight", (one) => short(one.weight), minor),
  number("Places", (one) => short(one.capacity), minor),
  number("Refused", (one) => short(one.refused)),
];

export const BANDS = [
  { title: "Band", kind: "name", show: (one) => one.name.replace("_", " ") },
  number("Waiting", (one) => short(one.waiting)),
  number("Late", (one) => short(one.late), minor),
  number("Oldest", (one) => span(one.oldest_seconds)),
  number("In flight", (one) => short(one.in_flight), minor),
  number("Served/s", (one) => short(one.served_per_second)),
  number("Refused/s", (one) => short(one.refused_per_second)),
];

export const MODELS = [
  { title: "Model", kind: "name", show: (one) => one.name },
  number("Waiting", (one) => short(one.queue_depth)),
  number("In flight", (one) => short(one.in_flight)),
  number("Backends", (one) => short(one.backends_ready)),
];

export const TENANTS = [
  { title: "Tenant", kind: "name", show: (one) => one.name },
  number("Tokens today", (one) => (one.tokens_per_day
    ? { text: `${short(one.tokens_today)} of ${short(one.tokens_per_day)}`,
      fill: one.tokens_today / one.tokens_per_day } : short(one.tokens_today))),
  number("This month", (one) => (one.tokens_per_month
    ? { text: `${short(one.tokens_this_month)} of ${short(one.tokens_per_month)}`,
      fill: one.tokens_this_month / one.tokens_per_month } : short(one.tokens_this_month))),
];

export const REFUSALS = [
  { title: "Reason", kind: "name", show: (one) => one.reason },
  number("Last minute", (one) => short(one.last_minute)),
  number("Since start", (one) => short(one.total)),
];

export const GATES = [
  { title: "Gate", kind: "name", show: (one) => one.name },
  { title: "State", show: (one, cell) =>
    state(cell, one.open ? "open" : one.spent ? "spent" : "closed",
      one.open || one.spent ? "ok" : "warning") },
  number("Free", (one) => (one.value == null ? "–"
    : { text: percent(one.value), fill: one.value, mark: one.threshold })),
  number("Budget left", (one) => short(one.left)),
  { title: "Why", kind: "why", show: (one) => one.state },
];

export const BATCHES = [
  { title: "Queue", kind: "name", show: (one) => one.name },
  number("Pending", (one) => short(one.pending)),
  number("In flight", (one) => short(one.in_flight)),
  number("Retry", (one) => short(one.retry), minor),
  number("Dead", (one) => short(one.dead)),
  { title: "Why", kind: "why", show: (one) => one.overload ?? "" },
];
