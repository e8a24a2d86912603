"use strict";
// Scenes that show the network itself: a pixel's way through it, a path, curves of deletion, one's own image.

/** Scenes without a question: each has `view`, which draws it, and may have `touch`, for a pixel that is chosen. */
const explore = ({ main, ask, element, draw, say, panel, point, now, nameOf, toColor }) => {
  const shown = (value) => String(Math.round(value * 1e3) / 1e3);
  const svgOf = (width, height, words) => {
    const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words });
    const put = (tag, attributes, ...content) => {
      const made = element(tag, attributes, ...content);
      svg.append(made);
      return made;
    };
    return { svg, put };
  };
  const named = (k) => main.classes[k].name;
  const isProbability = main.output === "probability";
  const redundantOf = (channels) => channels.map((each, k) => k).filter((k) => channels[k] === 0);

  // A pixel's way: its color, the layers that see a pixel at a time, counts, probabilities
  const TALL = 300, GAP = 128;
  function showWay(found, pixel) {
    const stages = found.layers.filter(({ kind }) => kind === "relu").map(({ values }) => Array.from(values));
    const wires = found.layers.filter(({ kind }) => kind === "matrix").map(({ wires }) => wires);
    const columns = [Array.from(found.color), ...stages];
    const answers = 130 + GAP * columns.length, width = answers + (isProbability ? 390 : 230), height = TALL + 46;
    const words = `The way of a pixel: ${columns.length} layers of channels, then ${main.classes.length} outputs.`;
    const { svg, put } = svgOf(width, height, words);
    const write = (x, y, text, anchor = "start", kind = "") => put("text", { x, y, "text-anchor": anchor, class: kind }, text);
    const side = (n) => Math.min(26, (TALL - 8) / n);
    const X = (place) => 40 + GAP * place, Y = (k, n) => 30 + TALL / 2 + (k - (n - 1) / 2) * side(n);
    wires.forEach((rows, place) =>
      rows.forEach((row, to) =>
        row.forEach(([from, weight]) => {
          const moved = weight * columns[place][from];
          if (!moved || !columns[place + 1][to]) return;
          const ends = { x1: X(place) + 12, y1: Y(from, columns[place].length), x2: X(place + 1) - 12, y2: Y(to, columns[place + 1].length) };
          const wire = put("line", { ...ends, class: moved > 0 ? "wire up" : "wire down" });
          wire.append(element("title", {}, `weight ${shown(weight)} x value ${shown(columns[place][from])}`));
          if (columns[place + 1].length <= 8)
            write(ends.x1 + 0.3 * (ends.x2 - ends.x1), ends.y1 + 0.3 * (ends.y2 - ends.y1) - 4, `x ${shown(weight)}`, "middle", "weight");
        })));
    const names = ["this pixel", ...stages.map(({ length }, k) => (k + 1 < stages.length ? `${length} channels` : "colors"))];
    const labelOf = (place, k) => `${shown(columns[place][k])} ${place + 1 < columns.length ? "" : found.names[k]}`.trim();
    columns.forEach((values, place) => {
      const n = values.length, size = Math.max(side(n) - 3, 3);
      write(X(place), 16, names[place], "middle", "strong");
      values.forEach((value, k) => {
        const box = { x: X(place) - size / 2, y: Y(k, n) - size / 2, width: size, height: size };
        const cell = put("rect", { ...box, class: value ? "cell on" : "cell" });
        cell.append(element("title", {}, `channel ${k + 1}: ${shown(value)}`));
        if (!place) cell.style.fill = toColor(found.color);
        if (n <= 8) write(X(place) + size / 2 + 5, Y(k, n) + 4, labelOf(place, k), "start", value ? "strong" : "");
      });
    });
    const n = main.classes.length, last = columns.length - 1, most = Math.max(...found.logits.map(Math.abs), 1);
    write(answers, 16, isProbability ? "counts (with this pixel)" : "output", "start", "strong");
    if (isProbability) write(answers + 200, 16, "softmax", "start", "strong");
    main.classes.forEach(({ name, color }, k) => {
      const y = 30 + TALL / 2 + (k - (n - 1) / 2) * Math.min(56, TALL / n), change = found.logits[k] - found.without[k];
      const long = 90 * (Math.abs(found.logits[k]) / most);
      found.effects.forEach((effect, from) => {
        if (!effect || !effect[k]) return;
        const cells = columns[last].length, label = cells <= 8 ? 10 + 7 * labelOf(last, from).length : 0;
        put("line", { x1: X(last) + 12 + label, y1: Y(from, cells), x2: answers - 8, y2: y, class: effect[k] > 0 ? "wire up" : "wire down" });
      });
      const bar = put("rect", { x: answers, y: y - 9, width: long, height: 18, class: "count" });
      if (color) bar.style.fill = toColor(color);
      const said = `${shown(found.logits[k])}${change ? ` (${change > 0 ? "+" : ""}${shown(change)})` : ""}`;
      write(answers + long + 6, y + 4, said, "start", change ? "strong" : "");
      write(answers, y + 22, name, "start", k === found.target ? "strong" : "");
      if (!isProbability) return;
      put("rect", { x: answers + 200, y: y - 9, width: 110, height: 18, class: "cell" });
      put("rect", { x: answers + 200, y: y - 9, width: 110 * found.output[k], height: 18, class: "point" });
      write(answers + 316, y + 4, `${(100 * found.output[k]).toFixed(1)} %`);
    });
    panel("way", svg);
    const changes = Array.from(found.logits, (each, k) => each - found.without[k]);
    const moved = changes.map((each, k) => each && `${n > 1 ? named(k) : "the output"} by ${each > 0 ? "+" : ""}${shown(each)}`).filter(Boolean);
    const sum = moved.length ? `It changes ${moved.join(", ")}` : "It changes no output";
    const target = `${isProbability ? `the probability of ${named(found.target)}` : "the output"}`;
    const [before, after] = [found.outputWithout, found.output].map((each) => shown(each[found.target]));
    say("status", `${nameOf(pixel)}, color ${found.color.join(", ")}. ${sum}; ${target} is ${after} with it and ${before} without it.`);
  }

  // Lines over a path or over the share of pixels that were removed
  function lines(words, series, { at, x, from = 0 }) {
    const width = 640, height = 240, left = 44, base = 200;
    const all = series.flatMap(({ values }) => Array.from(values)), high = Math.max(...all, 1e-9), low = Math.min(...all, from);
    const { svg, put } = svgOf(width, height, words);
    const X = (share) => left + share * (width - left - 150), Y = (value) => base - ((value - low) / (high - low)) * (base - 16);
    for (const value of [low, high]) {
      put("line", { x1: left, x2: X(1), y1: Y(value), y2: Y(value), class: "grid" });
      put("text", { x: left - 6, y: Y(value) + 4, "text-anchor": "end" }, shown(value));
    }
    put("text", { x: X(0.5), y: height - 8, "text-anchor": "middle" }, x);
    series.forEach(({ name, color, values, dashed }, place) => {
      const points = Array.from(values, (value, k) => `${X(k / (values.length - 1))},${Y(value)}`).join(" ");
      const kind = `curve${color}${dashed ? " dashed" : ""}`;
      put("polyline", { points, class: kind });
      put("line", { x1: X(1) + 12, x2: X(1) + 30, y1: 20 + 20 * place, y2: 20 + 20 * place, class: kind });
      put("text", { x: X(1) + 36, y: 24 + 20 * place }, name);
    });
    if (at !== undefined) put("line", { x1: X(at), x2: X(at), y1: 8, y2: base, class: "gamma" });
    panel("lines", svg);
  }

  const ORDERS = { truth: "", noise: " second" };
  return {
    network: {
      async view(request, state, view) {
        const pixel = state.pixel ?? main.pixels[request.image];
        const found = await ask("trace", { ...request, pixel });
        if (now() !== view) return;
        showWay(found, pixel);
        point(Math.floor(pixel / main.side), pixel % main.side);
      },
      touch: (pixel) => ({ pixel }),
    },
    path: {
      async view(request, state, view) {
        const found = await ask("path", { ...request, upto: state.point });
        if (now() !== view) return null;
        const share = found.shares[state.point], extra = redundantOf(found.silent);
        draw("image", main.side, `The image at ${shown(share)} of the path from the baseline`, (p) => found.colors[found.index[p]].map((each) => (255 * each) / main.highest));
        const sums = (ks) => Array.from(found.channels, (each) => ks.reduce((sum, k) => sum + each[k], 0));
        const known = found.silent.map((_, k) => k).filter((k) => !extra.includes(k));
        const series = [{ name: "color channels", color: "", values: sums(known) }];
        if (extra.length) series.push({ name: "redundant channels", color: " second", values: sums(extra) });
        lines("Sum of the detector's channels along the path", series, { at: state.point / (found.shares.length - 1), x: "points on the path, from the baseline to the image" });
        say("status", `Point ${state.point} of ${found.shares.length - 1}, at ${shown(share)} of the path: the color channels sum to ${shown(sums(known)[state.point])}, ` +
          `the redundant channels to ${shown(extra.length ? sums(extra)[state.point] : 0)}.`);
        return found.map;
      },
    },
    curves: {
      async view(request, state, view) {
        const found = await ask("curves", request);
        if (now() !== view) return null;
        const series = found.map(({ order, by, values }) => ({ name: `${order}, ${by}`, color: ORDERS[order], values, dashed: by === "black" }));
        lines("The explained output while pixels are removed", series, { x: "share of the pixels removed, the highest attributions first" });
        const mean = ({ values }) => values.reduce((sum, each) => sum + each, 0) / values.length;
        const of = (order, by) => mean(found.find((each) => each.order === order && each.by === by));
        const [gap, black] = ["background", "black"].map((by) => of("noise", by) - of("truth", by));
        say("status", `Mean of the curves: ${found.map((each) => `${each.order}, ${each.by} ${shown(mean(each))}`).join("; ")}.`);
        return black < gap / 2 ? 1 : black <= 1.2 * gap ? 0 : 2;
      },
    },
    paint: {
      touch(pixel, { painted, brush }) {
        const row = Math.floor(pixel / main.side), column = pixel % main.side, next = new Map(painted);
        for (let a = -2; a <= 2; a++)
          for (let b = -2; b <= 2; b++)
            if (row + a >= 0 && row + a < main.side && column + b >= 0 && column + b < main.side)
              next.set((row + a) * main.side + column + b, brush);
        return { painted: next };
      },
    },
  };
};
