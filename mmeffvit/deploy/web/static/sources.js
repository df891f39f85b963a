// Images for the model: from files, and from the camera.

const MAX_PIXELS = 4096 * 4096; // canvases of phones end there
const CAMERA = {width: {ideal: 640}, height: {ideal: 480}, facingMode: 'environment'};

/** Live video needs a secure context: https, or a server on the same host. */
export const hasLiveCamera = () => Boolean(window.isSecureContext && navigator.mediaDevices);

/** Decode a file with the colors as they are stored, upright as the browser shows it. */
export async function readFile(file) {
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
