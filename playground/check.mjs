// The numbers of the page against those of the program, digit by digit, and how long a change takes.
// node check.mjs MMCQ FILE.wasm
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { laboratory, options } from './page/lab.js';

const [mmcq, wasm] = process.argv.slice(2);
const ask = await laboratory(await WebAssembly.compile(readFileSync(wasm)));
// What is asked: the same in Node and in a browser.
const { settings: SETTINGS, cases: CASES } = JSON.parse(readFileSync(new URL('cases.json', import.meta.url)));
let failed = 0;
let compared = 0;
// What the program prints, or the one line with which it refuses.
function program(words) {
  try {
    return execFileSync(mmcq, words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  } catch (error) {
    return `refused: ${error.stderr.replace(/^mmcq: /, '').trim()}`;
  }
}
async function page(question, text) {
  try {
    return text(await ask(question));
  } catch (error) {
    return `refused: ${error.message}`;
  }
}
function same(what, ours, theirs) {
  compared += 1;
  if (ours === theirs) return;
  failed += 1;
  const at = [...ours].findIndex((letter, place) => letter !== theirs[place]);
  console.error(`${what}: differs at ${at}:\n  page    ${ours.slice(Math.max(0, at - 60), at + 60)}\n  program ${theirs.slice(Math.max(0, at - 60), at + 60)}`);
}
const times = [];
for (const { platform, card, load: shown, set } of CASES) {
  const job = options(shown);
  const place = ['--platform', platform, ...(card ? ['--card', card] : []), ...set.flatMap((one) => ['--set', one])];
  const begun = performance.now();
  const pages = [];
  for (const setting of SETTINGS) pages.push(await page({ what: 'run', platform, card, setting, set, job }, (text) => text));
  const why = await page({ what: 'why', platform, card, setting: 'mmcq', set, job }, (found) => found.lines);
  times.push([`${platform} ${shown.rw} ${shown.bs} depth ${shown.depth}`, performance.now() - begun]);
  for (const [index, setting] of SETTINGS.entries()) {
    const text = program(['run', ...place, '--setting', setting, '--output-format', 'json', '--', ...job]);
    same(`run ${platform} ${setting}`, pages[index].trim(), text.trim());
  }
  same(`why ${platform}`, why.trim(), program(['why', ...place, '--json', '--', ...job]).trim());
}
const listed = await ask({ what: 'params', platform: 'generic' });
same('params', listed.map((one) => JSON.stringify(one)).join('\n'), program(['params', '--json', '--platform', 'generic']).trim().split('\n').map((line) => JSON.stringify(JSON.parse(line))).join('\n'));
for (const [what, ms] of times) console.log(`${what}: table and phases in ${ms.toFixed(0)} ms`);
if (failed > 0) {
  console.error(`${failed} of ${compared} answers differ`);
  process.exit(1);
}
console.log(`${compared} answers are those of the program, to the last digit`);
