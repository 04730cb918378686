//go:build !unix

package resp

import "net"

// directWriter is for systems with sockets that are file descriptors.
type directWriter struct{}

func newDirectWriter(net.Conn) *directWriter { return nil }

func (*directWriter) write([]byte) int { return 0 }
