package tensix

// packer is the state that packers carry from one PACR of a tile to the next.
type packer struct{}

func (e *Engine) pacr(t *thread, a pacrArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}
