package cq

// ownIDs moves the ids of this runtime's own commands, from 0xE0 on, behind tt-metal's.
const ownIDs = 0xE0 - stockIDs

const stockIDs = 32 // ids that revisions of tt-metal may have

const (
	nameRelay    = "RELAY_INLINE"
	nameNoFlush  = "RELAY_INLINE_NOFLUSH"
	nameEnd      = "EXEC_BUF_END"
	nameGo       = "SEND_GO_SIGNAL"
	nameWithArgs = "FORWARD_WITH_ARGS"
)

type forms [stockIDs + 4]form

func (t *forms) by(id uint8) *form {
	i := int(id)
	if i >= ownIDs+stockIDs {
		i -= ownIDs
	} else if i >= stockIDs {
		return nil
	}
	if i >= len(t) || t[i].name == "" {
		return nil
	}
	return &t[i]
}

// pinned returns a new copy of the pinned revision, from which others are derived.
func pinned() *Revision {
	r := &Revision{
		waitNames: []string{"barrier", "notify", "memory", "stream", "clear"},
		wait:      waitBits{memory: 4, stream: 8, clearStream: 0x10},
	}
	relay := []slot{{"to", 1, 1, asTo}, {"length", 4, 4, asDec}, {"stride", 8, 4, asDec}}
	debug := []slot{{"key", 2, 2, asHex}, {"size", 4, 4, asDec}, {"stride", 8, 4, asDec}}
	buffer := []slot{{"base", 4, 4, asHex}, {"log2_page", 8, 4, asDec}, {"pages", 12, 4, asDec}}
	inBuffer := []rule{{"log2_page", log2DRAM, 31, 0}, {"pages", 1, 0, 0}}
	r.prefetch = forms{
		PrefetchRelayLinear: {name: "RELAY_LINEAR", large: true, relays: "length", prefetch: readRelayLinear,
			fields: []slot{{"length", 3, 8, asDec}, {"noc", 11, 4, asTile}, {"addr", 15, 8, asHex}},
			rules:  []rule{{"length", 1, 0, 0}}},
		PrefetchRelayLinearH: {name: "RELAY_LINEAR_H", large: true, relays: "length", prefetch: readRelayLinearH,
			fields: []slot{{"noc", 4, 4, asTile}, {"addr", 8, 8, asHex}, {"length", 16, 4, asDec}},
			rules:  []rule{{"length", 1, directRead, 0}}},
		PrefetchRelayPaged: {name: "RELAY_PAGED", relays: "pages", prefetch: readRelayPaged, check: checkRelayPaged,
			fields: []slot{{"start", 1, 1, asDec}, {"flags", 2, 2, asPaged}, {"base", 4, 4, asHex}, {"page_size", 8, 4, asDec},
				{"pages", 12, 4, asDec}}},
		PrefetchRelayPagedPacked: {name: "RELAY_PAGED_PACKED", relays: "total", prefetch: readRelayPagedPacked,
			fields: []slot{{"count", 2, 2, asDec}, {"total", 4, 4, asDec}, {"stride", 8, 4, asDec}},
			list: &list{size: 12, most: maxPagedSubs, fields: []slot{{"start", 0, 2, asDec}, {"log2_page", 2, 2, asDec},
				{"base", 4, 4, asHex}, {"length", 8, 4, asDec}}},
			rules: []rule{{"length", 1, halfScratch, dramAlign}, {"log2_page", 0, 31, 0}}},
		PrefetchRelayInline:        {name: nameRelay, data: dataRelay, fields: relay, prefetch: readRelayInline},
		PrefetchRelayInlineNoFlush: {name: nameNoFlush, data: dataRelay, fields: relay, prefetch: readRelayNoFlush},
		PrefetchExecBuf:            {name: "EXEC_BUF", fields: buffer, rules: inBuffer, prefetch: readExecBuf},
		PrefetchExecBufEnd:         {name: nameEnd, data: dataRelay, fields: relay, prefetch: fetchEmpty[ExecBufEnd]},
		PrefetchStall:              {name: "STALL", prefetch: fetchEmpty[Stall]},
		PrefetchDebug:              {name: "DEBUG", data: dataSized, fields: debug, prefetch: readDebugPrefetch},
		PrefetchTerminate:          {name: "TERMINATE", prefetch: fetchEmpty[TerminatePrefetch]},
		PrefetchPagedToRingbuffer: {name: "PAGED_TO_RINGBUFFER", prefetch: readPagedToRingbuffer,
			fields: []slot{{"reset", 1, 1, asBool}, {"log2_page", 2, 1, asDec}, {"start", 3, 1, asDec}, {"advance", 4, 4, asDec},
				{"base", 8, 4, asHex}, {"length", 12, 4, asDec}},
			rules: []rule{{"length", 1, cacheSize, dramAlign}, {"advance", 0, cacheSize, 0}, {"log2_page", 0, 31, 0}}},
		PrefetchSetRingbufferOffset: {name: "SET_RINGBUFFER_OFFSET", prefetch: readSetRingbufferOffset,
			fields: []slot{{"offset", 1, 4, asHex}, {"write", 8, 1, asBool}},
			rules:  []rule{{"offset", 0, cacheSize, 0}}},
		PrefetchRelayRingbuffer: {name: "RELAY_RINGBUFFER", relays: "sum", prefetch: readRelayRingbuffer, check: checkRanges,
			fields: []slot{{"count", 2, 2, asDec}, {"stride", 4, 4, asDec}},
			list:   &list{size: 8, most: MaxRingSubs, fields: []slot{{"start", 0, 4, asHex}, {"length", 4, 4, asDec}}},
			rules:  []rule{{"length", 1, 0, 0}}},

		PrefetchLoopBegin - ownIDs: {name: "LOOP_BEGIN", prefetch: readLoopBegin,
			fields: []slot{{"loop", 2, 2, asDec}, {"exit", AtLoopExit, 4, asHex}, {"count", AtLoopCount, 4, asDec}},
			rules:  []rule{{"exit", 0, 0, pcieAlign}}},
		PrefetchLoopEnd - ownIDs: {name: "LOOP_END", prefetch: readLoopEnd,
			fields: []slot{{"limited", 1, 1, asBool}, {"loop", 2, 2, asDec}, {"body", AtLoopBody, 4, asHex}},
			rules:  []rule{{"body", 0, 0, pcieAlign}}},
		PrefetchBranch - ownIDs: {name: "BRANCH", large: true, prefetch: readBranch,
			fields: []slot{{"flags", 1, 1, asBranch}, {"compare", 2, 1, asCompare}, {"level", 3, 1, asDec},
				{"else", AtBranchElse, 4, asHex}, {"noc", AtBranchNOC, 4, asTile}, {"addr", AtBranchAddr, 4, asHex}, {"value", 16, 4, asHex}},
			rules: []rule{{"compare", 0, bound(compares - 1), 0}, {"addr", 0, 0, 4}, {"level", 0, MaxLoops, 0}, {"else", 0, 0, pcieAlign}}},
		PrefetchCall - ownIDs: {name: "CALL", fields: buffer, rules: inBuffer, prefetch: readCallTrace},
	}
	linear := form{name: "WRITE_LINEAR", large: true, data: dataLength, dispatch: readWriteLinear,
		fields: []slot{{"mcast", 1, 1, asDec}, {"offset_index", 2, 1, asDec}, {"noc", 4, 4, asTarget}, {"addr", 8, 8, asHex},
			{"length", AtWriteLinearLength, 8, asDec}},
		rules: []rule{{"offset_index", 0, maxWriteOffsets - 1, 0}}}
	linearH := linear
	linearH.name = "WRITE_LINEAR_H"
	forward := form{name: "FORWARD_SUBORDINATE", data: dataForward, dispatch: readForward, fields: []slot{{"wait", 1, 1, asBool}}}
	forwardArgs := forward
	forwardArgs.name = nameWithArgs
	r.dispatch = forms{
		DispatchWriteLinear: linear, DispatchWriteLinearH: linearH,
		DispatchWriteHost: {name: "WRITE_LINEAR_H_HOST", data: dataHost, dispatch: readWriteHost,
			fields: []slot{{"event", 1, 1, asBool}, {"pad1", 2, 2, asHex}, {"pad2", 4, 4, asHex}, {"length", 8, 8, asDec}}},
		DispatchWritePaged: {name: "WRITE_PAGED", data: dataPages, dispatch: readWritePaged,
			fields: []slot{{"memory", 1, 1, asMemory}, {"start", 2, 2, asDec}, {"base", 4, 4, asHex}, {"page_size", 8, 4, asDec},
				{"pages", 12, 4, asDec}},
			rules: []rule{{"page_size", 1, 0, 0}, {"pages", 1, 0, 0}}},
		DispatchWritePacked: {name: "WRITE_PACKED", data: dataSlots, dispatch: readWritePacked, check: checkPacked,
			fields: []slot{{"flags", 1, 1, asPacked}, {"count", 2, 2, asDec}, {"offset_index", 4, 2, asDec}, {"size", 6, 2, asDec},
				{"addr", AtPackedAddr, 4, asHex}},
			list: &list{size: 4, most: maxPackedCores, fields: []slot{{"noc", 0, 4, asTile}},
				rects: &list{size: 8, most: maxPackedRects, fields: []slot{{"noc", 0, 4, asRect}, {"dests", 4, 4, asDec}}}},
			rules: []rule{{"dests", 1, 0, 0}, {"size", 1, dispatchPage, 0}, {"offset_index", 0, maxWriteOffsets - 1, 0}}},
		DispatchWritePackedLarge: {name: "WRITE_PACKED_LARGE", data: dataBlocks, dispatch: readWritePackedLarge, check: checkLinks,
			fields: []slot{{"type", 1, 1, asLarge}, {"count", 2, 2, asDec}, {"alignment", 4, 2, asDec}, {"offset_index", 6, 2, asDec}},
			list: &list{size: 12, most: MaxLargeSubs, fields: []slot{{"noc", 0, 4, asRect}, {"addr", AtLargeSubAddr, 4, asHex},
				{"length", 8, 2, asLess1}, {"dests", 10, 1, asDec}, {"unlink", 11, 1, asBool}}},
			rules: []rule{{"dests", 1, 0, 0}, {"length", 0, 0, L1Align}, {"offset_index", 0, maxWriteOffsets - 1, 0}}},
		DispatchWait: {name: "WAIT", sub: true, dispatch: readWait, check: checkWait,
			fields: []slot{{"flags", AtWaitFlags, 1, asWait}, {"stream", AtWaitStream, 2, asDec}, {"addr", 4, 4, asHex},
				{"count", AtWaitCount, 4, asDec}},
			rules: []rule{{"flags", 0, 0x1F, 0}}},
		DispatchSink:       {name: "SINK", dispatch: dispatchEmpty[Sink]},
		DispatchDebug:      {name: "DEBUG", data: dataSized, fields: debug, dispatch: readDebugDispatch},
		DispatchDelay:      {name: "DELAY", fields: []slot{{"loops", 4, 4, asDec}}, dispatch: readDelay},
		DispatchExecBufEnd: {name: nameEnd, dispatch: dispatchEmpty[ExecBufEndDispatch]},
		DispatchSetWriteOffset: {name: "SET_WRITE_OFFSET", dispatch: readSetWriteOffset,
			fields: []slot{{"count", 1, 1, asDec}, {"host_id", AtHostID, 2, asDec}},
			list:   &list{size: 4, most: maxWriteOffsets, empty: true, fields: []slot{{"offset", 0, 4, asHex}}}},
		DispatchTerminate: {name: "TERMINATE", sub: true, dispatch: dispatchEmpty[TerminateDispatch]},
		DispatchSendGoSignal: {name: nameGo, sub: true, dispatch: readSendGoSignal, check: checkGo,
			fields: []slot{{"go", AtGoWord, 4, asGo}, {"multicast", AtGoMulticast, 1, asMulticast}, {"unicasts", 6, 1, asDec},
				{"noc_start", 7, 1, asDec}, {"wait_count", AtGoWaitCount, 4, asDec}, {"wait_stream", AtGoWaitStream, 4, asDec}}},
		DispatchNotifySubordinate: {name: "NOTIFY_SUBORDINATE_GO_SIGNAL", dispatch: readNotifySubordinate,
			fields: []slot{{"wait", 1, 1, asBool}, {"mask", 2, 2, asHex}}, rules: []rule{{"mask", 0, subDeviceMask, 0}}},
		DispatchSetNumWorkerSems: {name: "SET_NUM_WORKER_SEMS", sub: true, dispatch: readSetNumWorkerSems,
			fields: []slot{{"num", 4, 4, asDec}}, rules: []rule{{"num", 0, subDevices, 0}}},
		DispatchSetGoSignalNOCData: {name: "SET_GO_SIGNAL_NOC_DATA", sub: true, dispatch: readSetGoSignalNOCData,
			fields: []slot{{"count", 4, 4, asDec}}, rules: []rule{{"count", 0, goEntries, 0}},
			list: &list{size: 4, most: 1 << 16, empty: true, fields: []slot{{"noc", 0, 4, asTile}}}},

		DispatchSequence - ownIDs: {name: "SEQUENCE", data: dataCommands, dispatch: readSequence,
			fields: []slot{{"count", AtSequenceCount, 2, asDec}}, rules: []rule{{"count", 1, 0, 0}}},
		DispatchForwardSubordinate - ownIDs: forward, DispatchForwardWithArgs - ownIDs: forwardArgs,
		DispatchReadArg - ownIDs: {name: "READ_ARG", data: dataPadding, dispatch: readReadArg,
			fields: []slot{{"offset_index", 1, 1, asDec}, {"count", 2, 2, asDec}, {"noc", AtBranchNOC, 4, asTile},
				{"addr", AtBranchAddr, 4, asHex}},
			list: &list{size: argTargetSize, most: MaxArgTargets, fields: []slot{{"noc", 0, 4, asTarget}, {"addr", 4, 2, asHex},
				{"dests", 6, 1, asDec}}},
			rules: []rule{{"addr", 0, 0, 4}, {"offset_index", 0, maxWriteOffsets - 1, 0}}},
	}
	return r
}

func fetchEmpty[C PrefetchCommand](*item, []item) PrefetchCommand { return *new(C) }

func dispatchEmpty[C DispatchCommand](*item, []item) DispatchCommand { return *new(C) }
