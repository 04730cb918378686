package apiserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// writeLauncher writes a script that runs a program under a name and returns its path. It does two things that envtest
// does not: it calls a binary that contains several programs by the name of the one that is wanted, and where setpriv
// is available (Linux) it lets the kernel kill the program when the test process ends without stopping it.
func writeLauncher(dir, name, program string) (string, error) {
	named := filepath.Join(dir, "programs", name)
	if err := os.MkdirAll(filepath.Dir(named), 0o755); err != nil {
		return "", err
	}
	if err := os.Symlink(program, named); err != nil {
		return "", err
	}
	setpriv := ""
	if path, err := exec.LookPath("setpriv"); err == nil {
		setpriv = path + " --pdeathsig KILL "
	}
	launcher := filepath.Join(dir, name)
	script := fmt.Sprintf("#!/bin/sh\nexec %s'%s' \"$@\"\n", setpriv, named)
	return launcher, os.WriteFile(launcher, []byte(script), 0o755)
}
