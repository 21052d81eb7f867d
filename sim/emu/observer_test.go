package emu

import (
	"bytes"
	"errors"
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

func observing(r *rig) *rig {
	o := *r
	o.c, o.dev = nil, r.c.Observe()
	return &o
}

func TestObserverHasItsOwnWindows(t *testing.T) {
	for _, arch := range arches {
		r := syncRig(t, arch)
		o := observing(r)
		a, b := r.worker(1, 1), r.worker(2, 2)
		r.st(a, 0x20000, 1)
		r.st(b, 0x20000, 2)
		mine := r.point(a, 0x20000)
		if got := o.ld(b, 0x20000); got != 2 { // aims the observer's window
			t.Errorf("%v: the observer loaded %d, want 2", arch, got)
		}
		equal(t, r.dev.BARLoad(0, mine, 4), 1, "%v: then the host's window loaded", arch)
		o.st(b, 0x20000, 3)
		equal(t, r.ld(b, 0x20000), 3, "%v: the host's load after the observer's store", arch)
		r.healthy()
	}
}

func TestObserverCanBeRefused(t *testing.T) {
	for _, arch := range arches {
		r := newRig(t, Config{Arch: arch, Synchronous: true, RefuseUnwritten: true})
		o := observing(r)
		v := r.worker(1, 1)
		equal(t, o.ld(v, 0x30000), 0xFFFF_FFFF, "%v: memory never written", arch)
		observer := r.c.Observe()
		err := observer.ReadTile(r.raw(v), 1<<40, make([]byte, 4))
		if !errors.Is(err, ErrRefused) {
			t.Errorf("%v: ReadTile of a wild address: %v", arch, err)
		}
		r.st(v, 0x30000, 5)
		equal(t, o.ld(v, 0x30000), 5, "%v: the observer's load after a refusal", arch)
		r.healthy()
	}
}

func TestObserverOfStoppedChip(t *testing.T) {
	for _, arch := range arches {
		r := syncRig(t, arch)
		v := r.worker(1, 1)
		r.write(v, 0x20000, []byte("what was there"))
		select {
		case <-r.c.Stopped():
			t.Fatalf("%v: it has not stopped", arch)
		default:
		}
		r.dev.BARLoad(0, 1<<40, 4)
		select {
		case <-r.c.Stopped():
		default:
			t.Errorf("%v: Stopped received nothing", arch)
		}
		if err := r.c.Fault(); !errors.Is(err, ErrRefused) {
			t.Errorf("%v: fault %v", arch, err)
		}
		equal(t, r.ld(v, 0x20000), 0xFFFF_FFFF, "%v: the host loaded", arch)
		p := make([]byte, 14)
		if err := r.c.Observe().ReadTile(r.raw(v), 0x20000, p); err != nil || !bytes.Equal(p, []byte("what was there")) {
			t.Errorf("%v: the observer read %q, %v", arch, p, err)
		}
		if !r.c.ReadCore(r.raw(v), chip.BRISC, 0x20000, p) || !bytes.Equal(p, []byte("what was there")) {
			t.Errorf("%v: ReadCore read %q", arch, p)
		}
	}
}

func TestReadCore(t *testing.T) {
	for _, arch := range arches {
		r := syncRig(t, arch)
		v := r.worker(1, 1)
		r.run(v, onB().li(a0, localBase).li(a1, 0x04030201).sw(a1, a0, 8).label("l").j("l"))
		p := make([]byte, 3)
		if !r.c.ReadCore(r.raw(v), chip.BRISC, localBase+9, p) || !bytes.Equal(p, []byte{2, 3, 4}) {
			t.Errorf("%v: local RAM: % x", arch, p)
		}
		for _, addr := range []uint32{localBase + 1<<20, r.params.L1Size - 1, 0xFFFF_FFFF} {
			if r.c.ReadCore(r.raw(v), chip.BRISC, addr, p) {
				t.Errorf("%v: there is memory at %#x", arch, addr)
			}
		}
		if r.c.ReadCore(chip.XY{X: 60, Y: 60}, chip.BRISC, 0, p) || r.c.ReadCore(r.raw(v), chip.ERISC0, 0, p) {
			t.Errorf("%v: there is a processor that the chip doesn't have", arch)
		}
		r.healthy()
	}
}
