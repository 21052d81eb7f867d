package reprise_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
)

// The report of a hang says in words what the engines of a worker wait for, where the device can tell.
func TestHangOfTheEngines(t *testing.T) {
	const source = `
#include "reprise/kernel.h"
#define TTI(w) __asm__ volatile(".word %0" ::"i"((uint32_t)(w) << 2 | (uint32_t)(w) >> 30))

// Waits for its engines, which wait for a semaphore.
void kernel_main(void) {
    TTI(0xA3100004u | 4);  // SEMINIT semaphore 0
    TTI(0xA6000000u | 0x1FFu << 15 | 4 | 1);
    rp_store(RP_PC_BUF_TENSIX_SYNC, 0);
    uint32_t v = rp_load(RP_PC_BUF_TENSIX_SYNC);
    __asm__ volatile("addi x0, %0, 0" ::"r"(v) : "memory");
}
`
	onEmulators(t, func(b *bench) {
		image, err := kernels.Compile(b.ctx, kernels.Source{Path: "engines.c", Text: source, Arch: b.dev.Arch(), Processors: []chip.Processor{chip.TRISC1}})
		if errors.Is(err, kernels.ErrNoCompiler) {
			b.Skip(err)
		}
		b.must(err)
		x := b.load(&reprise.Program{Name: "engines", Kernels: []reprise.Kernel{{
			Name: "wait", Image: image, Processor: chip.TRISC1, Cores: []chip.Range{chip.Single(2, 1)},
		}}})
		b.must(b.queue.Run(b.ctx, x))
		h := b.hang(b.queue.Wait(b.ctx))
		if want := "its engines: SEMWAIT 0xa6ff8005 waits while semaphore 0 is 0"; !strings.Contains(h.Detail(), want) {
			b.Errorf("the report doesn't say %q:\n%s", want, h.Detail())
		}
	}, reprise.WithHangTimeout(300*time.Millisecond))
}
