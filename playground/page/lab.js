// Returns a function that asks the laboratory: it takes a question as an object, and returns the answer as an object or throws an error
// with one line.
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
        // After a trap the state of the instance is not known, so the next question gets a new instance.
        instance = await WebAssembly.instantiate(compiled, {});
        throw new Error(`the laboratory stopped: ${error.message}`);
      }
      throw error;
    }
  };
}

// Returns the options of fio for a load; the options in `load.more` are added unchanged. A run has 0.2 s of virtual time. All jobs are
// reported as one, since percentiles of several jobs cannot be computed from the percentiles of each.
export function options(load) {
  const more = load.more ?? [];
  const key = (option) => option.split('=')[0];
  const own = ['--name=play', `--rw=${load.rw}`, `--bs=${load.bs}`, `--size=${load.size}`, `--iodepth=${load.depth}`,
    `--numjobs=${load.jobs}`, '--direct=1', '--ioengine=libaio', '--runtime=200ms', '--time_based', '--group_reporting'];
  return [...own.filter((option) => !more.some((other) => key(other) === key(option))), ...more];
}

// Returns the figures of the table: the rate of all jobs over the time of the run; its share of the rate that the limit allows; and
// latencies: the mean of both directions, the 99 % of the slower direction, and the longest. fio's percentile is the middle of a
// bucket, which may exceed the longest time.
export function figures({ run, allowed_mib_s: allowed }) {
  const report = JSON.parse(run);
  const { bytes, elapsed_ns: elapsed } = report.mmcq.counters;
  const ways = report.jobs.flatMap((job) => [job.read, job.write]).filter((way) => way.total_ios > 0);
  const ios = ways.reduce((sum, way) => sum + way.total_ios, 0);
  // Without any I/O there is no latency.
  const mean = ios > 0 ? ways.reduce((sum, way) => sum + way.clat_ns.mean * way.total_ios, 0) / ios : NaN;
  const most = (of) => (ways.length > 0 ? Math.max(...ways.map(of)) : NaN);
  const high = most((way) => Math.min(way.clat_ns.percentile?.['99.000000'] ?? 0, way.clat_ns.max));
  const longest = most((way) => way.clat_ns.max);
  const rate = bytes / 2 ** 20 / (Math.max(elapsed, 1) / 1e9);
  return { rate, share: allowed > 0 ? 100 * rate / allowed : NaN, mean: mean / 1e3, high: high / 1e3, longest: longest / 1e3 };
}

// Returns the figures as the texts of the table's cells; `-` is a figure that the run does not have.
export function cells({ rate, share, mean, high, longest }) {
  const percent = Number.isNaN(share) ? '-' : `${share.toFixed(1)} %`;
  const latencies = [mean, high, longest].map((us) => (Number.isNaN(us) ? '-' : us.toFixed(1)));
  return [rate.toFixed(2), percent, ...latencies];
}

// Options of fio that a link may set: they say how a job accesses the card. None of them makes a run longer, or names a file of the
// visitor.
const LINKED = ['bsrange', 'bssplit', 'bs_unaligned', 'blockalign', 'fdatasync', 'fsync', 'iodepth_batch', 'iodepth_batch_complete_max',
  'iodepth_batch_complete_min', 'iodepth_low', 'norandommap', 'offset', 'offset_increment', 'random_distribution',
  'randrepeat', 'randseed', 'rate', 'rate_iops', 'rwmixread', 'rwmixwrite', 'sync', 'thinktime', 'thinktime_blocks'];

// Returns the contents of a link: values of fields (`fields`), changes of board and card (`set`), further options of fio (`more`), and
// the names of the parts that are left out (`left`). `known` says whether a field can have a value; `given` has the options with which
// the page began.
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
