package driverdiff

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
)

// Config is a comparison.
type Config struct {
	A, B     seam.Node
	Accesses func(mem []byte) seam.MMIO // accesses a real driver's device memory: kmd.Accesses
	Arch     chip.Arch
	Seed     uint64
	Steps    int           // requests, 1000 if zero
	Resets   bool          // some requests are resets of the cards
	Settle   time.Duration // for a card to come back
	// Discontiguous: without an IOMMU the outcome of pins of several pages depends on physical
	// addresses, so there are none.
	Discontiguous bool
}

// Difference is a request with different answers.
type Difference struct {
	Step    int // from 0
	Request string
	A, B    string // the answers
}

func (d Difference) String() string {
	return fmt.Sprintf("step %d: %s: %s, and %s", d.Step, d.Request, d.A, d.B)
}

const fileCount = 3

type side struct {
	node  seam.Node
	arena []byte // memory to pin
	files [fileCount]seam.File
	maps  [fileCount][]*mapping
}

type mapping struct {
	seam.Mapping
	window int // -1 for something else
}

type window struct {
	size, offset uint64 // offset is of mmap
	aimed        bool   // it leads to a worker's memory
}

type known struct {
	tile    chip.XY
	open    [fileCount]bool
	windows [fileCount]map[uint32]*window // by id
	pins    [fileCount][][2]uint64        // offset in the arena, size
}

type run struct {
	cfg    Config
	p      *chip.Params
	rand   *rand.Rand
	sides  [2]side
	known  known
	step   int
	differ []Difference
}

// Run compares two drivers, whose cards nothing else uses. An error is the comparison's.
func Run(cfg Config) (_ []Difference, err error) {
	p := cfg.Arch.Params()
	if p == nil {
		return nil, fmt.Errorf("driverdiff: architecture %v is neither Wormhole nor Blackhole", cfg.Arch)
	}
	t, err := chip.New(cfg.Arch, chip.Harvesting{})
	if err != nil {
		return nil, fmt.Errorf("driverdiff: %w", err)
	}
	r := &run{cfg: cfg, p: p, rand: rand.New(rand.NewPCG(cfg.Seed, 0))}
	if r.known.tile, err = t.Virtual(chip.Core{}); err != nil {
		return nil, fmt.Errorf("driverdiff: %w", err)
	}
	for i, n := range []seam.Node{cfg.A, cfg.B} {
		arena, free, err := newArena()
		if err != nil {
			return nil, fmt.Errorf("driverdiff: memory to pin: %w", err)
		}
		defer free()
		r.sides[i] = side{node: n, arena: arena}
	}
	steps := cfg.Steps
	if steps == 0 {
		steps = 1000
	}
	for r.step = range steps {
		r.next()
	}
	for f := range fileCount {
		r.close(f)
	}
	return r.differ, nil
}

func (r *run) both(request string, ask func(s *side) string) (answer string, same bool) {
	a, b := ask(&r.sides[0]), ask(&r.sides[1])
	if a != b {
		r.differ = append(r.differ, Difference{r.step, request, a, b})
	}
	return a, a == b
}

func errText(err error) string {
	var no syscall.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &no):
		return fmt.Sprintf("errno %d (%v)", int(no), no)
	}
	return err.Error()
}

func (r *run) pick(n int) int { return r.rand.IntN(n) }

func oneOf[T any](r *run, l ...T) T { return l[r.rand.IntN(len(l))] }

func (r *run) next() {
	f := r.pick(fileCount)
	if !r.known.open[f] {
		r.openFile(f)
		return
	}
	type kind struct {
		weight int
		fn     func(int)
	}
	kinds := []kind{
		{3, r.close}, {3, r.deviceInfo}, {3, r.queryMappings}, {3, r.driverInfo}, {6, r.allocateBuffer}, {10, r.pin},
		{6, r.unpin}, {10, r.lock}, {10, r.allocateWindow}, {4, r.freeWindow}, {10, r.configureWindow}, {10, r.mmap},
		{8, r.unmap}, {12, r.access}, {3, r.noCleanup}, {4, r.power}, {3, r.exportWindow}, {3, r.peer}, {3, r.unknown},
		{1, r.exhaust},
	}
	if r.cfg.Resets {
		kinds = append(kinds, kind{1, r.reset})
	}
	sum := 0
	for _, k := range kinds {
		sum += k.weight
	}
	n := r.pick(sum)
	for _, k := range kinds {
		if n < k.weight {
			k.fn(f)
			return
		}
		n -= k.weight
	}
}

func (r *run) openFile(f int) {
	flags := syscall.O_RDWR | syscall.O_NONBLOCK | oneOf(r, 0, syscall.O_APPEND) | oneOf(r, 0, 0, 0, syscall.O_EXCL)
	_, same := r.both(fmt.Sprintf("open file %d with %#x", f, flags), func(s *side) string {
		file, err := s.node.Open(flags)
		if err == nil {
			s.files[f] = file
		}
		return errText(err)
	})
	if !same { // drop the file of both
		for i := range r.sides {
			r.sides[i].drop(f)
		}
		return
	}
	if r.sides[0].files[f] == nil {
		return
	}
	k := &r.known
	k.open[f] = true
	k.windows[f] = map[uint32]*window{}
	k.pins[f] = nil
}

func (s *side) drop(f int) {
	if s.files[f] != nil {
		_ = s.files[f].Close() // not compared
		s.files[f] = nil
	}
}

func (r *run) close(f int) {
	if !r.known.open[f] {
		return
	}
	for range r.sides[0].maps[f] {
		r.unmapAt(f, 0)
	}
	r.both(fmt.Sprintf("close file %d", f), func(s *side) string {
		err := s.files[f].Close()
		s.files[f] = nil
		return errText(err)
	})
	r.known.open[f] = false
}

// before may change a side's copy of the argument; hide hides free choices of the driver.
func (r *run) ioctl(f int, name string, req uint32, arg []byte, before func(*side, []byte), hide func([]byte)) (answer []byte, ok bool) {
	const room, canary = 1024, 0xA5
	var first []byte
	got, same := r.both(fmt.Sprintf("file %d: %s %x", f, name, arg), func(s *side) string {
		b := bytes.Repeat([]byte{canary}, room)
		copy(b, arg)
		if before != nil {
			before(s, b)
		}
		err := s.files[f].Ioctl(req, b)
		if first == nil {
			first = bytes.Clone(b)
		}
		if hide != nil {
			hide(b)
		}
		end := len(b)
		for end > len(arg) && b[end-1] == canary {
			end--
		}
		if err != nil {
			return errText(err)
		}
		return fmt.Sprintf("ok %x", b[:end])
	})
	return first, same && got[:2] == "ok"
}

func field[T kabi.Part](b []byte, off int) (v T) {
	copy(kabi.PartBytes(&v), b[off:])
	return v
}

// Files compares the drivers' files about an idle card: the model's, b, with the file system's, a,
// except for machines' differences.
func Files(a, b fs.FS) (l []Difference, err error) {
	differ := func(name, x, y string) {
		if x != y {
			l = append(l, Difference{Request: "file " + name, A: x, B: y})
		}
	}
	seen := map[string]bool{}
	err = fs.WalkDir(b, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Type() != 0 || strings.HasPrefix(name, "proc/") && !strings.HasPrefix(name, "proc/driver/") ||
			path.Base(name) == "dev" {
			return err
		}
		real := name
		if at := strings.Index(name, "/hwmon/hwmon"); at >= 0 {
			found, err := fs.Glob(a, name[:at]+"/hwmon/hwmon*/"+path.Base(name))
			if err != nil {
				return err
			}
			if len(found) == 1 {
				real = found[0]
			}
		}
		seen[real] = true
		x, y := content(a, real), content(b, name)
		switch path.Base(name) {
		case "config":
			x, y = identity(x), identity(y)
		case "uevent": // the model has some of the lines
			for _, line := range strings.Split(strings.TrimSpace(y), "\n") {
				if !strings.Contains("\n"+x, "\n"+line+"\n") {
					differ(name, x, y)
				}
			}
			return nil
		case "tt_heartbeat":
			return nil
		case "version": // without the build's suffix
			x, _, _ = strings.Cut(strings.TrimSpace(x), "-")
			y = strings.TrimSpace(y)
		case "type": // the kernel chooses between two kinds of domains that translate
			x, y = strings.TrimSuffix(x, "-FQ\n"), strings.TrimSuffix(y, "-FQ\n")
			x = strings.TrimSuffix(x, "\n")
		}
		differ(name, x, y)
		return nil
	})
	if err != nil {
		return l, fmt.Errorf("driverdiff: files: %w", err)
	}
	for _, pattern := range []string{"sys/class/tenstorrent/*/tt_*", "sys/bus/pci/drivers/tenstorrent/*/hwmon/hwmon*/*[0-9]_*",
		"proc/driver/tenstorrent/*/*"} {
		found, err := fs.Glob(a, pattern)
		if err != nil {
			return l, fmt.Errorf("driverdiff: files: %w", err)
		}
		for _, name := range found {
			name = strings.Replace(name, "sys/bus/pci/drivers/tenstorrent/", "sys/bus/pci/devices/", 1)
			if !seen[name] {
				differ(name, content(a, name), "no such file")
			}
		}
	}
	return l, nil
}

func content(f fs.FS, name string) string {
	b, err := fs.ReadFile(f, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such file"
	case errors.Is(err, syscall.ENODATA):
		return "no data"
	case err != nil:
		return err.Error()
	}
	return string(b)
}

func identity(config string) string {
	b := []byte(config)
	if len(b) < 64 {
		return config
	}
	return fmt.Sprintf("%x", bytes.Join([][]byte{b[:4], b[8:12], b[0x2C:0x30]}, nil))
}

func (s *side) at(off uint64) uint64 { return addressOf(s.arena) + off }

func (r *run) mmap(f int) {
	page := uint64(os.Getpagesize())
	k := &r.known
	ids := slices.Sorted(maps.Keys(k.windows[f]))
	length, window := int(page), -1
	var off uint64
	switch n := r.pick(8); {
	case n < 4 && len(ids) > 0:
		id := ids[r.pick(len(ids))]
		w := k.windows[f][id]
		window, off = int(id), w.offset
		length = oneOf(r, int(page), int(page), 16*int(page), 1<<20, 1, int(min(w.size, 1<<21)))
		switch r.pick(8) {
		case 0:
			off, window = off+page, -1
		case 1:
			length, window = int(w.size+page), -1
		}
	case n < 6:
		off = oneOf[uint64](r, 0, 1, 2, 3, 4, 5, 8, 255) << 36
		off += oneOf[uint64](r, 0, page, r.p.PCI.BARSize[0]-page, r.p.PCI.BARSize[0], 1<<35)
	default:
		off = (page-256)<<32 + uint64(oneOf(r, 0, 1, 2, 255))<<32
		off += oneOf[uint64](r, 0, page, 16*page)
		length = oneOf(r, int(page), 2*int(page), 100)
	}
	r.mapAt(f, off, length, window)
}

func (r *run) mapAt(f int, off uint64, length, window int) {
	_, same := r.both(fmt.Sprintf("file %d: mmap of %d bytes at %#x", f, length, off), func(s *side) string {
		m, err := s.files[f].Mmap(off, length)
		if err == nil {
			s.maps[f] = append(s.maps[f], &mapping{m, window})
		}
		return errText(err)
	})
	if same {
		return
	}
	for i := range r.sides { // only one has the mapping
		s := &r.sides[i]
		if n := len(s.maps[f]); n > len(r.sides[1-i].maps[f]) {
			_ = s.maps[f][n-1].Unmap() // not compared
			s.maps[f] = s.maps[f][:n-1]
		}
	}
}

func (r *run) unmap(f int) {
	if n := len(r.sides[0].maps[f]); n > 0 {
		r.unmapAt(f, r.pick(n))
	}
}

func (r *run) unmapAt(f, i int) {
	r.both(fmt.Sprintf("file %d: munmap of mapping %d", f, i), func(s *side) string {
		err := s.maps[f][i].Unmap()
		s.maps[f] = slices.Delete(s.maps[f], i, i+1)
		return errText(err)
	})
}

func (r *run) access(f int) {
	var can []int
	for i, m := range r.sides[0].maps[f] {
		if w := r.known.windows[f][uint32(m.window)]; m.window >= 0 && w != nil && w.aimed {
			can = append(can, i)
		}
	}
	if len(can) > 0 {
		r.accessAt(f, can[r.pick(len(can))])
	}
}

func (r *run) accessAt(f, i int) {
	off, width := uint64(8*r.pick(16)), oneOf(r, 4, 4, 8)
	v := r.rand.Uint64() >> (64 - 8*width)
	r.both(fmt.Sprintf("file %d: store and load of %d bytes at %#x of mapping %d", f, width, off, i), func(s *side) (answer string) {
		io := s.maps[f][i].IO
		if io == nil {
			io = r.cfg.Accesses(s.maps[f][i].Mem)
		}
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() {
			if e := recover(); e != nil {
				answer = fmt.Sprint("fault: ", e)
			}
		}()
		io.Store(off, width, v)
		return fmt.Sprintf("%#x", io.Load(off, width))
	})
}
