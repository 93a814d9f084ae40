// Shows the rows of an evaluation: which, in which order, a page of them at a time.
//
//   form, matrix, tables ──> state ──> the rows that it chooses ──> some of them on screen          state ──> the address
//
// Where the page is served, the rows come with the key that the address brought; a file has them in it.
"use strict";

(() => {
  const SCORES = 3, KEY = "glassformer-key", COLOURS = 8;
  const ORDERS = { high: "highest loss first", low: "lowest loss first", sure: "wrong, the surest first", file: "as in the file" };
  const START = { order: "high", true: "", said: "", verdict: "", find: "", page: "0" };
  const one = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  /** An element; texts among what it holds are only text. */
  function el(name, attributes, ...held) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes ?? {})) if (value !== undefined && value !== null) made.setAttribute(key, value);
    made.append(...held.flat().filter((each) => each !== null && each !== undefined && each !== ""));
    return made;
  }

  // ------------------------------------------------------------------------------------------------ the rows themselves

  async function begin() {
    if (!one("#records")) {
      const answer = await fetch(`/api${location.pathname}`, { headers: { authorization: `Bearer ${takeKey()}` } });
      if (!answer.ok) {
        one("main").replaceChildren(el("p", { role: "alert" }, (await answer.json()).error));
        return;
      }
      document.body.innerHTML = await answer.text(); // of the program itself, which has escaped every text
      dispatchEvent(new Event("fetched"));
    }
    start(JSON.parse(one("#records").textContent));
  }

  /** The key out of the address, kept for this tab and lent to the tabs that it opens, as the explorer does. */
  function takeKey() {
    const pairs = new URLSearchParams(location.hash.slice(1));
    const key = pairs.get("token") ?? sessionStorage.getItem(KEY) ?? "";
    pairs.delete("token");
    history.replaceState(null, "", `#${pairs}`);
    sessionStorage.setItem(KEY, key);
    const channel = new BroadcastChannel(KEY);
    channel.onmessage = ({ data }) => data.key === undefined && channel.postMessage({ key });
    return key;
  }

  function start(data) {
    const { kind, names, rows } = data;
    const tags = kind === "tags", state = { ...START };
    const types = [...new Set(names.map((name) => name.replace(/^[BIES]-/, "")).filter((name) => name !== "O"))];
    const colour = (tag) => `c${Math.max(types.indexOf(tag.replace(/^[BIES]-/, "")), 0) % COLOURS}`;
    const listed = (value) => (Array.isArray(value) ? value : value === null ? [] : [String(value)]);
    for (const row of rows) {
      row.text = Object.values(row.row).flat().join(" ");
      row.sought = `${row.text}\n${row.where}`.toLowerCase();
      row.sure = row.scores?.find(([name]) => name === row.s)?.[1] ?? null;
    }

    // ---------------------------------------------------------------------------------------------- which are chosen

    /** The words of a row that the filters mean. */
    const places = (row) => row.row.tokens.map((_, i) => i).filter((i) => row.losses?.[i] != null
      && (!state.true || row.y[i] === state.true) && (!state.said || row.s[i] === state.said)
      && (!state.verdict || (row.y[i] === row.s[i]) === (state.verdict === "right")));

    function chooses(row) {
      if (state.order === "sure" && (row.ok !== false || row.sure === null)) return false;
      if (state.find && !row.sought.includes(state.find.toLowerCase())) return false;
      if (tags && (state.true || state.said)) return places(row).length > 0;
      if (state.verdict && row.ok !== (state.verdict === "right")) return false;
      return (!state.true || listed(row.y).includes(state.true)) && (!state.said || listed(row.s).includes(state.said));
    }

    const loss = (row) => row.loss ?? -1;
    const ORDER = {
      high: (a, b) => (a.loss === null && b.loss === null ? 0 : loss(b) - loss(a)),
      low: (a, b) => (a.loss === null && b.loss === null ? rows.indexOf(b) - rows.indexOf(a) : loss(a) - loss(b)),
      sure: (a, b) => b.sure - a.sure,
      file: (a, b) => a.at - b.at,
    };

    // ------------------------------------------------------------------------------------------------------ a row

    const percent = (share) => (share >= 0.995 && share < 1 ? ">99%" : share > 0 && share < 0.005 ? "<1%" : `${Math.round(100 * share)}%`);
    const place = (where) => where.replace(/^.*[\\/]/, "");

    /** A text, with what is searched for marked. */
    function marked(text) {
      const sought = state.find.toLowerCase();
      if (!sought) return [text];
      const found = [], low = text.toLowerCase();
      if (low.length !== text.length) return [text]; // letters whose small form is longer: no places to mark
      for (let from = 0, at; ; from = at + sought.length) {
        at = low.indexOf(sought, from);
        found.push(text.slice(from, at < 0 ? undefined : at));
        if (at < 0) return found;
        found.push(el("mark", {}, text.slice(at, at + sought.length)));
      }
    }

    function verdict(row) {
      if (tags) {
        const wrong = row.y.filter((tag, i) => row.losses?.[i] != null && tag !== row.s[i]).length;
        return [wrong ? el("span", { class: "chip said" }, `${wrong} of ${row.y.length} words wrong`) : el("span", { class: "chip true" }, "all right")];
      }
      if (kind === "texts") return [];
      const write = (value) => (Array.isArray(value) ? value.join(", ") || "(none)" : typeof value === "number" ? String(Number(value.toPrecision(4))) : value ?? "(nothing)");
      if (row.ok) return [el("span", { class: "chip true" }, write(row.y), el("span", { class: "hidden" }, " is right"))];
      return [
        el("span", { class: "chip true" }, el("small", {}, "true"), write(row.y)),
        el("span", { class: "chip said" }, el("small", {}, "predicted"), write(row.s)),
      ];
    }

    /** How likely the likeliest classes were held, and the true one. */
    function scores(row) {
      const said = listed(row.s), held = listed(row.y);
      const found = row.scores.filter(([name], i) => i < SCORES || held.includes(name) || (kind === "labels" && said.includes(name)));
      if (kind === "classes" && !found.some(([name]) => name === row.y) && row.loss !== null) found.push([row.y, Math.exp(-row.loss)]);
      return el("ol", { class: "scores", "aria-label": "How likely the model held each" }, found.map(([name, share]) => {
        const bar = el("i");
        bar.style.width = `${100 * share}%`;
        const notes = [held.includes(name) ? "true" : "", said.includes(name) ? "predicted" : ""].filter(Boolean);
        return el("li", { class: notes.join(" ") },
          el("span", { class: "name", title: name }, name, notes.length ? el("span", { class: "hidden" }, ` (${notes.join(", ")})`) : ""),
          el("span", { class: "bar", "aria-hidden": "true" }, bar), el("span", { class: "share" }, percent(share)));
      }));
    }

    const sign = (mark, spoken) => [el("span", { class: "sign", "aria-hidden": "true" }, mark), el("span", { class: "hidden" }, ` ${spoken} `)];

    /** Words above their tags, shaded by how unlikely the true tag was held. */
    function words(row) {
      const found = new Set(state.true || state.said ? places(row) : []);
      return el("p", { class: "words", dir: "auto" }, row.row.tokens.map((word, i) => {
        const [tag, said, cost] = [row.y[i], row.s[i], row.losses?.[i] ?? null];
        const wrong = cost !== null && tag !== said, plain = tag === "O" && !wrong;
        const made = el("span", {
          class: `word ${colour(tag)}${wrong ? " wrong" : ""}${found.has(i) ? " found" : ""}${cost === null ? " silent" : ""}`,
          title: cost === null ? "not evaluated: the model did not read this word" : `true ${tag}, predicted ${said}, loss ${cost}`,
        },
        el("span", { class: tag === "O" ? "" : "tagged" }, marked(word)),
        wrong ? el("small", {}, sign("✗", "predicted"), said) : "",
        plain ? "" : el("small", {}, wrong ? sign("✓", "true") : el("span", { class: "hidden" }, " "), tag),
        wrong ? el("span", { class: "hidden" }, ` loss ${cost.toFixed(2)}`) : "", " ");
        if (cost !== null) made.style.setProperty("--heat", String(1 - Math.exp(-cost)));
        return made;
      }));
    }

    function texts(row) {
      return Object.entries(row.row).filter(([, text]) => text !== null && text !== "").map(([role, text], _, every) =>
        el("p", { class: "text", dir: "auto", ...(String(text).length > 700 ? { tabindex: "0" } : {}) },
          every.length > 1 ? el("span", { class: "role" }, role) : "", marked(String(text)), row.cut ? " …" : ""));
    }

    function written(row) {
      const parts = [["predicted", listed(row.s).join("\n")], ...listed(row.y).map((text) => ["reference", text])];
      return el("div", { class: "parts" }, parts.filter(([, text]) => text).map(([title, text]) =>
        el("div", {}, el("h3", {}, title), el("p", { class: "text", dir: "auto", tabindex: text.length > 700 ? "0" : null }, marked(text)))));
    }

    const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

    /** A way to see the model read this text. */
    function look(row, end) {
      if (row.page) return el("a", { class: "look", href: row.page, target: "_blank" }, "Look inside", el("span", { class: "hidden" }, ` row ${row.at}`));
      if (!row.look?.length || !row.look[0]) return "";
      if (data.served) {
        const link = el("a", { class: "look", target: "_blank", rel: "opener", href: "/" }, "Look inside", el("span", { class: "hidden" }, ` row ${row.at}`));
        void packed(row.look).then((texts) => link.setAttribute("href", `/#v=1&x=${texts}`));
        return link;
      }
      const button = el("button", { class: "look", type: "button", "aria-expanded": "false" }, "Look inside", el("span", { class: "hidden" }, ` row ${row.at}`));
      button.addEventListener("click", () => {
        const open = button.getAttribute("aria-expanded") === "true";
        button.setAttribute("aria-expanded", String(!open));
        if (open) return one(".command", end)?.remove();
        const dash = row.look.some((text) => text.startsWith("-")) ? "-- " : "";
        const line = `glassformer look ${quoted(data.model)} ${dash}${row.look.map(quoted).join(" ")}`;
        const copy = el("button", { type: "button" }, "Copy");
        copy.addEventListener("click", () => void navigator.clipboard?.writeText(line).then(() => (copy.textContent = "Copied")));
        end.append(el("div", { class: "command" }, el("code", {}, line), copy));
      });
      return button;
    }

    /** Texts as the explorer's links carry them: deflated, then base64url. */
    async function packed(texts) {
      const stream = new Blob([JSON.stringify(texts)]).stream().pipeThrough(new CompressionStream("deflate"));
      const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
      return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
    }

    function shown(row) {
      const made = el("li", { class: "row" });
      const top = el("div", { class: "top" },
        row.loss === null ? "" : el("span", { class: "loss" }, el("b", {}, row.loss.toFixed(row.loss < 0.1 ? 4 : 2)), " loss"), verdict(row),
        el("span", { class: "where", title: row.where }, place(row.where)), look(row, made));
      made.append(top);
      if (tags) made.append(words(row));
      else made.append(row.scores ? el("div", { class: "both" }, el("div", {}, texts(row)), scores(row)) : el("div", { class: "both alone" }, el("div", {}, texts(row))));
      if (kind === "texts") made.append(written(row));
      if (row.metrics) made.append(el("p", { class: "facts" }, Object.entries(row.metrics).map(([name, value]) =>
        el("span", {}, `${name} `, el("b", {}, value === null ? "–" : Number(value.toPrecision(3)).toString())))));
      return made;
    }

    // ------------------------------------------------------------------------------------------------ on screen

    const form = one(".filters"), list = one(".rows"), pager = one(".pager"), output = one("output", form);
    const each = Number(one(".list").dataset.rows);

    function draw() {
      const chosen = rows.filter(chooses).sort(ORDER[state.order]);
      const pages = Math.max(Math.ceil(chosen.length / each), 1);
      const at = Math.min(Math.max(Number(state.page) || 0, 0), pages - 1), from = at * each;
      const some = chosen.slice(from, from + each);
      list.replaceChildren(...(some.length ? some.map(shown) : [el("li", { class: "empty" }, "No row matches these filters.")]));
      const held = chosen.filter((row) => row.loss !== null), sum = held.reduce((total, row) => total + row.loss, 0);
      output.textContent = `${chosen.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows`
        + (held.length ? ` · mean loss ${(sum / held.length).toFixed(3)}` : "");
      pager.hidden = pages < 2;
      one("span", pager).textContent = `${from + 1}–${from + some.length} of ${chosen.length.toLocaleString("en")}`;
      for (const button of all("button", pager)) button.disabled = button.dataset.step < 0 ? at === 0 : at === pages - 1;
      for (const control of all("[name]", form)) if (control.value !== state[control.name]) control.value = state[control.name];
      for (const cell of all(".cell.live")) mark(cell, cell.dataset.cell);
      for (const button of all("[data-pair]")) button.setAttribute("aria-pressed", String(means(button.dataset.pair)));
      remember();
    }

    const means = (pair) => pair.split(",").every((number, i) => names[number] === (i ? state.said : state.true));
    const mark = (cell, pair) => { cell.classList.toggle("chosen", means(pair)); if (cell.hasAttribute("tabindex")) cell.setAttribute("aria-pressed", String(means(pair))); };

    /** Another choice; unless one types it, its rows come into view. */
    function change(what, stay) {
      Object.assign(state, { page: "0" }, what);
      draw();
      const { top } = list.getBoundingClientRect();
      if (!stay && (top < 0 || top > innerHeight * 0.8)) one(".list").scrollIntoView();
    }

    /** Choose the rows of a pair; a second time, all. */
    const choosePair = (pair) => {
      const [y, s] = pair.split(",").map((number) => names[number]);
      change(means(pair) ? { true: "", said: "" } : { true: y, said: s, verdict: "", order: state.order === "sure" ? "high" : state.order });
    };

    function remember() {
      const pairs = new URLSearchParams(Object.entries(state).filter(([name, value]) => value !== START[name]));
      try {
        history.replaceState(null, "", `#${pairs}`);
      } catch { /* a frame without an address */ }
    }

    function recall() {
      const pairs = new URLSearchParams(location.hash.slice(1));
      for (const name of Object.keys(START)) if (pairs.has(name)) state[name] = pairs.get(name);
      if (!(state.order in ORDERS)) state.order = START.order;
      for (const name of ["true", "said"]) if (!names.includes(state[name])) state[name] = "";
    }

    // --------------------------------------------------------------------------------------------- what one can do

    const sure = rows.some((row) => row.sure !== null);
    const option = ([value, text]) => el("option", { value }, text);
    form.elements.order.append(...Object.entries(ORDERS).filter(([name]) => name !== "sure" || sure).map(option));
    for (const name of ["true", "said"]) {
      form.elements[name].append(...[["", "any"], ...names.map((each) => [each, each])].map(option));
      form.elements[name].closest("label").hidden = names.length === 0;
    }
    form.elements.verdict.closest("label").hidden = !rows.some((row) => row.ok !== null);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", ({ target }) => change({ [target.name]: target.value }, true));
    form.addEventListener("reset", (event) => { event.preventDefault(); change(START); });
    pager.addEventListener("click", ({ target }) => {
      if (!target.dataset.step) return;
      change({ page: String(Number(state.page) + Number(target.dataset.step)) });
      one(".list").scrollIntoView();
    });
    addEventListener("hashchange", () => {
      if (document.getElementById(location.hash.slice(1))) return; // a part of the page
      Object.assign(state, START); recall(); draw(); });

    const picture = one(".picture svg");
    if (picture) {
      const cells = all(".cell", picture).filter((cell) => { const [i, j] = cell.dataset.cell.split(","); return data.counts[i][j] > 0; });
      const numbered = one(".how") !== null;
      picture.setAttribute("role", "group");
      for (const cell of cells) {
        cell.classList.add("live");
        cell.addEventListener("click", () => choosePair(cell.dataset.cell));
        if (!numbered) continue; // of very many classes the list next to it is the way of the keyboard
        cell.setAttribute("role", "button");
        cell.setAttribute("tabindex", cell === cells[0] ? "0" : "-1");
        cell.setAttribute("aria-label", one("title", cell).textContent);
        cell.addEventListener("keydown", (event) => {
          if (event.key === "Enter" || event.key === " ") choosePair(cell.dataset.cell);
          else if (!walk(cells, cell, event.key)) return;
          event.preventDefault();
        });
      }
      for (const button of all("[data-normalise]")) button.addEventListener("click", () => {
        for (const each of all("[data-normalise]")) each.setAttribute("aria-pressed", String(each === button));
        number(picture, data.counts, button.dataset.normalise);
      });
    }
    for (const button of all("[data-pair]")) button.addEventListener("click", () => choosePair(button.dataset.pair));
    for (const section of all("[data-groups]")) for (const head of all("tbody th", section)) {
      const name = head.textContent, word = section.dataset.groups === "word";
      const button = el("button", { type: "button" }, name);
      button.addEventListener("click", () => change(word ? { find: name } : { true: name, said: "" }));
      head.replaceChildren(button);
    }
    recall();
    draw();
  }

  /** From a cell to the next one with something in it; true where there is one. */
  function walk(cells, from, key) {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[key];
    if (!step) return false;
    const at = (cell) => cell.dataset.cell.split(",").map(Number), [i, j] = at(from);
    const ahead = cells.filter((cell) => { const [a, b] = at(cell); return step[0] ? b === j && (a - i) * step[0] > 0 : a === i && (b - j) * step[1] > 0; });
    ahead.sort((a, b) => Math.abs(at(a)[0] - i) + Math.abs(at(a)[1] - j) - Math.abs(at(b)[0] - i) - Math.abs(at(b)[1] - j));
    if (!ahead.length) return false;
    from.setAttribute("tabindex", "-1");
    ahead[0].setAttribute("tabindex", "0");
    ahead[0].focus();
    return true;
  }

  /** Counts, or shares of what is true or was predicted, in the cells; as `confusion.py` writes and shades them. */
  function number(picture, counts, how) {
    const sums = how === "predicted" ? counts[0].map((_, j) => counts.reduce((sum, row) => sum + row[j], 0)) : counts.map((row) => row.reduce((a, b) => a + b, 0));
    for (const cell of all(".cell", picture)) {
      const [i, j] = cell.dataset.cell.split(",").map(Number), count = counts[i][j];
      const share = count ? count / sums[how === "predicted" ? j : i] : 0;
      one("rect", cell).setAttribute("fill-opacity", (share <= 0 ? 0 : 0.07 + 0.93 * share ** 0.7).toFixed(3));
      one("text", cell).textContent = !count ? "" : !how ? (count < 9999.5 ? count.toLocaleString("en") : `${Math.round(count / 1000)}k`) : share >= 0.005 ? `${Math.round(100 * share)}%` : "<1%";
    }
  }

  void begin();
})();
