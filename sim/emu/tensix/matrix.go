package tensix

func (e *Engine) mvmul(t *thread, a mvmulArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) elwmul(t *thread, a elwmulArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) elwadd(t *thread, a elwaddArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) elwsub(t *thread, a elwsubArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) gmpool(t *thread, a gmpoolArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) gapool(t *thread, a gapoolArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}
