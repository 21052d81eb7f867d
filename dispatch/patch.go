package dispatch

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

// Patch is a change of bytes of an interleaved DRAM buffer, all in one page.
type Patch struct {
	Off  int    // in the buffer, a multiple of the alignment of writes to DRAM
	Data []byte // a multiple of it long
}

// SubmitPatched submits p after patches of the trace in at that p runs. The patches are written once the prefetcher has read
// everything before, traces of earlier replays included, and the prefetcher goes on to p only when they are in memory.
func (q *Queue) SubmitPatched(ctx context.Context, p *Prepared, at *Interleaved, patches []Patch) (err error) {
	q.mu.Lock()
	defer q.leave(&err, debug.SetPanicOnFault(true))
	if err := q.submittableLocked(p, nil); err != nil {
		return err
	}
	if err := q.patchLocked(ctx, at, patches); err != nil {
		q.rollbackLocked()
		return err
	}
	return q.submitLocked(ctx, p)
}

// Patch writes patches as SubmitPatched does.
func (q *Queue) Patch(ctx context.Context, at *Interleaved, patches []Patch) (err error) {
	q.mu.Lock()
	defer q.leave(&err, debug.SetPanicOnFault(true))
	if err := q.usable("patch"); err != nil {
		return err
	}
	return q.patchLocked(ctx, at, patches)
}

// patchLocked sends the writes of patches. Commands go to the dispatcher in order and the prefetcher takes nothing from the
// issue queue while it reads a trace, so nothing has to wait before the writes. After them the dispatcher waits until they
// are in memory and releases the prefetcher, which stalls until then.
func (q *Queue) patchLocked(ctx context.Context, at *Interleaved, patches []Patch) error {
	l := q.d.layout()
	b := cq.NewBuilder(l, q.stream.buf[:0])
	flush := func() error {
		cmds, err := b.Finish()
		if err != nil {
			return fmt.Errorf("dispatch: queue %d: patch: %w", q.id, err)
		}
		q.stream.buf = cmds
		err = q.sendLocked(ctx, cmds, false)
		b.Reset(q.stream.buf[:0])
		return err
	}
	for i := range patches {
		p := &patches[i]
		n := l.Stride(2*cq.HeaderSize + len(p.Data))
		if b.Len()+n+4*l.Stride(2*cq.HeaderSize) > maxCommandSize {
			if err := flush(); err != nil {
				return err
			}
		}
		host := int(at.HostPage)
		bank, addr := at.at(p.Off / host)
		b.WritePaged(cq.WritePaged{
			DRAM: at.DRAM, StartPage: uint16(bank), Base: addr + uint32(p.Off%host), PageSize: uint32(len(p.Data)), Pages: 1, Data: p.Data,
		})
	}
	b.WaitStall(cq.Wait{})
	return flush()
}
