package driver

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
)

func (f *file) pinPages(in kabi.PinPagesIn, rest []byte) error {
	if uint64(in.OutputSizeBytes) > uint64(len(rest)) {
		return syscall.EFAULT
	}
	d := f.dev
	known := uint32(kabi.PinPagesContiguous | kabi.PinPagesNOCDMA | kabi.PinPagesNOCTopDown)
	if d.cfg.Version.atLeast(9) {
		known |= kabi.PinPagesReadOnly
	}
	page := pageSize()
	if in.Flags&^known != 0 || in.Size == 0 || in.Size%page != 0 || in.VirtualAddress%page != 0 ||
		in.VirtualAddress+in.Size < in.VirtualAddress {
		return syscall.EINVAL
	}
	readOnly := in.Flags&kabi.PinPagesReadOnly != 0
	if readOnly && d.cfg.NoIOMMU {
		return syscall.EOPNOTSUPP
	}

	d.faults.pinning()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range f.pins {
		if p.va == in.VirtualAddress && p.size == in.Size {
			return syscall.EEXIST
		}
	}
	if err := checkPages(in.VirtualAddress, in.Size, !readOnly); err != nil {
		return err
	}
	if d.cfg.NoIOMMU && in.Size > page {
		big := max(d.cfg.PageSizeAt(in.VirtualAddress), page)
		if in.VirtualAddress/big != (in.VirtualAddress+in.Size-1)/big {
			return syscall.EINVAL // discontiguous
		}
	}
	topDown := in.Flags&kabi.PinPagesNOCTopDown != 0
	r, noc, err := d.reachLocked(holdPages(in.VirtualAddress, in.Size), readOnly,
		topDown || in.Flags&kabi.PinPagesNOCDMA != 0, topDown)
	if err != nil {
		return err
	}
	f.pins = append(f.pins, &pin{r, in.VirtualAddress, in.Size})
	return answer(rest, in.OutputSizeBytes, &kabi.PinPagesOutExtended{PhysicalAddress: r.bus, NOCAddress: noc})
}

func (f *file) unpinPages(in kabi.UnpinPagesIn, _ []byte) error {
	page := pageSize()
	if in.Reserved != 0 || in.Size/page == 0 {
		return syscall.EINVAL
	}
	d := f.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	// The driver considers only the newest of several pins at an address.
	for i, p := range slices.Backward(f.pins) {
		if p.va != in.VirtualAddress {
			continue
		}
		if p.size/page != in.Size/page {
			return syscall.EINVAL
		}
		f.pins = slices.Delete(f.pins, i, i+1)
		d.dropLocked(&p.reach)
		return nil
	}
	return syscall.EINVAL
}

func (f *file) allocateDMABuf(in kabi.AllocateDMABufIn, rest []byte) error {
	if len(rest) < kabi.Size[kabi.AllocateDMABufOut]() {
		return syscall.EFAULT
	}
	if size := uint64(in.RequestedSize); size == 0 || size%pageSize() != 0 || size > 1<<kabi.MaxDMABufLog2 {
		return syscall.EINVAL
	}
	d := f.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, used := f.bufs[in.BufIndex]; used {
		return syscall.EINVAL
	}
	mem, err := newPages(uint64(in.RequestedSize))
	if err != nil {
		return errno(err)
	}
	b, noc, err := d.reachLocked(mem, false, in.Flags&kabi.AllocateDMABufNOCDMA != 0, true)
	if err != nil {
		return err
	}
	f.bufs[in.BufIndex] = &b
	kabi.Put(rest, &kabi.AllocateDMABufOut{
		PhysicalAddress: b.bus,
		MappingOffset:   bufferBase() + uint64(in.BufIndex)*bufferStep,
		Size:            in.RequestedSize,
		NOCAddress:      noc,
	})
	return nil
}

// mapPeerBar maps a range of another card's BAR at a bus address (tt-kmd memory.c,
// ioctl_map_peer_bar).
func (f *file) mapPeerBar(in kabi.MapPeerBarIn, rest []byte) error {
	const resources = 17 // PCI_NUM_RESOURCES of a kernel with SR-IOV
	if in.Flags != 0 || in.PeerBarIndex >= resources || in.PeerBarLength == 0 {
		return syscall.EINVAL
	}
	if !isDescriptor(int(int32(in.PeerFD))) {
		return syscall.EBADF
	}
	d := f.dev
	d.drv.filesMu.Lock()
	peer := d.drv.files[int(in.PeerFD)]
	d.drv.filesMu.Unlock()
	if peer == nil || peer.dev == d || peer.dev.arch.params.Arch != d.arch.params.Arch {
		return syscall.EINVAL
	}
	size := uint64(0)
	if in.PeerBarIndex < uint32(len(peer.dev.barSize)) {
		peer.dev.mu.Lock()
		size = peer.dev.barSize[int(in.PeerBarIndex)]
		peer.dev.mu.Unlock()
	}
	if uint64(in.PeerBarOffset) >= size || uint64(in.PeerBarLength) > size-uint64(in.PeerBarOffset) {
		return syscall.EINVAL
	}
	if len(rest) < kabi.Size[kabi.MapPeerBarOut]() {
		return syscall.EFAULT
	}
	bus, ok := d.dma.insert(busRange{size: uint64(in.PeerBarLength),
		peer: &peerBAR{peer.dev.name, &peer.dev.forPeers, int(in.PeerBarIndex), uint64(in.PeerBarOffset)}})
	if !ok {
		return syscall.ENOMEM
	}
	d.mu.Lock()
	f.peers = append(f.peers, bus)
	d.mu.Unlock()
	kabi.Put(rest, &kabi.MapPeerBarOut{DMAAddress: bus})
	return nil
}

type iommu struct {
	limit  uint64       // highest bus address
	posted atomic.Int64 // bytes of unfinished writes to peers
	offBus atomic.Bool  // reads are all ones, and writes are lost

	mu     sync.RWMutex
	ranges []busRange // sorted by bus address
}

type busRange struct {
	bus, size uint64
	mem       hostPages
	readOnly  bool
	peer      *peerBAR // instead of mem
}

type peerBAR struct {
	name string                    // of the card
	fn   *atomic.Pointer[Function] // nil once the card is gone
	bar  int
	off  uint64
}

var _ PeerDMA = (*iommu)(nil)

const (
	lowBus   = 1 << 32 // the end of the preferred bus addresses, as in Linux for PCI devices
	firstBus = 1 << 20 // lower ones stay unused
)

// The highest free address is taken first.
func (m *iommu) insert(r busRange) (bus uint64, ok bool) {
	size := r.size
	m.mu.Lock()
	defer m.mu.Unlock()
	bus, ok = m.gap(firstBus, min(lowBus, m.limit+1), size)
	if !ok && m.limit >= lowBus {
		bus, ok = m.gap(lowBus, m.limit+1, size)
	}
	if !ok {
		return 0, false
	}
	i, _ := slices.BinarySearchFunc(m.ranges, bus, busRange.compare)
	r.bus = bus
	m.ranges = slices.Insert(m.ranges, i, r)
	return bus, true
}

func (m *iommu) gap(low, high, size uint64) (uint64, bool) {
	end := high
	for _, r := range slices.Backward(m.ranges) {
		if r.bus >= high {
			continue
		}
		if after := max(r.bus+r.size, low); end >= after && end-after >= size {
			return end - size, true
		}
		end = min(end, r.bus)
		if end <= low {
			return 0, false
		}
	}
	return end - size, end >= low && end-low >= size
}

// Afterwards only accesses to a peer may be under way.
func (m *iommu) remove(bus uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i, ok := slices.BinarySearchFunc(m.ranges, bus, busRange.compare); ok {
		m.ranges = slices.Delete(m.ranges, i, i+1)
	}
}

func (r busRange) compare(bus uint64) int { return cmp.Compare(r.bus, bus) }

func (m *iommu) findLocked(bus, n uint64) *busRange {
	i, exact := slices.BinarySearchFunc(m.ranges, bus, busRange.compare)
	if exact {
		i++
	}
	if i == 0 {
		return nil
	}
	r := &m.ranges[i-1]
	if in := bus - r.bus; in < r.size && n <= r.size-in {
		return r
	}
	return nil
}

func (m *iommu) ReadHost(bus uint64, p []byte) error {
	peer, off, err := m.access(bus, p, false)
	if peer == nil {
		return err
	}
	return peer.read(bus, off, p)
}

func (m *iommu) WriteHost(bus uint64, p []byte) error {
	peer, off, err := m.access(bus, p, true)
	if peer == nil {
		return err
	}
	return peer.write(m, bus, off, p)
}

// access may return a peer and the offset in its BAR, for an access without the lock: the peer may
// wait for memory to be mapped.
func (m *iommu) access(bus uint64, p []byte, write bool) (*peerBAR, uint64, error) {
	if m.offBus.Load() {
		if !write {
			fill(p)
		}
		return nil, 0, nil
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	r := m.findLocked(bus, uint64(len(p)))
	switch {
	case r == nil:
		return nil, 0, &DMAError{Bus: bus, Size: len(p), Write: write, Why: "not mapped for this device"}
	case r.readOnly && write:
		return nil, 0, &DMAError{Bus: bus, Size: len(p), Write: true, Why: "pinned read-only"}
	case r.peer != nil:
		return r.peer, r.peer.off + bus - r.bus, nil
	}
	return nil, 0, r.mem.access(bus-r.bus, p, write)
}

func (b *peerBAR) function(bus uint64, n int, write bool) (Function, error) {
	if fn := b.fn.Load(); fn != nil {
		return *fn, nil
	}
	return nil, &DMAError{Bus: bus, Size: n, Write: write, Why: fmt.Sprintf("the peer %s is gone", b.name)}
}

func (b *peerBAR) write(from *iommu, bus, off uint64, p []byte) error {
	fn, err := b.function(bus, len(p), true)
	if err != nil {
		return err
	}
	if to, ok := fn.(Peer); ok {
		n := int64(len(p))
		from.posted.Add(n)
		to.PeerWrite(b.bar, off, p, func() { from.posted.Add(-n) })
	} else {
		fn.BARWrite(b.bar, off, p)
	}
	return nil
}

// read blocks. A Peer may answer only after the card's current access.
func (b *peerBAR) read(bus, off uint64, p []byte) error {
	fn, err := b.function(bus, len(p), false)
	if err != nil {
		return err
	}
	if _, ok := fn.(Peer); ok {
		return &DMAError{Bus: bus, Size: len(p), Why: fmt.Sprintf("it leads to BAR %d of %s, whose answer the device "+
			"can't stand still for, since the peer may be waiting for it: let the peer write instead", b.bar, b.name)}
	}
	fn.BARRead(b.bar, off, p)
	return nil
}

func (m *iommu) ReadPeer(bus uint64, n int, done func(p []byte)) bool {
	m.mu.RLock()
	r := m.findLocked(bus, uint64(n))
	if r == nil || r.peer == nil {
		m.mu.RUnlock()
		return false
	}
	peer, off := r.peer, r.peer.off+bus-r.bus
	m.mu.RUnlock()
	fn, err := peer.function(bus, n, false)
	to, ok := fn.(Peer)
	if err != nil || !ok {
		return false
	}
	to.PeerRead(peer.bar, off, n, done)
	return true
}

func (m *iommu) Posted() int64 { return m.posted.Load() }

// iatu is a card's outbound regions, from the NoC's PCIe aperture to bus addresses. A nil function
// leaves hardware alone.
type iatu struct {
	arch    *arch
	regions [kabi.MaxIATURegions]iatuRegion
}

type iatuRegion struct {
	free                bool
	base, limit, target uint64
}

// Registers of an outbound region (tt-kmd wormhole.c, blackhole.c; tt-isa-documentation
// WormholeB0/PCIExpressTile/README.md).
const (
	iatuControl1   = 0x00
	iatuControl2   = 0x04
	iatuBaseLow    = 0x08
	iatuBaseHigh   = 0x0C
	iatuLimitLow   = 0x10
	iatuTargetLow  = 0x14
	iatuTargetHigh = 0x18
	iatuControl3   = 0x1C // Blackhole
	iatuLimitHigh  = 0x20 // Blackhole

	iatuEnable          = 1 << 31 // control 2
	iatuDMABypass       = 1 << 27
	iatuTLPBypass       = 1 << 21
	iatuFuncBypass      = 1 << 19
	iatuIncreaseSize    = 1 << 13 // control 1: the limit has more than 32 bits
	iatuBlackholeRegion = 1 << 40 // largest region in bytes
)

const noRegion = -1

// mapOutbound takes a range of the aperture, first fit from either end, for target (tt-kmd
// memory.c, setup_noc_dma).
func (t *iatu) mapOutbound(fn Function, topDown bool, size, target uint64) (region int, noc uint64, err error) {
	base, ok := t.findAperture(topDown, size)
	if !ok {
		return noRegion, 0, syscall.ENOMEM
	}
	region = slices.IndexFunc(t.regions[:], func(r iatuRegion) bool { return r.free })
	if region < 0 {
		return noRegion, 0, syscall.ENOSPC
	}
	r := iatuRegion{base: base, limit: base + size - 1, target: target}
	if t.arch.regionTB && size > iatuBlackholeRegion {
		return noRegion, 0, syscall.EINVAL
	}
	t.regions[region] = r
	t.program(fn, region, r)
	return region, t.arch.params.PCI.NOCBase + base, nil
}

func (t *iatu) findAperture(topDown bool, size uint64) (base uint64, ok bool) {
	limit := t.arch.nocLimit
	if size == 0 || size-1 > limit {
		return 0, false
	}
	var used []iatuRegion
	for _, r := range t.regions {
		if !r.free {
			used = append(used, r)
		}
	}
	slices.SortFunc(used, func(a, b iatuRegion) int { return cmp.Compare(a.base, b.base) })
	if !topDown {
		at := uint64(0)
		for _, r := range used {
			if r.base-at >= size {
				return at, true
			}
			at = r.limit + 1
		}
		return at, at <= limit && limit-at >= size-1
	}
	end := limit + 1
	for _, r := range slices.Backward(used) {
		if end-(r.limit+1) >= size {
			return end - size, true
		}
		end = r.base
	}
	return end - size, end >= size
}

func (t *iatu) unmapOutbound(fn Function, region *int) {
	if *region == noRegion {
		return
	}
	if fn != nil {
		t.program(fn, *region, iatuRegion{})
	}
	t.regions[*region] = iatuRegion{free: true}
	*region = noRegion
}

// program writes in the driver's order; a limit of zero disables the region.
func (t *iatu) program(fn Function, i int, r iatuRegion) {
	p := t.arch.params
	at := uint64(p.PCI.IATUBase) + uint64(i)*uint64(p.PCI.IATUStride)
	write := func(reg uint64, v uint64) { fn.BARStore(2, at+reg, 4, v&0xFFFFFFFF) }
	write(iatuBaseLow, r.base)
	write(iatuBaseHigh, r.base>>32)
	write(iatuTargetLow, r.target)
	write(iatuTargetHigh, r.target>>32)
	write(iatuLimitLow, r.limit)
	wormhole, enable := p.Arch == chip.Wormhole, uint64(iatuEnable)
	if wormhole {
		enable |= iatuDMABypass | iatuTLPBypass | iatuFuncBypass
	}
	if r.limit == 0 {
		enable = 0
	}
	if wormhole {
		write(iatuControl1, 0)
		write(iatuControl2, enable)
		return
	}
	write(iatuLimitHigh, r.limit>>32)
	write(iatuControl1, iatuIncreaseSize)
	write(iatuControl2, enable)
	write(iatuControl3, 0)
}
