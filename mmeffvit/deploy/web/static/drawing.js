// Draws predictions over the picture, and describes them.

const OPACITY = 0.5; // of masks and label maps
const MAX_SIDE = 4096; // pixels of a canvas
const EQUAL_CONTRAST = 0.179; // luminance that black and white differ from equally

export const nameOf = (label, page) => page.classes[label] ?? String(label);

export const colorOf = (label, page) => page.palette[label % page.palette.length];

export const css = (color) => `rgb(${color.join(' ')})`;

/**
 * Draw a prediction into the canvas over the picture, sharp on this screen.
 *
 * @param overlay The canvas.
 * @param picture The canvas of the picture, below it.
 * @param prediction Of outputs.js.
 * @param page page.json.
 * @param threshold Objects with lower scores are left out.
 */
export function draw(overlay, picture, prediction, page, threshold) {
  const {width, height} = picture;
  const shown = Math.min(picture.clientWidth / width, picture.clientHeight / height);
  const scale = Math.min(Math.max(shown * devicePixelRatio, 1), MAX_SIDE / Math.max(width, height));
  Object.assign(overlay, {width: Math.round(width * scale), height: Math.round(height * scale)});
  const context = overlay.getContext('2d');
  context.scale(overlay.width / width, overlay.height / height);
  const objects = prediction.labelMap ? [] : visible(prediction, threshold).reverse(); // best on top
  if (prediction.labelMap || objects.some((found) => found.mask)) {
    const layer = new ImageData(width, height);
    const pixels = new Uint32Array(layer.data.buffer);
    const paints = page.palette.map(paintOf);
    prediction.labelMap?.forEach((label, i) => (pixels[i] = paints[label % paints.length]));
    for (const {label, mask} of objects) fill(pixels, width, mask, paints[label % paints.length]);
    const canvas = Object.assign(document.createElement('canvas'), {width, height});
    canvas.getContext('2d').putImageData(layer, 0, 0);
    context.drawImage(canvas, 0, 0);
  }
  for (const found of objects) drawBox(context, found, page, picture, 1 / (shown || 1));
}

export const visible = ({objects}, threshold) => objects.filter(({score}) => score >= threshold);

/** A translucent color as the four bytes of a pixel. */
function paintOf([red, green, blue]) {
  return new Uint32Array(Uint8Array.of(red, green, blue, 255 * OPACITY).buffer)[0];
}

function fill(pixels, width, mask, paint) {
  for (let y = 0, i = 0; y < mask.height; y++) {
    const start = (mask.top + y) * width + mask.left;
    for (let x = 0; x < mask.width; x++) if (mask.inside[i++]) pixels[start + x] = paint;
  }
}

/** A box with its name; `unit` is a pixel of the screen in pixels of the picture. */
function drawBox(context, {label, score, box}, page, {width, height}, unit) {
  const color = colorOf(label, page);
  const [left, top, right, bottom] = box;
  context.strokeStyle = context.fillStyle = css(color);
  context.lineWidth = 2 * unit;
  context.strokeRect(left, top, right - left, bottom - top);
  const text = `${nameOf(label, page)} ${score.toFixed(2)}`;
  context.font = `${13 * unit}px system-ui, sans-serif`;
  context.textBaseline = 'middle';
  const size = {width: context.measureText(text).width + 6 * unit, height: 18 * unit};
  const x = Math.min(Math.max(left - unit, 0), Math.max(width - size.width, 0));
  const y = Math.min(top >= size.height ? top - size.height : top, height - size.height);
  context.fillRect(x, y, size.width, size.height);
  context.fillStyle = luminance(color) > EQUAL_CONTRAST ? 'black' : 'white';
  context.fillText(text, x + 3 * unit, y + size.height / 2);
}

/** Relative luminance of a color of sRGB, in [0, 1]. */
function luminance(color) {
  const [red, green, blue] = color.map((value) => (value / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/**
 * What was found, in words: rows {label, text} for a list, and one sentence for screen readers.
 */
export function describe(prediction, page, threshold) {
  if (prediction.labelMap) return describeMap(prediction.labelMap, page);
  const objects = visible(prediction, threshold);
  const rows = objects.map(({label, score}) => ({label, text: score.toFixed(2)}));
  const counts = [...count(objects.map(({label}) => label))]
    .map(([label, number]) => `${number} ${nameOf(label, page)}`)
    .join(', ');
  const total = objects.length === 1 ? '1 object' : `${objects.length || 'No'} objects`;
  return {rows, sentence: counts ? `${total}: ${counts}.` : `${total}.`};
}

function describeMap(labelMap, page) {
  const rows = [...count(labelMap)].map(([label, number]) => {
    const percent = (100 * number) / labelMap.length;
    return {label, text: percent < 1 ? 'below 1 %' : `${percent.toFixed(0)} %`};
  });
  const first = rows.slice(0, 3).map(({label, text}) => `${nameOf(label, page)} ${text}`);
  const total = rows.length === 1 ? '1 class' : `${rows.length} classes`;
  return {rows, sentence: `${total}: ${first.join(', ')}${rows.length > 3 ? ', …' : '.'}`};
}

/** How often each label occurs, the most frequent first. */
function count(labels) {
  const counts = new Map();
  for (const label of labels) counts.set(label, (counts.get(label) ?? 0) + 1);
  return new Map([...counts].sort(([, a], [, b]) => b - a));
}
