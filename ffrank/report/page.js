"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const rows = data.rows.map((packed) => Object.fromEntries(data.columns.map((name, i) => [name, packed[i]])));
  const element = (id) => document.getElementById(id);
  const count = (n) => n.toLocaleString("en-US");
  const PAGE = 100;
  const STATUSES = ["exact", "exact-with-probability", "bounds", "failed"];
  const state = { rows, sort: null, down: false, start: 0, open: new Set() };

  const make = (tag, attributes, ...children) => {
    const svg = ["svg", "g", "line", "circle", "rect", "path", "text", "title"].includes(tag);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
    made.append(...children.map((child) => (typeof child === "number" ? String(child) : child)));
    return made;
  };

  // ---------------------------------------------------------------- summary and filter

  const differs = (row) => row.defect !== null && row.defect !== 0;
  // A formula claims its value where its hypotheses hold; a count of parameters is only never too small.
  const claimed = (row) => row.extra.holds === true && row.extra.claim !== "parameter count";
  const MATCHES = {
    agrees: (row) => row.defect === 0,
    differs,
    outside: (row) => differs(row) && !claimed(row),
    refuted: (row) => differs(row) && claimed(row),
    none: (row) => row.expected === null && row.status !== "failed",
  };

  const summarize = () => {
    const having = (test) => rows.filter(test).length;
    const seconds = rows.reduce((sum, row) => sum + (row.seconds || 0), 0);
    const tiles = [[count(rows.length), "jobs"]];
    for (const status of STATUSES) {
      const n = having((row) => row.status === status);
      if (n || status === "exact") tiles.push([count(n), status]);
    }
    tiles.push([count(having(MATCHES.agrees)), "agree with the expected value"]);
    tiles.push([count(having(MATCHES.outside)), "differ where no formula claims it"]);
    tiles.push([count(having(MATCHES.refuted)), "differ from a formula that claims it"]);
    tiles.push([seconds < 600 ? `${seconds.toFixed(0)} s` : `${(seconds / 3600).toFixed(1)} h`, "of one core"]);
    element("summary").append(...tiles.map(([n, word]) => make("div", {}, make("b", {}, n), make("span", {}, word))));
  };

  const filtered = () => {
    const words = element("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const [family, status, match] = ["family", "status", "match"].map((id) => element(id).value);
    return rows.filter((row) => {
      if (family && row.family !== family) return false;
      if (status && row.status !== status) return false;
      if (match && !MATCHES[match](row)) return false;
      if (!words.length) return true;
      const text = `${row.architecture} ${row.family} ${row.status} ${row.extra.failure || ""}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
  };

  // ---------------------------------------------------------------- table

  const COLUMNS = [
    ["architecture", "architecture", "word"],
    ["parameters", "parameters", "seldom"],
    ["dimension", "dimension", ""],
    ["expected", "expected", ""],
    ["defect", "defect", ""],
    ["status", "status", "word"],
    ["seconds", "seconds", "seldom"],
  ];
  const sortKey = (row, name) => (name === "dimension" ? (row.value === null ? row.lower : row.value) : row[name]);
  const shownDimension = (row) =>
    row.value !== null ? count(row.value) : row.lower === null ? "" : `${count(row.lower)} to ${count(row.upper)}`;

  const sorted = (found) => {
    if (state.sort === null) return found;
    const order = (a, b) => {
      const [x, y] = [sortKey(a, state.sort), sortKey(b, state.sort)];
      if (x === null || y === null) return (x === null) - (y === null);
      const compared = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y;
      return state.down ? -compared : compared;
    };
    return [...found].sort(order);
  };

  const heading = () => {
    const cells = COLUMNS.map(([name, word, kind]) => {
      const button = make("button", { type: "button" }, word);
      button.addEventListener("click", () => {
        state.down = state.sort === name && !state.down;
        state.sort = name;
        state.start = 0;
        refreshTable();
      });
      return make("th", { scope: "col", class: kind, "data-column": name }, button);
    });
    document.querySelector("#table thead tr").append(...cells);
  };

  const cell = (row, name) => {
    const value = row[name];
    if (name === "dimension") return shownDimension(row);
    if (value === null) return "";
    if (name === "defect" && value) return make("span", { class: "off-value" }, value);
    if (name === "seconds") return value.toFixed(3);
    return typeof value === "number" ? count(value) : value;
  };

  const toggle = (row) => {
    if (!state.open.delete(row)) state.open.add(row);
    refreshTable();
  };

  const refreshTable = () => {
    for (const th of document.querySelectorAll("#table th")) {
      const now = th.dataset.column === state.sort ? (state.down ? "descending" : "ascending") : "none";
      th.setAttribute("aria-sort", now);
    }
    const found = sorted(state.rows);
    state.start = Math.max(0, Math.min(state.start, found.length - 1));
    const body = document.querySelector("#table tbody");
    const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.row : null;
    body.replaceChildren();
    for (const row of found.slice(state.start, state.start + PAGE)) {
      const open = state.open.has(row);
      const name = make("button", { type: "button", class: "open", "aria-expanded": open, "data-row": rows.indexOf(row) }, row.architecture);
      const cells = COLUMNS.map(([key, , kind]) => make("td", { class: kind }, key === "architecture" ? name : cell(row, key)));
      const line = make("tr", { class: "job" }, ...cells);
      line.addEventListener("click", () => toggle(row));
      body.append(line);
      if (open) body.append(make("tr", { class: "detail" }, make("td", { colspan: COLUMNS.length }, ...explain(row))));
      if (focused !== null && focused === name.dataset.row) name.focus();
    }
    const last = Math.min(state.start + PAGE, found.length);
    element("where").textContent = found.length ? `${count(state.start + 1)} to ${count(last)} of ${count(found.length)}` : "no rows";
    element("back").disabled = state.start === 0;
    element("next").disabled = last >= found.length;
  };

  // ---------------------------------------------------------------- an opened row

  const explain = (row) => {
    const { why, certificate, failure, formula, claim, holds, failing } = row.extra;
    if (failure !== undefined) return [make("p", {}, `There is no certificate: ${failure}`)];
    const said = [lowerSentence(row, why || {}), upperSentence(row, why || {})];
    if (row.value !== null) said.push(`So the dimension is ${count(row.value)}, and generic fibers have dimension ${count(row.parameters - row.value)}.`);
    if (row.expected !== null) {
      const premise = holds ? "whose hypotheses hold here" : `of which a hypothesis fails here (${(failing || []).join("; ")})`;
      const off = row.defect === null ? "" : row.defect ? ` The defect is ${row.defect}.` : " It agrees.";
      const counted = `A count of parameters, "${formula}", which is never too small`;
      const name = claim === "parameter count" && holds ? counted : `The formula "${formula}"${claim ? `, a ${claim}` : ""}, ${premise}`;
      said.push(`${name}, gives ${count(row.expected)}.${off}`);
    }
    const parts = said.map((sentence) => make("p", {}, sentence));
    if (certificate !== undefined) {
      const file = data.link === "." ? certificate : `${data.link}/${certificate}`;
      const href = file.split("/").map(encodeURIComponent).join("/");
      parts.push(make("p", {}, "Certificate: ", make("a", { href }, certificate)));
      parts.push(make("p", {}, "Check it with: ", make("code", {}, `ffrank verify ${data.command}/${certificate}`)));
    }
    return parts;
  };

  const lowerSentence = (row, why) => {
    if (row.lower === 0) return "Lower bound 0: nothing to prove.";
    const where = why.inputs === undefined ? "" : ` at ${count(why.inputs)} input${why.inputs === 1 ? "" : "s"}`;
    const prime = why.prime === undefined ? "a prime" : `the prime ${why.prime}`;
    return `At least ${count(row.lower)}, a theorem: a minor of this size of the Jacobian is nonzero modulo ${prime}${where}, so it is a nonzero polynomial.`;
  };

  const REASONS = {
    parameters: () => "there are no more parameters",
    ambient: () => "the space of polynomial maps that holds every such function has this dimension",
    composition: () => "the dimensions of its parts, less the scalings between them, add up to this",
    symmetry: (row, why, value) => {
      const rules = (why.rules || []).join(", ");
      return `${count(row.parameters)} parameters less ${count(row.parameters - value)} independent symmetries that leave every function unchanged (${rules})`;
    },
  };

  const upperSentence = (row, why) => {
    const reason = (kind, value) => (REASONS[kind] ? REASONS[kind](row, why, value) : `a bound of the kind "${kind}"`);
    if (why.kind !== "monte-carlo") return `At most ${count(row.upper)}, a theorem: ${reason(why.kind, row.upper)}.`;
    const theorem = `The best theorem says at most ${count(why.theorem_value)}: ${reason(why.theorem, why.theorem_value)}.`;
    return `At most ${count(row.upper)}, wrong with probability at most 2^${why.error}: ${count(why.trials)} trials at random primes and points found no more. ${theorem}`;
  };

  // ---------------------------------------------------------------- plots

  const H = 300, LEFT = 52, RIGHT = 14, TOP = 14, BOTTOM = 42;
  let W = 540; // as wide as there is room, so that letters keep their size on a phone
  const measure = () => {
    const room = document.querySelector("#growth .plot").clientWidth;
    const before = W;
    W = Math.max(280, Math.min(620, room || W));
    return W !== before;
  };

  const ticks = (low, high, wanted) => {
    const rough = (high - low || 1) / wanted;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max(1, [1, 2, 5, 10].find((m) => m * power >= rough) * power);
    const found = [];
    for (let v = Math.ceil(low / step) * step; v <= high + 1e-9; v += step) found.push(v || 0);
    return found;
  };

  const scale = (low, high, from, to) => (v) => from + ((v - low) / (high - low || 1)) * (to - from);

  const frame = (xs, ys, xWord, yWord) => {
    const [x0, x1] = [Math.min(...xs), Math.max(...xs)];
    const y1 = Math.max(...ys, 1);
    const pad = x0 === x1 ? 0.5 : 0;
    const x = scale(x0 - pad, x1 + pad, LEFT, W - RIGHT), y = scale(0, y1, H - BOTTOM, TOP);
    const svg = make("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${yWord} against ${xWord}` });
    for (const v of ticks(0, y1, 5)) {
      svg.append(make("line", { class: "axis", x1: LEFT, x2: W - RIGHT, y1: y(v), y2: y(v) }));
      svg.append(make("text", { x: LEFT - 6, y: y(v) + 4, "text-anchor": "end" }, count(v)));
    }
    for (const v of ticks(x0, x1, W / 65)) svg.append(make("text", { x: x(v), y: H - BOTTOM + 18, "text-anchor": "middle" }, count(v)));
    svg.append(make("text", { class: "label", x: (LEFT + W - RIGHT) / 2, y: H - 6, "text-anchor": "middle" }, xWord));
    return { svg, x, y };
  };

  const put = (id, drawn) => document.querySelector(`#${id} .plot`).replaceChildren(drawn || make("p", {}, "Nothing to draw: no row has these values."));

  const legend = (svg, words) =>
    words.forEach(([kind, word], i) => {
      svg.append(make("circle", { class: `${kind} mark`, cx: LEFT + 14, cy: 20 + 18 * i, r: 5 }));
      svg.append(make("text", { class: "label", x: LEFT + 24, y: 24 + 18 * i }, word));
    });

  const grouped = (found, key) => {
    const groups = new Map();
    for (const row of found) {
      const name = key(row);
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(row);
    }
    return groups;
  };
  const mean = (numbers) => numbers.reduce((a, b) => a + b, 0) / numbers.length;
  const extent = (numbers) => numbers.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);

  const drawGrowth = (found) => {
    const axis = element("axis").value;
    const usable = found.filter((row) => row[axis] !== null && row.value !== null);
    if (!usable.length) return put("growth", null);
    const [low, high] = extent(usable.map((row) => row[axis]));
    const width = Math.max(1, Math.ceil((high - low + 1) / 60)); // at most about sixty places on the axis
    const middle = (row) => low + Math.floor((row[axis] - low) / width) * width + (width - 1) / 2;
    const groups = [...grouped(usable, middle)].sort((a, b) => a[0] - b[0]);
    const top = Math.max(...groups.map(([, list]) => extent(list.map((row) => row.parameters))[1]));
    const { svg, x, y } = frame(groups.map(([v]) => v), [top], data.axes[axis], "dimension and parameters");
    for (const [name, kind, word] of [["parameters", "two", "parameters"], ["value", "one", "dimension"]]) {
      const points = groups.map(([v, list]) => {
        const numbers = list.map((row) => row[name]);
        return [v, mean(numbers), ...extent(numbers), list.length];
      });
      const path = (list) => list.map(([a, b], i) => `${i ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("");
      const around = [...points.map((p) => [p[0], p[3]]), ...[...points].reverse().map((p) => [p[0], p[2]])];
      svg.append(make("path", { class: `${kind} band`, d: `${path(around)}Z` }));
      svg.append(make("path", { class: `${kind} curve`, d: path(points) }));
      for (const [v, average, least, most, n] of points) {
        const said = `${data.axes[axis]} ${v}: ${word} ${least} to ${most}, on average ${average.toFixed(1)}, of ${count(n)} rows`;
        svg.append(make("circle", { class: `${kind} mark`, cx: x(v), cy: y(average), r: 3 }, make("title", {}, said)));
      }
    }
    legend(svg, [["one", "dimension: mean and range"], ["two", "parameters: mean and range"]]);
    put("growth", svg);
  };

  const drawVersus = (found) => {
    const usable = found.filter((row) => row.expected !== null && row.value !== null);
    if (!usable.length) return put("versus", null);
    const [least, most] = extent(usable.map((row) => row.expected));
    const top = Math.max(most, extent(usable.map((row) => row.value))[1]);
    const { svg, x, y } = frame([Math.min(0, least), top], [top], "expected dimension", "certified dimension");
    svg.append(make("line", { class: "diagonal", x1: x(0), y1: y(0), x2: x(top), y2: y(top) }));
    const cellOf = (v) => Math.round((v / (top || 1)) * 110);
    const kindOf = (row) => (row.defect === 0 ? "one" : MATCHES.refuted(row) ? "off" : "two");
    const groups = grouped(usable, (row) => `${cellOf(row.expected)} ${cellOf(row.value)} ${kindOf(row)}`);
    const largest = Math.max(...[...groups.values()].map((list) => list.length));
    for (const list of [...groups.values()].sort((a, b) => b.length - a.length)) {
      const row = list[0];
      const said = `expected ${row.expected}, certified ${row.value}: ${count(list.length)} rows, such as ${row.architecture}`;
      const r = 2.5 + 4 * Math.sqrt(list.length / largest);
      svg.append(make("circle", { class: `${kindOf(row)} mark`, cx: x(row.expected), cy: y(row.value), r, opacity: 0.75 }, make("title", {}, said)));
    }
    legend(svg, [["one", "agrees"], ["two", "differs; not claimed"], ["off", "differs from a claim"]]);
    put("versus", svg);
  };

  const drawHeat = (found) => {
    const [across, upwards] = [element("heat-x").value, element("heat-y").value];
    const usable = found.filter((row) => row.defect !== null && row[across] !== null && row[upwards] !== null);
    if (!usable.length) return put("heat", null);
    const values = (name) => [...new Set(usable.map((row) => row[name]))].sort((a, b) => a - b).slice(0, 40);
    const [xs, ys] = [values(across), values(upwards)];
    const groups = grouped(usable, (row) => `${row[across]} ${row[upwards]}`);
    const average = (list) => mean(list.map((row) => row.defect));
    const worst = Math.max(...[...groups.values()].map((list) => Math.abs(average(list))), 1e-9);
    const svg = make("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `mean defect over ${data.axes[across]} and ${data.axes[upwards]}` });
    const [w, h] = [(W - LEFT - RIGHT) / xs.length, (H - TOP - BOTTOM) / ys.length];
    xs.forEach((v, i) => {
      svg.append(make("text", { x: LEFT + (i + 0.5) * w, y: H - BOTTOM + 18, "text-anchor": "middle" }, i % Math.ceil((xs.length * 38) / W) ? "" : count(v)));
      ys.forEach((u, j) => {
        const list = groups.get(`${v} ${u}`);
        if (!list) return;
        const off = list.filter(differs).length;
        const value = average(list);
        const heat = Math.abs(value) / worst;
        const [x, y] = [LEFT + i * w, H - BOTTOM - (j + 1) * h];
        const fill = `color-mix(in srgb, rgb(var(--hot)) ${Math.round(85 * heat)}%, rgb(var(--cold)))`;
        const said = `${data.axes[across]} ${v}, ${data.axes[upwards]} ${u}: mean defect ${value.toFixed(2)}; ${count(off)} of ${count(list.length)} rows differ`;
        svg.append(make("rect", { x: x + 1, y: y + 1, width: Math.max(1, w - 2), height: Math.max(1, h - 2), style: `fill: ${fill}` }, make("title", {}, said)));
        if (w > 34 && h > 16) svg.append(make("text", { class: "label", x: x + w / 2, y: y + h / 2 + 4, "text-anchor": "middle" }, value ? value.toFixed(Math.abs(value) < 10 ? 2 : 0) : "0"));
      });
    });
    ys.forEach((u, j) => svg.append(make("text", { x: LEFT - 6, y: H - BOTTOM - (j + 0.5) * h + 4, "text-anchor": "end" }, j % Math.ceil(ys.length / 12) ? "" : count(u))));
    svg.append(make("text", { class: "label", x: (LEFT + W - RIGHT) / 2, y: H - 6, "text-anchor": "middle" }, data.axes[across]));
    put("heat", svg);
  };

  const drawCounts = (found) => {
    const groups = STATUSES.map((status) => [status, found.filter((row) => row.status === status).length]).filter(([, n]) => n);
    if (!groups.length) return put("counts", null);
    const most = Math.max(...groups.map(([, n]) => n));
    const svg = make("svg", { viewBox: `0 0 ${W} ${groups.length * 44 + 8}`, role: "img", "aria-label": "how many rows have each status" });
    groups.forEach(([status, n], i) => {
      const y = i * 44;
      svg.append(make("text", { class: "label", x: 4, y: y + 16 }, `${status}: ${count(n)}`));
      svg.append(make("rect", { class: `${status === "failed" ? "off" : "one"} mark`, x: 4, y: y + 22, rx: 3, width: Math.max(2, (n / most) * (W - 8)), height: 14 }));
    });
    put("counts", svg);
  };

  const drawAll = () => [drawGrowth, drawVersus, drawHeat, drawCounts].forEach((draw) => draw(state.rows));
  const PLOTS = { axis: drawGrowth, "heat-x": drawHeat, "heat-y": drawHeat };

  const refresh = () => {
    state.rows = filtered();
    state.start = 0;
    measure();
    element("shown").textContent = `${count(state.rows.length)} of ${count(rows.length)} rows`;
    refreshTable();
    drawAll();
  };

  // ---------------------------------------------------------------- start

  const options = (id, names, words) => element(id).append(...names.map((name) => make("option", { value: name }, words ? words[name] : name)));
  const present = Object.keys(data.axes).filter((axis) => rows.some((row) => row[axis] !== null));
  for (const id of ["axis", "heat-x", "heat-y"]) options(id, present, data.axes);
  const choose = (id, ...wanted) => {
    const found = wanted.find((axis) => present.includes(axis) && new Set(rows.map((row) => row[axis])).size > 1);
    element(id).value = found || wanted.find((axis) => present.includes(axis)) || present[0] || "";
  };
  choose("axis", "parameters");
  choose("heat-x", "hidden_width", "first_width");
  choose("heat-y", "attention_dim", "depth", "first_width");
  options("family", [...new Set(rows.map((row) => row.family))].sort());
  options("status", STATUSES.filter((status) => rows.some((row) => row.status === status)));
  for (const [id, draw] of Object.entries(PLOTS)) element(id).addEventListener("change", () => draw(state.rows));
  let waiting = 0;
  element("search").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(refresh, 120);
  });
  for (const id of ["family", "status", "match"]) element(id).addEventListener("change", refresh);
  element("filters").addEventListener("submit", (event) => event.preventDefault());
  element("filters").addEventListener("reset", () => setTimeout(refresh));
  window.addEventListener("resize", () => measure() && drawAll());
  const turn = (by) => {
    state.start += by;
    refreshTable();
    document.querySelector(".results").scrollIntoView();
  };
  element("back").addEventListener("click", () => turn(-PAGE));
  element("next").addEventListener("click", () => turn(PAGE));
  summarize();
  heading();
  refresh();
})();
