"use strict";
// The page: scenes, controls, drawing, the address. The network is in the worker.
(async () => {
  const $ = (name) => document.getElementById(name);
  const say = (name, words) => ($(name).textContent = words);
  const range = (n, valueOf) => Array.from({ length: n }, (_, k) => valueOf(k));
  const number = (value) => String(Math.round(value * 1e4) / 1e4);
  const score = (value) => (value === null ? "none" : value.toFixed(2));
  const colorOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).match(/\w\w/g).map((each) => parseInt(each, 16));
  const RAISES = colorOf("--raises"), LOWERS = colorOf("--lowers"), PARTS = ["overall", "positive", "negative"];

  // The data, and the worker that has them, too
  const packed = Uint8Array.from(atob($("tensors").textContent), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const values = new Float32Array(await new Response(unpacked).arrayBuffer());
  const data = { ...JSON.parse($("document").textContent), values };
  const source = new Blob([$("worker").textContent], { type: "text/javascript" });
  const worker = new Worker(URL.createObjectURL(source));
  const asked = new Map();
  let asks = 0;
  worker.postMessage({ load: data });
  worker.onerror = (event) => say("status", `The network stopped: ${event.message}`);
  worker.onmessage = ({ data: { id, result, error } }) => {
    const { resolve, reject } = asked.get(id);
    asked.delete(id);
    if (error) reject(new Error(error));
    else resolve(result);
  };
  const ask = (kind, request) =>
    new Promise((resolve, reject) => {
      asked.set(++asks, { resolve, reject });
      worker.postMessage({ id: asks, kind, request });
    });
  // For the console of the browser: await live.ask("map", live.request()).
  window.live = { ask, request: () => requestOf(state) };

  // Controls: which values each has, and what these are called
  const main = data.subjects[0], worlds = data.subjects.slice(1);
  const gray = new Set(main.background).size === 1 ? main.background[0] : 0;
  const firstGray = Math.max(0, Math.min(gray - 30, 195));
  const networks = Object.keys(main.networks), isStrength = (name) => name.startsWith("strength ");
  const named = (names) => Object.fromEntries(names.map((name) => [name, name.replaceAll("-", " ")]));
  const METHODS = {
    "integrated-gradients": "Integrated gradients",
    "input-x-gradient": "Input x gradient",
    saliency: "Saliency",
    "guided-backprop": "Guided backprop",
    "feature-ablation": "Remove each pixel",
  };
  const SPACINGS = { midpoints: "evenly spaced", "gauss-legendre": "Gauss-Legendre" };
  const suffix = (value) => (value === gray ? ", the background" : value === 0 ? ", black" : "");
  const CONTROLS = {
    world: { label: "World", names: named(worlds.map(({ name }) => name)) },
    image: { label: "Image", names: Object.fromEntries(main.targets.map((_, k) => [k + 1, k + 1])) },
    method: { label: "Method", names: METHODS },
    form: { label: "Written as", names: named(networks.filter((name) => !isStrength(name))) },
    spacing: { label: "Points", names: SPACINGS },
    point: { label: "Point on the path", values: range(52, (k) => k), suffix: () => " of 51" },
    baseline: { label: "Gray value of the baseline", values: range(61, (k) => firstGray + k), suffix },
    strength: { label: "Strength of unseen colors", values: networks.filter(isStrength).map((name) => +name.slice(9)) },
    steps: { label: "Number of points", values: [2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 400] },
  };
  for (const control of Object.values(CONTROLS)) control.values ??= Object.keys(control.names);
  CONTROLS.image.values = CONTROLS.image.values.map(Number);
  const said = (name, value) => `${value}${CONTROLS[name].suffix?.(value) ?? ""}`;
  const USUAL = {
    world: worlds[0].name, image: 1, method: "integrated-gradients", form: "plain", spacing: "gauss-legendre",
    baseline: gray, strength: 0, steps: 50, point: 25, pixel: null, painted: new Map(), brush: 0,
  };

  // Scenes: `sweep` is what the chart shows; `found` says which option came true, by the chart's points, and
  // holds for the settings in `asks`.

  const best = (points) => points.reduce((most, each) => (each.y > most.y ? each : most));
  const at = (points, x, series) => points.find((point) => point.x === x && point.series === series).y;
  const STRENGTH = data.scenes.strength ? [] : ["strength"];
  const SCENES = {
    network: {
      title: "Inside the network",
      text: "Click a pixel, or move with the arrow keys and press Enter: its color passes through the channels of the detector. " +
        "A channel is blue where its value is not 0; wires show the weights that carry a value on. The counts add up all pixels.",
      controls: ["image", "method", ...STRENGTH],
      start: STRENGTH.length ? { strength: 1 } : {},
      panel: "way", keys: " Arrow keys move, Enter follows the pixel.",
    },
    path: {
      title: "Along the path",
      text: "Integrated gradients walks from the baseline, here the background, to the image and adds up gradients. Move along the path: " +
        "the image appears, channels respond to colors that no image has, and the map grows.",
      controls: ["image", ...STRENGTH, "point"],
      start: STRENGTH.length ? { strength: 1 } : {},
      panel: "lines",
    },
    baseline: {
      title: "Where the path starts",
      text: "Integrated gradients (IG) adds up gradients on the straight path from a baseline to the image. " +
        "Here the baseline is a gray image, and you choose its gray value.",
      question: "At which gray value is the lowest F1 highest?",
      options: [...new Set([0, gray])].map((value) => `At ${said("baseline", value)}`)
        .concat("At another value", "Several are equally good"),
      controls: ["image", "baseline"],
      start: { baseline: firstGray },
      sweep: "baseline", x: "gray value of the baseline", ticks: range(7, (k) => firstGray + 10 * k),
      found(points) {
        const top = best(points), isAlone = points.filter((point) => point.y > top.y - 0.02).length === 1;
        const place = isAlone ? this.options.indexOf(`At ${said("baseline", top.x)}`) : this.options.length - 1;
        return place < 0 ? this.options.length - 2 : place;
      },
      why: () => "From the background, background pixels do not move along the path, so their attribution is exactly 0. From any other " +
        "gray value they all move, through colors that the network was not built for.",
    },
    strength: {
      title: "Unseen colors",
      text: "On its path, IG shows the network colors that it was not made for. Extra channels react to all of these " +
        "and disturb the counts; you choose how much. The images have no such colors: their logits stay as they are.",
      question: "IG starts at the background. The strength rises from 0 to 0.25. How much is left of the lowest F1?",
      options: ["At least nine tenths", "More than half", "Half or less"],
      controls: ["image", "method", "strength"],
      asks: { method: "integrated-gradients" },
      sweep: "strength", x: "strength of unseen colors", ticks: [0, 0.5, 1, 1.5, 2],
      found(points) {
        const left = at(points, 0.25) / at(points, 0);
        return left >= 0.9 ? 0 : left > 0.5 ? 1 : 2;
      },
      why: () => "The path from the background to a patch's color crosses colors that no image has. The extra channels respond there, and " +
        "IG reports their gradients faithfully: the map describes the path, not the image.",
    },
    steps: {
      title: "Points on the path",
      text: "A computer adds up gradients at some points of the path only, here from the background to the image. " +
        "A detector switches close to its number or color, and so on a short piece of the path.",
      question: "50 points, evenly spaced. What is the lowest F1?",
      options: ["0", "About as with 50 Gauss-Legendre points", "Something else"],
      controls: ["image", "spacing", "steps"],
      start: { spacing: "midpoints" },
      sweep: "steps", series: "spacing", x: "number of points", ticks: [2, 5, 10, 20, 50, 100, 200, 400], log: true,
      found(points) {
        const even = at(points, 50, "midpoints");
        return even === 0 ? 0 : Math.abs(even - at(points, 50, "gauss-legendre")) <= 0.1 ? 1 : 2;
      },
      why: () => "A detector changes only very close to its own number. Evenly spaced points can step over these short pieces, where all " +
        "the gradient is. Gauss-Legendre points lie closer together at both ends of the path.",
    },
    forms: {
      title: "Same function, other weights",
      text: "All implementations compute the same function: their logits are equal for every image of integers. Their gradients differ " +
        "where ReLUs switch.",
      question: `Saliency explains the implementation “${CONTROLS.form.values[1]}”. What becomes of its lowest F1?`,
      options: ["It stays as it is", "It falls, but not to 0", "It falls to 0"],
      controls: ["image", "method", "form"],
      start: { method: "saliency" },
      asks: { method: "saliency" },
      sweep: "form", x: "implementation",
      found: ([plain, other]) => (Math.abs(other.y - plain.y) <= 0.02 ? 0 : other.y > 0 ? 1 : 2),
      why: () => "Saliency takes the slope at the image itself, exactly where the ReLUs of a relevant pixel switch. The slope there depends on " +
        "how the network is implemented; the function, and therefore the truth, does not.",
    },
    remove: {
      title: "Take pixels away",
      text: "Truth by intervention: give a pixel the background's color and look at the output. Click into the image, " +
        "or move in it with the arrow keys and press Enter.",
      question: "You take away one pixel of a patch. What does the output do?",
      options: ["It rises", "It falls", "It stays", "That depends on the pixel"],
      controls: ["image"],
      start: { method: "feature-ablation" },
      keys: " Arrow keys move, Enter takes the pixel away.",
      why: () => main.output === "probability"
        ? "The network counts colors. One pixel less of the target's color lowers its probability, one pixel less of a rival raises it, and " +
          "background changes nothing."
        : "Without a counted pixel the output changes; background changes nothing.",
    },
    curves: {
      title: "Deletion curves",
      text: "A deletion metric removes pixels, the most important first, and watches the output. A good order makes it fall early. Here the order " +
        "is the truth or pure noise, and removed pixels become background or black.",
      question: "With the background, the curve of noise lies above that of the truth. What becomes of this gap with black?",
      options: ["It stays about the same", "It shrinks to less than half", "It grows"],
      controls: ["image"],
      panel: "lines",
      why: () => "Removed pixels that become background simply stop counting. Black is a color that the images do not have: where the network has " +
        "channels for unseen colors, they respond to it, and the output depends on how many pixels are black more than on which.",
    },
    paint: {
      title: "Paint your own image",
      text: "Choose a color and paint: click, or move with the arrow keys and press Enter. The network answers at once, and the map shows what each " +
        "pixel does when it is removed.",
      controls: ["image", "method"],
      start: { method: "feature-ablation" },
      keys: " Arrow keys move, Enter paints.",
    },
    worlds: {
      title: "Place and context",
      text: "Other networks, each compiled from a rule. What a pixel does can depend on where it lies, and on what else " +
        "the image shows.",
      question: "Two pixels of one image have the same color. Can one raise the output and the other lower it?",
      options: ["Yes", "No"],
      controls: ["world", "image", "method"],
      sweep: "method", x: "method",
      found: () => (hasBothSigns(subjectOf(state)) ? 0 : 1),
      why: (where) => `The rule decides: ${where.claim} ${where.formula}.`,
    },
  };

  // State and address
  let state, cursor = { row: 0, column: 0 }, view = 0;
  const predictions = {};
  let free = {};
  const startOf = (scene) => ({ ...USUAL, ...SCENES[scene].start, scene, removed: [], every: false });
  const isOpen = () => !SCENES[state.scene].question || state.scene in predictions;
  const isEmbedded = new URLSearchParams(location.hash.slice(1)).has("embed");
  document.body.classList.toggle("embedded", isEmbedded);

  function stateFrom(hash) {
    const given = new URLSearchParams(hash.slice(1)), names = Object.keys(SCENES);
    const scene = names.find((name) => name === given.get("scene")) ?? names.find((name) => !data.scenes[name]);
    const found = startOf(scene), isRemoval = scene === "remove";
    for (const name of SCENES[scene].controls)
      found[name] = CONTROLS[name].values.find((each) => String(each) === given.get(name)) ?? found[name];
    const places = isRemoval && given.get("removed") ? given.get("removed").split(".") : [];
    const pixels = places.map((each) => parseInt(each, 36)).filter((p) => p >= 0 && p < main.side ** 2);
    const pixel = parseInt(given.get("pixel"), 36);
    if (scene === "network" && pixel >= 0 && pixel < main.side ** 2) found.pixel = pixel;
    const predicted = given.get("prediction"), option = Number(predicted) - 1;
    if (predicted === "skipped") predictions[scene] = -1;
    else if (option in (SCENES[scene].options ?? [])) predictions[scene] = option;
    return { ...found, removed: [...new Set(pixels)], every: isRemoval && given.get("every") === "1" };
  }

  function hashOf() {
    const { scene, removed, every } = state, start = startOf(scene), given = new URLSearchParams({ scene });
    for (const name of SCENES[scene].controls) if (state[name] !== start[name]) given.set(name, state[name]);
    if (isEmbedded) given.set("embed", "1");
    if (state.pixel !== null) given.set("pixel", state.pixel.toString(36));
    if (SCENES[scene].question && isOpen()) given.set("prediction", predictions[scene] < 0 ? "skipped" : predictions[scene] + 1);
    if (removed.length) given.set("removed", removed.map((p) => p.toString(36)).join("."));
    if (every) given.set("every", "1");
    return `#${given}`;
  }

  const subjectOf = ({ scene, world }) =>
    scene === "worlds" ? data.subjects.findIndex((each, k) => k > 0 && each.name === world) : 0;

  /** What the worker is asked for. */
  function requestOf(from) {
    const { scene, image, method, form, spacing, baseline, strength, steps, painted } = from;
    const subject = subjectOf(from), { background } = data.subjects[subject];
    const hasStrength = SCENES[scene].controls.includes("strength");
    const network = hasStrength ? `strength ${strength}` : scene === "forms" ? form : "plain";
    const start = scene === "baseline" ? background.map(() => baseline) : background;
    const changes = [...painted].map(([p, k]) => [p, k]);
    const over = painted.size ? { painted: { palette: PALETTE.map(({ color }) => color), changes } } : {};
    return { subject, network, image: image - 1, method, baseline: start, steps, spacing, ...over };
  }

  // Colors to paint with: those that have names, the background, and one that no image has
  const toColor = (color) => `rgb(${(color.length === 1 ? Array(3).fill(color[0]) : color).map((each) => (255 * each) / main.highest)})`;
  const PALETTE = [
    ...main.named,
    ...(main.named.length ? [] : [{ name: "highest value", color: main.background.map(() => main.highest) }]),
    { name: "background", color: main.background },
    ...(main.highest > 1 ? [{ name: "a color that no image has", color: main.background.map((_, c) => 90 + 40 * c) }] : []),
  ];

  // Images and truth
  function tensor(place) {
    const [offset, , ...shape] = data.tensors[place], size = shape.reduce((product, each) => product * each, 1);
    return data.values.subarray(offset + (state.image - 1) * size, offset + state.image * size);
  }
  function colorsOf({ images, side, background }) {
    const found = tensor(images);
    return range(side * side, (p) => background.map((_, c) => found[c * side * side + p]));
  }
  const isBackground = (where, color) => color.every((value, c) => value === where.background[c]);
  function hasBothSigns(subject) {
    const where = data.subjects[subject], truth = tensor(where.truth), signs = {};
    colorsOf(where).forEach((color, p) => (signs[color] ??= new Set()).add(truth[p]));
    return Object.values(signs).some((each) => each.has(1) && each.has(-1));
  }
  /** A pixel of an image that the output depends on. */
  function firstPixel(image) {
    const [offset] = data.tensors[main.truth], pixels = main.side ** 2;
    const matters = (p) => ![0, 3].includes(data.values[offset + image * pixels + p]);
    return Math.max(range(pixels, (p) => p).findIndex(matters), 0);
  }
  function targetOf(where) {
    const { name } = where.classes[where.targets[state.image - 1]];
    return where.output === "probability" ? `the probability of ${name}` : "the output";
  }

  // Drawing
  const SVG = new Set(["svg", "line", "title", "polyline", "circle", "rect", "text"]);
  function element(tag, attributes = {}, ...content) {
    const node = SVG.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...content);
    return node;
  }
  function draw(name, side, words, colorOf) {
    const canvas = $(name);
    canvas.width = canvas.height = side;
    const context = canvas.getContext("2d"), picture = context.createImageData(side, side);
    for (let p = 0; p < side * side; p++) picture.data.set([...colorOf(p), 255], 4 * p);
    context.putImageData(picture, 0, 0);
    canvas.setAttribute("aria-label", words);
  }
  const fromHex = (color) => [1, 3, 5].map((place) => parseInt(color.slice(place, place + 2), 16));
  const signless = { 2: fromHex(data.colors.mixed), 3: fromHex(data.colors.unasked) };
  const signedColor = (share) => (share > 0 ? RAISES : LOWERS).map((end) => 255 + (end - 255) * Math.abs(share));

  function showImage(where) {
    const { keys: words, touch } = { ...SCENES[state.scene], ...free[state.scene] }, { painted } = state;
    const colors = colorsOf(where), gone = new Set(state.removed), isTouchable = Boolean(words) && isOpen();
    const patches = colors.filter((color) => !isBackground(where, color)).length;
    const keys = isTouchable ? words : "";
    const counts = `${patches} of ${colors.length} pixels are not background, ${gone.size} taken away`;
    draw("image", where.side, `Image ${state.image}: ${counts}.${keys}`, (p) => {
      const color = gone.has(p) ? where.background : painted.has(p) ? PALETTE[painted.get(p)].color : colors[p];
      return (color.length === 1 ? [color[0], color[0], color[0]] : color).map((value) => (255 * value) / where.highest);
    });
    $("image").setAttribute("role", isTouchable ? "application" : "img");
    $("image").classList.toggle("touchable", isTouchable);
    $("image").tabIndex = isTouchable ? 0 : -1;
    $("cursor").hidden = true;
  }

  function showTruth(where) {
    const truth = tensor(where.truth), count = (t) => truth.filter((each) => each === t).length;
    const [up, down, mixed, rest] = [1, -1, 2, 3].map(count);
    const others = (mixed ? `, ${mixed} do both` : "") + (rest ? `, ${rest} are not asked` : "");
    say("truth-text", `pixels: ${up} raise ${targetOf(where)}, ${down} lower it${others}`);
    draw("truth", where.side, `Truth: ${$("truth-text").textContent}`, (p) => signless[truth[p]] ?? signedColor(truth[p]));
    $("signless-key").hidden = !mixed && !rest;
  }

  function showMap(where, map, title, words) {
    const count = (sign) => map.filter((value) => sign * value > 0).length, [up, down] = [count(1), count(-1)];
    const [highest, lowest] = [Math.max, Math.min].map((most) => map.reduce((found, value) => most(found, value), 0));
    say("map-title", title);
    say("map-text", words ?? (up + down ? `pixels: ${up} positive, ${down} negative` : "empty: 0 at every pixel"));
    draw("map", where.side, `${title}: ${$("map-text").textContent}`, (p) =>
      signedColor(map[p] > 0 ? map[p] / highest : map[p] < 0 ? -map[p] / lowest : 0));
    document.body.classList.remove("waiting");
  }

  function showAnswer(where, { logits, output }) {
    const answers = where.classes.map(({ name, color }, k) => {
      const item = element("span", { class: k === where.targets[state.image - 1] ? "target" : "" });
      if (color) item.append(element("span", { class: "chip" }));
      if (color) item.firstChild.style.background = `rgb(${color})`;
      item.append(`${name} ${number(logits[k])}`, where.output === "probability" ? ` (${(100 * output[k]).toFixed(1)} %)` : "");
      return item;
    });
    $("answer").replaceChildren(...answers);
  }

  function showScores(scores) {
    const rows = PARTS.map((name) => {
      const fill = element("i"), value = scores[name];
      fill.style.width = `${100 * (value ?? 0)}%`;
      const track = element("div", { class: "track", "aria-hidden": "true" }, fill, element("b"));
      const shown = element("data", { class: "value", value: value ?? "" }, score(value));
      const kind = value === scores.lowest ? "score lowest" : "score";
      return element("div", { class: kind, "data-part": name }, element("span", {}, name), track, shown);
    });
    $("scores").replaceChildren(...rows);
  }

  /** Points have x, label, series, isNow and, as soon as it is known, y. */
  function showChart(scene, points) {
    const width = Math.max($("chart").clientWidth, 260), height = 250, left = 30, right = 16, top = 34, bottom = 56;
    const wide = width - left - right, base = height - bottom, step = wide / points.length;
    const isLine = "ticks" in scene, scale = scene.log ? Math.log : Number;
    const low = scale(points[0].x), high = scale(points[points.length - 1].x);
    const X = (x, k) => left + (isLine ? ((scale(x) - low) / (high - low)) * wide : (k + 0.5) * step);
    const Y = (value) => base - value * (base - top);
    const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
    const put = (tag, attributes, ...content) => svg.append(element(tag, attributes, ...content));
    const write = (x, y, words, anchor, kind = "") => put("text", { x, y, "text-anchor": anchor, class: kind }, words);
    for (const [value, name] of [[0, "0"], [data.solved, "2/3"], [1, "1"]]) {
      put("line", { x1: left, x2: width - right, y1: Y(value), y2: Y(value), class: value === data.solved ? "gamma" : "grid" });
      write(left - 6, Y(value) + 4, name, "end");
    }
    const families = [...new Set(points.map(({ series }) => series))];
    families.forEach((series, place) => {
      const kind = place ? "second " : "", known = points.filter((point) => point.series === series && point.y !== undefined);
      if (series) {
        const x = left + 6 + 130 * place;
        put("circle", { cx: x, cy: 10, r: 4, class: `${kind}point` });
        write(x + 9, 14, SPACINGS[series], "start");
      }
      const corners = known.map(({ x, y }) => `${X(x)},${Y(y)}`).join(" ");
      if (isLine) put("polyline", { points: corners, class: `${kind}line` });
      for (const { x, y, isNow } of isLine ? known : [])
        put("circle", { cx: X(x), cy: Y(y), r: isNow ? 6 : 2, class: `${kind}point${isNow ? " now" : ""}` });
    });
    for (const tick of scene.ticks ?? []) write(X(tick), base + 18, String(tick), "middle");
    if (isLine) write(left + wide / 2, height - 10, scene.x, "middle");
    else
      points.forEach(({ label, y, isNow }, k) => {
        const x = X(0, k), size = Math.min(step * 0.6, 64), kind = isNow ? "strong" : "";
        label.split(" ").forEach((word, row) => write(x, base + 16 + 13 * row, word, "middle", kind));
        if (y === undefined) return;
        const box = { x: x - size / 2, y: Y(y), width: size, height: Math.max(base - Y(y), 1) };
        put("rect", { ...box, class: isNow ? "bar now" : "bar" });
        write(x, Y(y) - 6, score(y), "middle", kind);
      });
    const known = points.filter(({ y }) => y !== undefined), most = known.length ? best(known) : null;
    const words = most ? ` Highest: ${score(most.y)} at ${most.label}${most.series ? `, ${SPACINGS[most.series]}` : ""}.` : "";
    svg.setAttribute("aria-label", `Lowest F1 by ${scene.x}.${words}`);
    $("chart").replaceChildren(svg);
  }

  // Results: the map first, then what the chart lacks
  const kept = new Map();
  function lowestOf(request) {
    const key = JSON.stringify(request);
    if (!kept.has(key)) {
      const entry = {};
      entry.known = ask("scores", request).then(({ lowest }) => (entry.y = lowest));
      kept.set(key, entry);
    }
    return kept.get(key);
  }

  function pointsOf({ sweep, series }) {
    const families = series ? CONTROLS[series].values : [undefined];
    const pairs = families.flatMap((family) => CONTROLS[sweep].values.map((x) => [family, x]));
    return pairs.map(([family, x]) => {
      const here = { ...state, [sweep]: x, ...(series && { [series]: family }) };
      const isNow = state[sweep] === x && (!series || state[series] === family);
      return { x, series: family, isNow, label: CONTROLS[sweep].names?.[x] ?? String(x), entry: lowestOf(requestOf(here)) };
    });
  }
  const known = (points) => points.map((point) => ({ ...point, y: point.entry.y }));

  async function showSweep(scene, now) {
    const points = pointsOf(scene), redraw = () => now === view && showChart(scene, known(points));
    say("chart-title", `Lowest F1 by ${scene.x}`);
    redraw();
    await Promise.all(points.map((point) => point.entry.known.then(redraw)));
    const isAsked = Object.entries(scene.asks ?? {}).every(([name, value]) => state[name] === value);
    if (now === view && isAsked) conclude(scene, scene.found(known(points)));
  }

  function conclude(scene, option) {
    const mine = predictions[state.scene], before = mine < 0 ? "" : `You predicted: “${scene.options[mine]}”. `;
    say("predicted", `${scene.question} ${before}In this image: “${scene.options[option]}”.`);
    $("predicted").hidden = false;
    say("why", `Why? ${scene.why(data.subjects[subjectOf(state)])}`);
    $("why").hidden = false;
  }

  async function showResult(scene, now) {
    const where = data.subjects[subjectOf(state)], found = await ask("map", requestOf(state));
    if (now !== view) return;
    showMap(where, found.map, METHODS[state.method]);
    showAnswer(where, found);
    showScores(found.scores);
    const parts = PARTS.map((name) => `${name} ${score(found.scores[name])}`).join(", ");
    say("status", `${METHODS[state.method]}: lowest F1 ${score(found.scores.lowest)} (${parts}).`);
    if (scene.sweep) showSweep(scene, now);
    else {
      const colors = colorsOf(where), effects = found.map.filter((_, p) => !isBackground(where, colors[p]));
      const kinds = [effects.some((each) => each < 0), effects.some((each) => each > 0), effects.some((each) => each === 0)];
      conclude(scene, kinds.filter(Boolean).length > 1 ? 3 : kinds.indexOf(true));
    }
  }

  /** Scenes that show the network itself. */
  async function showFree(scene, now) {
    const where = data.subjects[0], request = requestOf(state), { view: drawIt } = free[state.scene];
    const drawn = drawIt ? drawIt(request, state, now) : null;
    if (state.scene === "curves") {
      const option = await drawn;
      document.body.classList.remove("waiting");
      return now === view && conclude(scene, option);
    }
    if (state.scene === "path") {
      const map = await drawn;
      if (map) showMap(where, map, "The map so far");
    }
    const found = await ask("map", request);
    if (now !== view) return undefined;
    if (state.scene !== "path") showMap(where, found.map, METHODS[state.method]);
    showAnswer(where, found);
    if (state.scene === "paint") say("status", `${state.painted.size} pixels painted. ${targetOf(where)} is ${number(found.output[where.targets[state.image - 1]])}.`);
    return undefined;
  }

  async function showRemoval(now) {
    const { removed } = state, target = main.targets[state.image - 1];
    const answers = await ask("removal", { ...requestOf(state), removed });
    if (now !== view) return;
    const effects = new Float64Array(main.side ** 2), values = answers.map(({ output }) => output[target]);
    removed.forEach((p, k) => (effects[p] = values[k] - values[k + 1]));
    showMap(main, effects, "What each pixel did", removed.length ? undefined : "nothing is taken away yet");
    showAnswer(main, answers[removed.length]);
    const [before, after] = values.slice(-2), verb = after < before ? "raised it" : after > before ? "lowered it" : "did nothing";
    const change = `${targetOf(main)} went from ${number(before)} to ${number(after)}. The pixel ${verb}.`;
    say("status", removed.length ? `${nameOf(removed.at(-1))}: ${change}` : "All pixels are there.");
  }

  // The whole view
  function show() {
    const now = ++view, scene = SCENES[state.scene], where = data.subjects[subjectOf(state)], reason = data.scenes[state.scene];
    worker.postMessage({ forget: true });
    for (const [key, { y }] of kept) if (y === undefined) kept.delete(key);
    if (location.hash !== hashOf()) history.replaceState(null, "", hashOf());
    $("link").href = hashOf();
    for (const button of document.querySelectorAll("#scenes button"))
      button.setAttribute("aria-current", button.dataset.scene === state.scene ? "step" : "false");
    say("title", scene.title);
    say("text", state.scene === "worlds" ? `${scene.text} This one: ${where.claim}` : scene.text);
    say("inapplicable", `Not in this page: ${reason}`);
    $("inapplicable").hidden = !reason;
    $("stage").hidden = Boolean(reason);
    if (reason) return;
    const isRemoval = state.scene === "remove", isPartial = isRemoval && !state.every;
    document.body.classList.toggle("closed", !isOpen());
    document.body.classList.toggle("waiting", isOpen());
    $("prediction").hidden = isOpen();
    $("predicted").hidden = true;
    $("removal").hidden = !isRemoval;
    $("truth-figure").hidden = $("results").hidden = isPartial;
    $("chart-section").hidden = isRemoval;
    $("why").hidden = true;
    const isFree = state.scene in free;
    for (const name of ["way", "lines"]) $(name).hidden = scene.panel !== name;
    document.body.classList.toggle("small", scene.panel === "way");
    $("brushes").hidden = state.scene !== "paint";
    if (isFree) $("results").hidden = true;
    if (state.scene === "paint") $("truth-figure").hidden = true;
    $("map-figure").hidden = state.scene === "curves";
    for (const name of ["status", "answer"]) say(name, "");
    showOptions(scene);
    showControls(scene);
    showImage(where);
    if (!isOpen()) return;
    showTruth(where);
    if (isFree) showFree(scene, now);
    else if (isPartial) showRemoval(now);
    else showResult(scene, now);
  }

  function button(label, attributes, click) {
    const made = element("button", { type: "button", ...attributes }, ...label);
    made.addEventListener("click", click);
    return made;
  }

  function showOptions(scene) {
    if (!scene.question) return;
    say("question", scene.question);
    const choose = (option) => () => {
      predictions[state.scene] = option;
      show();
      $("main").focus({ preventScroll: true });
    };
    const options = scene.options.map((label, k) => button([label], {}, choose(k)));
    $("options").replaceChildren(...options, button(["Skip"], { class: "skip-it" }, choose(-1)));
  }

  function showControls(scene) {
    const names = scene.controls.filter((name) => isOpen() || name === "image" || name === "world");
    if ([...$("controls").children].map((each) => each.dataset.control).join() !== names.join())
      $("controls").replaceChildren(...names.map(control));
    for (const name of names) {
      const place = CONTROLS[name].values.indexOf(state[name]), box = document.querySelector(`[data-control=${name}]`);
      if (CONTROLS[name].names) box.querySelector("select").selectedIndex = place;
      else {
        box.querySelector("input").value = place;
        box.querySelector("input").setAttribute("aria-valuetext", said(name, state[name]));
        box.querySelector("b").textContent = said(name, state[name]);
      }
    }
  }

  function control(name) {
    const { label, values, names } = CONTROLS[name];
    const options = names ? values.map((value) => element("option", {}, String(names[value]))) : [];
    const field = element(names ? "select" : "input", names ? {} : { type: "range", min: 0, max: values.length - 1 }, ...options);
    field.addEventListener("input", () => {
      const value = values[names ? field.selectedIndex : Number(field.value)];
      state = { ...state, [name]: value, removed: [], every: false };
      show();
    });
    const head = element("span", {}, label, ...(names ? [] : [": ", element("b")]));
    return element("label", { "data-control": name, class: names ? "" : "wide" }, head, field);
  }

  // Taking pixels away, by mouse and keyboard
  const nameOf = (p) => `Row ${Math.floor(p / main.side) + 1}, column ${(p % main.side) + 1}`;
  main.pixels = main.targets.map((_, image) => firstPixel(image));
  const panel = (name, svg) => $(name).replaceChildren(svg);
  free = explore({ main, ask, element, draw, say, panel, point, nameOf, toColor, now: () => view });
  const inside = (place) => Math.max(0, Math.min(main.side - 1, Math.floor(place)));
  function point(row, column) {
    cursor = { row: inside(row), column: inside(column) };
    const { style } = $("cursor"), share = 100 / main.side;
    [style.top, style.left] = [cursor.row, cursor.column].map((place) => `${place * share}%`);
    style.width = style.height = `${share}%`;
    $("cursor").hidden = false;
    return cursor.row * main.side + cursor.column;
  }
  function touch(p) {
    if (state.scene === "remove") return takeAway(p);
    state = { ...state, ...free[state.scene].touch(p, state) };
    show();
    return point(cursor.row, cursor.column);
  }
  function takeAway(p) {
    if (state.removed.includes(p)) return say("status", `${nameOf(p)} is taken away already.`);
    state = { ...state, removed: [...state.removed, p], every: false };
    show();
    return point(cursor.row, cursor.column);
  }
  $("image").addEventListener("click", (event) => {
    if (!SCENES[state.scene].keys || !isOpen()) return;
    const { top, left, width, height } = $("image").getBoundingClientRect();
    touch(point(((event.clientY - top) / height) * main.side, ((event.clientX - left) / width) * main.side));
  });
  $("image").addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (move) {
      const length = event.shiftKey ? 8 : 1;
      const p = point(cursor.row + length * move[0], cursor.column + length * move[1]), color = colorsOf(main)[p];
      const what = isBackground(main, color) ? "background" : `color ${color.join(", ")}`;
      say("status", `${nameOf(p)}: ${state.removed.includes(p) ? "taken away" : what}.`);
    } else if (event.key === "Enter" || event.key === " ") touch(point(cursor.row, cursor.column));
    else return;
    event.preventDefault();
  });
  const removeAll = (every) => () => {
    state = { ...state, removed: [], every };
    show();
  };
  $("remove-all").addEventListener("click", removeAll(true));
  $("put-back").addEventListener("click", removeAll(false));

  const brushes = PALETTE.map(({ name, color }, k) => {
    const chip = element("span", { class: "chip" });
    chip.style.background = toColor(color);
    const made = button([chip, name], { "aria-pressed": String(k === 0) }, () => {
      state = { ...state, brush: k };
      brushes.forEach((each, place) => each.setAttribute("aria-pressed", String(place === k)));
    });
    return made;
  });
  const clear = () => {
    state = { ...state, painted: new Map() };
    show();
  };
  $("brushes").append(...brushes, button(["Undo all"], {}, clear));

  const open = () => {
    state = stateFrom(location.hash);
    show();
  };
  const buttons = Object.entries(SCENES).map(([name, { title }], k) =>
    button([element("span", {}, `Scene ${k + 1}`), title], { "data-scene": name }, () => {
      state = { ...startOf(name), image: state.image, brush: state.brush };
      cursor = { row: 0, column: 0 };
      history.pushState(null, "", hashOf());
      show();
    }));
  $("scenes").replaceChildren(...buttons.map((each) => element("li", {}, each)));
  window.addEventListener("popstate", open); // a new address is one, too
  window.addEventListener("resize", () => {
    const scene = SCENES[state.scene];
    if (isOpen() && scene.sweep && !data.scenes[state.scene]) showChart(scene, known(pointsOf(scene)));
  });
  open();

  const pairs = data.subjects.flatMap((each, subject) => Object.keys(each.networks).map((network) => ({ subject, network })));
  const different = (await Promise.all(pairs.map((pair) => ask("check", pair)))).reduce((sum, each) => sum + each, 0);
  const compared = `${pairs.length} networks and ${main.targets.length} images each`;
  say("check", different
    ? `Warning: of ${compared}, ${different} give other logits here than with torch.`
    : `Checked in this browser: the logits of ${compared} are equal (==) to those of torch.`);
})();
