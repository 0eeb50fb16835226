#!/usr/bin/env python3
"""judge-fst.py FILE.fst FILE.vcd: reads a waveform by GTKWave's own library (PyPI's pylibfst) and writes what it read as a value change
dump, which is compared with the one of `mmcq trace`, or given to other judges. Shares nothing with the program that wrote the file.
Prints one JSON object; an error is one line on standard error and exit code 1."""

import json
import sys

import pylibfst
from pylibfst import ffi, lib

UNITS = {-9: "1 ns", -12: "1 ps"}


def main():
    source, target = sys.argv[1:]
    fst = lib.fstReaderOpen(source.encode())
    if fst == ffi.NULL:
        sys.exit(f"judge-fst.py: {source}: no Fast Signal Trace")
    scopes, signals = pylibfst.get_scopes_signals2(fst)
    exponent, end = lib.fstReaderGetTimescale(fst), lib.fstReaderGetEndTime(fst)
    handles = {signal.handle: f"s{signal.handle}" for signal in signals.by_name.values()}
    changes = 0
    with open(target, "w") as file:
        file.write(f"$timescale {UNITS[exponent]} $end\n$scope module {scopes[0]} $end\n")
        for name, signal in signals.by_name.items():
            file.write(f"$var wire {signal.length} {handles[signal.handle]} {name.removeprefix(scopes[0] + '.')} $end\n")
        file.write("$upscope $end\n$enddefinitions $end\n")
        last = None

        def change(_, time, handle, value):
            nonlocal last, changes
            if time != last:
                file.write(f"#{time}\n")
                last = time
            file.write(f"{ffi.string(value).decode()}{handles[handle]}\n")
            changes += 1

        lib.fstReaderSetFacProcessMaskAll(fst)
        if not pylibfst.fstReaderIterBlocks(fst, change):
            sys.exit(f"judge-fst.py: {source}: a section is damaged")
        file.write(f"#{end}\n")
    print(json.dumps({
        "version": pylibfst.string(lib.fstReaderGetVersionString(fst)),
        "date": pylibfst.string(lib.fstReaderGetDateString(fst)),
        "exponent": exponent,
        "end": end,
        "sections": lib.fstReaderGetValueChangeSectionCount(fst),
        "signals": len(signals.by_name),
        "changes": changes,
    }))
    lib.fstReaderClose(fst)


if __name__ == "__main__":
    main()
