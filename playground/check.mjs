// Compares the playground with the program, digit by digit: the answers of the laboratory, and the figures in the page's table. Tests what
// a link may set. Prints how long the page needs after a change.
// node check.mjs MMCQ FILE.wasm
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cells, figures, laboratory, linked, options } from './page/lab.js';

const [mmcq, wasm] = process.argv.slice(2);
const ask = await laboratory(await WebAssembly.compile(readFileSync(wasm)));
// The questions, which are the same in Node and in a browser.
const { settings: SETTINGS, cases: CASES } = JSON.parse(readFileSync(new URL('cases.json', import.meta.url)));
let failed = 0;
let compared = 0;
// Returns the output of the program, or the line of its error.
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
// Compares the figures of a run in the page's table with the figures that `mmcq why` and `mmcq run` print.
function table(what, place, setting, job, answer) {
  const [rate, share, mean, high, longest] = cells(figures(answer));
  const facts = program(['why', ...place, '--setting', setting, '--json', '--', ...job]).trim().split('\n').map((line) => JSON.parse(line));
  const run = facts.find((fact) => fact.group === 'rate' && fact.name === 'this run');
  same(`${what}: rate and share`, `${rate} ${share}`, `${run.value.toFixed(2)} ${run.percent_of_the_limit.toFixed(1)} %`);
  const report = JSON.parse(program(['run', ...place, '--setting', setting, '--output-format', 'json', '--', ...job]));
  const ways = report.jobs.flatMap((one) => [one.read, one.write]).filter((way) => way.total_ios > 0).map((way) => way.clat_ns);
  same(`${what}: longest`, longest, (Math.max(...ways.map((way) => way.max)) / 1e3).toFixed(1));
  // The report has one entry for all jobs: its 99 % is that of all requests of a direction, not that of the slowest job.
  same(`${what}: entries`, String(report.jobs.length), '1');
  const high99 = Math.max(...ways.map((way) => Math.min(way.percentile['99.000000'], way.max)));
  same(`${what}: 99 %`, high, (high99 / 1e3).toFixed(1));
  same(`${what}: neither the 99 % nor the mean is above the longest`, String(Number(high) <= Number(longest) && Number(mean) <= Number(longest)), 'true');
  // The rates of single jobs are over the times of these jobs, so their sum may exceed the limit; the page's rate must not.
  same(`${what}: no more than the limit`, String(Number(share.slice(0, -2)) <= 100), 'true');
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
  const explained = await ask({ what: 'explained', platform, card, setting: 'mmcq', set, job });
  table(`shown ${platform} mmcq`, place, 'mmcq', job, explained);
  table(`shown ${platform} limit`, place, 'limit', job, explained.limit);
  for (const setting of ['none', 'hsq-tag']) {
    const rated = await ask({ what: 'rated', platform, card, setting, set, job }).catch(() => null);
    if (rated) table(`shown ${platform} ${setting}`, place, setting, job, rated);
  }
  same(`why ${platform}`, why.trim(), program(['why', ...place, '--json', '--', ...job]).trim());
}
const listed = await ask({ what: 'params', platform: 'generic' });
same('params', listed.map((one) => JSON.stringify(one)).join('\n'), program(['params', '--json', '--platform', 'generic']).trim().split('\n').map((line) => JSON.stringify(JSON.parse(line))).join('\n'));
// A link cannot make a run longer, and cannot name a file that the copied command line would write.
const fields = (name, value) => ({ rw: ['read', 'randread'], bs: ['4k'] })[name]?.includes(value) ?? false;
const asked = (fragment, given) => JSON.stringify(linked(fragment, fields, given));
const bad = 'rw=read&bs=5k&platfrom=x&more=--runtime=1h&more=--numjobs=1000&more=--write_bw_log=/tmp/x&more=--rwmixread=70&set=job.runtime=1h&set=cost.wake_us=30';
same('link', asked(bad), JSON.stringify({ fields: { rw: 'read' }, set: ['cost.wake_us=30'], more: ['--rwmixread=70'],
  left: ['bs=5k', 'platfrom=x', '--runtime', '--numjobs', '--write_bw_log', 'job.runtime'] }));
same('link of a report', asked('more=--loops=2', ['--loops=2']), JSON.stringify({ fields: {}, set: [], more: ['--loops=2'], left: [] }));
for (const [what, ms] of times) console.log(`${what}: table and phases in ${ms.toFixed(0)} ms`);
if (failed > 0) {
  console.error(`${failed} of ${compared} answers differ`);
  process.exit(1);
}
console.log(`${compared} answers are those of the program, to the last digit`);
