//go:build unix && !linux

package redis

import "syscall"

// dieWithParent does nothing where there is no such thing: the server then outlives a parent that is killed.
func dieWithParent(*syscall.SysProcAttr) {}
