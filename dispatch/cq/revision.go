package cq

import "sync"

// Pinned is the revision that this package writes and the runtime's firmware understands.
const Pinned = "2026-03"

// Revision is a state of tt-metal's protocol: its ids and the fields of each command. Only the
// pinned one can be written.
type Revision struct {
	// Name is the date from which on it was seen, as "2025-mid", or "newer" and a letter.
	Name  string
	About string

	prefetch  forms
	dispatch  forms
	waitNames []string
	wait      waitBits
}

// waitBits are the flags of a WAIT that say which fields matter.
type waitBits struct{ memory, clearMemory, stream, clearStream uint64 }

// Revisions returns all known revisions, oldest first (tt-metal's cq_commands.hpp at several times,
// and its forks). They must not be changed.
func Revisions() []*Revision { return revisions().all }

func own() *Revision { return revisions().own }

func newest() *Revision { return revisions().newest }

type revisionSet struct {
	all         []*Revision
	own, newest *Revision
}

var revisions = sync.OnceValue(makeRevisions)

func makeRevisions() revisionSet {
	early, mid, autumn, pin, newerA, newerB := pinned(), pinned(), pinned(), pinned(), pinned(), pinned()
	for _, r := range []*Revision{early, mid, autumn, newerA, newerB} {
		clear(r.prefetch[stockIDs:])
		clear(r.dispatch[stockIDs:])
	}

	beforeLinearH(mid)
	mid.Name, mid.About = "2025-mid", "no RELAY_LINEAR_H, so later prefetcher ids are one less; all commands have 16 bytes; lengths of packed-large writes are not less one"
	beforeLinearH(early)
	early.Name, early.About = "2025-early", "as 2025-mid, with three write offsets in the command and no cached write pointer"
	early.dispatch[DispatchSetWriteOffset] = form{name: "SET_WRITE_OFFSET",
		fields: []slot{{"host_id", 2, 2, asDec}, {"offset[0]", 4, 4, asHex}, {"offset[1]", 8, 4, asHex}, {"offset[2]", 12, 4, asHex}}}
	early.prefetch[11] = form{name: "PAGED_TO_RINGBUFFER",
		fields: []slot{{"reset", 1, 1, asBool}, {"log2_page", 3, 1, asDec}, {"start", 4, 4, asDec}, {"base", 8, 4, asHex},
			{"length", 12, 4, asDec}}}
	early.prefetch[12] = form{name: "SET_RINGBUFFER_OFFSET", fields: []slot{{"offset", 1, 4, asHex}}}
	early.prefetch[13].list.most = 35

	autumn.Name, autumn.About = "2025-autumn", "RELAY_LINEAR_H laid out like RELAY_LINEAR; lengths of packed-large writes are not less one"
	autumn.prefetch[PrefetchRelayLinearH].fields = autumn.prefetch[PrefetchRelayLinear].fields
	lengthsAsTheyAre(autumn)

	pin.Name, pin.About = Pinned, "lengths of packed-large writes are less one"

	newer(newerA)
	newerA.Name, newerA.About = "newer-a", "WAIT flags moved for CLEAR_MEMORY; 32-bit host ids"
	newerA.dispatch[DispatchSetWriteOffset].fields = []slot{{"count", 1, 1, asDec}, {"host_id", 4, 4, asDec}}
	newer(newerB)
	newerB.Name, newerB.About = "newer-b", "as newer-a, with 16-bit host ids and a profiler's fields in the go signal"
	newerB.dispatch[DispatchSendGoSignal].fields = []slot{{"go", AtGoWord, 4, asGo}, {"multicast", 5, 1, asMulticast},
		{"unicasts", 6, 1, asDec},
		{"noc_start", 7, 1, asDec}, {"profiler_id", 8, 2, asDec}, {"profiler_workers", 10, 1, asDec},
		{"wait_count", 11, 4, asDec}, {"wait_stream", 15, 1, asDec}}
	return revisionSet{all: []*Revision{early, mid, autumn, pin, newerA, newerB}, own: pin, newest: newerB}
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

func beforeLinearH(r *Revision) {
	copy(r.prefetch[2:], r.prefetch[3:stockIDs])
	r.prefetch[stockIDs-1] = form{}
	r.prefetch[1].large = false
	r.prefetch[1].fields = []slot{{"noc", 4, 4, asTile}, {"addr", 8, 4, asHex}, {"length", 12, 4, asDec}}
	for _, id := range []DispatchID{DispatchWriteLinear, DispatchWriteLinearH} {
		r.dispatch[id].large = false
		r.dispatch[id].fields = []slot{{"mcast", 1, 1, asDec}, {"offset_index", 2, 1, asDec}, {"noc", 4, 4, asTarget},
			{"addr", 8, 4, asHex}, {"length", 12, 4, asDec}}
	}
	r.dispatch[DispatchWriteHost].fields = []slot{{"event", 1, 1, asBool}, {"pad1", 2, 2, asHex}, {"pad2", 4, 4, asHex},
		{"pad3", 8, 4, asHex}, {"length", 12, 4, asDec}}
	r.dispatch[DispatchSendGoSignal].fields[1] = slot{"multicasts", 5, 1, asDec}
	lengthsAsTheyAre(r)
}

func lengthsAsTheyAre(r *Revision) {
	r.dispatch[DispatchWritePackedLarge].list.fields[2].as = asDec
}

func newer(r *Revision) {
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
	r.dispatch[19] = form{name: "SET_SUB_DEVICE_WORKER_COUNTS", sub: true, fields: []slot{{"count", 4, 4, asDec}},
		list: &list{size: 4, most: 8, empty: true, fields: []slot{{"workers", 0, 4, asDec}}}}
	r.dispatch[20] = form{name: "RT_PROFILER_FLUSH", sub: true,
		fields: []slot{{"wait_count", 1, 4, asDec}, {"wait_stream", 5, 4, asDec}}}
	r.waitNames = []string{"barrier", "notify", "memory", "clear memory", "stream", "clear"}
	r.wait = waitBits{memory: 4, clearMemory: 8, stream: 0x10, clearStream: 0x20}
}
