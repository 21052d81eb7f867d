package tracebuf_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/tracebuf"
)

func devicesFile(t testing.TB, arch chip.Arch) []*tracebuf.File {
	t.Helper()
	files := []*tracebuf.File{testFile(t, arch), nil, spanFile(t, arch), testFile(t, arch)}
	files[3].Data = files[3].Data[:1]
	return files
}

func encodeAll(t testing.TB, files []*tracebuf.File) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, tracebuf.EncodeAll(&b, files))
	return b.Bytes()
}

func TestDevicesRoundTrip(t *testing.T) {
	for _, arch := range arches {
		files := devicesFile(t, arch)
		b := encodeAll(t, files)
		got, err := tracebuf.DecodeAll(bytes.NewReader(b))
		must(t, err)
		if diff := cmp.Diff(files, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%v (-encoded +decoded):\n%s", arch, diff)
		}
		if !bytes.Equal(encodeAll(t, got), b) {
			t.Errorf("%v: the same trace gives other bytes", arch)
		}
		fails(t, second(tracebuf.Decode(bytes.NewReader(b))), tracebuf.ErrSeveralDevices, "%v: Decode returns", arch)
		parts, err := tracebuf.InspectAll(files)
		must(t, err)
		var at [][2]int
		for _, p := range parts {
			at = append(at, [2]int{p.Device, p.Queue})
		}
		if want := [][2]int{{0, 0}, {2, 1}, {2, 0}, {3, 0}}; !slices.Equal(at, want) {
			t.Errorf("%v: parts are of devices and queues %v, want %v", arch, at, want)
		}
		one := encodeAll(t, files[:1])
		if !bytes.Equal(one, encode(t, files[0])) || one[8] != 2 {
			t.Errorf("%v: a trace of one device has a file of its own", arch)
		}
	}
}

func TestDevicesBytesStay(t *testing.T) {
	for arch, want := range map[chip.Arch]string{
		chip.Wormhole:  "8a8f5cf922ac8bf54bab0c2588a7daeabb779e052210c644cba7c400551156e3",
		chip.Blackhole: "a6481915cf5521b49c67ce79967c56cc990ec021ed18755a424bf810d65c943a",
	} {
		if got := fmt.Sprintf("%x", sha256.Sum256(encodeAll(t, devicesFile(t, arch)))); got != want {
			t.Errorf("%v: the file is %s, was %s", arch, got, want)
		}
	}
}

func TestDevicesRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func([]*tracebuf.File) []*tracebuf.File
		want   string
	}{
		"no device":      {func([]*tracebuf.File) []*tracebuf.File { return nil }, "0 devices"},
		"no part":        {func([]*tracebuf.File) []*tracebuf.File { return make([]*tracebuf.File, 2) }, "at least one has a part"},
		"nothing of one": {func([]*tracebuf.File) []*tracebuf.File { return make([]*tracebuf.File, 1) }, "at least one has a part"},
		"many devices":   {func(f []*tracebuf.File) []*tracebuf.File { return append(f, make([]*tracebuf.File, 1024)...) }, "1028 devices"},
		"two names":      {func(f []*tracebuf.File) []*tracebuf.File { f[3].Name = "other"; return f }, `device 3: the trace's name is "other"`},
		"another's error": {func(f []*tracebuf.File) []*tracebuf.File { f[2].Image.L1End = 1 << 40; return f },
			"device 2, queue 1, circular buffers"},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			err := tracebuf.EncodeAll(&b, c.change(devicesFile(t, chip.Blackhole)))
			if !errors.Is(err, tracebuf.ErrInvalid) || !strings.Contains(err.Error(), c.want) || b.Len() > 0 {
				t.Errorf("error is %v, want an ErrInvalid with %q; %d B were written", err, c.want, b.Len())
			}
		})
	}
	b := encodeAll(t, devicesFile(t, chip.Blackhole))
	at := bytes.Index(b, []byte("DEVS")) + 16 // 4 devices, 3 with a part: 0, 2, 3
	for name, change := range map[string]func([]byte){
		"one device":         func(c []byte) { c[at] = 1 },
		"2^32-1 devices":     func(c []byte) { copy(c[at:], "\xff\xff\xff\xff") },
		"2^32-1 parts":       func(c []byte) { copy(c[at+4:], "\xff\xff\xff\xff") },
		"fewer parts":        func(c []byte) { c[at+4] = 2 },
		"device beyond":      func(c []byte) { c[at+16] = 4 },
		"device twice":       func(c []byte) { c[at+12] = 3 },
		"falling devices":    func(c []byte) { c[at+8] = 2 },
		"version 2":          func(c []byte) { c[8] = 2 },
		"no list of devices": func(c []byte) { copy(c[at-16:], "DEVX") },
	} {
		c := bytes.Clone(b)
		change(c)
		fails(t, second(tracebuf.DecodeAll(bytes.NewReader(seal(c)))), tracebuf.ErrInvalid, "%s", name)
	}
	one := encode(t, testFile(t, chip.Blackhole))
	one[8] = 3
	fails(t, second(tracebuf.DecodeAll(bytes.NewReader(seal(one)))), tracebuf.ErrInvalid, "a file of one device as version 3")
}
