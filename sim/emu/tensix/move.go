package tensix

func (e *Engine) movd2a(t *thread, a movd2aArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) movd2b(t *thread, a movd2bArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) movb2a(t *thread, a movb2aArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) zeroacc(t *thread, a zeroaccArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) mova2d(t *thread, a mova2dArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) movb2d(t *thread, a movb2dArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}
