package cq

import (
	"fmt"
	"math/bits"
)

// rule is what firmware accepts of a field of the header, or of each entry of the list.
type rule struct {
	field       string
	least, most bound // 0 for no limit
	multiple    bound // 0 for any number
}

// bound is a number or, if negative, a value of the device.
type bound int

const (
	cacheSize bound = -1 - iota
	halfScratch
	directRead // of a RELAY_LINEAR_H: scratch buffer or fetch entry, less a header
	dispatchPage
	dramAlign
	pcieAlign
	log2DRAM
	goEntries
	subDevices
	subDeviceMask
)

func (b bound) number(l Layout, m Limits) uint64 {
	switch b {
	case cacheSize:
		return uint64(m.Ringbuffer)
	case halfScratch:
		return uint64(m.Scratch / 2)
	case directRead:
		return uint64(min(m.Scratch, m.MaxCommand) - l.PCIeAlign())
	case dispatchPage:
		return uint64(m.DispatchPage)
	case dramAlign:
		return uint64(l.DRAMAlign())
	case pcieAlign:
		return uint64(l.PCIeAlign())
	case log2DRAM:
		return uint64(bits.TrailingZeros(uint(l.DRAMAlign())))
	case goEntries:
		return uint64(m.GoNOCEntries)
	case subDevices:
		return uint64(m.SubDevices)
	case subDeviceMask:
		return 1<<m.SubDevices - 1
	}
	return uint64(b)
}

func (r rule) test(name string, v uint64, l Layout, m Limits) error {
	least, most, multiple := r.least.number(l, m), r.most.number(l, m), r.multiple.number(l, m)
	switch {
	case v < least && r.most == 0:
		return limit(name, r.field, v, fmt.Sprintf("at least %d", least), "leave the command out")
	case v < least || r.most != 0 && v > most:
		return limit(name, r.field, v, fmt.Sprintf("%d to %d", least, most), "use several commands, or a smaller one")
	case multiple != 0 && v%multiple != 0:
		return limit(name, r.field, v, fmt.Sprintf("a multiple of %d", multiple), "round it up")
	}
	return nil
}

func (it *item) validate(l Layout, m Limits) error {
	f := it.form
	for _, r := range f.rules {
		if s := find(f.fields, r.field); s != nil {
			if err := r.test(f.name, s.get(it.raw), l, m); err != nil {
				return err
			}
		}
		if it.list == nil {
			continue
		}
		if s := find(it.list.fields, r.field); s != nil {
			for i := range it.count {
				if err := r.test(f.name, s.get(it.entry(i)), l, m); err != nil {
					return err
				}
			}
		}
	}
	if f.check != nil {
		return f.check(it, l, m)
	}
	return nil
}

func atMost(n int) string { return fmt.Sprintf("at most %d", n) }

func checkRelayPaged(it *item, l Layout, _ Limits) error {
	name, flags, size := it.form.name, it.value("flags"), it.value("page_size")
	n, less, align := size*it.value("pages"), flags&maxLengthAdjust, bound(L1Align)
	if flags>>15 != 0 {
		align = dramAlign
	}
	switch {
	case n == 0 || n > 1<<32-1:
		return limit(name, "pages*page size", n, "1 byte to 4 GiB - 1", "relay the pages by several commands")
	case less >= n:
		return limit(name, "length adjust", less, fmt.Sprintf("less than the %d bytes read", n), "relay fewer pages")
	}
	return rule{"page_size", 0, 0, align}.test(name, size, l, Limits{})
}

func checkRanges(it *item, _ Layout, m Limits) error {
	start, length := find(it.list.fields, "start"), find(it.list.fields, "length")
	for i := range it.count {
		if e := start.get(it.entry(i)) + length.get(it.entry(i)); e > uint64(m.Ringbuffer) {
			return limit(it.form.name, "end of a range", e, atMost(m.Ringbuffer)+" bytes, the cache", "cache the binary first")
		}
	}
	return nil
}

func checkPacked(it *item, _ Layout, m Limits) error {
	most, what := m.MaxUnicast, " (the firmware keeps as many as the compute grid has)"
	if it.list == it.form.list.rects {
		most, what = most/2, " rectangles (half of what the firmware keeps of single tiles)"
	}
	if it.count > most {
		return limit(it.form.name, "count", it.count, atMost(most)+what, "use several commands")
	}
	return nil
}

// checkLinks: a WRITE_PACKED_LARGE keeps its rectangle until a run unlinks it, and the last run
// unlinks.
func checkLinks(it *item, _ Layout, _ Limits) error {
	slots := it.list.fields
	noc, dests, unlink := find(slots, "noc"), find(slots, "dests"), find(slots, "unlink")
	linked := false
	for i := range it.count {
		e, before := it.entry(i), it.entry(max(i-1, 0))
		if linked && (noc.get(e) != noc.get(before) || dests.get(e) != dests.get(before)) {
			return bad(ErrFormat, AtLargeSub(i), it.form.name, "the rectangle changes without an unlink before it: set Unlink on sub-command %d",
				i-1)
		}
		linked = unlink.get(e) == 0
	}
	if linked {
		return bad(ErrFormat, AtLargeSub(it.count-1), it.form.name, "the last sub-command does not unlink: set Unlink on it")
	}
	return nil
}

func checkWait(it *item, _ Layout, _ Limits) error {
	if a := it.value("addr"); WaitFlags(it.value("flags"))&WaitMemory != 0 && a%4 != 0 {
		return limit(it.form.name, "addr", a, "a multiple of 4", "wait for a 32-bit word")
	}
	return nil
}

func checkGo(it *item, _ Layout, m Limits) error {
	if v := it.value("multicast"); v != NoMulticast && v >= uint64(m.SubDevices) {
		return limit(it.form.name, "multicast", v, fmt.Sprintf("below %d, or 255", m.SubDevices),
			"pass the sub-device's index, or NoMulticast")
	}
	if n := it.value("noc_start") + it.value("unicasts"); n > uint64(m.GoNOCEntries) {
		return limit(it.form.name, "end of the table entries", n, atMost(m.GoNOCEntries), "the table holds no more")
	}
	return nil
}

const (
	maxPagedSubs    = 35 // RELAY_PAGED_PACKED (tt-metal cq_commands.hpp: the firmware's copy of the list)
	MaxRingSubs     = 52 // RELAY_RINGBUFFER
	MaxLargeSubs    = 35 // WRITE_PACKED_LARGE
	maxLargeLength  = 65536
	maxPackedCores  = 1020 // the list must lie in the first 4096-byte page
	maxPackedRects  = 510
	maxWriteOffsets = 4
	maxLengthAdjust = 0x7FFF // bytes, RELAY_PAGED
)

// Limits of a device's firmware, with sizes in bytes.
type Limits struct {
	MaxCommand      int // a fetch entry
	MaxUnicast      int // tiles of a WRITE_PACKED, as many as the compute grid has; half of that for rectangles
	DispatchPage    int
	SubordinatePage int // of dispatch_s's ring
	DispatchRing    int
	Scratch         int
	Ringbuffer      int
	GoNOCEntries    int
	SubDevices      int // worker streams
}

// DefaultLimits are those of tt-metal's firmware on Tensix dispatch cores (dispatch_settings.cpp)
// for a number of workers; 0 stands for maxPackedCores.
func DefaultLimits(workers int) Limits {
	if workers <= 0 || workers > maxPackedCores {
		workers = maxPackedCores
	}
	return Limits{
		MaxCommand: 128 << 10, MaxUnicast: workers, DispatchPage: 4096, SubordinatePage: 256,
		DispatchRing: 512 << 10, Scratch: 128 << 10, Ringbuffer: 1 << 20, GoNOCEntries: 64, SubDevices: 8,
	}
}
