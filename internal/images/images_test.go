package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
)

var sample = map[string][]byte{
	"copy.elf": []byte("copy"), "empty.elf": {}, "compute/matmul.math.elf": bytes.Repeat([]byte("matmul"), 10_000),
}

func pack(t testing.TB, files map[string][]byte) []byte {
	t.Helper()
	return expect.Value(Pack(files))(t)
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tarred(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		expect.Must(t, w.WriteHeader(&h))
		expect.Value(w.Write(make([]byte, h.Size)))(t)
	}
	expect.Must(t, w.Close())
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	for _, files := range []map[string][]byte{sample, {}} {
		archive := pack(t, files)
		got := expect.Value(Unpack(archive))(t)
		expect.NoDiff(t, got, files, "unpacked")
		for range 10 { // maps have another order each time
			if !bytes.Equal(archive, pack(t, files)) {
				t.Fatal("the same files give other bytes")
			}
		}
	}
}

func TestDamaged(t *testing.T) {
	archive := pack(t, sample)
	for n := range archive {
		if files, err := Unpack(archive[:n]); err == nil || files != nil {
			t.Errorf("cut off after %d of %d bytes: %d files, %v", n, len(archive), len(files), err)
		}
		damaged := bytes.Clone(archive)
		damaged[n] ^= 1
		files, err := Unpack(damaged)
		if err == nil && !cmp.Equal(sample, files) || err != nil && files != nil {
			t.Errorf("with another byte %d of %d: %d files, %v", n, len(archive), len(files), err)
		}
	}
}

func TestRefused(t *testing.T) {
	plain := tar.Header{Format: tar.FormatUSTAR, Typeflag: tar.TypeReg, Name: "a", Size: 1}
	with := func(change func(h *tar.Header)) tar.Header {
		h := plain
		change(&h)
		return h
	}
	for name, entries := range map[string][]tar.Header{
		"folder":       {with(func(h *tar.Header) { h.Typeflag, h.Name, h.Size = tar.TypeDir, "a/", 0 })},
		"link":         {with(func(h *tar.Header) { h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, "b", 0 })},
		"other format": {with(func(h *tar.Header) { h.Format = tar.FormatGNU })},
		"outside":      {with(func(h *tar.Header) { h.Name = "../a" })},
		"absolute":     {with(func(h *tar.Header) { h.Name = "/a" })},
		"twice":        {plain, plain},
		"not sorted":   {with(func(h *tar.Header) { h.Name = "b" }), plain},
		"too large":    {with(func(h *tar.Header) { h.Size = maxUnpacked })},
	} {
		if files, err := Unpack(gzipped(t, tarred(t, entries...))); err == nil {
			t.Errorf("%s: accepted %d files", name, len(files))
		}
	}
	for _, files := range []map[string][]byte{{"../a": nil}, {strings.Repeat("a", 300): nil}, {"a": make([]byte, maxUnpacked)}} {
		expect.Error(t, expect.ErrOf(Pack(files)))
	}
}

type opened struct {
	fs.FS
	mu    sync.Mutex
	count map[string]int
}

func (o *opened) Open(name string) (fs.File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count[name]++
	return o.FS.Open(name)
}

func TestSet(t *testing.T) {
	o := &opened{count: map[string]int{}, FS: fstest.MapFS{
		"dir/wormhole.tar.gz": {Data: pack(t, sample)}, "dir/blackhole.tar.gz": {Data: []byte("damaged")},
	}}
	s := New(o, "dir")
	if len(o.count) > 0 {
		t.Errorf("opened before use: %v", o.count)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			file, err := s.ELF(chip.Wormhole, "compute/matmul.math")
			if err != nil || !bytes.Equal(file, sample["compute/matmul.math.elf"]) {
				t.Errorf("%d bytes, %v", len(file), err)
			}
			clear(file)
		})
	}
	wg.Wait()
	expect.NoDiff(t, o.count, map[string]int{"dir/wormhole.tar.gz": 1}, "opened")
	for range 2 {
		if _, err := s.ELF(chip.Blackhole, "copy"); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a damaged archive: %v", err)
		}
	}
	_, noFile := s.ELF(chip.Wormhole, "none")
	_, noChip := s.ELF(0, "copy")
	_, noArchive := New(fstest.MapFS{}, "dir").ELF(chip.Wormhole, "copy")
	for _, err := range []error{noFile, noChip, noArchive} {
		expect.Fails(t, err, fs.ErrNotExist, "error")
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte{}, false)
	f.Add(pack(f, sample), false)
	plain := tar.Header{Format: tar.FormatUSTAR, Typeflag: tar.TypeReg, Name: "dir/a", Size: 1}
	f.Add(tarred(f, plain), true)
	plain.Format, plain.PAXRecords = tar.FormatPAX, map[string]string{"a.b": "c"}
	f.Add(tarred(f, plain), true)
	f.Fuzz(func(t *testing.T, data []byte, compress bool) {
		if compress {
			data = gzipped(t, data)
		}
		files, err := Unpack(data)
		if err != nil && files != nil {
			t.Errorf("files with %v", err)
		}
		sum := 0
		for name, file := range files {
			if sum += len(file); sum > maxUnpacked || !fs.ValidPath(name) {
				t.Errorf("%q: %d bytes, %d so far", name, len(file), sum)
			}
		}
	})
}
