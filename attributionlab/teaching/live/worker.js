"use strict";
// The network: forward, backward, attributions and scores, apart from what is drawn.

// Layers. A convolution is a sparse matrix whose borders are resolved when it is made, and a linear layer
// is one too. Leading 1 x 1 layers see a pixel at a time: they run once for each color of an image.

const sizeOf = (shape) => shape.reduce((product, each) => product * each, 1);
const range = (n, valueOf) => Array.from({ length: n }, (_, k) => valueOf(k));

function tensorOf(data, place) {
  const [offset, ...shape] = data.tensors[place];
  return { shape, values: data.values.subarray(offset, offset + sizeOf(shape)) };
}

/** Matrix of a convolution; row r has the entries from starts[r] to starts[r + 1]. */
function convolution(data, layer, [channels, height, width]) {
  const { shape, values } = tensorOf(data, layer.weight);
  const [outputs, , tall = 1, wide = 1] = shape; // a linear layer has no kernel
  const { stride: [down, across] = [1, 1], padding: [above, left] = [0, 0] } = layer;
  const rows = Math.floor((height + 2 * above - tall) / down) + 1;
  const columns = Math.floor((width + 2 * left - wide) / across) + 1;
  const biases = layer.bias === undefined ? null : tensorOf(data, layer.bias).values;
  const bias = new Float32Array(outputs * rows * columns), starts = [0], index = [], weight = [];
  for (let o = 0; o < outputs; o++) {
    const taps = [], own = channels * tall * wide;
    values.subarray(o * own, (o + 1) * own).forEach((value, at) => {
      const here = at % (tall * wide);
      if (value !== 0) taps.push([Math.floor(at / (tall * wide)), Math.floor(here / wide), here % wide, value]);
    });
    for (let r = 0; r < rows; r++)
      for (let c = 0; c < columns; c++) {
        bias[(o * rows + r) * columns + c] = biases ? biases[o] : 0;
        for (const [i, a, b, value] of taps) {
          const y = r * down - above + a, x = c * across - left + b;
          if (y < 0 || y >= height || x < 0 || x >= width) continue;
          index.push((i * height + y) * width + x);
          weight.push(value);
        }
        starts.push(index.length);
      }
  }
  const matrix = { bias, starts, index: Int32Array.from(index), weight: Float32Array.from(weight) };
  return { kind: "matrix", ...matrix, columns: channels * height * width, shape: [outputs, rows, columns] };
}

function isPointwise(data, { kind, weight, stride, padding }) {
  if (kind !== "conv2d") return kind === "relu";
  const [, , tall, wide] = tensorOf(data, weight).shape;
  return [tall, wide, ...stride].every((each) => each === 1) && padding.every((each) => each === 0);
}

/** A network made ready: layers for single pixels, then those for whole maps. */
function prepared(data, network, shape) {
  const first = network.layers.findIndex((layer) => !isPointwise(data, layer));
  const pixel = [], map = [];
  let here = [shape[0], 1, 1], logits = 0;
  network.layers.forEach((layer, place) => {
    if (place === first) here = [here[0], shape[1], shape[2]];
    const into = place < first ? pixel : map;
    if (layer.kind === "flatten") here = [sizeOf(here), 1, 1];
    else if (layer.weight === undefined) into.push(layer);
    else {
      into.push(convolution(data, layer, here));
      here = into[into.length - 1].shape;
    }
    if (place + 1 === network.logits) logits = map.length;
  });
  return { pixel, map, logits };
}

// Values of n columns lie behind each other: value v of column j is at v * n + j.

/** Outputs of every layer, the input first. Each is rounded to float32, as torch's are. */
function forward(layers, input, n) {
  const values = [input];
  for (const layer of layers) {
    const x = values[values.length - 1];
    let y;
    if (layer.kind === "matrix") {
      const { bias, starts, index, weight } = layer;
      y = new Float32Array(bias.length * n);
      for (let r = 0; r < bias.length; r++)
        for (let j = 0; j < n; j++) {
          let sum = bias[r];
          for (let k = starts[r]; k < starts[r + 1]; k++) sum += weight[k] * x[index[k] * n + j];
          y[r * n + j] = sum;
        }
    } else if (layer.kind === "relu") {
      y = x.map((value) => (value > 0 ? value : 0));
    } else {
      const highest = Math.max(...x), powers = Array.from(x, (value) => Math.exp(value - highest));
      const sum = powers.reduce((total, each) => total + each, 0);
      y = Float32Array.from(powers, (each) => each / sum);
    }
    values.push(y);
  }
  return values;
}

/** Derivative by the input, given that by the output; ReLU'(0) = 0, as in torch. */
function backward(layers, values, gradient, n, guided) {
  for (let place = layers.length - 1; place >= 0; place--) {
    const layer = layers[place], x = values[place];
    if (layer.kind === "matrix") {
      const { bias, starts, index, weight } = layer, before = new Float64Array(layer.columns * n);
      for (let r = 0; r < bias.length; r++)
        for (let j = 0; j < n; j++) {
          const slope = gradient[r * n + j];
          if (slope === 0) continue;
          for (let k = starts[r]; k < starts[r + 1]; k++) before[index[k] * n + j] += weight[k] * slope;
        }
      gradient = before;
    } else if (layer.kind === "relu") {
      gradient = gradient.map((slope, at) => (x[at] > 0 && !(guided && slope < 0) ? slope : 0));
    } else {
      const y = values[place + 1];
      const mean = gradient.reduce((sum, slope, at) => sum + slope * y[at], 0);
      gradient = gradient.map((slope, at) => y[at] * (slope - mean));
    }
  }
  return gradient;
}

// Images: the colors of an image, and for each pixel which of them it has.

function imageOf(data, subject, place) {
  const { shape, values } = tensorOf(data, subject.images);
  const [, channels, height, width] = shape, pixels = height * width;
  const known = new Map([[subject.background.join(), 0]]), colors = [subject.background.slice()];
  const index = new Int32Array(pixels);
  for (let p = 0; p < pixels; p++) {
    const color = range(channels, (c) => values[(place * channels + c) * pixels + p]);
    if (!known.has(color.join())) known.set(color.join(), colors.push(color) - 1);
    index[p] = known.get(color.join());
  }
  return { colors, index, pixels };
}

/** Colors side by side, as the layers for single pixels take them. */
function columnsOf(colors) {
  const channels = colors[0].length, n = colors.length, x = new Float32Array(channels * n);
  colors.forEach((color, k) => color.forEach((value, c) => (x[c * n + k] = value)));
  return x;
}

/** The features of each pixel, from those of its color. */
function spread(features, n, index) {
  const count = features.length / n, pixels = index.length, x = new Float32Array(count * pixels);
  for (let f = 0; f < count; f++)
    for (let p = 0; p < pixels; p++) x[f * pixels + p] = features[f * n + index[p]];
  return x;
}

function run(network, colors, index) {
  const pixel = forward(network.pixel, columnsOf(colors), colors.length);
  const map = forward(network.map, spread(pixel[pixel.length - 1], colors.length, index), 1);
  return { pixel, map, output: map[map.length - 1], logits: map[network.logits] };
}

const oneHot = (length, place) => Float64Array.from(range(length, (at) => Number(at === place)));

/** What each feature does per unit of its own color's step: for each feature, one number a color. */
function directional(network, pixel, n, steps) {
  const count = pixel[pixel.length - 1].length / n;
  return range(count, (f) => {
    const chosen = Float64Array.from(range(count * n, (at) => Number(Math.floor(at / n) === f)));
    const slopes = backward(network.pixel, pixel, chosen, n, false);
    return steps.map((step, k) => step.reduce((sum, each, c) => sum + each * slopes[c * n + k], 0));
  });
}

/** Add to a map: the derivative of the output at these colors, along one step for each of them. */
function addDerivative(map, network, { index }, colors, target, steps, share = 1) {
  const n = colors.length, pixel = forward(network.pixel, columnsOf(colors), n);
  const effects = directional(network, pixel, n, steps);
  // Between two thresholds nothing changes: most points of a path need no more than this.
  if (effects.every((effect) => effect.every((each) => each === 0))) return;
  const values = forward(network.map, spread(pixel[pixel.length - 1], n, index), 1);
  const slopes = backward(network.map, values, oneHot(values[values.length - 1].length, target), 1, false);
  effects.forEach((effect, f) => {
    for (let p = 0; p < map.length; p++) map[p] += share * effect[index[p]] * slopes[f * map.length + p];
  });
}

// Attributions, summed over channels
/** Points in [0, 1] and their weights. */
const nodes = {
  midpoints: (n) => range(n, (k) => [(k + 0.5) / n, 1 / n]),
  "gauss-legendre": (n) =>
    range(n, (k) => {
      // Newton's method for the roots of the Legendre polynomial P_n, from their usual estimate.
      let x = Math.cos((Math.PI * (k + 0.75)) / (n + 0.5)), slope = 1;
      for (let round = 0; round < 100; round++) {
        let before = 1, here = x;
        for (let m = 2; m <= n; m++)
          [before, here] = [here, ((2 * m - 1) * x * here - (m - 1) * before) / m];
        slope = n === 1 ? 1 : (n * (x * here - before)) / (x * x - 1);
        const move = here / slope;
        x -= move;
        if (Math.abs(move) < 1e-15) break;
      }
      return [(1 + x) / 2, 1 / ((1 - x * x) * slope * slope)];
    }),
};

// Each adds to a map of zeros.
const methods = {
  "integrated-gradients"(map, network, image, target, { baseline, steps, spacing }) {
    const moves = image.colors.map((color) => color.map((value, c) => value - baseline[c]));
    for (const [at, weight] of nodes[spacing](steps)) {
      const share = Math.fround(at); // rounded as by torch
      const colors = moves.map((move) => move.map((each, c) => baseline[c] + Math.fround(share * each)));
      addDerivative(map, network, image, colors, target, moves, weight);
    }
  },
  "input-x-gradient"(map, network, image, target) {
    addDerivative(map, network, image, image.colors, target, image.colors);
  },
  saliency(map, network, image, target) {
    addDerivative(map, network, image, image.colors, target, image.colors.map((color) => color.map(() => 1)));
  },
  // What is kept of a slope depends on the slope: every pixel goes through all layers by itself.
  "guided-backprop"(map, network, { colors, index, pixels }, target) {
    const found = run(network, Array.from(index, (color) => colors[color]), index.map((_, p) => p));
    const middle = backward(network.map, found.map, oneHot(found.output.length, target), 1, true);
    const slopes = backward(network.pixel, found.pixel, middle, pixels, true);
    slopes.forEach((slope, at) => (map[at % pixels] += slope));
  },
  "feature-ablation"(map, network, { colors, index, pixels }, target) {
    const n = colors.length, features = forward(network.pixel, columnsOf(colors), n).pop();
    const x = spread(features, n, index), outputOf = () => forward(network.map, x, 1).pop()[target];
    const paint = (p, k) => {
      for (let f = 0; f < features.length / n; f++) x[f * pixels + p] = features[f * n + k];
    };
    const whole = outputOf();
    for (let p = 0; p < pixels; p++) {
      if (index[p] === 0) continue;
      paint(p, 0);
      map[p] = whole - outputOf();
      paint(p, index[p]);
    }
  },
};

// Scores
/** F1 of each part against a truth of -1, 0, +1, 2 (relevant without a sign) and 3 (not asked). */
function scores(map, truth) {
  // Each side is scaled by its own maximum, over the pixels that a part is about.
  const f1 = (isAbout, isTrue) => {
    const sums = [1, -1].map((sign) => {
      let most = 0, given = 0, hit = 0;
      truth.forEach((t, p) => {
        const value = isAbout(t, sign) ? Math.max(sign * map[p], 0) : 0;
        most = Math.max(most, value);
        given += value;
        if (isTrue(t)) hit += value;
      });
      return most > 0 ? [given / most, hit / most] : [0, 0];
    });
    const there = truth.filter(isTrue).length, [given, hit] = [0, 1].map((k) => sums[0][k] + sums[1][k]);
    return there ? (2 * hit) / (given + there) : null;
  };
  const found = {
    overall: f1((t) => t < 3, (t) => t !== 0 && t < 3),
    positive: f1((t, sign) => t < 2 && sign > 0, (t) => t === 1),
    negative: f1((t, sign) => t < 2 && sign < 0, (t) => t === -1),
  };
  return { ...found, lowest: Math.min(...Object.values(found).filter((each) => each !== null)) };
}

// Requests
let data = null;
const ready = new Map();

/** What is made once for each name. */
function once(name, make) {
  if (!ready.has(name)) ready.set(name, make());
  return ready.get(name);
}

function parts({ subject, network, image, painted }) {
  const where = data.subjects[subject];
  const shape = [where.background.length, where.side, where.side];
  const drawn = once(`image ${subject} ${image}`, () => imageOf(data, where, image));
  return {
    where,
    network: once(`network ${subject} ${network}`, () => prepared(data, where.networks[network], shape)),
    image: painted ? paintedOver(drawn, painted) : drawn,
    target: where.targets[image],
  };
}

/** An image in which pixels have colors of a palette. */
function paintedOver({ colors, index, pixels }, { palette, changes }) {
  const changed = index.slice();
  for (const [p, k] of changes) changed[p] = colors.length + k;
  return { colors: [...colors, ...palette], index: changed, pixels };
}

const requests = {
  /** A map with its scores, and what the network answers. */
  map(request) {
    const { where, network, image, target } = parts(request);
    const map = new Float64Array(image.pixels);
    methods[request.method](map, network, image, target, request);
    const { logits, output } = run(network, image.colors, image.index);
    const from = request.image * image.pixels, truths = tensorOf(data, where.truth).values;
    return { map, scores: scores(map, truths.subarray(from, from + image.pixels)), logits, output };
  },
  scores: (request) => requests.map(request).scores,
  /** Answers after none, one, two ... of the given pixels took the background's color. */
  removal(request) {
    const { network, image } = parts(request), index = image.index.slice();
    return [null, ...request.removed].map((p) => {
      if (p !== null) index[p] = 0;
      const { logits, output } = run(network, image.colors, index);
      return { logits, output };
    });
  },
  /** A pixel's way through the network: the channels of its color, and what the outputs are without it; for each of the
   *  last channels, the only named color that it responds to, and how much its value there raises the outputs. */
  trace({ pixel, ...request }) {
    const { where, network, image, target } = parts(request), color = image.colors[image.index[pixel]];
    const values = forward(network.pixel, columnsOf([color]), 1), index = image.index.slice();
    const layers = network.pixel.map(({ kind, starts, index: from, weight }, place) => {
      const entries = (_, r) => range(starts[r + 1] - starts[r], (k) => [from[starts[r] + k], weight[starts[r] + k]]);
      return { kind, values: values[place + 1], wires: starts ? Array.from({ length: starts.length - 1 }, entries) : null };
    });
    const { pixel: features, logits, output } = run(network, image.colors, index), silenced = features.pop();
    const effects = Array.from(values.pop(), (value, f) => {
      if (!value) return null;
      const x = spread(silenced, image.colors.length, index);
      x[f * index.length + pixel] = 0;
      const { [network.logits]: silent } = forward(network.map, x, 1);
      return Array.from(logits, (each, k) => each - silent[k]);
    });
    const n = where.named.length, responses = n ? forward(network.pixel, columnsOf(where.named.map((each) => each.color)), n).pop() : [];
    const names = effects.map((_, f) => {
      const heard = where.named.filter((_, k) => responses[f * n + k]);
      return heard.length === 1 ? heard[0].name : "";
    });
    index[pixel] = 0;
    const without = run(network, image.colors, index);
    return { color, layers, target, logits, output, effects, names, without: without.logits, outputWithout: without.output };
  },
  /** Points of a path: the colors there, the sums of the detector's channels, and the map so far. */
  path({ upto, ...request }) {
    const { network, image, target } = parts(request), { baseline, steps } = request, map = new Float64Array(image.pixels);
    const moves = image.colors.map((color) => color.map((value, c) => value - baseline[c])), n = image.colors.length;
    const points = [[0, 0], ...nodes["gauss-legendre"](steps).sort(([one], [other]) => one - other), [1, 0]];
    const at = (share) => moves.map((move) => move.map((each, c) => baseline[c] + Math.fround(Math.fround(share) * each)));
    const counts = image.index.reduce((found, k) => (found[k]++, found), range(n, () => 0));
    const channelsOf = (colors) => {
      const last = forward(network.pixel, columnsOf(colors), n).pop();
      return range(last.length / n, (f) => counts.reduce((sum, count, k) => sum + count * last[f * n + k], 0));
    };
    for (const [share, weight] of points.slice(0, upto + 1))
      if (weight) addDerivative(map, network, image, at(share), target, moves, weight);
    const channels = points.map(([share]) => channelsOf(at(share)));
    return { map, channels, silent: channelsOf(image.colors), shares: points.map(([share]) => share), colors: at(points[upto][0]), index: image.index };
  },
  /** The output while pixels are removed in the order of the truth or of noise, for two replacements. */
  curves(request) {
    const { where, network, image, target } = parts(request), n = image.colors.length, steps = 36;
    const from = request.image * image.pixels, truth = tensorOf(data, where.truth).values.subarray(from, from + image.pixels);
    let random = request.image + 1;
    const noise = range(image.pixels, () => (random = (random * 48271) % 2147483647)); // Park and Miller's generator
    const orders = { truth: range(image.pixels, (p) => (Math.abs(truth[p]) === 1 ? truth[p] : 0) + noise[p] / 2 ** 32), noise };
    return Object.entries(orders).flatMap(([order, score]) => {
      const sorted = range(image.pixels, (p) => p).sort((one, other) => score[other] - score[one]);
      return ["background", "black"].map((by) => {
        const colors = [...image.colors, where.background.map(() => 0)], index = image.index.slice();
        const values = range(steps + 1, (step) => {
          const last = Math.round((step * image.pixels) / steps), first = Math.round(((step - 1) * image.pixels) / steps);
          for (const p of sorted.slice(Math.max(first, 0), last)) index[p] = by === "black" ? n : 0;
          return run(network, colors, index).output[target];
        });
        return { order, by, values };
      });
    });
  },
  /** For how many images the logits of a network are not equal to those of torch. */
  check({ subject, network }) {
    return data.subjects[subject].logits[network].filter((expected, image) => {
      const each = parts({ subject, network, image });
      const { logits } = run(each.network, each.image.colors, each.image.index);
      return expected.length !== logits.length || expected.some((value, k) => value !== logits[k]);
    }).length;
  },
};

// What is asked for now goes first, then what a chart lacks, then checks; the page forgets charts only.
const ORDER = ["trace", "path", "map", "removal", "curves", "scores", "check"];
let waiting = [], busy = false;

async function work() {
  busy = true;
  while (waiting.length) {
    waiting.sort((one, other) => ORDER.indexOf(one.kind) - ORDER.indexOf(other.kind));
    const { id, kind, request } = waiting.shift();
    try {
      postMessage({ id, result: requests[kind](request) });
    } catch (error) {
      postMessage({ id, error: String(error) });
    }
    await new Promise((resolve) => setTimeout(resolve)); // lets newer messages in
  }
  busy = false;
}

onmessage = ({ data: message }) => {
  if (message.load) data = message.load;
  else if (message.forget) waiting = waiting.filter(({ kind }) => kind === "check");
  else {
    waiting.push(message);
    if (!busy) work();
  }
};
