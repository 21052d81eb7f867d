// Command cshared builds libttsim.so, the C interface of ttsim docs/libttsim_api.md, over the
// emulated machine of package libttsim:
//
//	go build -buildmode=c-shared -o libttsim.so
//
// The environment variable REPRISE_LIBTTSIM sets the machine (libttsim.Settings). Without it there
// is one chip, of the architecture in the soc_descriptor.yaml beside the library that
// TT_METAL_SIMULATOR names. As in the vendor's library, a fatal error is a report on standard error
// and _exit(1).
package main

/*
#include <stdint.h>
#include <unistd.h>

typedef void (*read_memory)(uint64_t address, void *p, uint32_t n);
typedef void (*write_memory)(uint64_t address, const void *p, uint32_t n);

static void call_read(read_memory f, uint64_t address, void *p, uint32_t n) { f(address, p, n); }

void host_memory_written(void);

static void call_write(write_memory f, uint64_t address, const void *p, uint32_t n) {
	f(address, p, n);
	host_memory_written();
}

int python_stacks(void);
int python_file(const char *variable);

static int python_operations(void) { return python_file("REPRISE_OPERATIONS"); }
*/
import "C"

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/findings"
	"github.com/reprise-tt/reprise/internal/schedules"
	"github.com/reprise-tt/reprise/internal/ttnn"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/emu"
	"github.com/reprise-tt/reprise/sim/libttsim"
	"github.com/reprise-tt/reprise/sim/serve"
)

var (
	life    sync.Mutex // held while a machine starts or ends
	reports *net.UnixListener
	current atomic.Pointer[libttsim.Machine]
	memory  hostMemory

	endOnce sync.Once

	found     *findings.Collector // nil: a finding stops the chip
	perf      *ttnn.PerfRecorder  // of all machines one after another, or nil
	scheduled *schedules.Run      // of all machines one after another, or nil
)

type hostMemory struct {
	read  C.read_memory
	write C.write_memory
}

var errNoCallbacks = errors.New("the host has installed no callbacks (libttsim_set_pci_dma_mem_callbacks)")

func (m *hostMemory) ReadHost(bus uint64, p []byte) error {
	if m.read == nil {
		return errNoCallbacks
	}
	C.call_read(m.read, C.uint64_t(bus), unsafe.Pointer(unsafe.SliceData(p)), C.uint32_t(len(p)))
	return nil
}

func (m *hostMemory) WriteHost(bus uint64, p []byte) error {
	if m.write == nil {
		return errNoCallbacks
	}
	C.call_write(m.write, C.uint64_t(bus), unsafe.Pointer(unsafe.SliceData(p)), C.uint32_t(len(p)))
	return nil
}

func end(err error) {
	endOnce.Do(func() {
		var b []byte
		if m := current.Load(); m != nil && errors.Is(err, libttsim.ErrStopped) {
			b = report(m, err)
			if found != nil {
				for i, c := range m.Chips() {
					found.Stopped(i, c)
				}
				_ = found.Close() // an error can't be reported
			}
		} else {
			b = fmt.Appendf(nil, "ERROR: %v\n", err)
		}
		_, _ = os.Stderr.Write(b) // an error can't be reported
		if errors.Is(err, libttsim.ErrStopped) {
			_, _ = os.Stderr.WriteString(pythonFile(C.python_stacks()))
		}
		C._exit(1)
	})
	select {}
}

func machine(function string) *libttsim.Machine {
	m := current.Load()
	if m == nil {
		end(fmt.Errorf("%s: %w: libttsim_init has not been called, or libttsim_exit has", function, libttsim.ErrMisuse))
	}
	return m
}

func newCollector(s libttsim.Settings) *findings.Collector {
	return &findings.Collector{File: s.Findings, Code: ttnn.Code(s.KernelCache),
		Calls:     func() []findings.Call { return ttnn.Calls(pythonFile(C.python_stacks())) },
		Operation: ttnn.Operation(s.Wheel, func() string { return pythonFile(C.python_operations()) })}
}

// pythonFile returns what is in a file that Python writes; "" if there is none.
func pythonFile(fd C.int) string {
	if fd < 0 {
		return ""
	}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", int(fd)))
	return string(text)
}

//export reprise_set_callbacks
func reprise_set_callbacks(read C.read_memory, write C.write_memory) {
	if current.Load() != nil {
		end(fmt.Errorf("libttsim_set_pci_dma_mem_callbacks: %w: it must come before libttsim_init", libttsim.ErrMisuse))
	}
	memory = hostMemory{read, write}
}

//export reprise_init
func reprise_init() {
	life.Lock()
	defer life.Unlock()
	if current.Load() != nil {
		end(fmt.Errorf("libttsim_init: %w: the simulator is running already", libttsim.ErrMisuse))
	}
	s, err := settings()
	var m *libttsim.Machine
	found = nil
	var opts []sim.Option
	if err == nil && s.Schedule != "" {
		if scheduled == nil {
			scheduled, err = schedules.Open(s.Schedule)
			scheduled.MayHold = ttnn.IsUserKernel(s.KernelCache)
			if s.Stop {
				scheduled.Stop = func(h schedules.Hold) {
					fmt.Fprintf(os.Stderr, "reprise: the chip stands still until a debugger has come to socket:%s:\n  %s\n",
						s.Serve, h.Text)
				}
			}
		}
		opts = append(opts, sim.Scheduled(scheduled))
	}
	if s.Findings != "" {
		found = newCollector(s)
		opts = append(opts, sim.Findings(func(f *emu.Finding) {
			found.Add(slices.IndexFunc(m.Chips(), func(c *emu.Chip) bool { return c.Topology() == f.Topology() }), f)
		}))
	}
	if err == nil && s.Perf != "" {
		var o sim.Option
		if o, err = timed(&s, func() []*emu.Chip { return m.Chips() }); err == nil {
			opts = append(opts, o)
		}
	}
	if err == nil {
		m, err = libttsim.Start(s, &memory, end, opts...)
	}
	if err == nil && s.Report != "" {
		reports, err = serve.Listen(s.Report)
	}
	if err != nil {
		end(err)
	}
	if reports != nil {
		go serveReports(m, reports)
	}
	current.Store(m)
}

// timed returns an option that records the times of programs on chips.
func timed(s *libttsim.Settings, chips func() []*emu.Chip) (o sim.Option, err error) {
	spec, err := s.Spec()
	if err == nil && perf == nil {
		perf, err = ttnn.NewPerfRecorder(s.Perf)
	}
	if err != nil {
		return nil, err
	}
	l, err := perf.Launches(s.Wheel, spec.Arch, func(of *chip.Chip) int {
		return slices.IndexFunc(chips(), func(c *emu.Chip) bool { return c.Topology() == of })
	})
	return sim.Launches(l), err
}

//export reprise_exit
func reprise_exit() {
	life.Lock()
	defer life.Unlock()
	m := machine("libttsim_exit")
	current.Store(nil)
	if err := finish(m); err != nil {
		end(err)
	}
}

func finish(m *libttsim.Machine) error {
	if reports != nil {
		_ = reports.Close() // serveReports sees it
		reports = nil
	}
	err := m.Close()
	if found != nil {
		err = errors.Join(err, found.Close())
	}
	if perf != nil {
		err = errors.Join(err, perf.Err())
	}
	if path := m.Settings().ScheduleResult; path != "" {
		b, _ := json.Marshal(scheduled.Result()) // there is nothing in it that JSON lacks
		err = errors.Join(err, os.WriteFile(path, b, 0o644))
	}
	return err
}

// reprise_at_exit ends the machine of a process that doesn't call libttsim_exit: chips must not
// access freed host memory.
//
//export reprise_at_exit
func reprise_at_exit() {
	life.Lock()
	defer life.Unlock()
	if m := current.Swap(nil); m != nil {
		_ = finish(m) // the process ends anyway
	}
}

//export reprise_config_read
func reprise_config_read(bdf, off C.uint32_t) C.uint32_t {
	v, err := machine("libttsim_pci_config_rd32").ConfigRead(uint32(bdf), uint32(off))
	if err != nil {
		end(err)
	}
	return C.uint32_t(v)
}

//export reprise_config_write
func reprise_config_write(bdf, off C.uint32_t) {
	end(fmt.Errorf("libttsim_pci_config_wr32: %w: configuration space can't be written (word %#x of device %#x)",
		libttsim.ErrMisuse, uint32(off), uint32(bdf)>>3))
}

//export reprise_read
func reprise_read(address C.uint64_t, p unsafe.Pointer, n C.uint32_t) {
	if err := machine("libttsim_pci_mem_rd_bytes").Read(uint64(address), unsafe.Slice((*byte)(p), int(n))); err != nil {
		end(err)
	}
}

//export reprise_write
func reprise_write(address C.uint64_t, p unsafe.Pointer, n C.uint32_t) {
	if err := machine("libttsim_pci_mem_wr_bytes").Write(uint64(address), unsafe.Slice((*byte)(p), int(n))); err != nil {
		end(err)
	}
}

//export reprise_tile_read
func reprise_tile_read(x, y C.uint32_t, address C.uint64_t, p unsafe.Pointer, n C.uint32_t) {
	tile("libttsim_tile_rd_bytes", x, y, func(m *libttsim.Machine, at chip.XY) error {
		return m.ReadTile(at, uint64(address), unsafe.Slice((*byte)(p), int(n)))
	})
}

//export reprise_tile_write
func reprise_tile_write(x, y C.uint32_t, address C.uint64_t, p unsafe.Pointer, n C.uint32_t) {
	tile("libttsim_tile_wr_bytes", x, y, func(m *libttsim.Machine, at chip.XY) error {
		return m.WriteTile(at, uint64(address), unsafe.Slice((*byte)(p), int(n)))
	})
}

func tile(function string, x, y C.uint32_t, access func(*libttsim.Machine, chip.XY) error) {
	m := machine(function)
	if x > 63 || y > 63 {
		end(fmt.Errorf("%s: %w: coordinate (%d, %d)", function, libttsim.ErrMisuse, x, y))
	}
	if err := access(m, chip.XY{X: uint8(x), Y: uint8(y)}); err != nil {
		end(err)
	}
}

func main() {}
