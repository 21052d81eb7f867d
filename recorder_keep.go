package reprise

// Keep makes the trace hold buffers until it is released, as it holds those that a program names as its own: for programs
// that are given other buffers for each run, by [Executable.SetCommonArgs] or [Executable.SetArgs]. An error ends the
// capture.
func (r *Recorder) Keep(bs ...*Buffer) error {
	r.mu.Lock()
	err := r.keep(bs)
	r.mu.Unlock()
	if err != nil {
		return r.refused("keep buffers", err)
	}
	return nil
}

func (r *Recorder) keep(bs []*Buffer) error {
	if r.ended {
		return ErrCaptureEnded
	}
	for _, b := range bs {
		if err := b.of(r.d); err != nil {
			return err
		}
		if err := r.t.hold(b); err != nil {
			return err
		}
	}
	return nil
}
