package cq

// form is how a command lies in a stream.
type form struct {
	name   string // "" if the revision has no such command
	head   int    // bytes in front of list and data
	fields []slot
	list   *list // after the head; its length is the field "count"

	stride string // field that holds the distance to the next prefetcher command; "" if it is that of the head alone
	relays string // field that says how many bytes a relay brings for the command before it
	sum    string // field of the list that adds up to the relayed bytes
	inline bool   // carries a dispatcher command
	data   data   // what follows head and list
}

// slot is a field: its name, its offset, its size in bytes, and how it is read.
type slot struct {
	name string
	at   int
	size int
	as   reading
}

type list struct {
	size   int // bytes of an entry
	most   int
	empty  bool // may be
	fields []slot
}

// reading is what a field's bits mean.
type reading uint8

const (
	asDec reading = iota
	asHex
	asTile      // coordinates of a tile
	asRect      // of a rectangle
	asTarget    // of a tile, or of a rectangle if the field "mcast" isn't 0
	asBool      // 0 or 1
	asMemory    // L1 or DRAM
	asPaged     // memory and bytes that are cut off
	asTo        // a dispatcher
	asLess1     // a number less one
	asWait      // flags of a WAIT
	asPacked    // flags of a WRITE_PACKED
	asLarge     // type of a WRITE_PACKED_LARGE
	asGo        // a go word
	asMulticast // a slot, or none
	asBranch    // flags of a BRANCH
	asCompare   // a comparison
)

// data says how many bytes follow the head and the list of a dispatcher command.
type data uint8

const (
	noData     data = iota
	dataLength      // as many as "length"
	dataHost        // as many as "length" less the head
	dataPages       // "pages" times "page_size"
	dataSlots       // WRITE_PACKED: one slot of "size" for each entry, or one for all
	dataBlocks      // the lengths in the list, each padded to "alignment"
	dataSized       // as many as "size"
)

// pinned returns the pinned revision, to be changed into others: nothing is shared between two of them.
func pinned() *Revision {
	r := &Revision{
		waitNames: []string{"barrier", "notify", "memory", "stream", "clear"},
		wait:      waitBits{memory: 4, stream: 8, clearStream: 0x10},
	}
	relay := []slot{{"to", 1, 1, asTo}, {"length", 4, 4, asDec}, {"stride", 8, 4, asDec}}
	r.prefetch = [32]form{
		PrefetchRelayLinear: {name: "RELAY_LINEAR", head: LargeHeaderSize, relays: "length",
			fields: []slot{{"length", 3, 8, asDec}, {"noc", 11, 4, asTile}, {"addr", 15, 8, asHex}}},
		PrefetchRelayLinearH: {name: "RELAY_LINEAR_H", head: LargeHeaderSize, relays: "length",
			fields: []slot{{"noc", 4, 4, asTile}, {"addr", 8, 8, asHex}, {"length", 16, 4, asDec}}},
		PrefetchRelayPaged: {name: "RELAY_PAGED", head: HeaderSize, relays: "pages",
			fields: []slot{{"start", 1, 1, asDec}, {"flags", 2, 2, asPaged}, {"base", 4, 4, asHex}, {"page_size", 8, 4, asDec},
				{"pages", 12, 4, asDec}}},
		PrefetchRelayPagedPacked: {name: "RELAY_PAGED_PACKED", head: HeaderSize, stride: "stride", relays: "total", sum: "length",
			fields: []slot{{"count", 2, 2, asDec}, {"total", 4, 4, asDec}, {"stride", 8, 4, asDec}},
			list: &list{size: 12, most: maxPagedSubs, fields: []slot{{"start", 0, 2, asDec}, {"log2_page", 2, 2, asDec}, {"base", 4, 4, asHex},
				{"length", 8, 4, asDec}}}},
		PrefetchRelayInline:        {name: "RELAY_INLINE", head: HeaderSize, stride: "stride", inline: true, fields: relay},
		PrefetchRelayInlineNoFlush: {name: "RELAY_INLINE_NOFLUSH", head: HeaderSize, stride: "stride", inline: true, fields: relay},
		PrefetchExecBuf: {name: "EXEC_BUF", head: HeaderSize, fields: []slot{{"base", 4, 4, asHex}, {"log2_page", 8, 4, asDec},
			{"pages", 12, 4, asDec}}},
		PrefetchExecBufEnd: {name: "EXEC_BUF_END", head: HeaderSize, stride: "stride", inline: true, fields: relay},
		PrefetchStall:      {name: "STALL", head: HeaderSize},
		PrefetchDebug: {name: "DEBUG", head: HeaderSize, stride: "stride", data: dataSized,
			fields: []slot{{"key", 2, 2, asHex}, {"size", 4, 4, asDec}, {"stride", 8, 4, asDec}}},
		PrefetchTerminate: {name: "TERMINATE", head: HeaderSize},
		PrefetchPagedToRingbuffer: {name: "PAGED_TO_RINGBUFFER", head: HeaderSize,
			fields: []slot{{"reset", 1, 1, asBool}, {"log2_page", 2, 1, asDec}, {"start", 3, 1, asDec}, {"advance", 4, 4, asDec},
				{"base", 8, 4, asHex}, {"length", 12, 4, asDec}}},
		PrefetchSetRingbufferOffset: {name: "SET_RINGBUFFER_OFFSET", head: HeaderSize,
			fields: []slot{{"offset", 1, 4, asHex}, {"write", 8, 1, asBool}}},
		PrefetchRelayRingbuffer: {name: "RELAY_RINGBUFFER", head: HeaderSize, stride: "stride", relays: "sum", sum: "length",
			fields: []slot{{"count", 2, 2, asDec}, {"stride", 4, 4, asDec}},
			list:   &list{size: 8, most: MaxRingSubs, fields: []slot{{"start", 0, 4, asHex}, {"length", 4, 4, asDec}}}},
	}
	linear := form{name: "WRITE_LINEAR", head: LargeHeaderSize, data: dataLength,
		fields: []slot{{"mcast", 1, 1, asDec}, {"offset_index", 2, 1, asDec}, {"noc", 4, 4, asTarget}, {"addr", 8, 8, asHex},
			{"length", 16, 8, asDec}}}
	linearH := linear
	linearH.name = "WRITE_LINEAR_H"
	r.dispatch = [32]form{
		DispatchWriteLinear: linear, DispatchWriteLinearH: linearH,
		DispatchWriteHost: {name: "WRITE_LINEAR_H_HOST", head: HeaderSize, data: dataHost,
			fields: []slot{{"event", 1, 1, asBool}, {"pad1", 2, 2, asHex}, {"pad2", 4, 4, asHex}, {"length", 8, 8, asDec}}},
		DispatchWritePaged: {name: "WRITE_PAGED", head: HeaderSize, data: dataPages,
			fields: []slot{{"memory", 1, 1, asMemory}, {"start", 2, 2, asDec}, {"base", 4, 4, asHex}, {"page_size", 8, 4, asDec},
				{"pages", 12, 4, asDec}}},
		DispatchWritePacked: {name: "WRITE_PACKED", head: HeaderSize, data: dataSlots,
			fields: []slot{{"flags", 1, 1, asPacked}, {"count", 2, 2, asDec}, {"offset_index", 4, 2, asDec}, {"size", 6, 2, asDec},
				{"addr", 8, 4, asHex}},
			list: &list{size: 4, most: maxPackedCores, fields: []slot{{"noc", 0, 4, asTile}}}},
		DispatchWritePackedLarge: {name: "WRITE_PACKED_LARGE", head: HeaderSize, data: dataBlocks,
			fields: []slot{{"type", 1, 1, asLarge}, {"count", 2, 2, asDec}, {"alignment", 4, 2, asDec}, {"offset_index", 6, 2, asDec}},
			list: &list{size: 12, most: MaxLargeSubs, fields: []slot{{"noc", 0, 4, asRect}, {"addr", 4, 4, asHex}, {"length", 8, 2, asLess1},
				{"dests", 10, 1, asDec}, {"unlink", 11, 1, asBool}}}},
		DispatchWait: {name: "WAIT", head: HeaderSize,
			fields: []slot{{"flags", 1, 1, asWait}, {"stream", 2, 2, asDec}, {"addr", 4, 4, asHex}, {"count", 8, 4, asDec}}},
		DispatchSink: {name: "SINK", head: HeaderSize},
		DispatchDebug: {name: "DEBUG", head: HeaderSize, data: dataSized, fields: []slot{{"key", 2, 2, asHex}, {"size", 4, 4, asDec},
			{"stride", 8, 4, asDec}}},
		DispatchDelay:      {name: "DELAY", head: HeaderSize, fields: []slot{{"loops", 4, 4, asDec}}},
		DispatchExecBufEnd: {name: "EXEC_BUF_END", head: HeaderSize},
		DispatchSetWriteOffset: {name: "SET_WRITE_OFFSET", head: HeaderSize, fields: []slot{{"count", 1, 1, asDec}, {"host_id", 2, 2, asDec}},
			list: &list{size: 4, most: maxWriteOffsets, empty: true, fields: []slot{{"offset", 0, 4, asHex}}}},
		DispatchTerminate: {name: "TERMINATE", head: HeaderSize},
		DispatchSendGoSignal: {name: "SEND_GO_SIGNAL", head: HeaderSize,
			fields: []slot{{"go", 1, 4, asGo}, {"multicast", 5, 1, asMulticast}, {"unicasts", 6, 1, asDec}, {"noc_start", 7, 1, asDec},
				{"wait_count", 8, 4, asDec}, {"wait_stream", 12, 4, asDec}}},
		DispatchNotifySubordinate: {name: "NOTIFY_SUBORDINATE_GO_SIGNAL", head: HeaderSize,
			fields: []slot{{"wait", 1, 1, asBool}, {"mask", 2, 2, asHex}}},
		DispatchSetNumWorkerSems: {name: "SET_NUM_WORKER_SEMS", head: HeaderSize, fields: []slot{{"num", 4, 4, asDec}}},
		DispatchSetGoSignalNOCData: {name: "SET_GO_SIGNAL_NOC_DATA", head: HeaderSize, fields: []slot{{"count", 4, 4, asDec}},
			list: &list{size: 4, most: 1 << 16, empty: true, fields: []slot{{"noc", 0, 4, asTile}}}},
	}
	return r
}
