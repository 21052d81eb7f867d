package tracebuf

// Change says what package optimize changed in a step.
type Change struct {
	Step int
	Kind ChangeKind
	What string // at most 4096 bytes
}

// ChangeKind is a kind of change that leaves the effect of a trace as it was.
type ChangeKind uint8

const (
	Joined  ChangeKind = 1 + iota // writes of the same bytes to several cores
	Packed                        // commands that share pages of the dispatcher
	Dropped                       // a command without effect
	Inlined                       // kernels that lie among the commands
)

func (k ChangeKind) String() string {
	return []string{"unknown", "joined", "packed", "dropped", "inlined"}[k%5]
}

// Why says why a change is allowed.
func (k ChangeKind) Why() string {
	return []string{"", "every core still gets the same bytes at the same addresses before the same wait or go signal",
		"the dispatcher executes the same commands in the same order", "it changes neither memory nor what the dispatcher waits for",
		"the bytes are those that the relay would bring"}[k%5]
}

func (im *Image) changes(c *coder) {
	list(c, &im.Changes, 4, 7, func(ch *Change) { u32(c, &ch.Step); u8(c, &ch.Kind); c.name(&ch.What) })
	for _, ch := range im.Changes {
		if ch.Kind == 0 || ch.Kind > Inlined || ch.Step >= len(im.Steps) {
			c.fail("a change of kind %d in step %d of %d", ch.Kind, ch.Step, len(im.Steps))
		}
	}
}
