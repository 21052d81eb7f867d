package hwtest

import (
	"bytes"
	"errors"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/mesh"
)

func meshNames(t *meshFixture) {
	seen := map[string]bool{}
	for _, c := range t.mesh.Chips() {
		if c.Name == "" || seen[c.Name] {
			t.Errorf("chip %v is called %q, which isn't a name of its own", c.Coord, c.Name)
		}
		seen[c.Name] = true
		if t.mesh.Chip(c.Coord...) == nil {
			t.Errorf("no chip at %v", c.Coord)
		}
	}
	if t.mesh.Chip(t.mesh.Shape()...) != nil {
		t.Error("a chip beyond the mesh")
	}
	if g := t.mesh.Graph(); g == nil || len(g.Chips) < t.mesh.Size() {
		t.Errorf("what was found out has too few chips: %+v", g)
	}
}

func meshOutOfMemory(t *meshFixture) {
	before := t.pages("before")
	t.ok(before.Release())
	for _, k := range []allocator.Kind{allocator.DRAM, allocator.L1} {
		c := mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: k, Size: 1 << 40, PageSize: 1 << 12, Name: "huge"}}
		if _, err := t.mesh.NewBuffer(c); !errors.Is(err, reprise.ErrOutOfMemory) {
			t.Errorf("%v: %v", k, err)
		}
		t.ok(t.mesh.InStep(k))
	}
	after := t.pages("after")
	if after.Addr() != before.Addr() {
		t.Errorf("a buffer is at %#x, and was at %#x before", after.Addr(), before.Addr())
	}
	t.ok(after.Release())
}

func meshMemoryAgain(t *meshFixture) {
	for _, k := range []allocator.Kind{allocator.DRAM, allocator.L1} {
		c := mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: k, Size: 4096, PageSize: 64, Name: "again"}}
		first, err := t.mesh.NewBuffer(c)
		t.ok(err)
		t.ok(first.Release())
		second, err := t.mesh.NewBuffer(c)
		t.ok(err)
		if first.Addr() != second.Addr() {
			t.Errorf("%v: %#x, then %#x", k, first.Addr(), second.Addr())
		}
		if err := t.queue.Write(t.ctx, first, make([]byte, 4096)); !errors.Is(err, reprise.ErrReleased) {
			t.Errorf("%v: a write to what was freed: %v", k, err)
		}
		t.ok(second.Release())
		t.ok(t.mesh.InStep(k))
	}
}

func meshAxis(t *meshFixture) {
	s := t.mesh.Shape()
	b, err := t.mesh.NewBuffer(mesh.BufferConfig{
		BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, PageSize: 64, Name: "axis"}, Tensor: []int{2 * s[1], 16}, Unit: 4,
		Split: []int{mesh.Replicate, 0},
	})
	t.ok(err)
	data := counting(2*s[1]*64, 5)
	t.ok(t.queue.Write(t.ctx, b, data))
	for _, c := range t.mesh.Chips() {
		t.is("part", c, b, counting(128, 5+32*uint32(c.Coord[1])))
	}
	got := make([]byte, len(data))
	t.ok(t.queue.Read(t.ctx, b, got))
	if !bytes.Equal(got, data) {
		t.Error("it comes back changed")
	}
	t.ok(b.Release())
}

func meshSubmeshTensor(t *meshFixture) {
	whole := t.pages("whole")
	t.ok(t.queue.Write(t.ctx, whole, counting(whole.Size(), 9)))
	s := t.mesh.Shape()
	sub, err := t.mesh.Submesh(mesh.Range{Start: mesh.Coord{s[0] - 1, 0}, End: mesh.Coord{s[0] - 1, s[1] - 1}})
	t.ok(err)
	b, err := sub.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, PageSize: 64, Name: "row"},
		Tensor: []int{1, 16 * s[1]}, Unit: 4})
	t.ok(err)
	data := counting(64*s[1], 100)
	t.ok(sub.Queue(0).Write(t.ctx, b, data))
	got := make([]byte, len(data))
	t.ok(sub.Queue(0).Read(t.ctx, b, got))
	if !bytes.Equal(got, data) {
		t.Error("it comes back changed")
	}
	for _, c := range t.mesh.Chips() {
		t.is("whole", c, whole, counting(whole.Size(), 9))
	}
	t.ok(b.Release())
}

func meshShapes(t *meshFixture) {
	s := t.mesh.Shape()
	if _, err := t.mesh.Submesh(mesh.Range{Start: mesh.Coord{0, 0}, End: mesh.Coord{s[0], s[1]}}); !errors.Is(err, mesh.ErrShape) {
		t.Errorf("a part that reaches beyond: %v", err)
	}
	if _, err := t.mesh.Submeshes(mesh.Shape{s[0] + 1, 1}); !errors.Is(err, mesh.ErrShape) {
		t.Errorf("parts that are too large: %v", err)
	}
	if _, err := t.mesh.Reshape(mesh.Shape{t.mesh.Size() + 1}); !errors.Is(err, mesh.ErrShape) {
		t.Errorf("more places than chips: %v", err)
	}
	_, err := mesh.Open(t.ctx, mesh.Cards(t.machine.Cards...), mesh.Shape{1, 1000})
	var e *mesh.ShapeError
	if !errors.As(err, &e) || len(e.Possible) == 0 {
		t.Errorf("1000 chips: %v", err)
	}
}
