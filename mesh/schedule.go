package mesh

// step is one step of a chip in a collective: it sends pages to a neighbour, and receives pages and
// combines or forwards them. The fields are the arguments of kernels.Exchange.
type step struct {
	send, sendNext bool
	recv, recvNext bool
	how            Combine
	forward, drop  bool
	out, in, pages int
}

func (s *step) words() []uint32 {
	flags := uint32(s.pages)<<16 | uint32(s.how)<<4
	for i, b := range []bool{s.send, s.sendNext, s.recv, s.recvNext, 8: s.forward, 9: s.drop} {
		if b {
			flags |= 1 << i
		}
	}
	return []uint32{flags, uint32(s.out), uint32(s.in)}
}

func slice(pages, n, i int) (first, count int) {
	first = pages * i / n
	return first, pages*(i+1)/n - first
}

type plan [][]step

func (p plan) add(chip int, s step) {
	for left := s.pages; left > 0; left -= s.pages {
		s.pages = min(left, maxStepPages)
		p[chip] = append(p[chip], s)
		s.out, s.in = s.out+s.pages, s.in+s.pages
	}
}

const maxStepPages = 1<<16 - 1

func (p plan) how() Combine {
	for _, steps := range p {
		for _, s := range steps {
			if s.recv && s.how != Replace {
				return s.how
			}
		}
	}
	return Replace
}

func combined(steps []step) (pages int) {
	for _, s := range steps {
		if s.recv && s.how != Replace {
			pages += s.pages
		}
	}
	return pages
}

// Each chip on the way combines the pages with its own and forwards the result; with drop it
// forwards them unchanged.
func (p plan) flow(from, to, first, pages int, how Combine, drop bool) {
	next := to > from
	d := -1
	if next {
		d = 1
	}
	for i := from; ; i += d {
		s := step{pages: pages, out: first, in: first}
		if i != to {
			s.send, s.sendNext = true, next
		}
		if i != from {
			s.recv, s.recvNext, s.how = true, !next, how
			s.forward, s.drop = i != to, drop && i != to
		}
		if from != to {
			p.add(i, s)
		}
		if i == to {
			return
		}
	}
}

func (p plan) broadcast(root, first, pages int) {
	p.flow(root, len(p)-1, first, pages, Replace, false)
	p.flow(root, 0, first, pages, Replace, false)
}

func allGather(n, pages int, ring bool) plan {
	p := make(plan, n)
	if ring && pages%n == 0 {
		p.turn(pages, 0, Replace)
		return p
	}
	for k := range n {
		first, count := slice(pages, n, k)
		p.broadcast(k, first, count)
	}
	return p
}

func reduceScatter(n, pages int, ring bool, how Combine) plan {
	p := make(plan, n)
	if ring && pages%n == 0 {
		p.turn(pages, 1, how)
		return p
	}
	for k := range n {
		first, count := slice(pages, n, k)
		p.flow(0, k, first, count, how, false)
		p.flow(n-1, k, first, count, how, false)
	}
	return p
}

// In step t chip r sends slice r-t-lag and receives the one before.
func (p plan) turn(pages, lag int, how Combine) {
	n := len(p)
	size := pages / n
	for t := range n - 1 {
		for r := range p {
			at := func(back int) int { return ((r-back)%n + n) % n * size }
			p.add(r, step{
				send: true, sendNext: true, recv: true, how: how, pages: size, out: at(t + lag), in: at(t + lag + 1),
			})
		}
	}
}

func allReduce(n, pages int, ring bool, how Combine) plan {
	if ring && pages%n == 0 {
		p := reduceScatter(n, pages, true, how)
		for i, s := range allGather(n, pages, true) {
			p[i] = append(p[i], s...)
		}
		return p
	}
	p := make(plan, n)
	p.flow(0, n-1, 0, pages, how, false)
	p.flow(n-1, 0, 0, pages, Replace, false)
	return p
}
