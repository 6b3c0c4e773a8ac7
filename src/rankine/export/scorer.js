/**
 * Return {scores, rank} of a model in rankine's JSON format.
 *
 * Scores have the bits that rankine.Scorer computes for the same dictionaries: sums are taken in
 * the same order. Columns that a row lacks are missing or 0; columns that the model does not have
 * are ignored. What cannot be scored throws a TypeError or RangeError.
 */
function rankineScorer(model) {
  const transform = (type) => model.transforms.find((spec) => spec.type === type);
  const columns = transform("log_columns");
  const missing = transform("missing_values");
  const bins = transform("bins");
  const grids = transform("grids");
  const scalesLists = Boolean(transform("list_range"));
  const known = ["log_columns", "missing_values", "bins", "grids", "list_range"];
  for (const { type } of model.transforms) {
    if (!known.includes(type)) throw new TypeError(`the transform ${type} is not supported`);
  }
  const weights = new Map(model.indices.map((feature, k) => [feature, model.weights[k]]));
  const weightOf = (feature) => weights.get(feature) ?? 0;

  // -- values

  /** Return the value of a column; undefined if the row lacks it. */
  function valueIn(row, name) {
    return Object.prototype.hasOwnProperty.call(row, name) ? row[name] : undefined;
  }

  /** Return the text of a category; a missing value is empty. */
  function textOf(value) {
    if (value === null || value === undefined || Number.isNaN(value)) return "";
    if (typeof value === "string") return value;
    if (typeof value === "boolean" || typeof value === "bigint") return String(value);
    // Larger numbers skip integers, so that two categories could become one.
    if (Number.isInteger(value) && Math.abs(value) < 1e15) return String(value + 0);
    throw new TypeError(`${String(value)} is not a category: pass text, a whole number or a BigInt`);
  }

  /** Return a number, seconds since 1970 for a time, or NaN for a missing value. */
  function numberOf(value) {
    if (value === null || value === undefined) return NaN;
    if (["number", "boolean", "bigint"].includes(typeof value)) return Number(value);
    if (value instanceof Date) {
      const whole = Math.floor(value.getTime() / 1000);
      return seconds(whole, (value.getTime() - whole * 1000) * 1000);
    }
    if (typeof value === "string" && value[4] === "-") return secondsOf(value);
    throw new TypeError(`${JSON.stringify(value)} is not a number`);
  }

  const TIME = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d)(?::(\d\d)(?::(\d\d)(?:[.,](\d+))?)?)?(?:Z|([+-])(\d\d)(?::?(\d\d)(?::?(\d\d))?)?)?)?$/;

  /** Return the seconds since 1970 of a date or time in ISO 8601; without a zone it is in UTC. */
  function secondsOf(text) {
    const parts = TIME.exec(text);
    const [year, month, day, hour, minute, second] = (parts ?? []).slice(1, 7).map((part) => Number(part ?? 0));
    const start = new Date(0);
    if (parts) start.setUTCFullYear(year, month - 1, day);
    const isDay = year > 0 && start.getUTCMonth() === month - 1 && start.getUTCDate() === day;
    if (!parts || !isDay || hour > 23 || minute > 59 || second > 59) throw new TypeError(`${JSON.stringify(text)} is not a number or time`);
    const [offsetHour, offsetMinute, offsetSecond] = parts.slice(9, 12).map((part) => Number(part ?? 0));
    const offset = (offsetHour * 3600 + offsetMinute * 60 + offsetSecond) * (parts[8] === "-" ? -1 : 1);
    const microseconds = Number((parts[7] ?? "").slice(0, 6).padEnd(6, "0"));
    return seconds(start.getTime() / 1000 + hour * 3600 + minute * 60 + second - offset, microseconds);
  }

  function seconds(whole, microseconds) {
    return whole + (1000 * microseconds) / 1e9;
  }

  /** Return a feature as a number; NaN where it is missing and the model has a rule for that. */
  function featureOf(value, name) {
    if (missing && (value === null || Number.isNaN(value))) return NaN;
    const number = typeof value === "string" || value === null ? NaN : Number(value);
    if (Number.isFinite(number)) return number;
    throw new TypeError(`feature ${JSON.stringify(name)} is ${String(value)}, not a finite number`);
  }

  // -- raw columns: features of a row as increasing [feature, value]

  /** Return the bytes of a text in UTF-8; a lone surrogate has three. */
  function utf8(text) {
    const bytes = [];
    for (const character of text) {
      const code = character.codePointAt(0);
      if (code < 0x80) bytes.push(code);
      else if (code < 0x800) bytes.push(0xc0 | (code >> 6), 0x80 | (code & 63));
      else if (code < 0x10000) bytes.push(0xe0 | (code >> 12), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
      else bytes.push(0xf0 | (code >> 18), 0x80 | ((code >> 12) & 63), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
    }
    return bytes;
  }

  const SIGMA = [
    "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8",
    "905724afe1bc683d", "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a",
    "6fe9b308c2d714a5", "a2847615fb9e3cd0",
  ].map((row) => [...row].map((digit) => parseInt(digit, 16)));
  const START = BigUint64Array.of(
    0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
    0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n,
  );

  /** Return the first word of BLAKE2b with a digest of 8 bytes (RFC 7693). */
  function blake2b(bytes) {
    const state = START.slice();
    state[0] ^= 0x01010008n;
    const blocks = Math.max(1, Math.ceil(bytes.length / 128));
    const buffer = new Uint8Array(blocks * 128);
    buffer.set(bytes);
    const view = new DataView(buffer.buffer);
    const v = new BigUint64Array(16);
    const m = new BigUint64Array(16);
    const turn = (at, other, bits) => {
      const mixed = v[at] ^ v[other];
      v[at] = (mixed >> bits) | (mixed << (64n - bits));
    };
    const mix = (a, b, c, d, x, y) => {
      v[a] = v[a] + v[b] + x;
      turn(d, a, 32n);
      v[c] += v[d];
      turn(b, c, 24n);
      v[a] = v[a] + v[b] + y;
      turn(d, a, 16n);
      v[c] += v[d];
      turn(b, c, 63n);
    };
    for (let block = 0; block < blocks; block++) {
      for (let i = 0; i < 16; i++) m[i] = view.getBigUint64(block * 128 + i * 8, true);
      v.set(state);
      v.set(START, 8);
      v[12] ^= BigInt(Math.min(bytes.length, (block + 1) * 128));
      if (block === blocks - 1) v[14] = ~v[14];
      for (let round = 0; round < 12; round++) {
        const s = SIGMA[round % 10];
        for (let i = 0; i < 4; i++) mix(i, i + 4, i + 8, i + 12, m[s[2 * i]], m[s[2 * i + 1]]);
        for (let i = 0; i < 4; i++) {
          mix(i, 4 + ((i + 1) % 4), 8 + ((i + 2) % 4), 12 + ((i + 3) % 4), m[s[8 + 2 * i]], m[s[9 + 2 * i]]);
        }
      }
      for (let i = 0; i < 8; i++) state[i] ^= v[i] ^ v[i + 8];
    }
    return state[0];
  }

  /** Return a function of a row that lists its features. */
  function makeEncoder() {
    const binned = columns.binned ?? [];
    const listed = [
      ...columns.one_hot.map((field) => [field.column, field.values.length]),
      ...binned.map((field) => [field.column, field.cuts.length + 2]),
    ];
    // Only columns that a weight needs are read; a missing value may have one too.
    const used = [...new Set([...model.indices, ...(missing?.columns ?? [])])];
    const required = new Set(columns.numeric.filter((_, j) => used.includes(j)));
    let start = columns.numeric.length;
    const starts = new Map();
    for (const [column, size] of listed) {
      if (used.some((feature) => feature >= start && feature < start + size)) required.add(column);
      starts.set(column, start);
      start += size;
    }
    const hashStart = start;
    const hashed = [...columns.hashed.map((name) => [name]), ...columns.crosses];
    const readsHashed = used.some((feature) => feature >= hashStart);
    if (readsHashed) hashed.flat().forEach((name) => required.add(name));
    const crossed = new Set(columns.crosses.flat());
    const numbers = new Set([...columns.numeric, ...binned.map((field) => field.column)]);
    const values = columns.one_hot.map((field) => new Map(field.values.map((text, k) => [text, k])));
    const mask = (1n << BigInt(columns.hash_bits)) - 1n;
    const places = new Map();

    const text = (row, name) => {
      const value = valueIn(row, name);
      // A column that is a number elsewhere is the category of its number in a cross.
      return textOf(numbers.has(name) && crossed.has(name) ? numberOf(value) : value);
    };

    function hashedFeature(row, names) {
      const texts = names.map((name) => text(row, name));
      if (texts.includes("")) return -1;
      const key = names.map((name) => `${name}\x1f`).join("") + texts.join("\x1f");
      if (!places.has(key)) {
        // Keeps the memory of a long run bounded.
        if (places.size >= 1 << 18) places.clear();
        places.set(key, hashStart + Number(blake2b(utf8(key)) & mask));
      }
      return places.get(key);
    }

    return (row) => {
      const entries = [];
      columns.numeric.forEach((name, j) => {
        const x = required.has(name) ? numberOf(valueIn(row, name)) : NaN;
        if (Math.abs(x) === Infinity) throw new RangeError(`column ${JSON.stringify(name)} is infinite`);
        if (x !== 0 && (missing || !Number.isNaN(x))) entries.push([j, x]);
      });
      const features = [];
      columns.one_hot.forEach(({ column }, k) => {
        const place = required.has(column) ? values[k].get(text(row, column)) : undefined;
        if (place !== undefined) features.push(starts.get(column) + place);
      });
      for (const { column, cuts } of binned) {
        const x = required.has(column) ? numberOf(valueIn(row, column)) : NaN;
        features.push(starts.get(column) + cellOf(cuts, x, false));
      }
      if (readsHashed) features.push(...hashed.map((names) => hashedFeature(row, names)).filter((feature) => feature >= 0));
      features.sort((a, b) => a - b);
      features.forEach((feature, k) => {
        if (k > 0 && feature === features[k - 1]) entries[entries.length - 1][1] += 1;
        else entries.push([feature, 1]);
      });
      return entries;
    };
  }

  // -- weights of features

  /** Return the exact sum of numbers, rounded once (Shewchuk 1997). */
  function exactSum(numbers) {
    const partials = [];
    for (let x of numbers) {
      let count = 0;
      for (let y of partials) {
        if (Math.abs(x) < Math.abs(y)) [x, y] = [y, x];
        const high = x + y;
        const low = y - (high - x);
        if (low !== 0) partials[count++] = low;
        x = high;
      }
      partials.length = count;
      if (x !== 0) partials.push(x);
    }
    let high = partials.pop() ?? 0;
    let low = 0;
    while (partials.length && low === 0) {
      const x = high;
      const y = partials.pop();
      high = x + y;
      low = y - (high - x);
    }
    // At a tie, the sign of the next partial sum decides the direction.
    if (partials.length && (low < 0) === (partials[partials.length - 1] < 0)) {
      const twice = low * 2;
      if (twice === high + twice - high) high += twice;
    }
    return high;
  }

  /** Add products in four partial sums, as rankine does. */
  function product(entries) {
    const sums = [0, 0, 0, 0];
    const whole = entries.length - (entries.length % 4);
    entries.forEach(([feature, value], k) => {
      sums[k < whole ? k % 4 : 0] += value * weightOf(feature);
    });
    return sums[0] + sums[1] + (sums[2] + sums[3]);
  }

  const names = model.names ?? model.indices.map((feature) => String(feature + model.base));
  const positions = new Map(names.map((name, k) => [name, k]));
  const indicators = new Map();
  if (missing?.rule === "indicator" && model.missing_names) {
    model.missing_names.forEach((name, k) => indicators.set(name, missing.columns[k]));
  }

  /** List the weighted features of a row. */
  function readFeatures(row) {
    const entries = [];
    for (const [name, value] of Object.entries(row)) {
      if (value === undefined) continue;
      const k = positions.get(name);
      if (k !== undefined) entries.push([model.indices[k], featureOf(value, name)]);
      else if (indicators.has(name) && (value === null || Number.isNaN(value))) entries.push([indicators.get(name), NaN]);
    }
    return entries.sort(([a], [b]) => a - b);
  }

  /** Fill missing values in place; return what they add to the scores. */
  function fill(lists) {
    const constants = new Map((missing.columns ?? []).map((feature, k) => [feature, missing.values[k]]));
    const lowest = new Map();
    if (missing.rule === "query_min") {
      const counts = new Map();
      for (const [feature, value] of lists.flat()) {
        counts.set(feature, (counts.get(feature) ?? 0) + 1);
        if (!Number.isNaN(value)) lowest.set(feature, Math.min(lowest.get(feature) ?? Infinity, value));
      }
      // A row that does not have the feature has a zero there.
      for (const [feature, count] of counts) {
        if (count < lists.length) lowest.set(feature, Math.min(lowest.get(feature) ?? 0, 0));
      }
    }
    return lists.map((entries) => {
      let added = 0;
      for (const entry of entries) {
        if (!Number.isNaN(entry[1])) continue;
        const constant = constants.get(entry[0]) ?? 0;
        if (missing.rule === "indicator") added += constant;
        entry[1] = { mean: constant, query_min: lowest.get(entry[0]) ?? 0 }[missing.rule] ?? 0;
      }
      return added;
    });
  }

  /** Divide each feature by its range within the list, in place. */
  function scale(lists) {
    const ranges = new Map();
    for (const [feature, value] of lists.flat()) {
      const range = ranges.get(feature) ?? { low: value, high: value, count: 0 };
      ranges.set(feature, { low: Math.min(range.low, value), high: Math.max(range.high, value), count: range.count + 1 });
    }
    for (const entry of lists.flat()) {
      const range = ranges.get(entry[0]);
      const absent = range.count < lists.length;
      const low = absent ? Math.min(range.low, 0) : range.low;
      const high = absent ? Math.max(range.high, 0) : range.high;
      const half = high * 0.5 - low * 0.5;
      entry[1] = half === 0 ? 0 : (entry[1] * 0.5) / half;
    }
  }

  function featureScores(rows) {
    if (model.transforms.length === 0) {
      return rows.map((row) => exactSum(readFeatures(row).map(([feature, value]) => weightOf(feature) * value)));
    }
    const lists = rows.map(readRow);
    const added = missing ? fill(lists) : [];
    if (scalesLists) scale(lists);
    return lists.map((entries, i) => product(entries) + (added[i] ?? 0));
  }

  // -- tables

  /** Return the cell of a value: by order of the cuts, or the category; missing values are last. */
  function cellOf(cuts, x, unordered) {
    if (Number.isNaN(x)) return cuts.length + 1;
    let low = 0;
    let high = cuts.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (x < cuts[middle]) high = middle;
      else low = middle + 1;
    }
    if (!unordered) return low;
    return low > 0 && cuts[low - 1] === x ? low - 1 : cuts.length;
  }

  /** Return a function of a row that adds up the entries of all tables. */
  function makeTables() {
    const linear = new Set(bins.linear);
    const unordered = new Set(bins.unordered);
    const starts = [];
    let start = 0;
    bins.cuts.forEach((cuts, j) => {
      starts.push(start);
      if (!linear.has(j)) start += cuts.length + 2;
    });
    const sizes = (grids?.axes ?? []).map((axis) => Math.max(...axis.cells) + 1);
    const pairs = (grids?.pairs ?? []).map(([a, b]) => {
      const pair = { first: grids.axes[a], second: grids.axes[b], width: sizes[b], start };
      start += sizes[a] * sizes[b];
      return pair;
    });
    let readers = bins.cuts.map((_, j) => {
      const name = bins.names ? bins.names[j] : String(j + model.base);
      return (row) => {
        const value = valueIn(row, name) ?? (linear.has(j) ? 0 : NaN);
        if (typeof value === "string") throw new TypeError(`column ${JSON.stringify(name)} is ${JSON.stringify(value)}, not a number`);
        return Number(value);
      };
    });
    if (columns) {
      const fields = columns.one_hot.map(({ column, values }) => {
        const codes = new Map([["", NaN], ...values.map((text, k) => [text, k])]);
        return (row) => codes.get(textOf(valueIn(row, column))) ?? Infinity;
      });
      readers = [...columns.numeric.map((name) => (row) => numberOf(valueIn(row, name))), ...fields];
    }
    return (row) => {
      const numbers = readers.map((read) => read(row));
      const cells = numbers.map((x, j) => cellOf(bins.cuts[j], x, unordered.has(j)));
      let score = 0;
      cells.forEach((cell, j) => {
        if (!linear.has(j)) score += weightOf(starts[j] + cell);
      });
      for (const { first, second, width, start } of pairs) {
        score += weightOf(start + first.cells[cells[first.column]] * width + second.cells[cells[second.column]]);
      }
      bins.linear.forEach((j, k) => {
        score += weightOf(start + k) * numbers[j];
      });
      return score;
    };
  }

  const readRow = columns && !bins ? makeEncoder() : readFeatures;
  const tableScore = bins ? makeTables() : null;

  /** Score the rows of one list: objects with a value per column. */
  function scores(rows) {
    const result = tableScore ? rows.map(tableScore) : featureScores(rows);
    result.forEach((score, i) => {
      if (!Number.isFinite(score)) throw new RangeError(`the score of row ${i} is ${score}`);
    });
    return result;
  }

  /** Return the positions of the k best rows, best first; equal scores keep their order. */
  function rank(rows, k = rows.length) {
    const rowScores = scores(rows);
    return rows.map((_, i) => i).sort((a, b) => rowScores[b] - rowScores[a]).slice(0, k);
  }

  return { scores, rank };
}
