package watch_test

import (
	_ "embed"
	"errors"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/watch"
)

//go:embed testdata/buffers.cc
var buffers string

func withBuffer(p *reprise.Program) *reprise.Program {
	p.CircularBuffers = append(p.CircularBuffers, reprise.CircularBuffer{Index: 3, Pages: 4, PageSize: 64, Cores: p.Kernels[0].Cores})
	return p
}

func TestCircularBuffers(t *testing.T) {
	onAll(t, func(b *devtest.Bench) {
		im := compile(b, "kernel.c", buffers)
		run(b, withBuffer(on(im, chip.NCRISC, 0)))
		for i, want := range []struct {
			says   string
			line   string
			buffer watch.Buffer
		}{
			{"pushes 1 page, but has reserved 0", "14", watch.Buffer{Number: 3, Pages: 1, Size: 4}},
			{"pushes 2 pages, but has reserved 1", "17", watch.Buffer{Number: 3, Pages: 2, Allowed: 1, Size: 4}},
			{"pops 1 page, but has waited for 0", "19", watch.Buffer{Number: 3, Pages: 1, Size: 4}},
			{"waits for 5 pages, but the buffer has 4", "20", watch.Buffer{Number: 3, Pages: 5, Size: 4}},
			{"reserves 1 page, but the program has no such buffer", "21", watch.Buffer{Number: 4, Pages: 1}},
			{"circular buffer 32: the kernel reserves 1 page, but circular buffers are numbered", "22", watch.Buffer{Number: 32, Pages: 1}},
			{"pushes 2 pages, which go around the end of its 4 pages", "29", watch.Buffer{Number: 3, Pages: 2, Allowed: 2, Size: 4}},
		} {
			p := chip.Processor(i % chip.NumProcessors)
			f := fails(b, withBuffer(on(im, p, uint32(i+1))))
			devtest.Says(b, f, want.says, " at kernel.c:"+want.line+" in kernel")
			if f.Check != watch.CircularBuffer || f.Buffer == nil || *f.Buffer != want.buffer || f.Processor != p {
				b.Errorf("%+v of %+v, want %+v", f.Buffer, f, want.buffer)
			}
		}
	})
}

//go:embed testdata/requests.cc
var requests string

func TestRequests(t *testing.T) {
	onAll(t, func(b *devtest.Bench) {
		im := compile(b, "kernel.c", requests)
		corner := func(c chip.Core) uint32 {
			xy, err := b.Dev.Virtual(c)
			b.Must(err)
			return uint32(xy.X) | uint32(xy.Y)<<6
		}
		args := func(n int) []uint32 {
			return []uint32{uint32(n), corner(chip.Core{}), corner(chip.Core{X: 1, Y: 1})}
		}
		for _, p := range []chip.Processor{chip.BRISC, chip.NCRISC} {
			run(b, on(im, p, args(0)...))
		}
		for i, want := range []string{
			"read of 64 bytes from 0x30004 of tile |to 0x40000 by |: the addresses must be equal modulo 16| at kernel.c:21 in kernel",
			"|: the addresses must be equal modulo | at kernel.c:22 in kernel",
			"write of 64 bytes from 0x40000 to 0x30000 of tile (15,15)|: the chip has no such tile at kernel.c:23",
			"write of 64 bytes|: it is beyond the tile's memory at kernel.c:24",
			"read of 64 bytes|: the address in the own L1 is beyond its end at kernel.c:25",
			"read of 64 bytes| to 0x0 by |: it would overwrite the firmware at kernel.c:26",
			"multicast of 64 bytes from 0x40000 to 0x30000 of tiles |: its corners aren't workers in the NoC's direction at kernel.c:27",
			"|: one request takes 1 byte to| at kernel.c:28",
			"atomic on the word at 0x30002 of tile |: the address is no multiple of 4 at kernel.c:29",
			"write of 4 bytes|: it would overwrite the firmware at kernel.c:30",
			"read of 64 bytes from 0xffb20000 of tile |: it is beyond the tile's memory at kernel.c:31",
			"write of 64 bytes|: it is beyond the tile's memory at kernel.c:32",
		} {
			p := chip.Processor(i % 2)
			f := fails(b, on(im, p, args(i+1)...))
			devtest.Says(b, f, split(want)...)
			if f.Check != watch.NoC || f.Request == nil || f.Processor != p {
				b.Errorf("%+v", f)
			}
		}
	})
}

//go:embed testdata/overflows.cc
var overflows string

func TestStack(t *testing.T) {
	onAll(t, func(b *devtest.Bench) {
		im := compile(b, "kernel.c", overflows)
		for p := range chip.Processor(chip.NumProcessors) {
			run(b, on(im, p, 0))
			f := fails(b, on(im, p, 1))
			devtest.Says(b, f, "stack overflow: the stack has reached the kernel's data, which end at 0xffb0",
				"in kernel \"kernel\" of program \"checked\" on "+p.String())
			if f.Check != watch.Stack {
				b.Errorf("%+v", f)
			}
			if f = fails(b, on(im, p, 2)); f.Check != watch.Stack || f.File != "kernel.c" || f.Line != 15 {
				b.Errorf("at a check: %v", f)
			}
		}
	})
}

//go:embed testdata/metalRequests.cc
var metalRequests string

func TestMetalCalls(t *testing.T) {
	devtest.OnEmulators(t, func(b *devtest.Bench) {
		im := compile(b, "kernel.cpp", metalRequests)
		run(b, withBuffer(on(im, chip.BRISC, 0)))
		for i, want := range []string{
			"modulo 16 at kernel.cpp:9 in", "write of 8192 bytes|no such tile at kernel.cpp:13 in|", "no multiple of 4 at kernel.cpp:16 in",
			"the kernel pushes 3 pages, but has reserved 2 at kernel.cpp:21 in", "the own L1 is beyond its end at kernel.cpp:25 in",
		} {
			if b.Dev.Arch() == chip.Blackhole {
				want = strings.Replace(want, "8192", "16384", 1)
			}
			devtest.Says(b, fails(b, withBuffer(on(im, chip.BRISC, uint32(i+1)))), split(want)...)
		}
	})
}

const compute = `
#include "api/compute/cb_api.h"
#include "api/debug/assert.h"

void kernel_main() {
    cb_reserve_back(3, 2);
    ASSERT(get_arg_val<uint32_t>(0) != 2);
    if (get_arg_val<uint32_t>(0) == 1) {
        cb_push_back(3, 3);
    }
}
`

func TestCompute(t *testing.T) {
	devtest.OnEmulators(t, func(b *devtest.Bench) {
		c, err := kernels.CompileCompute(b.Ctx, kernels.ComputeSource{Source: kernels.Source{Path: "kernel.cpp", Text: compute,
			Arch: b.Dev.Arch(), Watch: true}})
		if errors.Is(err, kernels.ErrNoCompiler) {
			b.Skip(err)
		}
		b.Must(err)
		program := func(n uint32) *reprise.Program {
			p := on(c.Unpack, chip.TRISC0, n)
			for i, im := range c.Images() {
				k := p.Kernels[0]
				k.Image, k.Processor = im, chip.TRISC0+chip.Processor(i)
				p.Kernels = append(p.Kernels, k)
			}
			p.Kernels = p.Kernels[1:]
			return withBuffer(p)
		}
		run(b, program(0))
		devtest.Says(b, fails(b, program(1)), "the kernel pushes 3 pages, but has reserved 2 at kernel.cpp:9 in ", " on TRISC2 of")
		devtest.Says(b, fails(b, program(2)), "assertion `get_arg_val<uint32_t>(0) != 2` failed at kernel.cpp:7 in ", " on TRISC")
	})
}
