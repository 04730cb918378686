// Command bundle builds the page from its sources with npm and esbuild: go run ./internal/bundle web. The type checker
// runs first. Without npm it says so and leaves the bundle as it is committed.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/causalstore/causalstore/console/internal/npm"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: bundle FOLDER")
		os.Exit(2)
	}
	if _, err := exec.LookPath("npm"); err != nil {
		fmt.Fprintln(os.Stderr,
			"npm is not installed: the page stays as it is committed, unchecked (Debian: apt-get install nodejs npm)")
		return
	}
	if err := bundle(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "bundle the page:", err)
		os.Exit(1)
	}
}

// bundle builds in a scratch folder, so that the checkout holds no packages of npm.
func bundle(web string) error {
	modules, err := npm.Install(web)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "console-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if err := os.CopyFS(filepath.Join(scratch, "src"), os.DirFS(filepath.Join(web, "src"))); err != nil {
		return err
	}
	for _, name := range []string{"package.json", "tsconfig.json", "build.mjs"} {
		if err := npm.CopyFile(filepath.Join(scratch, name), filepath.Join(web, name)); err != nil {
			return err
		}
	}
	if err := os.Symlink(modules, filepath.Join(scratch, "node_modules")); err != nil {
		return err
	}
	out, err := filepath.Abs(filepath.Join(web, "dist"))
	if err != nil {
		return err
	}
	if err := npm.Run(scratch, filepath.Join(modules, ".bin", "tsc"), "--noEmit"); err != nil {
		return err
	}
	return npm.Run(scratch, "node", "build.mjs", out)
}
