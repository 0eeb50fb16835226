import { options } from './lab.js';

const at = (id) => document.getElementById(id);
const form = at('form');
const SETTINGS = [['none', 'Linux without a queue'], ['hsq-tag', 'Linux with its queue'], ['mmcq', 'mmcq'], ['limit', 'limit of wire and card']];
const KNOBS = ['cost.wake_us', 'cost.irq_us', 'card.flash.read.read_first_us'];
// What a knob can have where its source gives no range.
const WIDE = [0.25, 4];
const say = (text) => { at('said').textContent = text; };

let worker;
let last = 0;
const waiting = new Map();
function ask(question) {
  return new Promise((done, failed) => {
    waiting.set(++last, { done, failed });
    worker.postMessage({ id: last, question });
  });
}

// What the page shows, by the names of its fields; knobs alone that were moved.
const moved = new Map();
function load() {
  const fields = Object.fromEntries(['platform', 'card', 'rw', 'bs', 'jobs', 'size', 'depth'].map((name) => [name, form.elements[name].value]));
  return { ...fields, set: [...moved].map(([key, value]) => `${key}=${value}`) };
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
  for (const key of KNOBS) {
    const param = all.find((one) => one.key === key);
    if (!param || typeof param.value !== 'number') { moved.delete(key); continue; }
    const [low, high] = param.range ?? WIDE.map((times) => times * param.value);
    const value = moved.get(key) ?? param.value;
    const number = element('output', `${value} ${param.unit}`);
    const label = element('label', `${key} `, { title: [param.kind, param.source].filter(Boolean).join(': ') });
    // A file says a whole number as 5, and a knob may stand between.
    const slider = element('input', '', { type: 'range', min: Math.min(low, value), max: Math.max(high, value), step: 'any' });
    slider.value = value;
    slider.addEventListener('input', () => {
      moved.set(key, String(Number(Number(slider.value).toFixed(1))));
      number.textContent = `${moved.get(key)} ${param.unit}`;
    });
    label.append(number, slider);
    place.append(label);
  }
}

const quoted = (word) => (/^[\w.,:=\/-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
function command(shown) {
  const words = ['mmcq', 'run', '--platform', shown.platform, ...(shown.card ? ['--card', shown.card] : []), '--setting', 'mmcq'];
  return [...words, ...shown.set.flatMap((set) => ['--set', set]), '--', ...options(shown)].map(quoted).join(' ');
}

// Rate and latency of both directions together.
function figures(report) {
  const ways = report.jobs.flatMap((job) => [job.read, job.write]).filter((way) => way.total_ios > 0);
  const ios = ways.reduce((sum, way) => sum + way.total_ios, 0);
  const mean = ways.reduce((sum, way) => sum + way.lat_ns.mean * way.total_ios, 0) / ios;
  const high = Math.max(...ways.map((way) => way.clat_ns.percentile?.['99.000000'] ?? 0));
  return { rate: ways.reduce((sum, way) => sum + way.bw_bytes, 0) / 2 ** 20, mean: mean / 1e3, high: high / 1e3 };
}

async function draw() {
  const shown = load();
  at('depth-shown').textContent = shown.depth;
  at('command').textContent = command(shown);
  const fragment = `#${new URLSearchParams(Object.entries(shown).flatMap(([name, value]) => (name === 'set' ? value.map((one) => ['set', one]) : [[name, value]])))}`;
  history.replaceState(null, '', fragment);
  at('link').href = fragment;
  const begun = performance.now();
  const found = [];
  for (const [setting, name] of SETTINGS) {
    try {
      found.push({ name, ...figures(JSON.parse(await ask(question('run', shown, setting)))) });
    } catch (error) {
      found.push({ name, error: error.message });
    }
  }
  const limit = found.at(-1).rate;
  at('rows').replaceChildren(...found.map(({ name, error, rate, mean, high }) => {
    const row = element('tr', '');
    const cells = error ? [name, error] : [name, rate.toFixed(2), `${(100 * rate / limit).toFixed(1)} %`, mean.toFixed(1), high.toFixed(1)];
    row.append(...cells.map((text) => element('td', text)));
    if (error) row.lastChild.colSpan = 4;
    return row;
  }));
  try {
    const why = await ask(question('why', shown, 'mmcq'));
    const phases = why.lines.trim().split('\n').map((line) => JSON.parse(line)).filter((fact) => fact.group === 'time' && fact.name !== 'in all');
    at('phases').replaceChildren(...phases.map(({ name, percent }) => {
      const row = element('div', '', { className: 'phase' });
      const bar = element('i', '');
      bar.style.width = `${percent}%`;
      const box = element('span', '');
      box.append(bar);
      row.append(element('span', name), box, element('b', `${percent.toFixed(1)} %`));
      return row;
    }));
    at('conclusion').textContent = why.conclusion;
    say(`Computed in ${Math.round(performance.now() - begun)} ms.`);
  } catch (error) {
    at('phases').replaceChildren();
    at('conclusion').textContent = '';
    say(error.message);
  }
  try {
    at('scope').innerHTML = await ask(question('scope', shown, 'mmcq'));
  } catch (error) {
    at('scope').textContent = error.message;
  }
}

// One drawing at a time; what changed meanwhile is drawn next.
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

// Of the fragment; what is no value of a field is left out.
function remembered() {
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
    const [key, number] = value.split('=');
    if (name === 'set' && KNOBS.includes(key) && Number.isFinite(Number(number))) moved.set(key, number);
    const field = form.elements[name];
    const known = field?.options ? [...field.options].some((option) => option.value === value) : field;
    if (known) field.value = value;
  }
}

async function begin() {
  if (typeof WebAssembly !== 'object' || typeof Worker !== 'function') {
    say('This browser has no WebAssembly; the page cannot compute anything. The program mmcq does the same.');
    return;
  }
  worker = new Worker('worker.js', { type: 'module' });
  worker.onerror = (event) => say(`The worker does not start: ${event.message ?? 'no reason given'}`);
  worker.onmessage = ({ data: { id, ok, error } }) => {
    const { done, failed } = waiting.get(id);
    waiting.delete(id);
    if (error === undefined) done(ok); else failed(new Error(error));
  };
  const { platforms, cards } = await ask({ what: 'lists' });
  const option = (value) => element('option', value, { value });
  form.elements.platform.append(...platforms.map(option));
  form.elements.platform.value = 'generic';
  form.elements.card.append(element('option', "the board's own", { value: '' }), ...cards.map(option));
  remembered();
  await knobs();
  form.addEventListener('input', async ({ target }) => {
    if (target.name === 'platform' || target.name === 'card') {
      moved.clear();
      await knobs();
    }
    changed();
  });
  at('copy').addEventListener('click', () => navigator.clipboard.writeText(at('command').textContent).then(() => say('Copied.'), () => say('The browser does not let the page copy; the line can be selected.')));
  await changed();
}
begin().catch((error) => say(error.message));
