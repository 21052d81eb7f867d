// Package umd offers emulated chips to the tools of tt-umd, such as tt-exalens, by the protocol of
// its simulation servers (tt-umd device/simulation/simulation_server_protocol.fbs, 0.9.14).
//
// A server is a folder, [Folder], with a Unix socket for each chip, [Socket]. A message is a length
// of 4 bytes and a FlatBuffer; a connection answers requests in order. A malformed message ends the
// connection. What the chip refuses is an error for the tool alone, and a line for the program's
// user, once.
package umd
