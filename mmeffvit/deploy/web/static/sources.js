// Images for the model: from files, and from the camera.

const MAX_PIXELS = 4096 * 4096; // canvases of phones end there
const ORIENTATION = 0x0112; // the EXIF tag
const UPRIGHT = 1;
const CAMERA = {width: {ideal: 640}, height: {ideal: 480}, facingMode: 'environment'};

/** Live video needs a secure context: https, or a server on the same host. */
export const hasLiveCamera = () => Boolean(window.isSecureContext && navigator.mediaDevices);

/** Decode a file with the colors as they are stored, upright. */
export async function readFile(file) {
  if (await orientationOf(file) !== UPRIGHT) {
    throw new Error(`${file.name} is rotated or mirrored by EXIF, which other programs ignore in ` +
      'this format: save it upright and without the tag');
  }
  const options = {colorSpaceConversion: 'none', premultiplyAlpha: 'none'};
  const bitmap = await createImageBitmap(file, options).catch(() => {
    throw new Error(`${file.name} is not an image that this browser reads`);
  });
  if (bitmap.width * bitmap.height > MAX_PIXELS) {
    const size = `${bitmap.width} x ${bitmap.height}`;
    throw new Error(`${file.name} has ${size} pixels; at most 4096 x 4096 are possible`);
  }
  return bitmap;
}

/** The EXIF orientation of a WebP or a PNG; of a JPEG, which all programs rotate, upright. */
export async function orientationOf(file) {
  const view = new DataView(await file.arrayBuffer());
  try {
    if (view.getUint32(0) === 0x52494646) return findExif(view, 12, 0x45584946, true); // RIFF, EXIF
    if (view.getUint32(0) === 0x89504e47) return findExif(view, 8, 0x65584966, false); // PNG, eXIf
  } catch (error) {
    if (!(error instanceof RangeError)) throw error; // a chunk that is cut off
  }
  return UPRIGHT;
}

/** The orientation in the EXIF chunk of a file: WebP has sizes behind names, PNG before them. */
function findExif(view, place, name, isWebp) {
  while (place + 8 <= view.byteLength) {
    const size = view.getUint32(place + (isWebp ? 4 : 0), isWebp);
    if (view.getUint32(place + (isWebp ? 0 : 4)) === name) return orientationAt(view, place + 8);
    place += 8 + size + (isWebp ? size % 2 : 4);
  }
  return UPRIGHT;
}

function orientationAt(view, start) {
  const tiff = view.getUint32(start) === 0x45786966 ? start + 6 : start; // after 'Exif'
  const little = view.getUint16(tiff) === 0x4949;
  const first = tiff + view.getUint32(tiff + 4, little);
  for (let i = 0; i < view.getUint16(first, little); i++) {
    const entry = first + 2 + 12 * i;
    if (view.getUint16(entry, little) === ORIENTATION) return view.getUint16(entry + 8, little);
  }
  return UPRIGHT;
}

/** The camera as a video that plays; stop it with `stopCamera`. */
export async function startCamera() {
  const stream = await navigator.mediaDevices.getUserMedia({video: CAMERA}).catch((error) => {
    throw new Error(`the camera cannot be used (${error.message || error.name})`);
  });
  const video = document.createElement('video');
  Object.assign(video, {srcObject: stream, muted: true, playsInline: true});
  await video.play();
  return video;
}

export function stopCamera(video) {
  for (const track of video.srcObject.getTracks()) track.stop();
}

/** Draw a picture or a frame of a video into a canvas, which gets its size. */
export function copy(source, canvas) {
  const width = source.videoWidth ?? source.width;
  const height = source.videoHeight ?? source.height;
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, {width, height});
  canvas.getContext('2d', {willReadFrequently: true}).drawImage(source, 0, 0);
}

/** The pixels of a canvas. */
export function read(canvas) {
  return canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
}
