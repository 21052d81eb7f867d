package driverdiff

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/reprise-tt/reprise/internal/kabi"
)

func hideAddress(b []byte, off int) {
	if v := binary.LittleEndian.Uint64(b[off:]); v != 0 {
		binary.LittleEndian.PutUint64(b[off:], 1<<63|v%uint64(os.Getpagesize()))
	}
}

func arg[T kabi.Part](in T) []byte { return kabi.PartBytes(&in) }

func (r *run) ask(f int, name string, req uint32, arg []byte) ([]byte, bool) {
	return r.ioctl(f, name, req, arg, nil, nil)
}

func (r *run) outputSize(n int) uint32 { return uint32(oneOf(r, n, n, n, n, 0, 1, n-1, n+8, 64)) }

func (r *run) deviceInfo(f int) {
	r.ask(f, "GET_DEVICE_INFO", kabi.IoctlGetDeviceInfo, arg(kabi.GetDeviceInfoIn{OutputSizeBytes: r.outputSize(20)}))
}

func (r *run) driverInfo(f int) {
	r.ask(f, "GET_DRIVER_INFO", kabi.IoctlGetDriverInfo, arg(kabi.GetDriverInfoIn{OutputSizeBytes: r.outputSize(12)}))
}

func (r *run) queryMappings(f int) {
	r.ask(f, "QUERY_MAPPINGS", kabi.IoctlQueryMappings,
		arg(kabi.QueryMappingsIn{OutputMappingCount: uint32(oneOf(r, 0, 1, 5, 6, 7, 20)), Reserved: uint32(oneOf(r, 0, 0, 1))}))
}

func (r *run) allocateBuffer(f int) {
	page := uint32(os.Getpagesize())
	in := kabi.AllocateDMABufIn{
		RequestedSize: oneOf(r, page, page, 2*page, 16*page, 0, 1, page-1, page+1, 1<<28+page),
		BufIndex:      uint8(oneOf(r, 0, 1, 2, 255)),
		Flags:         uint8(oneOf(r, 0, 0, kabi.AllocateDMABufNOCDMA, 1, 4, 255)),
	}
	if r.pick(8) == 0 {
		in.Reserved0[0] = 1
	}
	if r.pick(8) == 0 {
		in.Reserved1[1] = 1
	}
	n := kabi.Size[kabi.AllocateDMABufIn]()
	r.ioctl(f, "ALLOCATE_DMA_BUF", kabi.IoctlAllocateDMABuf, arg(in), nil, func(b []byte) { hideAddress(b, n) })
}

const arenaPages = 64 // to pin; the memory after them is inaccessible

func (r *run) pin(f int) {
	page := uint64(os.Getpagesize())
	at, n := uint64(r.pick(arenaPages)), uint64(oneOf(r, 1, 1, 1, 2, 4, 16))
	if r.cfg.Discontiguous {
		n = 1
	}
	off, size := at*page, n*page
	switch r.pick(12) {
	case 0:
		size = 0
	case 1:
		size++
	case 2:
		off++
	case 3:
		off = arenaPages * page // nothing is there
	}
	in := kabi.PinPagesIn{OutputSizeBytes: r.outputSize(16), Size: size,
		Flags: uint32(oneOf(r, 0, 0, 1, 2, 2, 4, 4, 6, 8, 10, 12, 15, 16, 1<<31))}
	if r.pinAt(f, off, in) {
		r.known.pins[f] = append(r.known.pins[f], [2]uint64{off, size})
	}
}

func (r *run) pinAt(f int, off uint64, in kabi.PinPagesIn) bool {
	n := kabi.Size[kabi.PinPagesIn]()
	_, ok := r.ioctl(f, fmt.Sprintf("PIN_PAGES at offset %#x", off), kabi.IoctlPinPages, arg(in), func(s *side, b []byte) {
		in := in
		in.VirtualAddress = s.at(off)
		kabi.Put(b, &in)
	}, func(b []byte) {
		clear(b[8:16]) // the arenas are in different places
		if in.OutputSizeBytes > 0 {
			hideAddress(b, n)
		}
	})
	return ok
}

func (r *run) unpin(f int) {
	page := uint64(os.Getpagesize())
	off, size, i := uint64(r.pick(arenaPages))*page, page, -1
	if l := r.known.pins[f]; len(l) > 0 && r.pick(5) > 0 {
		i = r.pick(len(l))
		off, size = l[i][0], l[i][1]
	}
	in := kabi.UnpinPagesIn{Size: size}
	switch r.pick(10) {
	case 0:
		in.Reserved = 1
	case 1:
		in.Size += oneOf(r, page, 1, -page)
	}
	_, ok := r.ioctl(f, fmt.Sprintf("UNPIN_PAGES at offset %#x", off), kabi.IoctlUnpinPages, arg(in), func(s *side, b []byte) {
		in := in
		in.VirtualAddress = s.at(off)
		kabi.Put(b, &in)
	}, func(b []byte) { clear(b[:8]) })
	if ok { // the newest pin at the address
		for i, p := range slices.Backward(r.known.pins[f]) {
			if p[0] == off {
				r.known.pins[f] = slices.Delete(r.known.pins[f], i, i+1)
				break
			}
		}
	}
}

func (r *run) lock(f int) {
	in := kabi.LockCtlIn{OutputSizeBytes: r.outputSize(4), Index: uint8(oneOf(r, 0, 1, 63, 63, 64, 255)),
		Flags: uint32(oneOf(r, kabi.LockAcquire, kabi.LockRelease, kabi.LockTest, 4, 1<<20))}
	if r.pick(6) == 0 && in.Index < kabi.LockCount {
		// A wait would never end here.
		test := in
		test.OutputSizeBytes, test.Flags = 4, kabi.LockTest
		b, ok := r.ask(f, "LOCK_CTL", kabi.IoctlLockCtl, arg(test))
		if ok && field[kabi.LockCtlOut](b, kabi.Size[kabi.LockCtlIn]()).Value == 0 {
			in.Flags = kabi.LockAcquireBlocking
		}
	}
	r.ask(f, "LOCK_CTL", kabi.IoctlLockCtl, arg(in))
}

func (r *run) allocateWindow(f int) {
	size := oneOf[uint64](r, 1<<20, 2<<20, 2<<20, 16<<20, 4<<30, 0, 4096, 3<<20)
	in := kabi.AllocateTLBIn{Size: size, Reserved: uint64(oneOf(r, 0, 0, 0, 1))}
	b, ok := r.ask(f, "ALLOCATE_TLB", kabi.IoctlAllocateTLB, arg(in))
	if !ok {
		return
	}
	out := field[kabi.AllocateTLBOut](b, kabi.Size[kabi.AllocateTLBIn]())
	r.known.windows[f][out.ID] = &window{size: size, offset: oneOf(r, out.MmapOffsetUC, out.MmapOffsetWC)}
}

// window is sometimes a missing one or another file's.
func (r *run) window(f int) uint32 {
	ids := slices.Sorted(maps.Keys(r.known.windows[f]))
	if len(ids) == 0 || r.pick(6) == 0 {
		return uint32(oneOf(r, 0, 1, 5, 160, 185, 201, 202, 209, 210, 255, 256, 1<<31))
	}
	return ids[r.pick(len(ids))]
}

func (r *run) freeWindow(f int) {
	id := r.window(f)
	if _, ok := r.ask(f, "FREE_TLB", kabi.IoctlFreeTLB, arg(kabi.FreeTLBIn{ID: id})); ok {
		delete(r.known.windows[f], id)
	}
}

func (r *run) configureWindow(f int) {
	id := r.window(f)
	t, w := r.known.tile, r.known.windows[f][id]
	if w == nil {
		w = &window{}
	}
	in := kabi.ConfigureTLBIn{ID: id, Config: kabi.NOCTLBConfig{XEnd: uint16(t.X), YEnd: uint16(t.Y), Ordering: 1}}
	aimed := true
	if r.pick(3) == 0 {
		// No access uses the window until it is aimed again.
		aimed = false
		c := &in.Config
		size := max(w.size, 1<<20)
		c.Addr = oneOf(r, 0, size, 3*size, 1, 4096, 1<<36, 1<<36-size, 1<<63, ^uint64(0))
		for _, p := range []*uint16{&c.XEnd, &c.YEnd, &c.XStart, &c.YStart} {
			*p = uint16(oneOf(r, 0, 1, 63, 64, 65535))
		}
		for _, p := range []*uint8{&c.NOC, &c.Mcast, &c.Ordering, &c.Linked, &c.StaticVC} {
			*p = uint8(oneOf(r, 0, 1, 3, 255))
		}
		c.Reserved0[0], c.Reserved1[0] = uint8(oneOf(r, 0, 0, 1)), uint32(oneOf(r, 0, 0, 1))
	}
	in.Reserved = uint32(oneOf(r, 0, 0, 0, 1))
	_, ok := r.ask(f, "CONFIGURE_TLB", kabi.IoctlConfigureTLB, arg(in))
	if ok {
		w.aimed = aimed
	}
}

func (r *run) exhaust(f int) {
	page := uint64(os.Getpagesize())
	size, flags := oneOf[uint64](r, 0, 1<<20, 2<<20, 16<<20, 4<<30), oneOf[uint32](r, kabi.PinPagesNOCDMA, kabi.PinPagesNOCTopDown)
	for i := range uint64(kabi.MaxInboundTLBs) {
		ok := false
		if size > 0 {
			_, ok = r.ask(f, "ALLOCATE_TLB", kabi.IoctlAllocateTLB, arg(kabi.AllocateTLBIn{Size: size}))
		} else if i < arenaPages {
			ok = r.pinAt(f, i*page, kabi.PinPagesIn{OutputSizeBytes: 16, Size: page, Flags: flags})
		}
		if !ok {
			break
		}
	}
	r.close(f)
}

func (r *run) noCleanup(f int) {
	t := r.known.tile
	in := kabi.SetNOCCleanup{Argsz: 32, Enabled: 1, X: t.X, Y: t.Y, Addr: 0x30000 + 4*uint64(r.pick(4)), Data: uint64(r.step)}
	in.Argsz = uint32(kabi.Size[kabi.SetNOCCleanup]())
	switch r.pick(9) {
	case 0:
		in.Argsz--
	case 1:
		in.Flags = 1
	case 2:
		in.Enabled = 2
	case 3:
		in.X = 65
	case 4:
		in.NOC = 2
	case 5:
		in.Addr++
	case 6:
		in.Enabled, in.X, in.Y = 0, 64, 64
	case 7:
		in.Reserved0 = 1
	}
	r.ask(f, "SET_NOC_CLEANUP", kabi.IoctlSetNOCCleanup, arg(in))
}

func (r *run) power(f int) {
	in := kabi.PowerState{Argsz: uint32(kabi.Size[kabi.PowerState]()), Validity: uint8(oneOf(r, 0x0F, 0xEF, 0x04, 0xF0, 0xFF, 0)),
		PowerFlags: uint16(oneOf(r, 0, 1, 0x7FFF, 0xFFFF))}
	in.PowerSettings[0] = uint16(r.pick(3))
	switch r.pick(6) {
	case 0:
		in.Argsz++
	case 1:
		in.Flags = 1
	case 2:
		in.Reserved0 = 1
	}
	r.ask(f, "SET_POWER_STATE", kabi.IoctlSetPowerState, arg(in))
}

// Only refused requests: an exported window prevents resets.
func (r *run) exportWindow(f int) {
	in := kabi.ExportTLBDMABuf{Argsz: uint32(kabi.Size[kabi.ExportTLBDMABuf]()), TLBID: r.window(f)}
	switch r.pick(5) {
	case 0:
		in.Argsz++
	case 1:
		in.Flags = 1
	case 2:
		in.Offset = 1
	case 3:
		in.Size = 1
	default:
		in.Offset = 1 << 40
	}
	r.ask(f, "EXPORT_TLB_DMABUF", kabi.IoctlExportTLBDMABuf, arg(in))
}

func (r *run) peer(f int) {
	in := kabi.MapPeerBarIn{PeerBarIndex: uint32(oneOf(r, 0, 0, 1, 2, 4, 6, 17, 18)), PeerBarLength: oneOf[uint32](r, 4096, 4096,
		0, 1, 1<<31),
		PeerBarOffset: oneOf[uint32](r, 0, 4096, 1, 1<<31), Flags: uint32(oneOf(r, 0, 0, 0, 1)), Reserved: uint32(oneOf(r, 0, 0, 0, 1))}
	other := r.pick(fileCount + 2)
	r.ioctl(f, fmt.Sprintf("MAP_PEER_BAR of file %d", other), kabi.IoctlMapPeerBar, arg(in), func(s *side, b []byte) {
		in := in
		in.PeerFD = ^uint32(0)
		if other < fileCount && s.files[other] != nil {
			if d, ok := s.files[other].(interface{ Descriptor() (int, error) }); ok {
				if fd, err := d.Descriptor(); err == nil {
					in.PeerFD = uint32(fd)
				}
			}
		} else if other == fileCount {
			in.PeerFD = 0 // standard input
		}
		kabi.Put(b, &in)
	}, func(b []byte) {
		clear(b[:4])
		hideAddress(b, kabi.Size[kabi.MapPeerBarIn]())
	})
}

func (r *run) unknown(f int) {
	req := oneOf[uint32](r, kabi.IoctlGetHarvesting, kabi.IoctlFreeDMABuf, kabi.Magic<<8|21, kabi.Magic<<8|255, 0x5401, 0)
	r.ask(f, fmt.Sprintf("request %#x", req), req, make([]byte, 16))
}

func (r *run) reset(f int) {
	n := uint32(kabi.Size[kabi.ResetDeviceOut]())
	mode := oneOf[uint32](r, kabi.ResetRestoreState, kabi.ResetPCIeLink, kabi.ResetConfigWrite, kabi.ResetUser, kabi.ResetASIC,
		kabi.ResetASICDMC, kabi.ResetPost, 7, 1<<31)
	ask := func(mode uint32) bool {
		b, ok := r.ask(f, fmt.Sprintf("RESET_DEVICE in mode %d", mode), kabi.IoctlResetDevice,
			arg(kabi.ResetDeviceIn{OutputSizeBytes: n, Flags: mode}))
		time.Sleep(r.cfg.Settle)
		return ok && field[kabi.ResetDeviceOut](b, kabi.Size[kabi.ResetDeviceIn]()).Result == 0
	}
	// A refused reset leaves windows with any target.
	if ask(mode) && mode >= kabi.ResetPCIeLink && mode <= kabi.ResetASICDMC {
		for i := range fileCount {
			for m := range r.sides[0].maps[i] {
				if r.sides[0].maps[i][m].window >= 0 {
					r.accessAt(i, m) // the driver has revoked the mapping
				}
			}
		}
	}
	switch mode {
	case kabi.ResetPCIeLink, kabi.ResetConfigWrite:
		ask(kabi.ResetRestoreState)
	case kabi.ResetUser, kabi.ResetASIC, kabi.ResetASICDMC:
		// The driver allows little in between.
		for range r.pick(5) {
			oneOf(r, r.deviceInfo, r.driverInfo, r.lock, r.allocateWindow, r.pin, r.queryMappings, r.configureWindow, r.mmap)(f)
		}
		ask(kabi.ResetPost)
		if mode == kabi.ResetUser { // the chip was not reset
			ask(kabi.ResetConfigWrite)
			ask(kabi.ResetRestoreState)
		}
	}
	if mode <= kabi.ResetPost {
		for i := range fileCount {
			for _, w := range r.known.windows[i] {
				w.aimed = false // the windows' registers are lost
			}
		}
	}
}
