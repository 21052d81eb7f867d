// Package digits is a data set of handwritten digits, which [Split] divides into those that train a
// network and those that measure it. Package convnet is a network that reads them.
package digits
