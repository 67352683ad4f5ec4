// Charts on canvas: lines and stacked areas over time, drawn by hand.

const PAD = { left: 40, right: 10, top: 8, bottom: 18 };
const LEGEND_ROW = 15;

const shade = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A number for an axis or a legend. */
export function short(value) {
  if (value == null || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toFixed(1)}G`;
  if (size >= 1e6) return `${(value / 1e6).toFixed(1)}M`;
  if (size >= 1e4) return `${(value / 1e3).toFixed(1)}k`;
  if (size >= 100 || Number.isInteger(value)) return value.toFixed(0);
  return value.toFixed(size >= 10 ? 1 : 2);
}

/** The least round number that is not below the value. */
function ceiling(value) {
  if (!(value > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * unit).find((step) => step >= value);
}

/** One chart. `series` are {name, label, colour, stacked, dashed}; `points` have {t, name: value}. */
export class Chart {
  constructor(canvas, series) {
    this.canvas = canvas;
    this.series = series;
    this.points = [];
    this.range = 300;
    this.at = null;
    const look = (event) => {
      this.at = event.clientX - canvas.getBoundingClientRect().left;
      this.draw();
    };
    canvas.addEventListener("pointermove", look);
    canvas.addEventListener("pointerleave", () => { this.at = null; this.draw(); });
    canvas.addEventListener("keydown", (event) => this.step(event));
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  /** The arrow keys move the cursor, so that values can be read without a pointer. */
  step(event) {
    const by = { ArrowLeft: -8, ArrowRight: 8 }[event.key];
    if (!by) return;
    event.preventDefault();
    this.at = Math.max(PAD.left, (this.at ?? this.canvas.clientWidth - PAD.right) + by);
    this.draw();
  }

  show(points, range) {
    this.points = points;
    this.range = range;
    this.draw();
  }

  draw() {
    const { canvas, series } = this;
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    if (!width || !height) return;
    const scale = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
    if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    const end = this.points.length ? this.points[this.points.length - 1].t : Date.now() / 1e3;
    const begin = end - this.range;
    const points = this.points.filter((point) => point.t >= begin);
    const stacked = series.filter((one) => one.stacked);
    const sum = (point) => stacked.reduce((all, one) => all + (point[one.name] ?? 0), 0);
    let most = 0;
    for (const point of points) {
      most = Math.max(most, sum(point));
      for (const one of series) if (!one.stacked) most = Math.max(most, point[one.name] ?? 0);
    }
    most = ceiling(most);
    const now = points[points.length - 1];
    const legend = this.layOut(pen, width, now);
    const above = PAD.top + legend.rows * LEGEND_ROW;
    const x = (t) => PAD.left + ((t - begin) / this.range) * (width - PAD.left - PAD.right);
    const y = (v) => height - PAD.bottom - (v / most) * (height - above - PAD.bottom);
    this.axes(pen, { width, height, most, y });
    this.areas(pen, points, stacked, x, y);
    for (const one of series) if (!one.stacked) this.line(pen, points, one, x, y);
    const chosen = this.at == null ? now : nearest(points, x, this.at);
    if (chosen && this.at != null) {
      pen.strokeStyle = shade("--soft");
      pen.beginPath();
      pen.moveTo(x(chosen.t), above);
      pen.lineTo(x(chosen.t), height - PAD.bottom);
      pen.stroke();
    }
    const { end: legendEnd, right: legendRight } = this.legend(pen, legend, chosen);
    // Tests read where the legend was drawn, and where the highest line is.
    Object.assign(canvas.dataset, { legendEnd, legendRight, plotTop: y(most) });
  }

  axes(pen, { width, height, most, y }) {
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = shade("--soft");
    pen.strokeStyle = shade("--line");
    pen.lineWidth = 1;
    pen.setLineDash([]);
    for (const value of [0, most / 2, most]) {
      const level = Math.round(y(value)) + 0.5;
      pen.beginPath();
      pen.moveTo(PAD.left, level);
      pen.lineTo(width - PAD.right, level);
      pen.stroke();
      pen.textAlign = "right";
      pen.fillText(short(value), PAD.left - 6, level + 4);
    }
    pen.textAlign = "left";
    pen.fillText(this.range > 600 ? "1 h ago" : "5 min ago", PAD.left, height - 4);
    pen.textAlign = "right";
    pen.fillText("now", width - PAD.right, height - 4);
  }

  areas(pen, points, stacked, x, y) {
    if (points.length < 2) return;
    const base = points.map(() => 0);
    for (const one of stacked) {
      const top = points.map((point, at) => base[at] + (point[one.name] ?? 0));
      pen.beginPath();
      points.forEach((point, at) => pen.lineTo(x(point.t), y(top[at])));
      for (let at = points.length - 1; at >= 0; at -= 1) pen.lineTo(x(points[at].t), y(base[at]));
      pen.closePath();
      pen.fillStyle = shade(one.colour);
      pen.fill();
      top.forEach((value, at) => { base[at] = value; });
    }
  }

  line(pen, points, one, x, y) {
    pen.strokeStyle = shade(one.colour);
    pen.lineWidth = one.dashed ? 1.5 : 2;
    pen.setLineDash(one.dashed ? [5, 4] : []);
    pen.beginPath();
    let drawing = false;
    for (const point of points) {
      const value = point[one.name];
      if (value == null) { drawing = false; continue; }
      if (drawing) pen.lineTo(x(point.t), y(value));
      else pen.moveTo(x(point.t), y(value));
      drawing = true;
    }
    pen.stroke();
    pen.setLineDash([]);
  }

  /** The places of the legend's entries, in rows above the plot, so that they cover no line. */
  layOut(pen, width, now) {
    pen.font = "11px system-ui, sans-serif";
    // With room for a longer value: an entry must not move when its value changes.
    const widths = this.series.map((one) =>
      pen.measureText(`${one.label} ${short(now?.[one.name])}`).width + 34);
    const room = width - PAD.right;
    const places = [];
    let [left, row] = [PAD.left, 0];
    for (const wide of widths) {
      if (left > PAD.left && left + wide > room) [left, row] = [PAD.left, row + 1];
      places.push({ left, top: row * LEGEND_ROW });
      left += wide;
    }
    return { places, rows: row + 1 };
  }

  /** The mark of an entry: an area or a line, dashed as the line in the plot is. */
  mark(pen, one, left, top) {
    pen.fillStyle = shade(one.colour);
    if (!one.dashed) { pen.fillRect(left, top, 9, 9); return; }
    for (const part of [0, 6]) pen.fillRect(left - 1 + part, top + 4, 4, 2);
  }

  /** Draws the legend; returns its lowest and its rightmost place. */
  legend(pen, { places }, point) {
    const exact = this.at != null;
    const texts = this.series.map((one) => `${one.label} ${short(point?.[one.name])}`);
    const time = exact && point ? `${new Date(point.t * 1e3).toLocaleTimeString()}: ` : "";
    this.canvas.setAttribute("aria-label", time + texts.join(", "));
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "left";
    const drawn = { end: 0, right: 0 };
    texts.forEach((text, at) => {
      const { left, top } = places[at];
      this.mark(pen, this.series[at], left, top + 1);
      pen.fillStyle = shade("--ink");
      pen.fillText(text, left + 13, top + 9);
      const size = pen.measureText(text);
      drawn.end = Math.max(drawn.end, top + 9 + size.actualBoundingBoxDescent);
      drawn.right = Math.max(drawn.right, left + 13 + size.width);
    });
    return drawn;
  }
}

function nearest(points, x, at) {
  let best = null;
  for (const point of points) {
    if (!best || Math.abs(x(point.t) - at) < Math.abs(x(best.t) - at)) best = point;
  }
  return best;
}
