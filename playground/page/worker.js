import { laboratory } from './lab.js';
const ready = fetch('mmcq_playground.wasm').then(async (found) => {
  if (!found.ok) throw new Error(`mmcq_playground.wasm: status ${found.status}`);
  return laboratory(await found.arrayBuffer());
});
onmessage = async ({ data: { id, question } }) => {
  try {
    postMessage({ id, ok: await (await ready)(question) });
  } catch (error) {
    postMessage({ id, error: error.message });
  }
};
