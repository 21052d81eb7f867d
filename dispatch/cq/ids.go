package cq

import (
	"fmt"
	"strconv"
	"strings"
)

// PrefetchID is byte 0 of a prefetcher command (tt-metal cq_commands.hpp,
// CQPrefetchCmdId).
type PrefetchID uint8

const (
	PrefetchRelayLinear         PrefetchID = 1
	PrefetchRelayLinearH        PrefetchID = 2
	PrefetchRelayPaged          PrefetchID = 3
	PrefetchRelayPagedPacked    PrefetchID = 4
	PrefetchRelayInline         PrefetchID = 5
	PrefetchRelayInlineNoFlush  PrefetchID = 6
	PrefetchExecBuf             PrefetchID = 7
	PrefetchExecBufEnd          PrefetchID = 8
	PrefetchStall               PrefetchID = 9
	PrefetchDebug               PrefetchID = 10
	PrefetchTerminate           PrefetchID = 11
	PrefetchPagedToRingbuffer   PrefetchID = 12
	PrefetchSetRingbufferOffset PrefetchID = 13
	PrefetchRelayRingbuffer     PrefetchID = 14

	// This runtime's own.
	PrefetchLoopBegin PrefetchID = 0xE0
	PrefetchLoopEnd   PrefetchID = 0xE1
	PrefetchBranch    PrefetchID = 0xE2
	PrefetchCall      PrefetchID = 0xE3
)

// String is tt-metal's name without its prefix.
func (id PrefetchID) String() string {
	return nameOf(uint8(id), "PREFETCH_", func(v *Revision) *forms { return &v.prefetch })
}

func (id PrefetchID) control() bool { return id >= PrefetchLoopBegin && id <= PrefetchCall }

// Newer says whether only revisions after this package's use the id.
func (id PrefetchID) Newer() bool {
	return newer(uint8(id), func(v *Revision) *forms { return &v.prefetch })
}

// DispatchID is byte 0 of a dispatcher command (tt-metal cq_commands.hpp,
// CQDispatchCmdId).
type DispatchID uint8

const (
	DispatchWriteLinear        DispatchID = 1
	DispatchWriteLinearH       DispatchID = 2
	DispatchWriteHost          DispatchID = 3 // WRITE_LINEAR_H_HOST
	DispatchWritePaged         DispatchID = 4
	DispatchWritePacked        DispatchID = 5
	DispatchWritePackedLarge   DispatchID = 6
	DispatchWait               DispatchID = 7
	DispatchSink               DispatchID = 8
	DispatchDebug              DispatchID = 9
	DispatchDelay              DispatchID = 10
	DispatchExecBufEnd         DispatchID = 11
	DispatchSetWriteOffset     DispatchID = 12
	DispatchTerminate          DispatchID = 13
	DispatchSendGoSignal       DispatchID = 14
	DispatchNotifySubordinate  DispatchID = 15
	DispatchSetNumWorkerSems   DispatchID = 16
	DispatchSetGoSignalNOCData DispatchID = 17

	// This runtime's own.
	DispatchSequence           DispatchID = 0xE0
	DispatchForwardSubordinate DispatchID = 0xE1
	DispatchReadArg            DispatchID = 0xE2
	DispatchForwardWithArgs    DispatchID = 0xE3
)

func (id DispatchID) String() string {
	return nameOf(uint8(id), "DISPATCH_", func(v *Revision) *forms { return &v.dispatch })
}

// Newer says whether only revisions after this package's use the id.
func (id DispatchID) Newer() bool {
	return newer(uint8(id), func(v *Revision) *forms { return &v.dispatch })
}

// first returns the command of an id in the pinned revision, otherwise in the oldest with the id.
func first(id uint8, of func(*Revision) *forms) *form {
	if f := of(own()).by(id); f != nil {
		return f
	}
	for _, v := range Revisions() {
		if f := of(v).by(id); f != nil {
			return f
		}
	}
	return nil
}

func newer(id uint8, of func(*Revision) *forms) bool {
	return of(own()).by(id) == nil && first(id, of) != nil
}

func nameOf(id uint8, prefix string, of func(*Revision) *forms) string {
	if f := first(id, of); f != nil {
		return f.name
	}
	return prefix + strconv.Itoa(int(id))
}

// Dispatcher selects the dispatcher that gets a RELAY_INLINE.
type Dispatcher uint8

const (
	Master      Dispatcher = 0 // everything
	Subordinate Dispatcher = 1 // dispatch_s: go signals and their tables
)

func (d Dispatcher) String() string {
	return oneOf(uint8(d), "dispatcher %d", "dispatch", "dispatch_s")
}

// WaitFlags of a WAIT, in the order in which the dispatcher acts on them (tt-metal cq_commands.hpp;
// newer revisions use 0x10 and 0x20 for the streams).
type WaitFlags uint8

const (
	WaitBarrier WaitFlags = 0x01
	WaitMemory  WaitFlags = 0x04
	WaitStream  WaitFlags = 0x08
	ClearStream WaitFlags = 0x10 // then clear the counter
	NotifyFetch WaitFlags = 0x02 // then add 1 to the prefetcher's sync semaphore, for its STALL
)

func (f WaitFlags) String() string {
	return flagString(uint(f), "barrier", "notify", "memory", "stream", "clear")
}

// PackedType is the purpose of a WRITE_PACKED.
type PackedType uint8

const (
	PackedRuntimeArgs PackedType = 1
	PackedLaunch      PackedType = 2
	PackedSemaphores  PackedType = 3
	PackedEvent       PackedType = 4
	PackedGoIndex     PackedType = 5
)

func (t PackedType) String() string {
	return oneOf(uint8(t), "%d", "none", "runtime args", "launch", "semaphores", "event", "go message index")
}

// LargeType is the purpose of a WRITE_PACKED_LARGE.
type LargeType uint8

const (
	LargeConfig   LargeType = 1
	LargeBinaries LargeType = 2
)

func (t LargeType) String() string {
	return oneOf(uint8(t), "%d", "none", "config", "binaries")
}

// oneOf returns a number's name, or the number in a format.
func oneOf(i uint8, other string, names ...string) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf(other, i)
}

func flagString(f uint, names ...string) string {
	if f == 0 {
		return "none"
	}
	var s []string
	for i, n := range names {
		if f&(1<<i) != 0 {
			s = append(s, n)
			f &^= 1 << i
		}
	}
	if f != 0 {
		s = append(s, "0x"+strconv.FormatUint(uint64(f), 16))
	}
	return strings.Join(s, "|")
}
