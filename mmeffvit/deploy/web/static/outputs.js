// Reads the outputs of a model in pixels of the picture, as the predictor in Python does.

/**
 * What a model found.
 *
 * @param outputs Tensors of ONNX Runtime by name, for one picture.
 * @param resized Of resizing.js.
 * @param size Height and width of the picture.
 * @param page page.json.
 * @returns {objects} of a detector, best first: label, score, box [left, top, right, bottom] and
 *     perhaps mask {left, top, width, height, inside}; or {labelMap} of a segmentor, row by row.
 */
export function readOutputs(outputs, resized, size, page) {
  if (outputs.label_map) return {labelMap: readLabelMap(outputs.label_map, resized.content, size)};
  const [labels, scores, boxes] = ['labels', 'scores', 'boxes'].map((name) => outputs[name].data);
  const factors = [...resized.factors, ...resized.factors].map(Math.fround);
  const objects = [];
  for (let i = 0; i < scores.length; i++) {
    if (!(scores[i] > 0)) continue; // an unused entry
    const box = factors.map((factor, side) => Math.fround(boxes[4 * i + side] / factor));
    const found = {label: Number(labels[i]), score: scores[i], box};
    if (outputs.masks) {
      const side = outputs.masks.dims.at(-1);
      const mask = outputs.masks.data.subarray(i * side * side, (i + 1) * side * side);
      found.mask = pasteMask(mask, side, box, size, page.mask_threshold);
    }
    const [height, width] = size;
    found.box = box.map((value, side) => Math.min(Math.max(value, 0), side % 2 ? height : width));
    const [left, top, right, bottom] = found.box;
    if (right > left && bottom > top) objects.push(found);
  }
  return {objects};
}

/** Without the padding, resized; see resize_nearest in predictor.py. */
function readLabelMap({data, dims}, content, [height, width]) {
  const stride = dims.at(-1);
  const columns = nearest(content[1], width);
  const rows = nearest(content[0], height);
  const labels = new Int32Array(height * width);
  for (let y = 0, i = 0; y < height; y++) {
    const start = rows[y] * stride;
    for (let x = 0; x < width; x++) labels[i++] = Number(data[start + columns[x]]);
  }
  return labels;
}

function nearest(before, after) {
  return Int32Array.from({length: after}, (_, i) => Math.floor(((2 * i + 1) * before) / (2 * after)));
}

/** Resize the mask of a box bilinearly to the pixels it covers; see paste_mask in predictor.py. */
export function pasteMask(mask, side, box, [height, width], threshold) {
  const [left, top, right, bottom] = box;
  const columns = interpolation(left, right, width, side);
  const rows = interpolation(top, bottom, height, side);
  const inside = new Uint8Array(rows.taps.length * columns.taps.length);
  let i = 0;
  for (const row of rows.taps) {
    for (const column of columns.taps) {
      let sum = 0;
      for (const [y, a] of row) {
        for (const [x, b] of column) sum += a * b * mask[y * side + x];
      }
      inside[i++] = sum >= threshold ? 1 : 0;
    }
  }
  const size = {width: columns.taps.length, height: rows.taps.length};
  return {left: columns.first, top: rows.first, ...size, inside};
}

/** The pixels from `start` to `end`, and the cells of the grid that each lies between. */
function interpolation(start, end, side, cells) {
  const first = Math.min(Math.max(Math.floor(start) - 1, 0), side);
  const last = Math.max(Math.min(Math.ceil(end) + 1, side), first);
  const taps = Array.from({length: last - first}, (_, i) => {
    const place = ((first + i + 0.5 - start) / Math.max(end - start, 1e-6)) * cells - 0.5;
    const low = Math.floor(place);
    return [low, low + 1]
      .filter((cell) => 0 <= cell && cell < cells)
      .map((cell) => [cell, 1 - Math.abs(place - cell)]);
  });
  return {first, taps};
}
