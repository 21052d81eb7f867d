package digits

import (
	"bytes"
	"errors"
	"math"
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/internal/devtest"
)

// tiny returns a layer of four inputs with the given rows of weights.
func tiny(t *testing.T, c LayerConfig, rows ...[4]int8) *Layer {
	t.Helper()
	c.In, c.Out = 4, len(rows)
	for _, r := range rows {
		c.Weights = append(c.Weights, r[:]...)
	}
	if c.Biases == nil {
		c.Biases = make([]int32, len(rows))
	}
	l, err := NewLayer(c)
	devtest.Must(t, err)
	return l
}

func TestRequantisationRoundsHalfUpRectifiesAndSaturates(t *testing.T) {
	for _, tc := range []struct {
		bias         int32
		mult, shift  uint32
		want         int8
		whyItMatters string
	}{
		{5, 1, 1, 3, "2.5 rounds up"},
		{3, 1, 1, 2, "1.5 rounds up"},
		{1, 1, 2, 0, "a quarter rounds down"},
		{2, 1, 2, 1, "a half rounds up"},
		{-1, 1, 1, 0, "minus a half rounds to zero"},
		{-500, 1, 1, 0, "negative is rectified"},
		{254, 1, 1, 127, "127 exactly"},
		{255, 1, 1, 127, "127.5 rounds to 128 and saturates"},
		{1 << 20, 1, 1, 127, "far above saturates"},
		{1000, 550, 15, 17, "16.78 with a multiplier"},
	} {
		l := tiny(t, LayerConfig{Biases: []int32{tc.bias}, Multiplier: tc.mult, Shift: tc.shift}, [4]int8{})
		if got := int8(l.Forward(Page{})[0]); got != tc.want {
			t.Errorf("%s: %d times %d shift %d gives %d, want %d", tc.whyItMatters, tc.bias, tc.mult, tc.shift, got, tc.want)
		}
	}
}

func TestActivationsAreSigned(t *testing.T) {
	l := tiny(t, LayerConfig{Scores: true, Biases: []int32{1000}}, [4]int8{-128, 127, 1, -1})
	in := Page{0: 0x80, 1: 0xFF, 2: 3, 3: 4, 4: 99} // -128, -1, 3, 4; bytes after the inputs are not read
	want := Page{}
	le.PutUint32(want[:], 1000+128*128-127+3-4)
	if diff := cmp.Diff(want, l.Forward(in)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func drawConfig(t *rapid.T, scores bool) LayerConfig {
	most := PageBytes
	if scores {
		most = MaxScores
	}
	c := LayerConfig{
		In: 4 * rapid.IntRange(1, PageBytes/4).Draw(t, "in/4"), Out: rapid.IntRange(1, most).Draw(t, "out"),
		Scores: scores, InputScale: 0.5, WeightScale: 0.25, OutputScale: 3,
	}
	if !scores {
		c.Multiplier, c.Shift = rapid.Uint32Range(1, 1023).Draw(t, "multiplier"), rapid.Uint32Range(1, 20).Draw(t, "shift")
	}
	c.Weights = rapid.SliceOfN(rapid.Int8(), c.In*c.Out, c.In*c.Out).Draw(t, "weights")
	c.Biases = rapid.SliceOfN(rapid.Int32Range(-1<<19, 1<<19), c.Out, c.Out).Draw(t, "biases")
	return c
}

func TestLayerAgreesWithExactArithmetic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t, rapid.Bool().Draw(t, "scores"))
		l, err := NewLayer(c)
		devtest.Must(t, err)
		var in Page
		copy(in[:], rapid.SliceOfN(rapid.Byte(), PageBytes, PageBytes).Draw(t, "page"))

		var want Page
		for o := range c.Out {
			acc := big.NewInt(int64(c.Biases[o]))
			for i := range c.In {
				acc.Add(acc, big.NewInt(int64(c.Weights[o*c.In+i])*int64(int8(in[i]))))
			}
			if c.Scores {
				le.PutUint32(want[4*o:], uint32(int32(acc.Int64())))
				continue
			}
			// floor(acc*m/2^s + 1/2), then the limits
			acc.Mul(acc, big.NewInt(int64(c.Multiplier)))
			acc.Add(acc, new(big.Int).Lsh(big.NewInt(1), uint(c.Shift-1)))
			acc.Rsh(acc, uint(c.Shift)) // rounds towards minus infinity
			want[o] = byte(min(max(acc.Int64(), 0), 127))
		}
		if diff := cmp.Diff(want, l.Forward(in)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func TestPackedLayerSurvivesAndIsAligned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, err := NewLayer(drawConfig(t, rapid.Bool().Draw(t, "scores")))
		devtest.Must(t, err)
		b := l.Pack()
		if len(b) != l.PackedSize() || len(b)%64 != 0 || le.Uint32(b[offBiases:])%64 != 0 || le.Uint32(b[offWeights:])%64 != 0 {
			t.Fatalf("%d bytes, biases at %d, weights at %d", len(b), le.Uint32(b[offBiases:]), le.Uint32(b[offWeights:]))
		}
		again, rest, err := UnpackLayer(append(b, 1, 2, 3))
		devtest.Must(t, err)
		if diff := cmp.Diff([]byte{1, 2, 3}, rest); diff != "" {
			t.Fatalf("rest (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(l, again, cmp.AllowUnexported(Layer{})); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// A kernel author reads these offsets in the package comment.
func TestPackedLayoutIsTheDocumentedOne(t *testing.T) {
	l := tiny(t, LayerConfig{Multiplier: 550, Shift: 15, Biases: []int32{-2, 7}, InputScale: 1},
		[4]int8{1, 2, 3, 4}, [4]int8{-1, -2, -3, -4})
	b := l.Pack()
	var head []uint32
	for off := 0; off < 40; off += 4 {
		head = append(head, le.Uint32(b[off:]))
	}
	want := []uint32{0x4C445052, 4, 2, 16, 550, 15, 0, 64, 128, 192}
	if diff := cmp.Diff(want, head); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]byte{0xFE, 0xFF, 0xFF, 0xFF, 7, 0, 0, 0, 0, 0, 0, 0}, b[64:76]); diff != "" {
		t.Errorf("biases (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]byte{1, 2, 3, 4, 0xFF, 0xFE, 0xFD, 0xFC, 0, 0, 0, 0}, b[128:140]); diff != "" {
		t.Errorf("weights (-want +got):\n%s", diff)
	}
}

func TestNewLayerRefuses(t *testing.T) {
	valid := func() LayerConfig {
		return LayerConfig{In: 4, Out: 1, Weights: make([]int8, 4), Biases: make([]int32, 1), Multiplier: 1, Shift: 1}
	}
	for _, tc := range []struct {
		name   string
		change func(*LayerConfig)
		want   error
	}{
		{"no inputs", func(c *LayerConfig) { c.In = 0 }, ErrShape},
		{"inputs not a multiple of four", func(c *LayerConfig) { c.In, c.Weights = 5, make([]int8, 5) }, ErrShape},
		{"inputs beyond a page", func(c *LayerConfig) { c.In, c.Weights = 68, make([]int8, 68) }, ErrShape},
		{"no outputs", func(c *LayerConfig) { c.Out, c.Weights, c.Biases = 0, nil, nil }, ErrShape},
		{"scores beyond a page", func(c *LayerConfig) {
			*c = LayerConfig{In: 4, Out: 17, Weights: make([]int8, 68), Biases: make([]int32, 17), Scores: true}
		}, ErrShape},
		{"weights missing", func(c *LayerConfig) { c.Weights = c.Weights[1:] }, ErrShape},
		{"biases missing", func(c *LayerConfig) { c.Biases = nil }, ErrShape},
		{"scores with a multiplier", func(c *LayerConfig) { c.Scores = true }, ErrShape},
		{"no multiplier", func(c *LayerConfig) { c.Multiplier = 0 }, ErrRequantise},
		{"no shift", func(c *LayerConfig) { c.Shift = 0 }, ErrRequantise},
		{"shift of a whole word", func(c *LayerConfig) { c.Shift = 32 }, ErrRequantise},
		{"multiplier negative as int32", func(c *LayerConfig) { c.Multiplier = 1 << 31 }, ErrRequantise},
		{"product overflows", func(c *LayerConfig) { c.Multiplier, c.Biases[0] = 1<<16, 1<<15 }, ErrRequantise},
		{"negative product overflows", func(c *LayerConfig) { c.Multiplier, c.Biases[0] = 1<<16, -1<<16 }, ErrRequantise},
		{"rounding overflows", func(c *LayerConfig) { c.Shift, c.Biases[0] = 31, 1<<30 }, ErrRequantise},
		{"sum overflows", func(c *LayerConfig) { c.Biases[0], c.Weights[0] = math.MaxInt32, 1 }, ErrRequantise},
		{"bias without a positive", func(c *LayerConfig) { c.Biases[0] = math.MinInt32 }, ErrRequantise},
	} {
		c := valid()
		tc.change(&c)
		if l, err := NewLayer(c); !errors.Is(err, tc.want) || l != nil {
			t.Errorf("%s: layer %v, error %v, want none and %v", tc.name, l, err, tc.want)
		}
	}
	if _, err := NewLayer(valid()); err != nil {
		t.Errorf("valid: %v", err)
	}
}

func TestNewNetworkRefusesLayersThatDoNotFit(t *testing.T) {
	mk := func(in, out int, scores bool) *Layer {
		c := LayerConfig{In: in, Out: out, Weights: make([]int8, in*out), Biases: make([]int32, out), Scores: scores}
		if !scores {
			c.Multiplier, c.Shift = 1, 1
		}
		l, err := NewLayer(c)
		devtest.Must(t, err)
		return l
	}
	for name, layers := range map[string][]*Layer{
		"none":              nil,
		"nil":               {nil},
		"input not pixels":  {mk(32, 10, true)},
		"gap":               {mk(64, 16, false), mk(32, 10, true)},
		"no scores":         {mk(64, 10, false)},
		"scores in between": {mk(64, 16, true), mk(16, 10, true)},
		"nine scores":       {mk(64, 9, true)},
	} {
		if n, err := NewNetwork(layers...); !errors.Is(err, ErrShape) {
			t.Errorf("%s: network %v, error %v, want %v", name, n, err, ErrShape)
		}
	}
}

func TestBestTakesTheLowestOfEqualScores(t *testing.T) {
	for _, tc := range []struct {
		scores [Classes]int32
		want   uint8
	}{
		{[Classes]int32{}, 0},
		{[Classes]int32{-5, -2, -9, -2, -7, -8, -6, -3, -4, -5}, 1},
		{[Classes]int32{9: 1}, 9},
	} {
		if got := Best(tc.scores); got != tc.want {
			t.Errorf("Best(%v) = %d, want %d", tc.scores, got, tc.want)
		}
	}
}

func TestDecodeNetworkNoticesEveryChangedBit(t *testing.T) {
	for bit := range 8 * len(weightsFile) {
		b := bytes.Clone(weightsFile)
		b[bit/8] ^= 1 << (bit % 8)
		if _, err := DecodeNetwork(b); err == nil {
			t.Fatalf("accepted with bit %d of byte %d changed", bit%8, bit/8)
		}
	}
	for n := range weightsFile {
		if _, err := DecodeNetwork(weightsFile[:n]); !errors.Is(err, ErrFormat) {
			t.Fatalf("cut to %d bytes: %v, want %v", n, err, ErrFormat)
		}
	}
}

func FuzzUnpackLayer(f *testing.F) {
	n, err := Trained()
	if err != nil {
		f.Fatal(err)
	}
	for _, l := range n.Layers() {
		f.Add(l.Pack())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l, rest, err := UnpackLayer(b)
		if err != nil {
			return
		}
		if got := append(l.Pack(), rest...); !bytes.Equal(got, b) {
			t.Fatal("accepted bytes that it would not write")
		}
		var in Page
		copy(in[:], b)
		l.Forward(in)
	})
}

func FuzzDecodeNetwork(f *testing.F) {
	f.Add(bytes.Clone(weightsFile))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := DecodeNetwork(b)
		if err == nil && !bytes.Equal(n.Encode(), b) {
			t.Fatal("accepted bytes that it would not write")
		}
	})
}
