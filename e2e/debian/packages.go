// Package debian makes images of programs that Debian has packaged, with the shared libraries that they load and nothing else:
// no Docker engine and no registry is needed, only apt.
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

// Install installs packages on this machine, as far as they are missing.
func Install(ctx context.Context, packages ...string) error {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("there is no apt-get here; install what the packages %s have in another way", strings.Join(packages, ", "))
	}
	if err := apt(ctx, "", "-qq", "update"); err != nil {
		return err
	}
	return apt(ctx, "", slices.Concat([]string{"-qq", "install", "-y", "--no-install-recommends"}, packages)...)
}

// apt runs apt-get in a folder.
func apt(ctx context.Context, dir string, args ...string) error {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &said, &said
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1") // 1: no service is started
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}

// pool downloads packages and the libraries that they depend on, and unpacks them into one folder, from which images are made.
func pool(ctx context.Context, dir string, packages []string) error {
	wanted, err := libraries(ctx, dir, packages)
	if err != nil {
		return err
	}
	archives := filepath.Join(dir, "archives")
	if err := os.MkdirAll(archives, 0o755); err != nil {
		return err
	}
	if err := apt(ctx, archives, append([]string{"-qq", "-o", "APT::Sandbox::User=root", "download"}, wanted...)...); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(archives, "*.deb"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if said, err := exec.CommandContext(ctx, "dpkg", "-x", file, filepath.Join(dir, "root")).CombinedOutput(); err != nil {
			return fmt.Errorf("dpkg -x %s: %w: %s", file, err, said)
		}
	}
	return nil
}

// libraries returns packages, and all those of libraries that would come with them on a machine that has none. What else comes is
// for their installation.
func libraries(ctx context.Context, dir string, packages []string) ([]string, error) {
	nothing := filepath.Join(dir, "status")
	if err := os.WriteFile(nothing, nil, 0o644); err != nil {
		return nil, err
	}
	args := slices.Concat([]string{"-s", "-o", "Dir::State::status=" + nothing, "--no-install-recommends", "install"}, packages)
	out, err := exec.CommandContext(ctx, "apt-get", args...).Output()
	if err != nil { // a new machine has no list of packages
		if err := apt(ctx, "", "-qq", "update"); err != nil {
			return nil, err
		}
		out, err = exec.CommandContext(ctx, "apt-get", args...).Output()
	}
	if err != nil {
		return nil, fmt.Errorf("ask apt-get what %s depend on: %w", strings.Join(packages, ", "), err)
	}
	all := slices.Clone(packages)
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "Inst" || strings.Contains(fields[1], "perl") {
			continue
		}
		if name := fields[1]; (strings.HasPrefix(name, "lib") || strings.HasPrefix(name, "zlib")) && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all, nil
}
