package digits

import "strings"

// Render draws an image as eight lines of sixteen block characters, two for each pixel, as dark as
// its ink. All lines have one width, so that images can be put side by side.
func Render(m Image) string { return render(m, []rune(" ░▒▓█")) }

// RenderASCII draws as Render does, with ASCII characters alone.
func RenderASCII(m Image) string { return render(m, []rune(" .:-=+*#%@")) }

// render draws with shades from empty to full.
func render(m Image, shades []rune) string {
	var b strings.Builder
	for i, p := range m.Pixels {
		// The nearest shade, halves towards the darker one.
		s := (int(min(p, MaxPixel))*(len(shades)-1) + MaxPixel/2) / MaxPixel
		b.WriteRune(shades[s])
		b.WriteRune(shades[s])
		if i%Width == Width-1 {
			b.WriteByte('\n')
		}
	}
	return b.String()
}
