package metaltrace_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/tracebuf/metaltrace"
)

// asMetal writes the commands of a trace as tt-metal assembles them: kernels go through the
// prefetcher's ring, where a second run finds them; there are four write offsets; waits stall the
// prefetcher; go signals name another dispatch core. Source: tt-metal impl/program/dispatch.cpp.
func asMetal(t *testing.T, l cq.Layout, commands []byte) []byte {
	t.Helper()
	b := cq.NewBuilder(l, nil)
	loaded := map[cq.PagedSub]uint32{} // where in the ring
	ring := uint32(0)
	var header cq.PrefetchCommand
	for e, err := range cq.All(l, commands) {
		devtest.Must(t, err)
		switch c := e.Command.(type) {
		case cq.RelayInlineNoFlush:
			header = c
			continue
		case cq.RelayPagedPacked:
			var relay cq.RelayRingbuffer
			for _, s := range c.Subs {
				at, ok := loaded[s]
				if !ok {
					at = ring
					loaded[s] = at
					pages := (s.Length + 2047) &^ 2047
					b.PagedToRingbuffer(cq.PagedToRingbuffer{Reset: ring == 0, LogPageSize: uint8(s.LogPageSize), StartPage: uint8(s.StartPage),
						Advance: pages, Base: s.Base, Length: s.Length})
					ring += pages
				}
				relay.Subs = append(relay.Subs, cq.RingSub{Start: at - loaded[c.Subs[0]], Length: s.Length})
			}
			b.SetRingbufferOffset(cq.SetRingbufferOffset{Offset: loaded[c.Subs[0]]})
			b.Append(header)
			b.RelayRingbuffer(relay)
			continue
		case cq.RelayInline:
			switch d := c.Command.(type) {
			case cq.SetWriteOffset:
				d.Count, d.Offsets[3] = 4, 0x1234
				b.SetWriteOffset(d)
				continue
			case cq.Wait:
				if d.Flags != 0 {
					b.WaitStall(d)
				}
				continue
			case cq.SendGoSignal:
				d.Go = cq.NewGoWord(0, 7, 7, cq.SignalGo)
				b.SendGoSignal(c.To, d)
				continue
			}
		}
		b.Append(e.Command)
	}
	out, err := b.Finish()
	devtest.Must(t, err)
	return out
}

func inRevision(t *testing.T, l cq.Layout, commands []byte, change func(r *cq.Reading, command []byte)) []byte {
	t.Helper()
	out := bytes.Clone(commands)
	readings, err := cq.RevisionByName(cq.Pinned).Read(l, commands)
	devtest.Must(t, err)
	for i := range readings {
		change(&readings[i], out[readings[i].At:])
	}
	return out
}

func lengthsAsTheyAre(r *cq.Reading, command []byte) {
	if n, _ := r.Value("count"); r.Name == "WRITE_PACKED_LARGE" {
		for i := range int(n) {
			at := command[cq.AtLargeSub(i)+8:]
			binary.LittleEndian.PutUint16(at, binary.LittleEndian.Uint16(at)+1)
		}
	}
}

func laterWaits(r *cq.Reading, command []byte) {
	if r.Name == "WAIT" {
		command[cq.AtWaitFlags] = command[cq.AtWaitFlags]&7 | command[cq.AtWaitFlags]&0x18<<1
	}
}

func laterWaitsAndGo(r *cq.Reading, command []byte) {
	laterWaits(r, command)
	switch r.Name {
	case "SEND_GO_SIGNAL":
		copy(command[1:], append([]byte{command[cq.AtGoMulticast], 0, 0}, command[cq.AtGoWord:cq.AtGoWord+4]...))
	case "SET_RINGBUFFER_OFFSET":
		offset, _ := r.Value("offset")
		write, _ := r.Value("write")
		clear(command[1:16])
		command[1] = byte(write)
		binary.LittleEndian.PutUint32(command[4:], uint32(offset))
	}
}

func TestImportFromTheRing(t *testing.T) {
	for _, card := range cards() {
		t.Run(card.String(), func(t *testing.T) {
			b := newChain(t, card)
			im := &b.saved.Image
			l := im.Layout
			commands := asMetal(t, l, im.Bytes[:im.Size])
			var first []byte
			for _, c := range []struct {
				revision string
				bytes    []byte
			}{
				{cq.Pinned, commands},
				{"0.64.0", inRevision(t, l, commands, lengthsAsTheyAre)},
				{"0.74.0", inRevision(t, l, commands, laterWaits)},
				{"0.81.1", inRevision(t, l, commands, laterWaitsAndGo)},
			} {
				read, err := metaltrace.Read(b.memory, len(b.memory.ch.DRAMBanks()), l, append(c.bytes, make([]byte, 4096)...), c.revision)
				b.Must(err)
				b.Must(read.FindLaunches(abi.Own(b.Dev.Arch())))
				f, err := read.File(metaltrace.FileOptions{Name: "ring", Target: b.saved.Target, Buffers: im.Buffers})
				b.Must(err)
				file, err := metaltrace.Write(f)
				b.Must(err)
				if n := len(f.Image.Programs); n != 2 {
					t.Errorf("%s: %d programs, want 2", c.revision, n)
				}
				if first == nil {
					first = file
				} else if diff := cmp.Diff(first, file); diff != "" {
					t.Errorf("%s gives another file than %s", c.revision, cq.Pinned)
				}
			}
			b.replays(t, first)
		})
	}
}
