package session

import (
	"bytes"
	"cmp"
	"errors"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
)

// region is host memory that the device reaches. The recorder gives the device memory of its own
// and copies writes between them.
type region struct {
	host   []byte   // nil once it is gone
	device []byte   // nil in a playback
	seen   []byte   // the common contents at the last comparison
	used   [2]pages // of host and device
	first  int      // number of its first pin
	pins   int      // number of live pins
	end    func(restore bool) error
}

type pin struct {
	file   uint64
	va     uint64
	region *region
	at     uint64 // offset in the region
}

type memory struct {
	pins    []*pin
	regions []*region
}

func (m *memory) add(p *pin, r *region) {
	if p.region = r; r != nil {
		if r.pins == 0 {
			r.first = len(m.pins)
			m.regions = append(m.regions, r)
		}
		r.pins++
	}
	m.pins = append(m.pins, p)
}

func newRegion(host, device []byte) *region {
	return &region{host: host, device: device, seen: bytes.Clone(host), used: [2]pages{{all: true}, {all: true}}}
}

// pages tracks which pages of a memory were ever used.
type pages struct {
	all  bool // treat all as used
	used []bool
	vec  []byte
}

func (p *pages) update(mem []byte) {
	if p.all || len(mem) == 0 {
		return
	}
	size := syscall.Getpagesize()
	if p.used == nil {
		n := (len(mem) + size - 1) / size
		p.used, p.vec = make([]bool, n), make([]byte, n)
	}
	if !resident(mem, p.vec) {
		p.all = true
		return
	}
	for i, v := range p.vec {
		p.used[i] = p.used[i] || v&1 != 0 // it may be swapped out later
	}
}

func (p *pages) has(at int) bool { return p.all || p.used[at/syscall.Getpagesize()] }

func (p *pages) copyTo(to, from []byte) {
	for at := 0; at < len(from); at += memoryBlock {
		if p.has(at) {
			copy(to[at:], from[at:min(at+memoryBlock, len(from))])
		}
	}
}

// overlaps: a region has at least a part of the range.
func (m *memory) holding(va, size uint64) (r *region, at uint64, overlaps bool) {
	for _, r := range m.regions {
		start, n := addressOf(r.host), uint64(len(r.host))
		switch {
		case va >= start && va-start <= n && size <= n-(va-start):
			return r, va - start, true
		case va < start+n && start < va+size:
			overlaps = true
		}
	}
	return nil, 0, overlaps
}

// recordable returns the region of a range to pin, nil for a new one; not ok if the driver refuses
// the range, or a region has only a part of it.
func (m *memory) recordable(va, size uint64) (in *region, at uint64, ok bool) {
	in, at, overlaps := m.holding(va, size)
	page := uint64(syscall.Getpagesize())
	return in, at, size != 0 && (va|size)%page == 0 && (in != nil || !overlaps)
}

// With restore the host gets the device's memory back.
func (m *memory) drop(p *pin, restore bool) (err error) {
	r := p.region
	if r == nil {
		return nil
	}
	p.region = nil
	if r.pins--; r.pins > 0 {
		return nil
	}
	if r.end != nil {
		err = r.end(restore)
	}
	r.host, r.device, r.seen = nil, nil, nil
	m.regions = slices.DeleteFunc(m.regions, func(o *region) bool { return o == r })
	return err
}

func (m *memory) dropFile(file uint64) error {
	var errs []error
	for _, p := range m.pins {
		if p.file == file {
			errs = append(errs, m.drop(p, false))
		}
	}
	return errors.Join(errs...)
}

const (
	memoryBlock = 4096 // bytes compared at once
	memoryWord  = 4    // a piece is whole words, so unwritten neighbours aren't copied
)

// fromHost returns the host's new writes in order and shows them to the device.
func (m *memory) fromHost() []Delta {
	return m.changes(func(r *region) (from, to []byte, used *pages) { return r.host, r.device, &r.used[0] })
}

// A device writes data before its flag, perhaps during the comparison, so it repeats until nothing
// changes.
func (m *memory) fromDevice() []Delta {
	var out []Delta
	for {
		more := m.changes(func(r *region) (from, to []byte, used *pages) { return r.device, nil, &r.used[1] })
		if more == nil {
			break
		}
		out = append(out, more...)
	}
	out = m.merged(out)
	m.show(out, false)
	return out
}

// merged sorts and merges pieces, with the newest contents.
func (m *memory) merged(ds []Delta) (out []Delta) {
	slices.SortStableFunc(ds, func(a, b Delta) int { return cmp.Or(cmp.Compare(a.Pin, b.Pin), cmp.Compare(a.Off, b.Off)) })
	for _, d := range ds {
		_, _, seen := m.piece(&d)
		if k := len(out) - 1; k >= 0 && out[k].Pin == d.Pin && d.Off <= out[k].Off+uint64(len(out[k].Data)) {
			if known := out[k].Off + uint64(len(out[k].Data)) - d.Off; known < uint64(len(seen)) {
				out[k].Data = append(out[k].Data, seen[known:]...)
			}
			continue
		}
		out = append(out, Delta{Pin: d.Pin, Off: d.Off, Data: bytes.Clone(seen)})
	}
	return out
}

// show writes the last piece first: other goroutines may load meanwhile, and in every layout flags
// lie before their data.
func (m *memory) show(ds []Delta, seen bool) bool {
	for i := range ds {
		if r, _, _ := m.piece(&ds[i]); r == nil && seen {
			return false
		}
	}
	for _, d := range slices.Backward(ds) {
		_, host, was := m.piece(&d)
		if seen {
			copy(was, d.Data)
		}
		func() {
			defer unmapped(debug.SetPanicOnFault(true))
			store(host, d.Data)
		}()
	}
	return true
}

// changes finds differences from the last comparison, and writes them to the second memory.
func (m *memory) changes(which func(*region) (from, to []byte, used *pages)) []Delta {
	var out []Delta
	for _, r := range m.regions {
		if from, to, used := which(r); from != nil {
			out = append(out, r.changes(from, to, used)...)
		}
	}
	return out
}

func (r *region) changes(from, to []byte, used *pages) (out []Delta) {
	defer unmapped(debug.SetPanicOnFault(true))
	used.update(from)
	for at := 0; at < len(from); at += memoryBlock {
		end := min(at+memoryBlock, len(from))
		if !used.has(at) || bytes.Equal(from[at:end], r.seen[at:end]) {
			continue
		}
		// The other side may go on writing: read once.
		now := bytes.Clone(from[at:end])
		first := len(out)
		out = pieces(out, uint64(r.first), at, now, r.seen[at:end])
		for i := max(first-1, 0); i < len(out) && to != nil; i++ { // the last one may have grown
			store(to[out[i].Off:], out[i].Data)
		}
		copy(r.seen[at:], now)
	}
	return out
}

// unmapped is deferred around accesses to memory that a host may unmap without unpinning, with
// debug.SetPanicOnFault's result.
func unmapped(before bool) {
	debug.SetPanicOnFault(before)
	if e := recover(); e != nil {
		if _, ok := e.(interface{ Addr() uintptr }); !ok {
			panic(e)
		}
	}
}

func pieces(out []Delta, n uint64, at int, now, was []byte) []Delta {
	for i := 0; i < len(now); i += memoryWord {
		w := min(i+memoryWord, len(now))
		if bytes.Equal(now[i:w], was[i:w]) {
			continue
		}
		if k := len(out) - 1; k >= 0 && out[k].Pin == n && int(out[k].Off)+len(out[k].Data) == at+i {
			out[k].Data = append(out[k].Data, now[i:w]...)
			continue
		}
		out = append(out, Delta{Pin: n, Off: uint64(at + i), Data: bytes.Clone(now[i:w])})
	}
	return out
}

func (m *memory) piece(d *Delta) (r *region, host, seen []byte) {
	end := d.Off + uint64(len(d.Data))
	for _, r := range m.regions {
		if uint64(r.first) == d.Pin && d.Off <= end && end <= uint64(len(r.host)) {
			return r, r.host[d.Off:end:end], r.seen[d.Off:end:end]
		}
	}
	return nil, nil, nil
}

func sameDeltas(a, b []Delta) bool {
	return slices.EqualFunc(a, b, func(a, b Delta) bool { return a.Pin == b.Pin && a.Off == b.Off && bytes.Equal(a.Data, b.Data) })
}

// anonymous has pin numbers for addresses, which differ between processes.
func (m *memory) anonymous(file uint64, req uint32, arg []byte) []byte {
	b := bytes.Clone(arg)
	n := len(m.pins)
	if req == kabi.IoctlUnpinPages {
		if i, ok := m.unpinned(file, arg); ok {
			n = i
		}
	}
	setAddress(req, b, uint64(n))
	return b
}

func pinRange(arg []byte) (va, size uint64) {
	in := decode[kabi.PinPagesIn](arg)
	return in.VirtualAddress, in.Size
}

func setAddress(req uint32, arg []byte, va uint64) {
	switch req {
	case kabi.IoctlPinPages:
		in := decode[kabi.PinPagesIn](arg)
		in.VirtualAddress = va
		kabi.Put(arg, &in)
	case kabi.IoctlUnpinPages:
		in := decode[kabi.UnpinPagesIn](arg)
		in.VirtualAddress = va
		kabi.Put(arg, &in)
	}
}

// unpinned returns the newest pin at the address that a request unpins.
func (m *memory) unpinned(file uint64, arg []byte) (int, bool) {
	va := decode[kabi.UnpinPagesIn](arg).VirtualAddress
	for i, p := range slices.Backward(m.pins) {
		if p.file == file && p.va == va && p.region != nil {
			return i, true
		}
	}
	return 0, false
}

func inputSize(req uint32) int {
	switch req {
	case kabi.IoctlPinPages:
		return kabi.Size[kabi.PinPagesIn]()
	case kabi.IoctlUnpinPages:
		return kabi.Size[kabi.UnpinPagesIn]()
	}
	return 0
}
