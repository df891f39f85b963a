// Resizes and pads a picture as the predictor in Python does, to the last bit.
//
// A picture is {data, height, width, channels}: `channels` values per pixel, row by row, of which
// the first three are red, green and blue.

const CHANNELS = 3;

/**
 * Resize and pad according to the page's settings; see runtime/resizing.py.
 *
 * @param picture 8-bit values.
 * @param page `resize`, `fixed` and `fill` of page.json.
 * @returns {image, content, factors}: the picture for the model, its height and width without
 *     padding, and the scale factors of width and height.
 */
export function resize(picture, page) {
  const {resize: how, fixed} = page;
  let size = sizeOf(picture, how, fixed);
  let image = resample(picture, size, how);
  if (how.divisor > 1) {
    const up = how.rounding === 'up';
    const more = up ? how.divisor - 1 : 0;
    size = size.map((side, axis) => {
      const multiple = Math.max(Math.floor((side + more) / how.divisor), 1) * how.divisor;
      return side === fixed?.[axis] ? side : Math.min(multiple, fixed?.[axis] ?? Infinity);
    });
    image = up ? bilinear(image, size) : resizeCorners(image, size);
  }
  const pads = how.pad || how.pad_to_square || how.pad_divisor > 1;
  image = pad(image, fixed ?? paddedSize(size, how), pads ? how.pad_value : page.fill);
  return {image, content: size, factors: [size[1] / picture.width, size[0] / picture.height]};
}

function sizeOf({height, width}, how, fixed) {
  const scaled = (factor) =>
    [height, width].map((side) => Math.max(Math.floor(side * factor + 0.5), 1));
  if (fixed) {
    return how.keep_ratio ? scaled(Math.min(fixed[0] / height, fixed[1] / width)) : fixed;
  }
  if (!how.scale) return [height, width];
  if (!how.keep_ratio) return [how.scale[1], how.scale[0]];
  const [long, short] = [Math.max(...how.scale), Math.min(...how.scale)];
  if (how.truncated) return truncatedSize(height, width, long, short);
  return scaled(Math.min(long / Math.max(height, width), short / Math.min(height, width)));
}

function truncatedSize(height, width, long, short) {
  const [low, high] = [Math.min(height, width), Math.max(height, width)];
  const sides =
    short * high > long * low
      ? [Math.max(Math.floor((long * low) / high), 1), long]
      : [short, Math.floor((short * high) / low)];
  return height <= width ? sides : sides.reverse();
}

function paddedSize(size, how) {
  if (how.pad) return [how.pad[1], how.pad[0]];
  const sides = how.pad_to_square ? [Math.max(...size), Math.max(...size)] : size;
  return sides.map((side) => Math.ceil(side / how.pad_divisor) * how.pad_divisor);
}

function resample(image, size, how) {
  if (image.height === size[0] && image.width === size[1]) return image;
  return how.backend === 'pillow'
    ? antialiased(image, size, KERNELS[how.interpolation])
    : bilinear(image, size);
}

/** OpenCV's INTER_LINEAR of 8-bit images: weights have 11 bits, products lose 4 and 16. */
export function bilinear(image, [height, width]) {
  const {data, channels} = image;
  const columns = linearTaps(image.width, width, true);
  const rows = linearTaps(image.height, height, false);
  const out = new Uint8Array(height * width * CHANNELS);
  const lines = new Map(); // interpolated rows of the image, of which two are needed at a time

  const line = (row) => {
    if (lines.has(row)) return lines.get(row);
    if (lines.size > 3) lines.delete(lines.keys().next().value);
    const values = new Int32Array(width * CHANNELS);
    const start = row * image.width;
    for (let x = 0, i = 0; x < width; x++) {
      const first = (start + columns.first[x]) * channels;
      const second = (start + columns.second[x]) * channels;
      const [a, b] = [columns.weights[2 * x], columns.weights[2 * x + 1]];
      for (let c = 0; c < CHANNELS; c++) values[i++] = data[first + c] * a + data[second + c] * b;
    }
    lines.set(row, values);
    return values;
  };

  for (let y = 0, i = 0; y < height; y++) {
    const [upper, lower] = [line(rows.first[y]), line(rows.second[y])];
    const [a, b] = [rows.weights[2 * y], rows.weights[2 * y + 1]];
    for (let j = 0; j < upper.length; j++) {
      const sum = ((a * (upper[j] >> 4)) >> 16) + ((b * (lower[j] >> 4)) >> 16);
      out[i++] = (sum + 2) >> 2;
    }
  }
  return {data: out, height, width, channels: CHANNELS};
}

/** The two pixels of every new one, and their weights; columns outside have weight 0, rows not. */
function linearTaps(before, after, isColumn) {
  const scale = 1 / (after / before);
  const taps = {
    first: new Int32Array(after),
    second: new Int32Array(after),
    weights: new Int32Array(2 * after),
  };
  for (let i = 0; i < after; i++) {
    const place = Math.fround((i + 0.5) * scale - 0.5);
    const low = Math.floor(place);
    const outside = low < 0 || low >= before - 1;
    const fraction = isColumn && outside ? 0 : Math.fround(place - low);
    taps.first[i] = clamp(low, before - 1);
    taps.second[i] = clamp(low + 1, before - 1);
    taps.weights[2 * i] = roundEven(Math.fround(1 - fraction) * 2048);
    taps.weights[2 * i + 1] = roundEven(fraction * 2048);
  }
  return taps;
}

const sinc = (x) => (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x));

const KERNELS = {
  bilinear: {radius: 1, weight: (x) => Math.max(1 - Math.abs(x), 0)},
  bicubic: {
    radius: 2,
    weight(place) {
      const [x, a] = [Math.abs(place), -0.5];
      if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
      return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
    },
  },
  lanczos: {radius: 3, weight: (x) => (-3 <= x && x < 3 ? sinc(x) * sinc(x / 3) : 0)},
};

/** Pillow's resize of 8-bit images: along rows, then along columns, weights of 22 bits. */
export function antialiased(image, [height, width], kernel) {
  const tapsOf = (before, after) => antialiasedTaps(before, after, kernel);
  const rows = along(image, width, false, Uint8ClampedArray, tapsOf, weigh);
  return along(rows, height, true, Uint8ClampedArray, tapsOf, weigh);
}

/** Resize one side of an image: a new pixel weighs old ones, `start` and those after it. */
function along(image, side, isHeight, Values, tapsOf, weighed) {
  const before = isHeight ? image.height : image.width;
  if (before === side) return image;
  const [height, width] = isHeight ? [side, image.width] : [image.height, side];
  const step = (isHeight ? width : 1) * image.channels;
  const taps = tapsOf(before, side);
  const out = new Values(height * width * CHANNELS);
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const {start, weights} = taps[isHeight ? y : x];
      const first = (isHeight ? start * width + x : y * before + start) * image.channels;
      for (let c = 0; c < CHANNELS; c++) out[i++] = weighed(image.data, first + c, step, weights);
    }
  }
  return {data: out, height, width, channels: CHANNELS};
}

const BITS = 22;

function weigh(data, first, step, weights) {
  let sum = 1 << (BITS - 1);
  for (let k = 0, i = first; k < weights.length; k++, i += step) sum += data[i] * weights[k];
  return sum >> BITS;
}

function antialiasedTaps(before, after, {radius, weight}) {
  const scale = before / after;
  const stretch = Math.max(scale, 1);
  const support = radius * stretch;
  return Array.from({length: after}, (_, i) => {
    const center = (i + 0.5) * scale;
    const start = Math.max(Math.trunc(center - support + 0.5), 0);
    const end = Math.min(Math.trunc(center + support + 0.5), before);
    const raw = Array.from({length: end - start}, (_, k) =>
      weight((k + start - center + 0.5) * (1 / stretch)),
    );
    const total = raw.reduce((sum, value) => sum + value, 0);
    const fixed = raw.map((value) => {
      const scaled = (total === 0 ? value : value / total) * 2 ** BITS;
      return Math.trunc(scaled + (scaled < 0 ? -0.5 : 0.5));
    });
    return {start, weights: Int32Array.from(fixed)};
  });
}

/** Bilinear with aligned corners, to float32; see resize_corners in utils/images.py. */
export function resizeCorners(image, [height, width]) {
  const columns = along(image, height, true, Float32Array, cornerTaps, weighFloats);
  return along(columns, width, false, Float32Array, cornerTaps, weighFloats);
}

function weighFloats(data, first, step, weights) {
  let sum = 0;
  for (let k = 0, i = first; k < weights.length; k++, i += step) {
    sum += Math.fround(data[i] * weights[k]);
  }
  return sum;
}

function cornerTaps(before, after) {
  const step = Math.fround((before - 1) / Math.max(after - 1, 1));
  return Array.from({length: after}, (_, i) => {
    const place = Math.fround(i * step);
    const start = Math.min(Math.floor(place), Math.max(before - 2, 0));
    const part = Math.fround(place - start);
    return {start, weights: part ? [Math.fround(1 - part), part] : [1]};
  });
}

/** Pad at the bottom and on the right with a color, which OpenCV rounds for 8-bit images. */
function pad(image, [minHeight, minWidth], color) {
  const [height, width] = [Math.max(minHeight, image.height), Math.max(minWidth, image.width)];
  if (height === image.height && width === image.width) return image;
  const data = new image.data.constructor(height * width * CHANNELS);
  const values = data instanceof Float32Array ? color : color.map(roundEven);
  for (let i = 0; i < data.length; i++) data[i] = values[i % CHANNELS];
  for (let y = 0; y < image.height; y++) {
    for (let x = 0; x < image.width; x++) {
      const from = (y * image.width + x) * image.channels;
      const to = (y * width + x) * CHANNELS;
      for (let c = 0; c < CHANNELS; c++) data[to + c] = image.data[from + c];
    }
  }
  return {data, height, width, channels: CHANNELS};
}

/** (3, height, width), float32: one color after the other, as models take them. */
export function planar({data, height, width, channels}) {
  const area = height * width;
  const out = new Float32Array(CHANNELS * area);
  for (let c = 0; c < CHANNELS; c++) {
    for (let i = 0; i < area; i++) out[c * area + i] = data[i * channels + c];
  }
  return out;
}

const clamp = (value, high) => Math.min(Math.max(value, 0), high);

function roundEven(value) {
  const rounded = Math.round(value);
  return rounded - value === 0.5 && rounded % 2 ? rounded - 1 : rounded;
}
