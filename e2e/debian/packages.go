// Package debian makes images of programs from Debian packages. An image contains the programs and the shared libraries
// that they load. It needs apt, but neither a Docker engine nor a registry.
package debian

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Install installs packages on this machine.
func Install(ctx context.Context, packages ...string) error {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("apt-get is not available: install the programs of the Debian packages %s by other means",
			strings.Join(packages, ", "))
	}
	if err := apt(ctx, "", "-qq", "update"); err != nil {
		return err
	}
	return apt(ctx, "", slices.Concat([]string{"-qq", "install", "-y", "--no-install-recommends"}, packages)...)
}

// apt runs apt-get in a directory; an empty one is the current directory.
func apt(ctx context.Context, dir string, args ...string) error {
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &output, &output
	// in runlevel 1 packages start no service
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, bytes.TrimSpace(output.Bytes()))
	}
	return nil
}

// unpackPackages downloads packages and the library packages that they depend on, and unpacks them into the
// subdirectory root.
func unpackPackages(ctx context.Context, dir string, packages []string) error {
	names, err := withLibraries(ctx, dir, packages)
	if err != nil {
		return err
	}
	archives := filepath.Join(dir, "archives")
	if err := os.MkdirAll(archives, 0o755); err != nil {
		return err
	}
	if err := apt(ctx, archives, append([]string{"-qq", "-o", "APT::Sandbox::User=root", "download"},
		names...)...); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(archives, "*.deb"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if output, err := exec.CommandContext(ctx, "dpkg", "-x", file,
			filepath.Join(dir, "root")).CombinedOutput(); err != nil {
			return fmt.Errorf("dpkg -x %s: %w: %s", file, err, output)
		}
	}
	return nil
}

// withLibraries returns packages together with the library packages that apt would install with them on an empty
// machine. Other dependencies serve only the installation.
func withLibraries(ctx context.Context, dir string, packages []string) ([]string, error) {
	emptyStatus := filepath.Join(dir, "status")
	if err := os.WriteFile(emptyStatus, nil, 0o644); err != nil {
		return nil, err
	}
	args := slices.Concat([]string{"-s", "-o", "Dir::State::status=" + emptyStatus, "--no-install-recommends",
		"install"}, packages)
	out, err := exec.CommandContext(ctx, "apt-get", args...).Output()
	if err != nil { // a new machine has no package lists
		if err := apt(ctx, "", "-qq", "update"); err != nil {
			return nil, err
		}
		out, err = exec.CommandContext(ctx, "apt-get", args...).Output()
	}
	if err != nil {
		return nil, fmt.Errorf("list the dependencies of %s with apt-get: %w", strings.Join(packages, ", "), err)
	}
	all := slices.Clone(packages)
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "Inst" || strings.Contains(fields[1], "perl") {
			continue
		}
		if name := fields[1]; (strings.HasPrefix(name, "lib") || strings.HasPrefix(name, "zlib")) &&
			!slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all, nil
}
