// The page: takes images, runs the model on them, and shows the results.
//
// Every prediction is also dispatched on the document as the event 'prediction', with
// {prediction, milliseconds, network, backend} as its detail. Text of page.json, which comes from
// the model file, enters the page as text only.

import {css, colorOf, describe, draw, nameOf} from './drawing.js';
import {Model} from './model.js';
import {copy, hasLiveCamera, read, readFile, startCamera, stopCamera} from './sources.js';

const SPOKEN_EVERY = 3000; // ms between summaries for screen readers while the camera runs

const get = (id) => document.getElementById(id);
const view = Object.fromEntries(
  ['backend', 'camera', 'controls', 'drop', 'empty', 'error', 'facts', 'file', 'name', 'overlay',
    'picture', 'results', 'snapshot', 'snapshot-label', 'stage', 'status', 'summary', 'threshold',
    'threshold-row', 'threshold-value', 'timing'].map((id) => [id, get(id)]),
);

let page;
let model;
let backend = '';
let video = null; // while the camera runs
let shown = null; // the prediction for the picture on the page
let turn = 0; // number of the latest picture: results of earlier ones are ignored
let spokenAt = 0;

async function start() {
  const response = await fetch('page.json');
  if (!response.ok) throw new Error(`page.json: ${response.status} ${response.statusText}`);
  page = await response.json();
  describePage();
  model = new Model(page, (text) => (view.status.textContent = `${text} …`), onReady, showError);
  listen();
}

function describePage() {
  document.title = view.name.textContent = page.name;
  const sides = page.fixed ?? page.resize.scale?.slice().reverse();
  const rows = {
    Task: page.task,
    Classes: page.classes.join(', ') || 'not named in the file',
    'Image size': sides ? sides.join(' x ') : 'any',
    Runtime: `ONNX Runtime Web ${page.version}`,
  };
  for (const [name, value] of Object.entries(rows)) {
    view.facts.append(element('dt', name), element('dd', value));
  }
  view['threshold-row'].hidden = page.task === 'semantic segmentation';
  const isLive = hasLiveCamera();
  view.camera.hidden = !isLive;
  view['snapshot-label'].hidden = isLive;
}

function onReady(name, note) {
  backend = name;
  view.backend.textContent = note ? `${name}: ${note}.` : `${name}.`;
  view.controls.disabled = false;
  view.status.textContent = `Ready, with ${name}.`;
  document.documentElement.dataset.state = 'ready';
}

function listen() {
  for (const input of [view.file, view.snapshot]) {
    input.addEventListener('change', () => {
      if (input.files.length) showFile(input.files[0]);
      input.value = ''; // so that the same file can be chosen again
    });
  }
  view.camera.addEventListener('click', () => (video ? endCamera() : runCamera()));
  view.threshold.addEventListener('input', () => {
    view['threshold-value'].textContent = Number(view.threshold.value).toFixed(2);
    if (shown) show(true);
  });
  for (const name of ['dragover', 'dragleave', 'drop']) {
    document.addEventListener(name, (event) => {
      event.preventDefault();
      view.drop.classList.toggle('over', name === 'dragover');
      const file = name === 'drop' && event.dataTransfer.files[0];
      if (file && !view.controls.disabled) showFile(file);
    });
  }
  new ResizeObserver(() => shown && show(false)).observe(view.stage);
}

async function showFile(file) {
  endCamera();
  const mine = ++turn;
  clearError();
  try {
    view.status.textContent = `Processing ${file.name} …`;
    const picture = await readFile(file);
    if (mine !== turn) return;
    await look(picture, mine);
    if (mine === turn) view.status.textContent = file.name;
  } catch (error) {
    if (mine === turn) showError(error.message);
  }
}

async function runCamera() {
  const mine = ++turn;
  clearError();
  try {
    const started = await startCamera();
    if (mine !== turn) return stopCamera(started);
    video = started;
    view.camera.textContent = 'Stop the camera';
    view.status.textContent = 'The camera is on.';
    while (video && mine === turn) {
      await look(video, mine);
      await new Promise(requestAnimationFrame);
    }
  } catch (error) {
    if (mine !== turn) return;
    endCamera();
    showError(error.message);
  }
}

function endCamera() {
  if (!video) return;
  stopCamera(video);
  video = null;
  turn++;
  view.camera.textContent = 'Start the camera';
  view.status.textContent = 'The camera is off.';
}

/** Run the model on a picture or a frame, and show both, unless another one was chosen. */
async function look(source, mine) {
  const frame = document.createElement('canvas');
  copy(source, frame);
  const result = await model.run(read(frame));
  if (mine !== turn) return;
  copy(frame, view.picture);
  view.stage.hidden = false;
  view.empty.hidden = true;
  shown = result;
  show(!video || performance.now() - spokenAt > SPOKEN_EVERY);
  const detail = {...result, backend};
  document.dispatchEvent(new CustomEvent('prediction', {detail}));
}

/** Draw and list what was found, with the current threshold. */
function show(isSpoken) {
  const threshold = Number(view.threshold.value);
  draw(view.overlay, view.picture, shown.prediction, page, threshold);
  const {rows, sentence} = describe(shown.prediction, page, threshold);
  view.results.replaceChildren(...rows.map(makeRow));
  const [total, network] = [shown.milliseconds, shown.network].map((time) => time.toFixed(0));
  view.timing.textContent = `${total} ms per image, of which ${network} ms in the network.`;
  view.picture.setAttribute('aria-label', sentence);
  if (!isSpoken) return;
  spokenAt = performance.now();
  view.summary.textContent = sentence;
}

function makeRow({label, text}) {
  const row = document.createElement('li');
  const swatch = element('span', '');
  swatch.className = 'swatch';
  swatch.style.backgroundColor = css(colorOf(label, page));
  row.append(swatch, element('span', nameOf(label, page)), element('span', text));
  return row;
}

function element(tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

function showError(message) {
  view.error.textContent = message;
  view.error.hidden = false;
  view.status.textContent = '';
  document.documentElement.dataset.state = 'failed';
}

function clearError() {
  view.error.hidden = true;
  document.documentElement.dataset.state = 'ready';
}

start().catch((error) => showError(error.message));
