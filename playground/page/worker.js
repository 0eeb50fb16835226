import { laboratory } from './lab.js';

// The first message has the compiled laboratory; each later message has a question.
let ready;
onmessage = async ({ data: { id, question, compiled } }) => {
  if (compiled) {
    ready = laboratory(compiled);
    return;
  }
  try {
    postMessage({ id, ok: await (await ready)(question) });
  } catch (error) {
    postMessage({ id, error: error.message });
  }
};
