package digits

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
)

func line(field int, text string) string {
	f := strings.Split(strings.Repeat("0,", Pixels)+"7", ",")
	if field >= 0 {
		f[field] = text
	}
	return strings.Join(f, ",") + "\n"
}

func compress(t testing.TB, plain []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	expect.Value(w.Write(plain))(t)
	devtest.Must(t, w.Close())
	return b.Bytes()
}

func TestParseImagesReadsLineEndings(t *testing.T) {
	one := Image{Label: 7}
	one.Pixels[3] = 16
	text := line(3, "16")
	for name, in := range map[string]string{
		"newline":               text,
		"carriage return":       strings.TrimSuffix(text, "\n") + "\r\n",
		"no ending":             strings.TrimSuffix(text, "\n"),
		"leading zeros":         line(3, "016"),
		"gzip":                  string(compress(t, []byte(text))),
		"two members of a gzip": string(compress(t, []byte(text[:20]))) + string(compress(t, []byte(text[20:]))),
	} {
		got, err := ParseImages(strings.NewReader(in))
		expect.Fails(t, err, nil, "%s", name)
		expect.NoDiff(t, got, []Image{one}, "%s", name)
	}
}

func TestParseImagesNamesWhatIsWrong(t *testing.T) {
	good := line(-1, "")
	packed := compress(t, []byte(good+good))
	damaged := bytes.Clone(packed)
	damaged[len(damaged)-6] ^= 1 // in the stored checksum
	undecodable := bytes.Clone(packed)
	undecodable[10] |= 7 // a block type that does not exist
	disk := errors.New("disk on fire")

	for _, tc := range []struct {
		name         string
		in           string
		line, column int
		reason       error
		text         string // part of the message
	}{
		{"empty file", "", 1, 0, ErrEmpty, "no images"},
		{"empty gzip", string(compress(t, nil)), 1, 0, ErrEmpty, ""},
		{"empty line", good + "\n", 2, 0, nil, "wrong number of fields: found 1, want 65"},
		{"one field short", good[2:], 1, 0, nil, "wrong number of fields: found 64, want 65"},
		{"one field more", "0," + good, 1, 0, nil, "wrong number of fields: found 66, want 65"},
		{"pixel above 16", good + line(63, "17"), 2, 64, nil, "line 2, column 64: pixel outside 0 to 16"},
		{"label above 9", good + good + line(64, "10"), 3, 65, nil, "label outside 0 to 9: found 10"},
		{"negative", line(0, "-1"), 1, 1, nil, `not a small decimal integer: found "-1"`},
		{"plus sign", line(0, "+1"), 1, 1, nil, "not a small decimal integer"},
		{"fraction", line(9, "1.0"), 1, 10, nil, "not a small decimal integer"},
		{"empty field", line(5, ""), 1, 6, nil, `not a small decimal integer: found ""`},
		{"space", line(5, " 1"), 1, 6, nil, "not a small decimal integer"},
		{"too many digits", line(5, "0001"), 1, 6, nil, "not a small decimal integer"},
		{"stray carriage return", line(64, "7\r\r"), 1, 65, nil, `not a small decimal integer: found "7\r"`},
		{"long field", line(5, strings.Repeat("9", 40)), 1, 6, nil, `not a small decimal integer: found "9999`},
		{"long line", line(5, strings.Repeat("9", 1000)), 1, 0, nil, "line too long"},
		{"endless line", good + strings.Repeat("9", 1<<20), 2, 0, nil, "line too long"},
		{"gzip cut in its header", string(packed[:5]), 1, 0, ErrTruncated, "ends early"},
		{"gzip cut in its data", string(packed[:len(packed)-10]), 3, 0, ErrTruncated, "ends early"},
		{"gzip cut in its trailer", string(packed[:len(packed)-1]), 3, 0, ErrTruncated, ""},
		{"gzip checksum", string(damaged), 3, 0, ErrCompressed, "damaged"},
		{"gzip coding", string(undecodable), 1, 0, ErrCompressed, "damaged"},
		{"gzip method", "\x1f\x8b\x00\x00\x00\x00\x00\x00\x00\x00", 1, 0, ErrCompressed, ""},
		{"reader fails", "", 1, 0, disk, "disk on fire"},
		{"reader fails later", good, 2, 0, disk, "line 2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var in io.Reader = strings.NewReader(tc.in)
			if tc.reason == disk {
				in = io.MultiReader(in, iotest.ErrReader(disk))
			}
			images, err := ParseImages(in)
			var pe *ParseError
			if !errors.As(err, &pe) {
				t.Fatalf("got %d images and error %v, want a *ParseError", len(images), err)
			}
			if images != nil {
				t.Errorf("got %d images beside the error", len(images))
			}
			expect.Equal(t, pe.Line, tc.line, "pe.Line")
			expect.Equal(t, pe.Column, tc.column, "pe.Column")
			if tc.reason != nil && !errors.Is(err, tc.reason) {
				t.Errorf("error %q is not %q", err, tc.reason)
			}
			expect.Says(t, err, nil, tc.text)
		})
	}
}

func FuzzParseImages(f *testing.F) {
	good := []byte(line(-1, ""))
	f.Add(good)
	f.Add([]byte(line(3, "17")))
	f.Add(compress(f, good))
	f.Add(compress(f, good)[:20])
	f.Fuzz(func(t *testing.T, b []byte) {
		images, err := ParseImages(bytes.NewReader(b))
		if err != nil {
			var pe *ParseError
			if !errors.As(err, &pe) || pe.Line < 1 || pe.Column < 0 || pe.Column > fields {
				t.Fatalf("error %#v lacks a place", err)
			}
			return
		}
		var plain []byte
		for _, m := range images {
			if m.Label >= Classes || slices.Max(m.Pixels[:]) > MaxPixel {
				t.Fatalf("accepted %v", m)
			}
			plain = m.AppendCSV(plain)
		}
		// One byte at a time: the result must not depend on the sizes of reads.
		again, err := ParseImages(iotest.OneByteReader(bytes.NewReader(plain)))
		devtest.Must(t, err)
		if diff := cmp.Diff(images, again); diff != "" {
			t.Fatalf("not the same after writing them out (-want +got):\n%s", diff)
		}
	})
}

func TestRenderDrawsADigit(t *testing.T) {
	images, err := Images()
	devtest.Must(t, err)
	const one = "" +
		"      ▓▓▓▓░░    \n" +
		"      ▓▓██▒▒    \n" +
		"    ░░████▒▒    \n" +
		"  ▒▒██████░░    \n" +
		"      ████░░    \n" +
		"      ████▒▒    \n" +
		"      ████▒▒    \n" +
		"      ▓▓██▓▓    \n"
	expect.NoDiff(t, Render(images[1]), one, "Render(images[1])")
}

func TestSplitHoldsOutAQuarterOfEachLabel(t *testing.T) {
	images, err := Images()
	devtest.Must(t, err)
	training, heldOut := Split(images)
	var labels [2][Classes]int
	seen := map[Image]bool{}
	for i, part := range [][]Image{training, heldOut} {
		for _, m := range part {
			labels[i][m.Label]++
			seen[m] = true
		}
	}
	// The sums are the counts in the data set's description of its test part.
	want := [2][Classes]int{{134, 137, 133, 138, 136, 137, 136, 135, 131, 135}, {44, 45, 44, 45, 45, 45, 45, 44, 43, 45}}
	if diff := cmp.Diff(want, labels); diff != "" || len(seen) != 1797 {
		t.Errorf("%d images; of each label (-want +got):\n%s", len(seen), diff)
	}
}
