import { cells, figures, linked, options } from './lab.js';

const at = (id) => document.getElementById(id);
const form = at('form');
const SETTINGS = ['Linux without a queue', 'Linux with its queue', 'mmcq', 'limit of wire and card'];
const KNOBS = { 'cost.wake_us': 'A wake-up', 'cost.irq_us': 'An interrupt', 'card.flash.read.read_first_us': "The card's first read" };
// Costs that change together: a slow CPU is slow to wake the driver's thread, the job, and a worker of the block layer.
const TOGETHER = { 'cost.wake_us': ['cost.job_wake_us', 'cost.hop_us'] };
// Range of a slider whose value has no range: factors of the value.
const WIDE = [0.25, 4];
const say = (text) => { at('said').textContent = text; };

// Two workers: one explains a run and shows its bus; the other runs the settings for comparison.
const [EXPLAINS, COMPARES] = [0, 1];
// Function that makes a worker.
let hire;
let workers = [];
let last = 0;
const waiting = new Map();
function ask(question, who = EXPLAINS) {
  return new Promise((done, failed) => {
    waiting.set(++last, { done, failed });
    workers[who].postMessage({ id: last, question });
  });
}

// Loads the laboratory: from a file beside the page, or from elements of a report in which the page is. Returns a function that makes a
// worker.
async function laboratories() {
  const inside = at('play-module');
  let bytes;
  let made = () => new Worker('worker.js', { type: 'module' });
  if (inside) {
    const packed = Uint8Array.from(atob(inside.textContent.trim()), (letter) => letter.charCodeAt(0));
    bytes = new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip')));
    const address = URL.createObjectURL(new Blob([at('play-worker').textContent], { type: 'text/javascript' }));
    made = () => new Worker(address);
  } else {
    bytes = await fetch('mmcq_playground.wasm');
    if (!bytes.ok) throw new Error(`mmcq_playground.wasm: status ${bytes.status}`);
  }
  const compiled = await WebAssembly.compile(await bytes.arrayBuffer());
  return () => {
    const worker = made();
    worker.onerror = (event) => say(`The worker does not start: ${event.message ?? 'no reason given'}`);
    worker.onmessage = ({ data: { id, ok, error } }) => {
      const { done, failed } = waiting.get(id) ?? {};
      if (!waiting.delete(id)) return;
      if (error === undefined) done(ok); else failed(new Error(error));
    };
    worker.postMessage({ compiled });
    return worker;
  };
}

// Ends all computations; the next question gets new workers.
function stop() {
  for (const worker of workers) worker.terminate();
  workers = [EXPLAINS, COMPARES].map(hire);
  const asked = [...waiting.values()];
  waiting.clear();
  for (const { failed } of asked) failed(new Error('Stopped.'));
}

// The state of the page in addition to its fields: sliders that were moved, and further options of fio.
const moved = new Map();
let more = [];
// The parts of a link that were left out, as a sentence.
let leftOut = '';
function load() {
  const fields = Object.fromEntries(['platform', 'card', 'rw', 'bs', 'jobs', 'size', 'depth'].map((name) => [name, form.elements[name].value]));
  return { ...fields, set: [...moved].map(([key, value]) => `${key}=${value}`), more };
}
const question = (what, shown, setting) => ({
  what, platform: shown.platform, card: shown.card || null, setting, set: shown.set, job: options(shown),
});

function element(name, text, more = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  return Object.assign(made, more);
}

async function knobs() {
  const shown = load();
  const all = await ask({ what: 'params', platform: shown.platform, card: shown.card || null });
  const place = at('knobs');
  place.replaceChildren(element('legend', 'Knobs'));
  for (const [key, words] of Object.entries(KNOBS)) {
    const param = all.find((one) => one.key === key);
    if (!param || typeof param.value !== 'number') { moved.delete(key); continue; }
    const [low, high] = param.range ?? WIDE.map((times) => times * param.value);
    const value = moved.get(key) ?? param.value;
    const number = element('output', `${value} ${param.unit}`);
    const label = element('label', `${words} `, { title: [param.kind, param.source].filter(Boolean).join(': ') });
    // The value of a file may be a whole number, and the slider allows values in between.
    const slider = element('input', '', { type: 'range', min: Math.min(low, value), max: Math.max(high, value), step: 'any' });
    slider.value = value;
    // The label's text contains the value, which a screen reader gets from `aria-valuetext`.
    slider.setAttribute('aria-label', `${words}, ${param.unit}`);
    slider.setAttribute('aria-valuetext', `${value} ${param.unit}`);
    slider.addEventListener('input', () => {
      const text = String(Number(Number(slider.value).toFixed(1)));
      for (const each of [key, ...(TOGETHER[key] ?? [])]) {
        // A slider that is back at its original value is no change, and neither are the costs that changed with it.
        if (text === String(Number(param.value.toFixed(1)))) moved.delete(each); else moved.set(each, text);
      }
      number.textContent = `${moved.get(key) ?? param.value} ${param.unit}`;
      slider.setAttribute('aria-valuetext', number.textContent);
    });
    label.append(number, element('small', ` ${key}`), slider);
    place.append(label);
  }
}

const quoted = (word) => (/^[\w.,:=\/-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
function command(shown) {
  const words = ['mmcq', 'run', '--platform', shown.platform, ...(shown.card ? ['--card', shown.card] : []), '--setting', 'mmcq'];
  return [...words, ...shown.set.flatMap((set) => ['--set', set]), '--', ...options(shown)].map(quoted).join(' ');
}

// Asks a question that may be refused. Returns the answer, or the error's line.
const tried = (question, who) => ask(question, who).catch((error) => ({ error: error.message }));

function table(found) {
  at('rows').replaceChildren(...found.map(({ name, error, ...found }) => {
    const row = element('tr', '');
    const shown = error ? [error] : cells(figures(found));
    row.append(element('th', name, { scope: 'row' }), ...shown.map((text) => element('td', text)));
    if (error) row.lastChild.colSpan = 5;
    return row;
  }));
}

// Marks the shown results as old while new ones are computed.
function busy(is) {
  at('shown').setAttribute('aria-busy', is);
  at('stop').hidden = !is;
}

function phases(lines) {
  const facts = lines.trim().split('\n').map((line) => JSON.parse(line)).filter((fact) => fact.group === 'time' && fact.name !== 'in all');
  at('phases').replaceChildren(...facts.map(({ name, percent }) => {
    const row = element('div', '', { className: 'phase' });
    const bar = element('i', '');
    bar.style.width = `${percent}%`;
    const box = element('span', '');
    box.append(bar);
    row.append(element('span', name), box, element('b', `${percent.toFixed(1)} %`));
    return row;
  }));
}

async function draw() {
  const shown = load();
  at('depth-shown').textContent = shown.depth;
  // The command line wraps only between words.
  at('command').replaceChildren(...command(shown).split(' ').flatMap((word, place) => [place > 0 ? ' ' : '', element('span', word, { className: 'word' })]));
  const fragment = `#${new URLSearchParams(Object.entries(shown).flatMap(([name, value]) => (Array.isArray(value) ? value.map((one) => [name, one]) : [[name, value]])))}`;
  history.replaceState(null, '', fragment);
  at('link').href = fragment;
  const begun = performance.now();
  busy(true);
  say('Computing.');
  const compared = Promise.all(['none', 'hsq-tag'].map((setting) => tried(question('rated', shown, setting), COMPARES)));
  const explained = await tried(question('explained', shown, 'mmcq'));
  const [none, queued] = await compared;
  const { error } = explained;
  const { run, limit, allowed_mib_s: allowed } = explained;
  const all = [none, queued, error ? { error } : { run, allowed_mib_s: allowed }, error ? { error } : limit];
  table(all.map((one, row) => ({ name: SETTINGS[row], ...one })));
  busy(false);
  if (error) {
    at('phases').replaceChildren();
    at('conclusion').textContent = '';
    at('scope').textContent = '';
    say(`${error}${leftOut}`);
    return;
  }
  phases(explained.lines);
  at('conclusion').textContent = explained.conclusion;
  say(`Computed in ${Math.round(performance.now() - begun)} ms.${leftOut}`);
  // If something has changed meanwhile, the table is computed again before the bus is drawn.
  await new Promise((done) => setTimeout(done));
  if (again) return;
  try {
    at('scope').innerHTML = await ask(question('scope', shown, 'mmcq'));
  } catch (error) {
    at('scope').textContent = error.message;
  }
}

// Draws the page, one drawing at a time. If something changes during a drawing, another drawing follows.
let drawing = false;
let again = false;
async function changed() {
  again = true;
  if (drawing) return;
  drawing = true;
  while (again) {
    again = false;
    await draw();
  }
  drawing = false;
}

// Sets the fields to the load of a report, and makes the report's changes.
function given(start) {
  for (const [name, value] of Object.entries(start.fields)) {
    const field = form.elements[name];
    if (field.options && ![...field.options].some((option) => option.value === value)) field.append(element('option', value, { value }));
    if (field.type === 'range') field.max = Math.max(field.max, value);
    field.value = value;
  }
  ({ more } = start);
  begunWith = more;
  start.set.forEach(change);
}

function change(text) {
  const [key, ...value] = text.split('=');
  moved.set(key, value.join('='));
}

// Returns whether a field can have this value.
function has(name, value) {
  const field = form.elements[name];
  if (field?.options) return [...field.options].some((option) => option.value === value);
  return field?.type === 'range' && Number(value) >= Number(field.min) && Number(value) <= Number(field.max);
}

// Reads the fragment of the address. Parts that a link may not set, or that the page does not know, are left out, and the page names them.
let begunWith = [];
function remembered() {
  if (location.hash.length <= 1) return;
  const asked = linked(location.hash.slice(1), has, begunWith);
  moved.clear();
  ({ more } = asked);
  asked.set.forEach(change);
  for (const [name, value] of Object.entries(asked.fields)) form.elements[name].value = value;
  leftOut = asked.left.length > 0 ? ` Left out of the link: ${asked.left.join(', ')}.` : '';
}

async function begin() {
  if (typeof WebAssembly !== 'object' || typeof Worker !== 'function') {
    say('This browser has no WebAssembly; the page cannot compute anything. The program mmcq does the same.');
    return;
  }
  hire = await laboratories();
  workers = [EXPLAINS, COMPARES].map(hire);
  const { platforms, cards } = await ask({ what: 'lists' });
  const option = (value) => element('option', value, { value });
  form.elements.platform.append(...platforms.map(option));
  form.elements.platform.value = 'generic';
  form.elements.card.append(element('option', "the board's own", { value: '' }), ...cards.map(option));
  const start = at('play-start');
  if (start) given(JSON.parse(start.textContent));
  remembered();
  await knobs();
  form.addEventListener('input', async ({ target }) => {
    if (target.name === 'platform' || target.name === 'card') {
      moved.clear();
      leftOut = '';
      await knobs().catch((error) => say(error.message));
    }
    changed();
  });
  // The visitor has pasted a link into the tab of this page.
  window.addEventListener('hashchange', async () => {
    remembered();
    await knobs().catch((error) => say(error.message));
    changed();
  });
  at('stop').addEventListener('click', stop);
  at('copy').addEventListener('click', () => navigator.clipboard.writeText(at('command').textContent).then(() => say('Copied.'), () => say('The browser does not let the page copy; the line can be selected.')));
  await changed();
}
begin().catch((error) => say(error.message));
