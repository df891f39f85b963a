// The model in its worker, as promises.

export class Model {
  /**
   * @param page page.json.
   * @param onText Called with what is loading.
   * @param onReady Called with the backend's name and a note, again if WebGPU gives way to WASM.
   * @param onError Called with a message if the model cannot be loaded.
   */
  constructor(page, onText, onReady, onError) {
    this.waiting = new Map();
    this.number = 0;
    this.worker = new Worker('worker.js', {type: 'module'});
    this.worker.addEventListener('error', (event) => onError(event.message || 'the worker failed'));
    this.worker.addEventListener('message', ({data: message}) => {
      const request = this.waiting.get(message.id);
      this.waiting.delete(message.id);
      if (message.text) onText(message.text);
      else if (message.backend) onReady(message.backend, message.note);
      else if (!request) onError(message.error);
      else if (message.error) request.reject(new Error(message.error));
      else request.resolve(message);
    });
    const wanted = new URLSearchParams(location.search).get('runtime'); // 'webgpu', 'wasm' or null
    this.worker.postMessage({page, wanted});
  }

  /** Run the model on ImageData: {prediction, milliseconds, network}. */
  run({data, width, height}) {
    const id = ++this.number;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, {resolve, reject});
      this.worker.postMessage({id, data, width, height}, [data.buffer]);
    });
  }
}
