// Package mesh uses many chips as one. A [Mesh] is a grid of chips with any number of dimensions.
// [Buffer], [Executable], [Queue] and [Event] are the counterparts of those of package reprise on
// all chips; a trace of a mesh is a reprise.Trace with a part for each chip.
//
//	m, err := mesh.Open(ctx, mesh.Cards(sim.QuietBox().Cards()...), mesh.Shape{2, 2})
//
// # Places
//
// Open reads the chips' Ethernet links and finds a chip for each coordinate so that neighbours in
// the mesh are joined by a working link. Links that are down and chips that are missing are not
// used, so a smaller shape may fit where a larger one doesn't: see [OrShape] and [ShapeError].
//
// # Memory
//
// Each chip has one allocator for all meshes that it is part of; a submesh allocates only on its
// own chips. A buffer of a mesh has the same address on all its chips. Chips with equal
// fingerprints ([Mesh.InStep]) are in step: equal requests give equal addresses, as on one chip. A
// submesh that allocates for itself takes its chips out of step with the others; after that the
// mesh searches for an address that is free on all its chips.
//
// # Failures
//
// An operation on several chips fails as a whole, with an [*Error] that has the state of every
// chip. The chips that didn't fail stay usable by themselves or as a submesh.
package mesh
