//go:build unix && !linux

package redisserver

import "syscall"

// killWithParent does nothing on systems without such a signal: the server then survives a parent that is killed.
func killWithParent(*syscall.SysProcAttr) {}
