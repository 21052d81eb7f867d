package watch_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/watch"
)

const buffers = `
#include "reprise/kernel.h"

void kernel_main(void) {
    switch (rp_arg(0)) {
    case 0:  // right
        rp_cb_reserve_back(3, 2);
        rp_cb_push_back(3, 1);
        rp_cb_push_back(3, 1);
        if (rp_cb_free(3) == 2) {
            rp_cb_push_back(3, 2);
        }
        break;
    case 1: rp_cb_push_back(3, 1); break;
    case 2:
        rp_cb_reserve_back(3, 1);
        rp_cb_push_back(3, 2);
        break;
    case 3: rp_cb_pop_front(3, 1); break;
    case 4: rp_cb_wait_front(3, 5); break;
    case 5: rp_cb_reserve_back(4, 1); break;
    case 6: rp_cb_reserve_back(26 + rp_arg(0), 1); break;
    case 7:
        rp_cb_reserve_back(3, 3);
        rp_cb_push_back(3, 3);
        rp_cb_wait_front(3, 3);
        rp_cb_pop_front(3, 3);
        rp_cb_reserve_back(3, 2);
        rp_cb_push_back(3, 2);
        break;
    }
}
`

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

const requests = `
#include "reprise/kernel.h"

#define UP 0x30000
#define HERE 0x40000

void kernel_main(void) {
    uint32_t noc = RP_LOCAL->noc_index;
    uint32_t self = rp_noc_coord(RP_LOCAL->my_x[noc], RP_LOCAL->my_y[noc]);
    struct rp_place dram = rp_dram_page(noc, 0x100000, 2048, 0);
    switch (rp_arg(0)) {
    case 0:  // right
        rp_noc_read(noc, dram.coord, dram.addr, HERE, 20000);
        rp_wait_reads(noc);
        rp_noc_write(noc, self, UP + 4, HERE + 4, 12);
        rp_noc_write(noc, dram.coord, dram.addr, HERE, 2048);
        rp_noc_atomic_inc(noc, self, UP, 1);
        rp_noc_word_write(noc, self, UP + 16, 3);
        rp_noc_full_barrier(noc);
        break;
    case 1: rp_noc_read(noc, self, UP + 4, HERE, 64); break;
    case 2: rp_noc_read(noc, dram.coord, dram.addr + RP_DRAM_ALIGNMENT / 2, HERE, 64); break;
    case 3: rp_noc_write(noc, rp_noc_coord(15, 15), UP, HERE, 64); break;
    case 4: rp_noc_write(noc, self, RP_L1_SIZE - 32, HERE, 64); break;
    case 5: rp_noc_read(noc, self, UP, RP_L1_SIZE - 32, 64); break;
    case 6: rp_noc_read(noc, self, UP, 0, 64); break;
    case 7: rp_noc_write_multicast(noc, RP_WRITE_MULTICAST, rp_noc_rect(noc ^ 1, rp_arg(1), rp_arg(2)), UP, HERE, 64, 1); break;
    case 8: rp_noc_read_packet(noc, self, UP, HERE, RP_NOC_MAX_BURST + 16); break;
    case 9: rp_noc_atomic_inc(noc, self, UP + 2, 1); break;
    case 10: rp_noc_write(noc, self, 0x100, HERE + 0x100, 4); break;
    case 11: rp_noc_read(noc, self, 0xFFB20000, HERE, 64); break;
    case 12: rp_noc_write(noc, dram.coord, (uint64_t)15 << 32 | 0xFFFFF000, HERE, 64); break;
    }
}
`

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

const overflows = `
#include "reprise/kernel.h"

static uint32_t data[8];

// deep takes stack down to the data, and does something there if n is 2.
__attribute__((noinline)) uint32_t deep(uint32_t n) {
    volatile uint32_t room[8];
    for (uint32_t i = 0; i < 8; i++) {
        room[i] = n;
    }
    if (n != 0 && (uint32_t)room > (uint32_t)__bss_end) {
        data[n & 7] += deep(n);
    } else if (n == 2) {
        rp_noc_read(0, rp_noc_coord(RP_LOCAL->my_x[0], RP_LOCAL->my_y[0]), 0x30000, 0x40000, 64);
    }
    return room[n & 7] + data[0];
}

void kernel_main(void) {
    rp_store(0x40000, deep(rp_arg(0)));
}
`

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

const metalRequests = `
#include "api/dataflow/noc.h"
#include "api/dataflow/circular_buffer.h"

void kernel_main() {
    uint32_t n = get_arg_val<uint32_t>(0);
    uint64_t self = get_noc_addr(0x30000);
    if (n == 1) {
        noc_async_read<64>(self + 4, 0x40000, 64);
    }
    if (n == 2) {
        noc_async_write(0x40000, self, 20000);
        noc_async_write(0x40000, get_noc_addr(15, 15, 0x30000), 20000);
    }
    if (n == 3) {
        noc_semaphore_inc(self + 2, 1);
    }
    if (n == 4) {
        CircularBuffer cb(3);
        cb.reserve_back(2);
        cb.push_back(3);
    }
    if (n == 5) {
        noc_async_read_set_state(self);
        noc_async_read_with_state(0x30000, RP_L1_SIZE, 64);
    }
    noc_async_full_barrier();
}
`

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
