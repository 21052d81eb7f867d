//go:build linux

package driver

import (
	"errors"
	"fmt"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
)

type slowPeer struct {
	*regFile
	asked []string
	ends  []func()
	look  func() // in each call
}

func (s *slowPeer) PeerWrite(bar int, off uint64, p []byte, taken func()) {
	s.look()
	s.asked = append(s.asked, fmt.Sprintf("write %x at %#x of BAR %d", p, off, bar))
	s.ends = append(s.ends, taken)
}

func (s *slowPeer) PeerRead(bar int, off uint64, n int, done func(p []byte)) {
	s.look()
	s.asked = append(s.asked, fmt.Sprintf("read %d at %#x of BAR %d", n, off, bar))
	s.ends = append(s.ends, func() { done(make([]byte, n)) })
}

func TestPeersWaitForNobody(t *testing.T) {
	second := &slowPeer{regFile: newRegFile(chip.Blackhole)}
	r := newRig(t, chip.Blackhole, func(c *Config) { c.Functions = append(c.Functions, second) })
	f, peer := r.open(0), mustOpen(t, r.drv.Node(1))
	fd, err := peer.(interface{ Descriptor() (int, error) }).Descriptor()
	want(t, "descriptor", err, nil)
	a := kabi.MapPeerBar{In: kabi.MapPeerBarIn{PeerFD: uint32(fd), PeerBarOffset: 0x1000, PeerBarLength: 0x2000}}
	want(t, "map", f.Ioctl(kabi.IoctlMapPeerBar, kabi.Bytes(&a)), nil)
	bus, dma := a.Out.DMAAddress, r.fn.dma.(PeerDMA)

	m := dma.(*iommu)
	second.look = func() {
		if !m.mu.TryLock() {
			t.Error("the IOMMU is locked while the card is at its peer")
			return
		}
		m.mu.Unlock()
	}
	for _, d := range r.drv.devices {
		d.mu.Lock()
	}
	want(t, "write", dma.WriteHost(bus+0x10, []byte{1, 2}), nil)
	want(t, "another write", dma.WriteHost(bus+0x20, []byte{3, 4, 5}), nil)
	answered := 0
	if !dma.ReadPeer(bus+0x30, 8, func(p []byte) { answered += len(p) }) {
		t.Error("the bus address leads to no peer")
	}
	for _, d := range r.drv.devices {
		d.mu.Unlock()
	}
	noDiff(t, second.asked, []string{"write 0102 at 0x1010 of BAR 0", "write 030405 at 0x1020 of BAR 0", "read 8 at 0x1030 of BAR 0"},
		"the peer was asked")
	for i, left := range []int64{5, 3, 0, 0} {
		equal(t, dma.Posted(), left, "bytes under way after %d accesses", i)
		if i < len(second.ends) {
			second.ends[i]()
		}
	}
	equal(t, answered, 8, "bytes answered")
	var de *DMAError
	if err := dma.ReadHost(bus, make([]byte, 4)); !errors.As(err, &de) || de.Bus != bus || de.Write {
		t.Errorf("a read that waits for a peer: %v", err)
	}
	if dma.ReadPeer(bus-1, 1, nil) {
		t.Error("an address that isn't mapped leads to a peer")
	}
	want(t, "unplug", r.drv.Unplug(1), nil)
	if err := dma.WriteHost(bus, []byte{1}); !errors.As(err, &de) {
		t.Errorf("a write to a peer that is gone: %v", err)
	}
	if dma.ReadPeer(bus, 1, nil) {
		t.Error("a peer that is gone is asked")
	}
}
