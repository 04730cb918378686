package apiserver

import "syscall"

// dieWithParent lets a program end with this process, however that ends.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
