package cq

import (
	"fmt"
	"testing"
)

// Ids, and the names that tt-metal gives them.
func TestNames(t *testing.T) {
	for _, c := range []struct {
		v    fmt.Stringer
		want string
	}{
		{PrefetchID(0), "PREFETCH_0"}, {PrefetchRelayLinear, "RELAY_LINEAR"}, {PrefetchRelayLinearH, "RELAY_LINEAR_H"},
		{PrefetchExecBuf, "EXEC_BUF"}, {PrefetchRelayRingbuffer, "RELAY_RINGBUFFER"}, {PrefetchID(16), "RELAY_LINEAR_PACKED_H"},
		{PrefetchID(17), "PREFETCH_17"}, {PrefetchID(255), "PREFETCH_255"},
		{DispatchID(0), "DISPATCH_0"}, {DispatchWriteLinear, "WRITE_LINEAR"}, {DispatchWait, "WAIT"}, {DispatchSendGoSignal, "SEND_GO_SIGNAL"},
		{DispatchSetGoSignalNOCData, "SET_GO_SIGNAL_NOC_DATA"}, {DispatchID(20), "RT_PROFILER_FLUSH"}, {DispatchID(21), "DISPATCH_21"},
		{Master, "dispatch"}, {Subordinate, "dispatch_s"}, {Dispatcher(2), "dispatcher 2"},
		{WaitFlags(0), "none"}, {WaitBarrier | NotifyFetch | WaitMemory | WaitStream | ClearStream, "barrier|notify|memory|stream|clear"},
		{WaitStream | 0x60, "stream|0x60"},
		{PackedGoIndex, "go message index"}, {PackedType(9), "9"}, {LargeBinaries, "binaries"}, {LargeType(7), "7"},
		{SignalDone, "DONE"}, {SignalInit, "INIT"}, {SignalGo, "GO"}, {SignalResetReadPtr, "RESET_READ_PTR"},
		{SignalResetReadPtrHost, "RESET_READ_PTR_FROM_HOST"}, {SignalReplayTrace, "REPLAY_TRACE"}, {Signal(1), "0x01"},
		{Wormhole, "wormhole"}, {Blackhole, "blackhole"}, {Layout(9), "layout 9"},
		{FetchEntry(0), "empty"}, {FetchEntry(2), "32 bytes"},
	} {
		if got := c.v.String(); got != c.want {
			t.Errorf("%T: %q, want %q", c.v, got, c.want)
		}
	}
}
