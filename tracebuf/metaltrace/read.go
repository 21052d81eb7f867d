package metaltrace

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
)

// Read decodes a trace's commands, which zeros may follow, and reads their kernels from m, whose
// banks are counted by banks. revision names the protocol's revision. With "" it is the only one in
// which the commands are valid; otherwise the error is a *cq.RevisionError. Other errors are an
// *ImportError.
func Read(m Memory, banks int, l cq.Layout, commands []byte, revision string) (*Trace, error) {
	contents, err := tracebuf.InspectRaw(l, commands, revision)
	if err != nil {
		return nil, fmt.Errorf("metaltrace: %w", err)
	}
	readings := contents.Commands
	last := &readings[len(readings)-1]
	if last.Name != "EXEC_BUF_END" {
		return nil, notTrace(last, "the commands end without EXEC_BUF_END")
	}
	r := reader{
		commands: commands,
		kernels:  kernelMemory{m: m, banks: banks, seen: map[place][]byte{}},
		trace:    &Trace{Layout: l, Revision: contents.Revision, Size: len(contents.Bytes)},
	}
	for i := range readings[:len(readings)-1] {
		if err := r.command(&readings[i]); err != nil {
			return nil, err
		}
	}
	if r.step != nil {
		return nil, notTrace(last, "the commands after the last go signal start no program")
	}
	if len(r.trace.Steps) == 0 {
		return nil, notTrace(last, "it has no programs")
	}
	return r.trace, nil
}

type reader struct {
	commands []byte
	kernels  kernelMemory
	ring     ring
	trace    *Trace
	step     *Step
	header   *command
	notified bool
}

func (r *reader) command(c *cq.Reading) error {
	if r.step == nil {
		r.step, r.notified = &Step{Offset: c.Offset}, false
	}
	if c.Who == "prefetch" {
		return r.prefetch(c)
	}
	if c.Relay != "RELAY_INLINE" && c.Relay != "RELAY_INLINE_NOFLUSH" {
		return unsupported(c, "it is in a %s, a command of this runtime's own firmware: record with the stock wire format", c.Relay)
	}
	to := cq.Master
	if c.Who == cq.Subordinate.String() {
		to = cq.Subordinate
	}
	if to != cq.Master && c.Name != "SEND_GO_SIGNAL" {
		return unsupported(c, "it is for the subordinate dispatcher, which only sends go signals in a trace")
	}
	var cmd cq.DispatchCommand
	var err error
	switch c.Name {
	case "SET_WRITE_OFFSET":
		cmd = r.writeOffset(c)
	case "WAIT":
		cmd, err = wait(c)
	case "WRITE_PACKED":
		return r.packed(c)
	case "WRITE_PACKED_LARGE":
		cmd, err = r.large(c)
	case "NOTIFY_SUBORDINATE_GO_SIGNAL":
		r.notified = true
		cmd = cq.NotifySubordinate{Wait: number(c, "wait") != 0, Mask: uint16(number(c, "mask"))}
	case "SEND_GO_SIGNAL":
		return r.goSignal(c, to)
	case "WRITE_LINEAR", "WRITE_PACKED_LARGE_UNICAST":
		err = unsupported(c, "only programs on Ethernet cores are sent so")
	default:
		err = unsupported(c, "no program of a trace needs it")
	}
	if err != nil {
		return err
	}
	r.append(c, cmd)
	return nil
}

func (r *reader) prefetch(c *cq.Reading) error {
	switch c.Name {
	case "STALL":
		return nil // for kernels that the host writes; those of a file are there before a replay
	case "PAGED_TO_RINGBUFFER":
		data, err := r.fetch(c, "")
		if err != nil {
			return err
		}
		advance, ok := c.Value("advance")
		if !ok {
			advance = uint64(len(data))
		}
		r.ring.load(number(c, "reset") != 0, data, advance)
		return nil
	case "SET_RINGBUFFER_OFFSET":
		to := &r.ring.offset
		if number(c, "write") != 0 {
			to = &r.ring.write
		}
		*to = number(c, "offset")
		return nil
	case "RELAY_RINGBUFFER":
		for i := range int(number(c, "count")) {
			start, n := number(c, at("start", i)), number(c, at("length", i))
			data, ok := r.ring.read(start, n)
			if !ok {
				return notTrace(c, "it reads %d B at %#x of the prefetcher's kernels, which no command before it loaded", n, start)
			}
			if err := r.block(c, data); err != nil {
				return err
			}
		}
		return nil
	case "RELAY_PAGED_PACKED":
		for i := range int(number(c, "count")) {
			data, err := r.fetch(c, at("", i))
			if err == nil {
				err = r.block(c, data)
			}
			if err != nil {
				return err
			}
		}
		return nil
	case "RELAY_PAGED", "RELAY_LINEAR", "RELAY_LINEAR_H", "RELAY_LINEAR_PACKED", "RELAY_LINEAR_PACKED_H":
		return unsupported(c, "only programs on Ethernet cores and transfers are sent so")
	}
	return unsupported(c, "no program of a trace needs it")
}

// fetch reads the kernels that the fields with a suffix name.
func (r *reader) fetch(c *cq.Reading, suffix string) ([]byte, error) {
	field := func(name string) uint32 { return uint32(number(c, name+suffix)) }
	p := place{field("start"), field("log2_page"), field("base"), field("length")}
	data, err := r.kernels.read(p)
	if errors.Is(err, ErrNotTrace) {
		return nil, notTrace(c, "%v", err)
	}
	if err != nil {
		return nil, refuse(c.Offset, c.Name, err, "%d B of kernels at %#x of the DRAM banks can't be read", p.length, p.base)
	}
	return data, nil
}

func (r *reader) block(c *cq.Reading, data []byte) error {
	if r.header == nil {
		return notTrace(c, "no command before it takes what it relays")
	}
	r.header.blocks = append(r.header.blocks, data)
	r.step.Binaries += len(data)
	return nil
}

func (r *reader) writeOffset(c *cq.Reading) cq.DispatchCommand {
	w := cq.SetWriteOffset{HostID: uint16(number(c, "host_id")), Count: 3}
	for i := range w.Offsets[:3] {
		w.Offsets[i] = uint32(number(c, at("offset", i)))
	}
	r.step.HostID, r.step.Config, r.step.Text = uint32(number(c, "host_id")), w.Offsets[1], w.Offsets[2]
	return w
}

// The notification of the prefetcher goes with its STALL.
func wait(c *cq.Reading) (cq.DispatchCommand, error) {
	w := cq.Wait{Stream: uint16(number(c, "stream")), Addr: uint32(number(c, "addr")), Count: uint32(number(c, "count"))}
	for _, flag := range strings.Split(text(c, "flags"), "|") {
		switch flag {
		case "none", "notify":
		case "barrier":
			w.Flags |= cq.WaitBarrier
		case "stream":
			w.Flags |= cq.WaitStream
		default:
			return nil, unsupported(c, "it waits for %q: programs wait for barriers and completions", flag)
		}
	}
	return w, nil
}

// Flags of a WRITE_PACKED, the same in all revisions, below the type.
const (
	packedMulticast = 1
	packedNoStride  = 2
	packedType      = 4
)

// Packed returns a WRITE_PACKED of a stream.
func Packed(c *cq.Reading, stream []byte) cq.WritePacked {
	flags := number(c, "flags")
	w := cq.WritePacked{
		Type: cq.PackedType(flags >> packedType), NoStride: flags&packedNoStride != 0,
		OffsetIndex: uint16(number(c, "offset_index")), Size: uint16(number(c, "size")), Addr: uint32(number(c, "addr")),
	}
	entry := 4
	for i := range int(number(c, "count")) {
		noc := uint32(number(c, at("noc", i)))
		if flags&packedMulticast != 0 {
			entry = 8
			w.Rects = append(w.Rects, cq.Rect{NOC: noc, Dests: uint32(number(c, at("dests", i)))})
		} else {
			w.Cores = append(w.Cores, noc)
		}
	}
	w.Data = dataOf(c, stream, entry*(len(w.Cores)+len(w.Rects)))
	return w
}

func (r *reader) packed(c *cq.Reading) error {
	w := Packed(c, r.commands)
	if w.OffsetIndex == 3 {
		return unsupported(c, "it writes to Ethernet cores")
	}
	if w.OffsetIndex != 1 || len(w.Rects) == 0 {
		r.append(c, w)
		return nil
	}
	return r.common(c, &w)
}

// common makes a WRITE_PACKED_LARGE of common arguments to rectangles.
func (r *reader) common(c *cq.Reading, w *cq.WritePacked) error {
	if c.Data == 0 || w.Addr%cq.L1Align != 0 {
		return unsupported(c, "it writes %d B at %#x of the program's memory to rectangles, where only inline data at multiples of %d may go",
			w.Size, w.Addr, cq.L1Align)
	}
	slot := cq.SlotStride(int(w.Size))
	for first := 0; first < len(w.Rects); first += cq.MaxLargeSubs {
		large := cq.WritePackedLarge{Type: cq.LargeConfig, Alignment: cq.L1Align, OffsetIndex: w.OffsetIndex}
		for i, rect := range w.Rects[first:min(first+cq.MaxLargeSubs, len(w.Rects))] {
			if rect.Dests > 0xFF {
				return notTrace(c, "it goes to %d cores", rect.Dests)
			}
			large.Subs = append(large.Subs, cq.LargeSub{NOC: rect.NOC, Addr: w.Addr, Length: uint32(slot), Dests: uint8(rect.Dests),
				Unlink: true})
			large.Data = append(large.Data, w.Slot(first+i)...)
		}
		r.append(c, large)
	}
	return nil
}

func (r *reader) append(c *cq.Reading, cmd cq.DispatchCommand) {
	r.step.commands = append(r.step.commands, command{offset: c.Offset, cmd: cmd, header: c.Relay == "RELAY_INLINE_NOFLUSH"})
	r.header = nil
	if last := &r.step.commands[len(r.step.commands)-1]; last.header {
		r.header = last
	}
}

// tt-metal writes whole words at multiples of 16 in memory and in the command, with zeros between:
// lengths are rounded up to what this runtime's dispatcher takes.
func (r *reader) large(c *cq.Reading) (cq.DispatchCommand, error) {
	w := cq.WritePackedLarge{Type: cq.LargeType(number(c, "type")), Alignment: uint16(number(c, "alignment")),
		OffsetIndex: uint16(number(c, "offset_index"))}
	for i := range int(number(c, "count")) {
		// Some revisions store the length less one; the text is the length in all of them.
		length, _ := strconv.ParseUint(text(c, at("length", i)), 10, 32)
		s := cq.LargeSub{
			NOC: uint32(number(c, at("noc", i))), Addr: uint32(number(c, at("addr", i))),
			Length: uint32(length), Dests: uint8(number(c, at("dests", i))), Unlink: number(c, at("unlink", i)) != 0,
		}
		if s.Length%cq.L1Align != 0 {
			if s.Addr%cq.L1Align != 0 || w.Alignment < cq.L1Align {
				return nil, unsupported(c, "it writes %d B at %#x of the program's memory, and only what begins at a multiple of %d may be rounded up",
					s.Length, s.Addr, cq.L1Align)
			}
			s.Length += -s.Length & (cq.L1Align - 1)
		}
		w.Subs = append(w.Subs, s)
	}
	w.Data = dataOf(c, r.commands, 12*len(w.Subs))
	return w, nil
}

func (r *reader) goSignal(c *cq.Reading, to cq.Dispatcher) error {
	multicast, ok := c.Value("multicast")
	if !ok {
		if multicast = 0; number(c, "multicasts") == 0 {
			multicast = cq.NoMulticast
		}
	}
	g := cq.SendGoSignal{
		Go: cq.GoWord(number(c, "go")), Multicast: uint8(multicast), NumUnicast: uint8(number(c, "unicasts")),
		NOCStart:  uint8(number(c, "noc_start")),
		WaitCount: uint32(number(c, "wait_count")), WaitStream: uint32(number(c, "wait_stream")),
	}
	switch {
	case to != cq.Subordinate:
		return unsupported(c, "it is for the dispatcher itself: record with a subordinate dispatcher, which is tt-metal's default on Tensix cores")
	case !r.notified:
		return notTrace(c, "no NOTIFY_SUBORDINATE_GO_SIGNAL is before it: it would hang")
	case g.Multicast == cq.NoMulticast || g.NumUnicast != 0:
		return unsupported(c, "it starts Ethernet cores")
	case g.Multicast >= cq.MaxSubDevices || g.Multicast != g.Go.Offset():
		return unsupported(c, "it starts sub-device %d with the go message of sub-device %d", g.Multicast, g.Go.Offset())
	case g.Go.Signal() != cq.SignalGo:
		return unsupported(c, "the signal is %v, programs are started with %v", g.Go.Signal(), cq.SignalGo)
	}
	r.step.commands = append(r.step.commands, command{offset: c.Offset, cmd: g})
	r.step.WaitCount, r.step.SubDevice, r.step.Size = g.WaitCount, int(g.Multicast), c.Offset+c.Size-r.step.Offset
	r.trace.Steps = append(r.trace.Steps, *r.step)
	r.step, r.header = nil, nil
	return nil
}

func dataOf(c *cq.Reading, stream []byte, list int) []byte {
	if c.Data == 0 {
		return nil
	}
	start := c.At + cq.SlotStride(cq.HeaderSize+list)
	return stream[start : start+c.Data]
}

func at(name string, i int) string { return name + "[" + strconv.Itoa(i) + "]" }

func number(c *cq.Reading, name string) uint64 {
	v, _ := c.Value(name)
	return v
}

func text(c *cq.Reading, name string) string {
	for i := range c.Fields {
		if c.Fields[i].Name == name {
			return c.Fields[i].Text
		}
	}
	return ""
}
