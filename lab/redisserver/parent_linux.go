package redisserver

import "syscall"

// killWithParent makes the kernel kill the server when this process ends.
func killWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
