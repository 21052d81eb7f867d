package main

import (
	"fmt"

	"github.com/reprise-tt/reprise/examples/digits/convnet"
)

// bfloat rounds a trained model to bfloat16.
func bfloat(m model) (*convnet.Network, error) {
	weights := map[string][]float64{}
	for i, d := range m {
		name := fmt.Sprintf("linear%d", i+1)
		w := make([]float64, len(d.w))
		for o := range d.out {
			for k := range d.in {
				w[k*d.out+o] = d.w[o*d.in+k]
			}
		}
		weights[name+".weight"], weights[name+".bias"] = w, d.b
	}
	return convnet.New(weights)
}
