// Runs the model beside the page, which stays responsive.
//
// Messages in: {page, wanted} with page.json, then images {id, data, height, width}. Messages out:
// {text} on what is loading, {backend, note} once loaded, {id, prediction, milliseconds, network}
// per image; {id, error} where something failed. Messages are processed one after the other.

import {planar, resize} from './resizing.js';
import {readOutputs} from './outputs.js';

const NAMES = {webgpu: 'WebGPU', wasm: 'WASM'};
const OFFLINE = 'A page of `mmeffvit web MODEL OUT_DIR --bundle` has the runtime in its folder';
const MEBIBYTE = 2 ** 20;

let page;
let model; // {ort, session, build}
let queue = Promise.resolve(); // a session runs one image at a time

self.addEventListener('message', ({data: message}) => {
  queue = queue.then(() => handle(message));
});

async function handle(message) {
  try {
    if (message.page) {
      page = message.page;
      await load(message.wanted);
    } else {
      await answer(message);
    }
  } catch (error) {
    postMessage({id: message.id, error: String(error?.message ?? error)});
  }
}

/** Load the model with WebGPU, or with WASM where WebGPU is missing, slower or fails. */
async function load(wanted) {
  const reason = wanted === 'wasm' ? 'as requested in the address' : await whyNoGPU(wanted);
  if (reason) return open('wasm', reason);
  try {
    return await open('webgpu', '');
  } catch (error) {
    return open('wasm', `WebGPU failed (${error.message})`);
  }
}

async function whyNoGPU(wanted) {
  if (!self.isSecureContext) return 'WebGPU needs https';
  const adapter = await navigator.gpu?.requestAdapter().catch(() => null);
  if (!adapter) return 'this browser offers no WebGPU';
  // on the CPU it is slower than WASM, but can be tried
  const isEmulated = adapter.info?.isFallbackAdapter || adapter.isFallbackAdapter;
  return isEmulated && wanted !== 'webgpu' ? 'WebGPU is emulated here' : '';
}

async function open(build, note) {
  const {script, binary} = page.runtime[build];
  const ort = await importChecked(script);
  ort.env.logLevel = 'error';
  ort.env.wasm.wasmBinary = await download(binary, 'the runtime');
  const content = await download({address: page.model}, page.name);
  postMessage({text: 'Starting the model'});
  const options = {executionProviders: [build]};
  const session = await ort.InferenceSession.create(new Uint8Array(content), options);
  model = {ort, session, build};
  postMessage({backend: NAMES[build], note});
}

/** Import a script, if it has the expected hash: workers have no other way to check it. */
async function importChecked(script) {
  const content = await download(script, 'the runtime');
  const address = URL.createObjectURL(new Blob([content], {type: 'text/javascript'}));
  return import(address); // which stays valid, as threads start from it
}

async function download({address, integrity}, what) {
  const fix = address.startsWith('https:') ? `. ${OFFLINE}` : '';
  const fail = (reason) => {
    throw new Error(`${what} cannot be loaded from ${address}: ${reason}${fix}`);
  };
  const response = await fetch(new URL(address, self.location), {integrity}).catch((error) =>
    fail(error.message),
  );
  if (!response.ok) fail(`${response.status} ${response.statusText}`);
  const size = Number(response.headers.get('Content-Length')) / MEBIBYTE;
  if (size >= 1) postMessage({text: `Loading ${what} (${size.toFixed(0)} MiB)`});
  return response.arrayBuffer();
}

async function answer({id, data, height, width}) {
  const start = performance.now();
  const picture = {data, height, width, channels: 4};
  const resized = resize(picture, page);
  const {image} = resized;
  const values = planar(image);
  const before = performance.now();
  const outputs = await run(values, [1, 3, image.height, image.width]);
  const network = performance.now() - before;
  const prediction = readOutputs(outputs, resized, [height, width], page);
  postMessage({id, prediction, milliseconds: performance.now() - start, network});
}

/** Run the model; if WebGPU fails on this picture, with WASM from now on. */
async function run(values, shape) {
  const feed = () => ({[model.session.inputNames[0]]: new model.ort.Tensor('float32', values, shape)});
  try {
    return await model.session.run(feed());
  } catch (error) {
    if (model.build === 'wasm') throw error;
    await open('wasm', `WebGPU failed (${error.message})`);
    return model.session.run(feed());
  }
}
