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

// fio's options of a load, and more of them as they are. A run has 0.2 s of virtual time.
export function options(load) {
  const more = load.more ?? [];
  const key = (option) => option.split('=')[0];
  const own = ['--name=play', `--rw=${load.rw}`, `--bs=${load.bs}`, `--size=${load.size}`, `--iodepth=${load.depth}`,
    `--numjobs=${load.jobs}`, '--direct=1', '--ioengine=libaio', '--runtime=200ms', '--time_based'];
  return [...own.filter((option) => !more.some((other) => key(other) === key(option))), ...more];
}
