#!/usr/bin/env python3
"""judge-vcd.py FILE.vcd [--ddr] [--emmc] [--io-block=BYTES]: reads a waveform of an SD, SDIO or eMMC bus as a receiver would, sampling at
the edges of CLK, and checks frames, gaps and checksums with PyPI's crccheck. Shares nothing with the program that wrote the file.

--ddr: data move on both edges at the begin of the file; --emmc: the card is an eMMC (other lengths of CMD6 and CMD8, no CMD55); --io-block:
the block size of an I/O function whose CMD52 to its FBR are not in the file (512). What the host's commands say of width and edges
counts from there on: every block must have that many lines. Of an I/O card also its interrupt on DAT1 is followed, which must rest
while data move.
Prints one JSON object; an error is one line on standard error and exit code 1.
"""

import json
import sys

from crccheck.crc import Crc7, Crc16Xmodem

# Bytes of a block, by command; commands that read and that write.
SD_BLOCKS = {6: 64, 17: 512, 18: 512, 19: 64, 24: 512, 25: 512, 30: 4}
SD_APP_BLOCKS = {13: 64, 22: 4, 51: 8}
EMMC_BLOCKS = {8: 512, 17: 512, 18: 512, 21: 128, 24: 512, 25: 512, 30: 4, 31: 8}
WRITES = (24, 25)
OPEN_ENDED = (18, 25)
# Block size where no CMD52 has said it.
IO_BLOCK = 512
# EXT_CSD BUS_WIDTH [183]: lines, and whether data move on both edges [eMMC 7.4.67].
EMMC_WIDTHS = {0: (1, False), 1: (4, False), 2: (8, False), 5: (4, True), 6: (8, True)}
# Flags of R5 that say an error [SDIO 5.2.2].
R5_ERRORS = {0x80: "COM_CRC_ERROR", 0x40: "ILLEGAL_COMMAND", 0x08: "ERROR", 0x02: "FUNCTION_NUMBER", 0x01: "OUT_OF_RANGE"}


class Wrong(Exception):
    pass


def samples(path):
    """Levels at the rising edges, and at the falling edges after them, by line; times of the rising edges, in units of the file."""
    names, bits, levels, clk = [], {}, 0, 0
    rising, falling, times = [], [], []
    now, body, to, mask = 0, False, 0, 0

    with open(path) as file:
        for line in file:
            first = line[0]
            if first in "01":
                bit = bits[line[1:-1]]
                mask |= bit
                to = to | bit if first == "1" else to & ~bit
            elif first == "#":
                # Lines are sampled as they were before the edge, not as they change together with it.
                if mask & clk and (levels ^ to) & clk:
                    if to & clk:
                        rising.append(levels)
                        times.append(now)
                    elif len(falling) < len(rising):
                        falling.append(levels)
                levels, mask = to, 0
                at = int(line[1:])
                if at < now:
                    raise Wrong(f"time goes back at {at}")
                now = at
            elif not body:
                word = line.split()
                if word[:1] == ["$var"]:
                    if word[2] != "1":
                        raise Wrong(f"variable {word[4]} is {word[2]} bits wide")
                    bits[word[3]] = 1 << len(names)
                    if word[4] == "CLK":
                        clk = bits[word[3]]
                    names.append(word[4])
                body = word[:1] == ["$enddefinitions"]
    falling += rising[-1:] * (len(rising) - len(falling))

    def line_of(edges, name):
        at = names.index(name)
        return [levels >> at & 1 for levels in edges]

    used = [name for name in names if name == "CMD" or name.startswith("DAT")]
    return {n: line_of(rising, n) for n in used}, {n: line_of(falling, n) for n in used}, times


def number(bits):
    return int("".join(map(str, bits)), 2)


def octets(bits):
    return [number(bits[i : i + 8]) for i in range(0, len(bits), 8)]


def tokens(cmd, times, emmc):
    """Everything on the CMD line: (first cycle, last cycle, from the host, index, argument, follows CMD55); and how often the
    clock was stopped less than 8 clocks after a token."""
    found, i, last, app, end, early = [], 0, None, False, None, 0
    while i < len(cmd):
        if cmd[i]:
            i += 1
            continue
        if i + 48 > len(cmd):
            break
        host = cmd[i + 1] == 1
        if host:
            length = 48
        else:
            if last is None:
                raise Wrong(f"cycle {i}: a response without a command")
            length = 136 if last in (2, 9, 10) else 48
        bits = cmd[i : i + length]
        if len(bits) < length:
            break
        if bits[-1] != 1:
            raise Wrong(f"cycle {i}: no end bit")
        gap = i - end - 1 if end is not None else None
        if host:
            if gap is not None and gap < 8:
                # Eight cycles' time without eight cycles: the clock stood.
                if times[i] - times[end] < 8 * (times[end] - times[end - 1]):
                    raise Wrong(f"cycle {i}: {gap} clocks before a command")
                early += 1
            is_app = app
            last, argument = number(bits[2:8]), number(bits[8:40])
            app = last == 55
        else:
            if not 2 <= gap <= 64:
                raise Wrong(f"cycle {i}: {gap} clocks before a response")
            argument = number(bits[8:40])
        index = number(bits[2:8])
        body, crc = (bits[8:128], bits[128:135]) if length == 136 else (bits[:40], bits[40:47])
        bare = not host and (last == 1 if emmc else (last == 41 and found[-1][5]) or last == 5)
        wanted = 0x7F if bare else Crc7.calc(octets(body))
        if number(crc) != wanted:
            raise Wrong(f"cycle {i}: CRC7 {number(crc):#x}, expected {wanted:#x}")
        if not host and length == 48 and index != (0x3F if bare else last):
            raise Wrong(f"cycle {i}: a response of {index} to {last}")
        end = i + length - 1
        found.append((i, end, host, last if host else index, argument, is_app if host else False))
        i += length
    return found, early


def block(lines, falls, i, size, bus, tuning):
    """A block whose start bit is in cycle i: its bytes, its lines, the first cycle after it, and whether its checksums are right, which is
    left to the host to find where it tunes its sampling point."""
    ddr, good = bus.ddr, True
    # On one line the others are free: DAT1 for an interrupt.
    low = [0] if bus.width == 1 else [n for n in range(len(lines)) if lines[n][i] == 0]
    width = len(low)
    if width not in (1, 4, 8) or low != list(range(width)):
        raise Wrong(f"cycle {i}: a start bit on lines {low}")
    per_line = size * 8 // width // (2 if ddr else 1)
    end = i + 1 + per_line + 16
    streams = []
    for edges in (lines, falls) if ddr else (lines,):
        stream = []
        for n in range(width):
            bits = edges[n][i : end + 1]
            if len(bits) < end + 1 - i:
                return None, width, len(lines[0]), good
            data, crc = bits[1 : 1 + per_line], number(bits[1 + per_line : 17 + per_line])
            if bits[-1] != 1:
                raise Wrong(f"cycle {i}: DAT{n} has no end bit")
            wanted = Crc16Xmodem.calc(octets(data))
            good &= crc == wanted
            if not good and not tuning:
                raise Wrong(f"cycle {i}: DAT{n} CRC16 {crc:#x}, expected {wanted:#x}")
            stream.append(data)
        bits = [stream[n][at] for at in range(per_line) for n in reversed(range(width))]
        streams.append(octets(bits))
    data = [byte for pair in zip(*streams) for byte in pair]
    return bytes(data), width, end + 1, good


class Io:
    """What CMD52 and CMD53 say of the data to come [SDIO 5.1, 5.3, 6.10]."""

    def __init__(self, block):
        self.default, self.sizes = block, {}

    def direct(self, argument):
        """CMD52: block sizes are written to function 0, register n10h and n11h. True: an abort of data (CCCR 06h)."""
        write, function, register, value = argument >> 31, argument >> 28 & 7, argument >> 9 & 0x1FFFF, argument & 0xFF
        if not write or function:
            return False
        if register >> 8 < 8 and register & 0xFE == 0x10:
            low, high = self.sizes.get(register >> 8, (self.default & 0xFF, self.default >> 8))
            self.sizes[register >> 8] = (low, value) if register & 1 else (value, high)
        return register == 0x06 and value & 7 != 0

    def extended(self, argument):
        """CMD53: bytes of a block, blocks (None: until an abort), and whether they go to the card."""
        write, function, by_blocks, count = argument >> 31 == 1, argument >> 28 & 7, argument >> 27 & 1, argument & 0x1FF
        if not by_blocks:
            return count or 512, 1, write
        low, high = self.sizes.get(function, (self.default & 0xFF, self.default >> 8))
        return high << 8 | low, count or None, write


class Bus:
    """Lines in use and edges, as the host's commands set them; None: not known."""

    def __init__(self, ddr):
        self.width, self.ddr = None, ddr

    def command(self, index, argument, app, emmc):
        if index == 0:
            self.width, self.ddr = 1, False
        elif emmc and index == 6 and argument >> 24 & 3 == 3 and argument >> 16 & 0xFF == 183:
            value = argument >> 8 & 0xF
            if value not in EMMC_WIDTHS:
                raise Wrong(f"CMD6 {argument:#010x}: no such bus width")
            self.width, self.ddr = EMMC_WIDTHS[value]
        elif app and index == 6:
            self.width = 4 if argument & 3 == 2 else 1
        elif not emmc and index == 52 and argument >> 9 & 0x1FFFF == 7 and argument >> 28 == 8:
            self.width = 4 if argument & 3 == 2 else 1


def io_commands(found):
    """CMD52 and CMD53 with what they ask and what R5 says [SDIO 5.1, 5.2.2, 5.3]."""
    commands = []
    for n, (i, _, host, index, argument, _) in enumerate(found):
        if not host or index not in (52, 53):
            continue
        command = {"command": index, "write": argument >> 31 == 1, "function": argument >> 28 & 7, "address": argument >> 9 & 0x1FFFF}
        if index == 53:
            command["by_blocks"], command["count"] = argument >> 27 & 1 == 1, argument & 0x1FF
        if n + 1 < len(found) and not found[n + 1][2]:
            flags = found[n + 1][4] >> 8 & 0xFF
            if found[n + 1][4] >> 16:
                raise Wrong(f"cycle {found[n + 1][0]}: stuff bits of R5 are {found[n + 1][4] >> 16:#x}")
            command["errors"] = [name for bit, name in R5_ERRORS.items() if flags & bit]
            if index == 52:
                command["data"] = found[n + 1][4] & 0xFF
        commands.append(command)
    return commands


def asks(dat1, taken):
    """How often an I/O card pulls DAT1 low. From the end of a command with data on four lines until two clocks after the data it must not
    [SDIO 8.1.2]."""
    falls, before = 0, 0
    for begin, first, end in sorted(taken) + [(len(dat1), len(dat1), len(dat1))]:
        stretch = dat1[before:begin]
        falls += sum(1 for a, b in zip([1] + stretch, stretch) if a and not b)
        for i in [*range(begin, min(first, len(dat1))), *range(end, min(end + 2, len(dat1)))]:
            if not dat1[i]:
                raise Wrong(f"cycle {i}: DAT1 is low where data have the lines")
        before = max(before, end + 2)
    return falls


def data(lines, falls, found, bus, emmc, io, taken):
    """Follows the DAT lines through the commands. To `taken` go the cycles of each block on four lines and more: from which on the
    lines are its own, its first, and the one after it."""
    blocks, status, busy = [], [], 0
    active, left, count, own = None, None, None, 0
    dat0, i, t = lines[0], 0, 0
    while i < len(dat0):
        while t < len(found) and found[t][1] < i:
            _, last, host, index, argument, app = found[t]
            t += 1
            if host:
                bus.command(index, argument, app, emmc)
                if index == 12:
                    active = None
                elif index == 23:
                    count = argument & 0xFFFF
                elif index == 52 and not emmc and io.direct(argument):
                    active = None
                elif index == 53 and not emmc:
                    size, left, write = io.extended(argument)
                    active, own = (index, size, write), last + 1
                # A write goes on where its command was answered, a read may start before.
                sizes = EMMC_BLOCKS if emmc else SD_APP_BLOCKS if app else SD_BLOCKS
                if index in sizes and (app or not emmc or index != 6):
                    size = 64 if emmc and index == 21 and bus.width == 4 else sizes[index]
                    active, own = (index, size, index in WRITES), last + 1
                    left = (count if index in OPEN_ENDED else 1) or None
                    count = None
        if dat0[i]:
            i += 1
            continue
        if active is None:
            # Busy.
            busy += 1
            while i < len(dat0) and not dat0[i]:
                i += 1
            continue
        index, size, write = active
        stop = next((c[1] for c in found if c[2] and c[3] == 12 and c[1] >= i), None)
        length = 2 + size * 8 + 16
        try:
            content, width, after, good = block(lines, falls, i, size, bus, index == (21 if emmc else 19))
        except Wrong:
            if index == 18 and stop is not None and stop < i + length:
                active, i = None, stop + 1
                continue
            raise
        if bus.width not in (None, width):
            raise Wrong(f"cycle {i}: a block on {width} lines, expected {bus.width}")
        if width >= 4:
            taken.append((own, i, after))
            own = after
        if content is None:
            break
        blocks.append({"command": index, "write": write, "width": width, "ddr": bus.ddr, "bytes": len(content),
                       "begin": content[:16].hex(), "good": good})
        if left is not None:
            left -= 1
            if left == 0:
                active = None
        i = after
        if write:
            i += 2
            token = dat0[i : i + 5]
            if len(token) == 5:
                if token not in ([0, 0, 1, 0, 1], [0, 1, 0, 1, 1]):
                    raise Wrong(f"cycle {i}: CRC status {token}")
                status.append(token == [0, 0, 1, 0, 1])
            i += 5
            if i < len(dat0) and not dat0[i]:
                busy += 1
                while i < len(dat0) and not dat0[i]:
                    i += 1
    return blocks, status, busy


def main():
    arguments = sys.argv[1:]
    ddr, emmc = "--ddr" in arguments, "--emmc" in arguments
    path = next(a for a in arguments if not a.startswith("--"))
    given = [int(a.split("=", 1)[1]) for a in arguments if a.startswith("--io-block=")]
    io = Io(given[-1] if given else IO_BLOCK)
    rising, falling, times = samples(path)
    cmd = rising["CMD"]
    width = sum(1 for name in rising if name.startswith("DAT"))
    lines = [rising[f"DAT{n}"] for n in range(width)]
    falls = [falling[f"DAT{n}"] for n in range(width)]
    found, early = tokens(cmd, times, emmc)
    taken = []
    blocks, status, busy = data(lines, falls, found, Bus(ddr), emmc, io, taken)
    io_found = [] if emmc else io_commands(found)
    gaps = [b - a for a, b in zip(times, times[1:])]
    print(json.dumps({
        "clocks": len(times),
        "shortest_cycle": min(gaps, default=0),
        "commands": [("ACMD" if t[5] else "CMD") + str(t[3]) for t in found if t[2]],
        "responses": sum(1 for t in found if not t[2]),
        "blocks": blocks,
        "status_good": sum(status),
        "status_bad": len(status) - sum(status),
        "busy": busy,
        "io": io_found,
        "card_interrupts": asks(lines[1], taken) if io_found else 0,
        "clock_stopped_early": early,
    }))


if __name__ == "__main__":
    try:
        main()
    except Wrong as error:
        sys.exit(f"judge-vcd.py: {error}")
