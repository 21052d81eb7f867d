package cq

import "sync"

// Pinned is the revision that this package writes and the runtime's firmware understands.
const Pinned = "2026-03"

// Revision is a state of tt-metal's protocol: its ids and the fields of each command. Only the
// pinned one can be written.
type Revision struct {
	// Name is the first ttnn wheel with the revision, or Pinned.
	Name string

	prefetch  forms
	dispatch  forms
	waitNames []string
	wait      waitBits
}

// waitBits are the flags of a WAIT that say which fields matter.
type waitBits struct{ memory, clearMemory, stream, clearStream uint64 }

// Revisions returns the revisions of all ttnn wheels, oldest first (tt-metal's cq_commands.hpp).
// They must not be changed.
func Revisions() []*Revision { return revisions().all }

func own() *Revision { return revisions().own }

type revisionSet struct {
	all []*Revision
	own *Revision
}

var revisions = sync.OnceValue(makeRevisions)

func makeRevisions() revisionSet {
	pin := pinned()
	pin.Name = Pinned
	var all []*Revision
	for _, r := range []struct {
		name    string
		changes []func(*Revision)
	}{
		{"0.60.1", []func(*Revision){wholeLengths, shortCommands, withoutLinearH}},
		{"0.63.0", []func(*Revision){wholeLengths, shortCommands}},
		{"0.64.0", []func(*Revision){wholeLengths}},
		{Pinned, nil}, // ttnn 0.65.0 and 0.66.0
		{"0.67.0", []func(*Revision){linearPacked}},
		{"0.74.0", []func(*Revision){linearPacked, clearMemory}},
		{"0.79.0", []func(*Revision){linearPacked, clearMemory, alignedFields}},
		{"0.81.1", []func(*Revision){linearPacked, clearMemory, alignedFields, multicastOnly}},
	} {
		v := pin
		if r.name != Pinned {
			v = pinned()
			v.Name = r.name
			clear(v.prefetch[stockIDs:])
			clear(v.dispatch[stockIDs:])
		}
		for _, change := range r.changes {
			change(v)
		}
		all = append(all, v)
	}
	return revisionSet{all, pin}
}

// RevisionByName returns the revision of a name, nil if it is unknown.
func RevisionByName(name string) *Revision {
	for _, r := range Revisions() {
		if r.Name == name {
			return r
		}
	}
	return nil
}

func wholeLengths(r *Revision) {
	r.dispatch[DispatchWritePackedLarge].list.fields[2].as = asDec
}

func shortCommands(r *Revision) {
	for id, fields := range map[PrefetchID][]slot{
		PrefetchRelayLinear:  {{"length_hi", 3, 1, asDec}, {"length", 4, 4, asDec}, {"noc", 8, 4, asTile}, {"addr", 12, 4, asHex}},
		PrefetchRelayLinearH: {{"noc", 4, 4, asTile}, {"addr", 8, 4, asHex}, {"length", 12, 4, asDec}},
	} {
		r.prefetch[id].large, r.prefetch[id].fields = false, fields
	}
	for _, id := range []DispatchID{DispatchWriteLinear, DispatchWriteLinearH} {
		r.dispatch[id].large = false
		r.dispatch[id].fields = []slot{{"mcast", 1, 1, asDec}, {"offset_index", 2, 1, asDec}, {"noc", 4, 4, asTarget},
			{"addr", 8, 4, asHex}, {"length", 12, 4, asDec}}
	}
}

func withoutLinearH(r *Revision) {
	r.prefetch[PrefetchRelayLinear].fields = r.prefetch[PrefetchRelayLinearH].fields
	copy(r.prefetch[2:], r.prefetch[3:stockIDs])
	r.prefetch[stockIDs-1] = form{}
	r.dispatch[DispatchWriteHost].fields = []slot{{"event", 1, 1, asBool}, {"pad1", 2, 2, asHex}, {"pad2", 4, 4, asHex},
		{"pad3", 8, 4, asHex}, {"length", 12, 4, asDec}}
	r.dispatch[DispatchSendGoSignal].fields[1] = slot{"multicasts", 5, 1, asDec}
}

func linearPacked(r *Revision) {
	for _, id := range []PrefetchID{PrefetchRelayLinear, PrefetchRelayLinearH} {
		r.prefetch[id].fields = []slot{{"noc", 4, 4, asTile}, {"addr", 8, 8, asHex}, {"length", 16, 8, asDec}}
	}
	packed := form{relays: "total",
		fields: []slot{{"count", 2, 2, asDec}, {"noc", 4, 4, asTile}, {"total", 8, 4, asDec}, {"stride", 12, 4, asDec}},
		list:   &list{size: 12, most: 35, fields: []slot{{"addr", 0, 8, asHex}, {"length", 8, 4, asDec}}}}
	packed.name = "RELAY_LINEAR_PACKED"
	r.prefetch[15] = packed
	packed.name = "RELAY_LINEAR_PACKED_H"
	r.prefetch[16] = packed
	r.dispatch[18] = form{name: "WRITE_PACKED_LARGE_UNICAST", data: dataBlocks,
		fields: r.dispatch[DispatchWritePackedLarge].fields,
		list:   &list{size: 12, most: 35, fields: []slot{{"noc", 0, 4, asTile}, {"addr", 4, 4, asHex}, {"length", 8, 4, asDec}}}}
}

func clearMemory(r *Revision) {
	r.dispatch[19] = form{name: "SET_SUB_DEVICE_WORKER_COUNTS", sub: true, fields: []slot{{"count", 4, 4, asDec}},
		list: &list{size: 4, most: 8, empty: true, fields: []slot{{"workers", 0, 4, asDec}}}}
	r.dispatch[20] = form{name: "RT_PROFILER_FLUSH", sub: true, fields: []slot{{"wait_count", 1, 4, asDec}, {"wait_stream", 5, 4, asDec}}}
	r.waitNames = []string{"barrier", "notify", "memory", "clear memory", "stream", "clear"}
	r.wait = waitBits{memory: 4, clearMemory: 8, stream: 0x10, clearStream: 0x20}
}

func alignedFields(r *Revision) {
	r.prefetch[PrefetchSetRingbufferOffset].fields = []slot{{"write", 1, 1, asBool}, {"offset", 4, 4, asHex}}
	r.dispatch[DispatchSendGoSignal].fields = []slot{{"multicast", 1, 1, asMulticast}, {"unicasts", 2, 1, asDec}, {"noc_start", 3, 1, asDec},
		{"go", 4, 4, asGo}, {"wait_count", 8, 4, asDec}, {"wait_stream", 12, 4, asDec}}
	r.dispatch[20].fields = []slot{{"wait_count", 4, 4, asDec}, {"wait_stream", 8, 4, asDec}}
}

func multicastOnly(r *Revision) {
	copy(r.dispatch[DispatchSetGoSignalNOCData:], r.dispatch[DispatchSetGoSignalNOCData+1:stockIDs])
	r.dispatch[stockIDs-1] = form{}
	r.dispatch[DispatchSendGoSignal].fields = []slot{{"multicast", 1, 1, asMulticast}, {"go", 4, 4, asGo}, {"wait_count", 8, 4, asDec},
		{"wait_stream", 12, 4, asDec}}
}
