// The timeline: rates of the last minutes, five at most, with the faults as marks in them.

import { byId, clock, el, rate, size, svg } from "./dom.js";

const LONGEST = 300;
const SHORTEST = 30;
const WIDTH = 600;
const HEIGHT = 64;

class Chart {
  constructor(unit, label, value, { errors, aside } = {}) {
    Object.assign(this, { value, errors, aside });
    this.now = el("span", { class: "now" }, "–");
    this.side = el("span", { class: "aside" });
    this.area = svg("path", { class: "area" });
    this.line = svg("path", { class: "line" });
    this.bad = svg("path", { class: "errors" });
    this.marks = svg("g");
    this.top = el("span", {}, "");
    this.begin = el("span");
    const base = svg("line", { class: "base", x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT });
    this.svg = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
      base, this.area, this.bad, this.marks, this.line);
    this.node = el("div", { class: "chart" },
      el("div", { class: "figures" }, this.now, el("span", { class: "unit" }, unit), this.side),
      this.svg,
      el("div", { class: "scale" }, this.begin, this.top, el("span", {}, "now")));
  }

  draw(points, events, now) {
    const age = points.length ? Math.ceil((now - points[0].at_ms) / 1000) : 0;
    const seconds = Math.min(LONGEST, Math.max(SHORTEST, age));
    this.begin.textContent = seconds < 120 ? `${seconds} s ago` : `${Math.round(seconds / 60)} min ago`;
    const shown = points.filter((point) => point.at_ms >= now - seconds * 1000 && this.value(point) !== null);
    const last = points.length ? points[points.length - 1] : null;
    this.now.textContent = last ? rate(this.value(last)) : "–";
    if (this.aside) {
      const [text, isBad] = last ? this.aside(last) : ["", false];
      this.side.textContent = text;
      this.side.className = isBad ? "aside bad" : "aside";
    }
    const most = Math.max(1, ...shown.map((point) => this.value(point)));
    this.top.textContent = shown.length ? `highest ${rate(most)}` : "";
    const x = (at) => WIDTH * (1 - (now - at) / (seconds * 1000));
    const y = (value) => HEIGHT - (HEIGHT - 4) * (value / most);
    const path = shown.map((point, index) => `${index ? "L" : "M"}${x(point.at_ms).toFixed(1)} ${y(this.value(point)).toFixed(1)}`).join("");
    this.line.setAttribute("d", path);
    const closed = (text) => text && `${text}L${x(shown[shown.length - 1].at_ms).toFixed(1)} ${HEIGHT}L${x(shown[0].at_ms).toFixed(1)} ${HEIGHT}Z`;
    this.area.setAttribute("d", closed(path));
    if (this.errors) {
      const errors = shown.map((point, index) => `${index ? "L" : "M"}${x(point.at_ms).toFixed(1)} ${y(this.errors(point) ?? 0).toFixed(1)}`).join("");
      this.bad.setAttribute("d", closed(errors));
    }
    const marks = events.filter((event) => event.at_ms >= now - seconds * 1000).slice(-200);
    this.marks.replaceChildren(...marks.map((event) => {
      const at = x(event.at_ms).toFixed(1);
      const line = svg("line", { class: event.is_end ? "mark end" : "mark", x1: at, x2: at, y1: 0, y2: HEIGHT });
      line.append(svg("title", {}, `${clock(event.at_ms)} ${event.text}`));
      return line;
    }));
  }
}

export class Timeline {
  constructor(hasRequests) {
    this.points = [];
    this.events = [];
    const records = new Chart("records/s written", "Records written per second", (point) => point.records,
      { aside: (point) => [point.size === null ? "" : `${size(point.size)}/s`, false] });
    const requests = new Chart("requests/s", "Requests per second, failed ones in red", (point) => point.requests, {
      errors: (point) => point.errors,
      aside: (point) => point.errors ? [`${rate(point.errors)} failed/s`, true] : ["none failed", false],
    });
    this.charts = hasRequests ? [records, requests] : [records];
    byId("charts").replaceChildren(...this.charts.map((chart) => chart.node));
  }

  add(message, isFirst) {
    if (isFirst) { this.points = []; this.events = []; }
    const newest = this.points.length ? this.points[this.points.length - 1].at_ms : 0;
    this.points.push(...message.points.filter((point) => point.at_ms > newest));
    this.events.push(...message.events);
    this.points.splice(0, this.points.length - 600);
    this.events.splice(0, this.events.length - 500);
    for (const chart of this.charts) chart.draw(this.points, this.events, message.now);
    const last = this.events[this.events.length - 1];
    byId("lane").textContent = last ? `Latest fault, ${clock(last.at_ms)}: ${last.text}` : "";
  }
}
