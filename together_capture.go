package reprise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/tracebuf"
)

// lead is how a recorder follows another one, of another device: as long as both record the same commands, only the other
// one keeps them.
type lead struct {
	r     *Recorder
	steps int    // that the follower has recorded
	buf   []byte // for the run that is compared
}

// heard is what a recorder has recorded, for those that follow it.
type heard struct {
	cmds  []byte
	steps []tracebuf.Step
}

// recorded returns what followers of the recorder may take for the same: everything before its first parameter. final says
// that there is more, which they can't have.
func (r *Recorder) recorded() (h heard, final bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.heard != nil {
		return *r.heard, true
	}
	return heard{r.rec.Bytes(), r.rec.Steps()}, false
}

// apart keeps what followers have heard so far, before a parameter changes it. Called with mu held.
func (r *Recorder) apart() {
	if r.lead == nil && r.leads && r.heard == nil {
		r.heard = &heard{slices.Clone(r.rec.Bytes()), slices.Clone(r.rec.Steps())}
	}
	r.alone()
}

// follow says whether a program adds the same commands to this recorder as to the one that it follows, which has recorded
// its run already; then nothing has to be kept here. Called with mu held.
func (r *Recorder) follow(x *Executable) bool {
	f := r.lead
	if f == nil {
		return false
	}
	st := r.state
	f.buf = x.image.Append(f.buf[:0], &st, r.q.q.Dispatcher(), uint16(f.steps))
	h, _ := f.r.recorded()
	if f.steps < len(h.steps) {
		s := h.steps[f.steps]
		if s.Name == x.Name() && s.Program == r.index(x) && bytes.Equal(f.buf, h.cmds[s.Offset:s.Offset+s.Size]) {
			r.prior, r.state = r.state, st
			f.steps++
			return true
		}
	}
	r.alone()
	return false
}

// alone ends that the recorder follows another one. Called with mu held.
func (r *Recorder) alone() {
	f := r.lead
	if f == nil {
		return
	}
	r.lead = nil
	h, _ := f.r.recorded()
	for _, s := range h.steps[:f.steps] {
		r.rec.Add(s.Name, s.Program, func(dst []byte) []byte { return append(dst, h.cmds[s.Offset:s.Offset+s.Size]...) })
	}
}

// CaptureAll records a trace on a queue of each of several devices. record is given a Recorder for each queue, in the order
// of queues. The traces lie at one address, and streams of commands that are equal are kept once on the host: record the
// same programs (LoadAll) in the same order, first into the first Recorder. Where nothing was recorded there is no trace, and
// the result has nil. Either all traces are there then or none.
// Everything else is as with [Queue.Capture].
func CaptureAll(ctx context.Context, queues []*Queue, name string, record func(rs []*Recorder) error) ([]*Trace, error) {
	ds := make([]*Device, len(queues))
	for i, q := range queues {
		if q == nil {
			return nil, fmt.Errorf("reprise: capture %q: queue %d of the list: %w", name, i, ErrForeign)
		}
		ds[i] = q.d
	}
	if err := distinct(ds); err != nil {
		return nil, fmt.Errorf("reprise: capture %q: %w", name, err)
	}
	if record == nil {
		return nil, fmt.Errorf("reprise: capture %q: no function to record with: it is nil", name)
	}
	var ts []*Trace
	call := func(i int) *Call { return &Call{Kind: CallCapture, Queues: queues[i].self, Name: name} }
	done := func(i int, call *Call) {
		if ts[i] != nil {
			call.Object, call.Bytes = ts[i], ts[i].Size()
		}
	}
	err := observeAll(ctx, ds, call, done, func() (err error) {
		ts, err = captureAll(ctx, queues, name, record)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ts, nil
}

func captureAll(ctx context.Context, queues []*Queue, name string, record func(rs []*Recorder) error) ([]*Trace, error) {
	var rs []*Recorder
	for i, q := range queues {
		r, err := q.record(name, false)
		if err != nil {
			for _, r := range rs {
				_ = r.close(err)
			}
			return nil, err
		}
		if i > 0 {
			r.lead = &lead{r: rs[0]}
		}
		rs = append(rs, r)
	}
	rs[0].leads = len(rs) > 1
	if err := callAll(rs, record); err != nil {
		return nil, err
	}
	ts, err := finishAll(ctx, rs)
	if err != nil {
		err = fmt.Errorf("reprise: capture %q on %d devices: %w", name, len(rs), err)
		for _, r := range rs {
			err = errors.Join(err, r.t.discard(ctx))
		}
		return nil, err
	}
	return ts, nil
}

// finishAll makes traces of what was recorded.
func finishAll(ctx context.Context, all []*Recorder) ([]*Trace, error) {
	ts, ds, site := make([]*Trace, len(all)), make([]*Device, len(all)), userPC()
	for i, r := range all {
		ds[i] = r.d
	}
	for _, d := range lockOrder(ds) {
		d.work.RLock()
		defer d.work.RUnlock()
	}
	var rs []*Recorder
	var mems []*allocator.Allocator
	var rq []allocator.Request
	for i, r := range all {
		if len(r.rec.Steps()) == 0 && (r.lead == nil || r.lead.steps == 0) {
			continue
		}
		if err := r.image(); err != nil {
			return nil, err
		}
		q := r.t.request(r.name)
		q.Site = site
		ts[i], rs, mems, rq = r.t, append(rs, r), append(mems, r.d.mem), append(rq, q)
	}
	if len(rs) == 0 {
		return nil, ErrEmptyTrace
	}
	exts, err := allocator.AllocateAll(mems, rq)
	if err != nil {
		return nil, rs[0].t.noRoom(len(rs[0].t.image.Bytes), err)
	}
	for i, r := range rs {
		r.t.ext = exts[i]
	}
	return ts, eachOf(len(rs), func(i int) error {
		t := rs[i].t
		if err := t.place(ctx, rs[i].d.disp.Detach(rs[i].state), t.name); err != nil {
			return fmt.Errorf("%s: %w", rs[i].d.name, err)
		}
		return t.register()
	})
}

// image ends the recording. What a recorder has recorded like the one that it follows is that one's.
func (r *Recorder) image() error {
	var err error
	if f := r.lead; f != nil {
		if h, final := f.r.recorded(); !final && f.r.t.image != nil && f.steps == len(h.steps) && f.r.d.DRAMBanks() == r.d.DRAMBanks() {
			r.t.image = f.r.t.image
			return nil
		}
		r.alone()
	}
	if r.t.image, err = r.rec.Finish(r.d.DRAMBanks()); err != nil {
		return fmt.Errorf("%s: %w", r.d.name, err)
	}
	return nil
}

// SharesCommands says whether two traces have one copy of their commands on the host.
func (t *Trace) SharesCommands(o *Trace) bool { return t.image == o.image }

// distinct says whether all devices are there, and none is twice.
func distinct(ds []*Device) error {
	for i, d := range ds {
		if d == nil {
			return fmt.Errorf("device %d of the list is nil", i)
		}
		if slices.Contains(ds[:i], d) {
			return fmt.Errorf("device %s is given twice", d.name)
		}
	}
	if len(ds) == 0 {
		return errors.New("no devices")
	}
	return nil
}
