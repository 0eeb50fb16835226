// The laboratory behind one call: a question as an object, an answer as an object, or an error with one line.
export async function laboratory(compiled) {
  let instance = await WebAssembly.instantiate(compiled, {});
  return async (question) => {
    try {
      const text = new TextEncoder().encode(JSON.stringify(question));
      const { room, answer, memory } = instance.exports;
      const at = room(text.length);
      new Uint8Array(memory.buffer, at, text.length).set(text);
      const from = answer();
      const length = new DataView(memory.buffer).getUint32(from, true);
      const found = JSON.parse(new TextDecoder().decode(new Uint8Array(memory.buffer, from + 4, length)));
      if ('error' in found) throw new Error(found.error);
      return found.ok;
    } catch (error) {
      if (error instanceof WebAssembly.RuntimeError) {
        // What trapped is in no known state: the next question gets a new one.
        instance = await WebAssembly.instantiate(compiled, {});
        throw new Error(`the laboratory stopped: ${error.message}`);
      }
      throw error;
    }
  };
}

// fio's options of a load, and more of them as they are. A run has 0.2 s of virtual time; its jobs are reported together, since a
// percentile of several jobs is none of one of them.
export function options(load) {
  const more = load.more ?? [];
  const key = (option) => option.split('=')[0];
  const own = ['--name=play', `--rw=${load.rw}`, `--bs=${load.bs}`, `--size=${load.size}`, `--iodepth=${load.depth}`,
    `--numjobs=${load.jobs}`, '--direct=1', '--ioengine=libaio', '--runtime=200ms', '--time_based', '--group_reporting'];
  return [...own.filter((option) => !more.some((other) => key(other) === key(option))), ...more];
}

// Rate of all jobs together, over the time of the run, and what the limit allows this run; latencies of all jobs: the mean of both
// directions, and the 99 % of the slower one. A percentile of fio's is the middle of a bucket, which may be above the longest time.
export function figures({ run, allowed_mib_s: allowed }) {
  const report = JSON.parse(run);
  const { bytes, elapsed_ns: elapsed } = report.mmcq.counters;
  const ways = report.jobs.flatMap((job) => [job.read, job.write]).filter((way) => way.total_ios > 0);
  const ios = ways.reduce((sum, way) => sum + way.total_ios, 0);
  const mean = ways.reduce((sum, way) => sum + way.clat_ns.mean * way.total_ios, 0) / ios;
  const high = Math.max(...ways.map((way) => Math.min(way.clat_ns.percentile?.['99.000000'] ?? 0, way.clat_ns.max)));
  const longest = Math.max(...ways.map((way) => way.clat_ns.max));
  const rate = bytes / 2 ** 20 / (Math.max(elapsed, 1) / 1e9);
  return { rate, share: allowed > 0 ? 100 * rate / allowed : NaN, mean: mean / 1e3, high: high / 1e3, longest: longest / 1e3 };
}

// The figures as the table shows them.
export function cells({ rate, share, mean, high, longest }) {
  const percent = Number.isNaN(share) ? '-' : `${share.toFixed(1)} %`;
  return [rate.toFixed(2), percent, mean.toFixed(1), high.toFixed(1), longest.toFixed(1)];
}

// fio's options that a link may set: they say how a job accesses the card. None of them makes a run longer, or names a file of the reader's.
const LINKED = ['bsrange', 'bssplit', 'bs_unaligned', 'blockalign', 'fdatasync', 'fsync', 'iodepth_batch', 'iodepth_batch_complete_max',
  'iodepth_batch_complete_min', 'iodepth_low', 'norandommap', 'offset', 'offset_increment', 'random_distribution',
  'randrepeat', 'randseed', 'rate', 'rate_iops', 'rwmixread', 'rwmixwrite', 'sync', 'thinktime', 'thinktime_blocks'];

// What a link asks for: values of fields, changes of board and card, further options of fio; and what of it is left out, by name. `known`
// says whether a field has a value, `given` are options that the page itself began with.
export function linked(fragment, known, given = []) {
  const asked = { fields: {}, set: [], more: [], left: [] };
  for (const [name, value] of new URLSearchParams(fragment)) {
    if (name === 'set') {
      const key = value.split('=')[0];
      const takes = value.includes('=') && (!key.startsWith('job.') || LINKED.includes(key.slice(4)));
      if (takes) asked.set.push(value); else asked.left.push(key);
    } else if (name === 'more') {
      const key = value.split('=')[0];
      if (given.includes(value) || (key.startsWith('--') && LINKED.includes(key.slice(2)))) asked.more.push(value); else asked.left.push(key);
    } else if (known(name, value)) {
      asked.fields[name] = value;
    } else {
      asked.left.push(`${name}=${value}`);
    }
  }
  return asked;
}
