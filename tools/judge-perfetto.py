#!/usr/bin/env python3
"""judge-perfetto.py FILE: reads a trace with Perfetto's own package, and checks what its viewer relies on: known fields alone, tracks that are
described before they are used, times that do not go back, slices that end in the reverse order of their begins, arrows with two ends or more.

Prints one JSON object: tracks by their path (how many slices, instants and values, and the largest value), slices by name, and the arrows
by the paths that they touch. An error is one line on standard error and exit code 1.
"""

import collections
import json
import sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto


class Wrong(Exception):
    pass


def judge(data):
    trace = perfetto.Trace()
    trace.ParseFromString(data)
    if trace.SerializeToString() != data:
        raise Wrong("the package writes other bytes than it has read: a field has another type there")
    paths, counters, stacks, seen, names = {}, set(), collections.defaultdict(list), {}, collections.Counter()
    flows, last = collections.defaultdict(list), 0
    for packet in trace.packet:
        if packet.trusted_packet_sequence_id == 0:
            raise Wrong("a packet has no sequence")
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            parent = paths[track.parent_uuid] + "/" if track.parent_uuid else ""
            if track.uuid in paths:
                raise Wrong(f"track {track.uuid} is described twice")
            paths[track.uuid] = parent + track.name
            if track.HasField("counter"):
                counters.add(track.uuid)
            continue
        if not packet.HasField("track_event"):
            raise Wrong("a packet has neither a track nor an event")
        event, at = packet.track_event, packet.timestamp
        if event.track_uuid not in paths:
            raise Wrong(f"at {at}: track {event.track_uuid} is not described")
        if at < last:
            raise Wrong(f"at {at}: before the event at {last}")
        last = at
        path = paths[event.track_uuid]
        track = seen.setdefault(path, {"slices": 0, "instants": 0, "values": 0, "largest": 0})
        if event.type == perfetto.TrackEvent.TYPE_SLICE_BEGIN:
            stacks[event.track_uuid].append(event.name)
            track["slices"] += 1
            names[event.name] += 1
        elif event.type == perfetto.TrackEvent.TYPE_SLICE_END:
            if not stacks[event.track_uuid]:
                raise Wrong(f"at {at}: {path} ends a slice that has not begun")
            stacks[event.track_uuid].pop()
        elif event.type == perfetto.TrackEvent.TYPE_INSTANT:
            track["instants"] += 1
        elif event.type == perfetto.TrackEvent.TYPE_COUNTER:
            if event.track_uuid not in counters:
                raise Wrong(f"at {at}: {path} is no counter")
            track["values"] += 1
            track["largest"] = max(track["largest"], event.double_counter_value)
        else:
            raise Wrong(f"at {at}: an event without a type")
        depth = len(stacks[event.track_uuid])
        if depth > 1:
            raise Wrong(f"at {at}: {path} has {depth} slices at a time")
        for flow in [*event.flow_ids, *event.terminating_flow_ids]:
            flows[flow].append(path)
        for flow in event.terminating_flow_ids:
            flows[flow].append("end")
    for uuid, stack in stacks.items():
        if stack:
            raise Wrong(f"{paths[uuid]}: {stack} do not end")
    for flow, touched in flows.items():
        if len([path for path in touched if path != "end"]) < 2:
            raise Wrong(f"arrow {flow} touches {touched} alone")
    arrows = collections.Counter(" > ".join(touched) for touched in flows.values())
    return {"tracks": seen, "names": names, "arrows": arrows, "last": last}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        with open(sys.argv[1], "rb") as file:
            print(json.dumps(judge(file.read()), indent=1))
    except (Wrong, OSError) as error:
        sys.exit(f"{sys.argv[1]}: {error}")
