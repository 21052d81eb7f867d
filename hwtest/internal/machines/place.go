package machines

import (
	"bytes"
	"errors"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/mesh"
)

func meshNames(t *T) {
	seen := map[string]bool{}
	for _, c := range t.Mesh.Chips() {
		if c.Name == "" || seen[c.Name] {
			t.Errorf("chip %v is called %q, which isn't a name of its own", c.Coord, c.Name)
		}
		seen[c.Name] = true
		if t.Mesh.Chip(c.Coord...) == nil {
			t.Errorf("no chip at %v", c.Coord)
		}
	}
	if t.Mesh.Chip(t.Mesh.Shape()...) != nil {
		t.Error("a chip beyond the mesh")
	}
	if g := t.Mesh.Graph(); g == nil || len(g.Chips) < t.Mesh.Size() {
		t.Errorf("what was found out has too few chips: %+v", g)
	}
}

func outOfMemory(t *T) {
	before := t.Pages("before")
	t.Free(before)
	for _, k := range []allocator.Kind{allocator.DRAM, allocator.L1} {
		c := mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: k, Size: 1 << 40, PageSize: 1 << 12, Name: "huge"}}
		if _, err := t.Mesh.NewBuffer(c); !errors.Is(err, reprise.ErrOutOfMemory) {
			t.Errorf("%v: %v", k, err)
		}
		t.OK(t.Mesh.InStep(k))
	}
	after := t.Pages("after")
	if after.Addr() != before.Addr() {
		t.Errorf("a buffer is at %#x, and was at %#x before", after.Addr(), before.Addr())
	}
	t.Free(after)
}

func memoryAgain(t *T) {
	for _, k := range []allocator.Kind{allocator.DRAM, allocator.L1} {
		c := mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: k, Size: 4096, PageSize: 64, Name: "again"}}
		first, err := t.Mesh.NewBuffer(c)
		t.OK(err)
		t.Free(first)
		second, err := t.Mesh.NewBuffer(c)
		t.OK(err)
		if first.Addr() != second.Addr() {
			t.Errorf("%v: %#x, then %#x", k, first.Addr(), second.Addr())
		}
		if err := t.Queue.Write(t.Ctx, first, make([]byte, 4096)); !errors.Is(err, reprise.ErrReleased) {
			t.Errorf("%v: a write to what was freed: %v", k, err)
		}
		t.Free(second)
		t.OK(t.Mesh.InStep(k))
	}
}

func meshAxis(t *T) {
	s := t.Mesh.Shape()
	b, err := t.Mesh.NewBuffer(mesh.BufferConfig{
		BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, PageSize: 64, Name: "axis"}, Tensor: []int{2 * s[1], 16}, Unit: 4,
		Split: []int{mesh.Replicate, 0},
	})
	t.OK(err)
	data := Counting(2*s[1]*64, 5)
	t.Write(b, data)
	for _, c := range t.Mesh.Chips() {
		t.Is("part", c, b, Counting(128, 5+32*uint32(c.Coord[1])))
	}
	got := make([]byte, len(data))
	t.OK(t.Queue.Read(t.Ctx, b, got))
	if !bytes.Equal(got, data) {
		t.Error("it comes back changed")
	}
	t.Free(b)
}

func submeshTensor(t *T) {
	whole := t.Pages("whole")
	t.Write(whole, Counting(whole.Size(), 9))
	s := t.Mesh.Shape()
	sub, err := t.Mesh.Submesh(mesh.Range{Start: mesh.Coord{s[0] - 1, 0}, End: mesh.Coord{s[0] - 1, s[1] - 1}})
	t.OK(err)
	b, err := sub.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, PageSize: 64, Name: "row"},
		Tensor: []int{1, 16 * s[1]}, Unit: 4})
	t.OK(err)
	data := Counting(64*s[1], 100)
	t.OK(sub.Queue(0).Write(t.Ctx, b, data))
	got := make([]byte, len(data))
	t.OK(sub.Queue(0).Read(t.Ctx, b, got))
	if !bytes.Equal(got, data) {
		t.Error("it comes back changed")
	}
	t.Are("whole", whole, func(uint32) uint32 { return 9 })
	t.Free(b)
}

func meshShapes(t *T) {
	s := t.Mesh.Shape()
	if _, err := t.Mesh.Submesh(mesh.Range{Start: mesh.Coord{0, 0}, End: mesh.Coord{s[0], s[1]}}); !errors.Is(err, mesh.ErrShape) {
		t.Errorf("a part that reaches beyond: %v", err)
	}
	if _, err := t.Mesh.Submeshes(mesh.Shape{s[0] + 1, 1}); !errors.Is(err, mesh.ErrShape) {
		t.Errorf("parts that are too large: %v", err)
	}
	if _, err := t.Mesh.Reshape(mesh.Shape{t.Mesh.Size() + 1}); !errors.Is(err, mesh.ErrShape) {
		t.Errorf("more places than chips: %v", err)
	}
	_, err := mesh.Open(t.Ctx, mesh.Cards(t.machine.Cards...), mesh.Shape{1, 1000})
	var e *mesh.ShapeError
	if !errors.As(err, &e) || len(e.Possible) == 0 {
		t.Errorf("1000 chips: %v", err)
	}
}
