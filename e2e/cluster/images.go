//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/e2e/binaries"
	"github.com/causalstore/causalstore/e2e/debian"
	"github.com/causalstore/causalstore/e2e/oci"
)

// The images that every cluster has. They are on no registry, so they say localhost.
const (
	pauseImage   = "localhost/pause:1"
	corednsImage = "localhost/coredns:1"
)

const path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// addImageCommands adds the commands that make archives of images.
func addImageCommands(add func(string, string, cobra.PositionalArgs, func(context.Context, []string) error) *cobra.Command) {
	add("image-causalstore ARCHIVE NAME", "Make the image of CausalStore from this checkout", cobra.ExactArgs(2), func(ctx context.Context, args []string) error {
		return causalstoreImage(ctx, args[0], args[1])
	})
	add("image-redis ARCHIVE NAME", "Make an image of Debian's Redis", cobra.ExactArgs(2), func(ctx context.Context, args []string) error {
		return debian.Write(ctx, args[0], debian.Image{Image: oci.Image{Name: args[1], Entrypoint: []string{"redis-server"}, Env: []string{path}, WorkingDir: "/data"},
			Packages: []string{"redis-server", "redis-tools"}, Programs: []string{"/usr/bin/redis-server", "/usr/bin/redis-cli"}})
	})
	add("image-app ARCHIVE NAME", "Make an image of an app with a shell and Debian's redis-cli", cobra.ExactArgs(2), func(ctx context.Context, args []string) error {
		return debian.Write(ctx, args[0], debian.Image{Image: oci.Image{Name: args[1], Entrypoint: []string{"/bin/sh"}, Env: []string{path}},
			Packages: []string{"busybox-static", "redis-tools"}, Programs: []string{"/bin/busybox", "/usr/bin/redis-cli"}, Links: applets()})
	})
}

// applets are what busybox goes by.
func applets() map[string]string {
	links := map[string]string{}
	for _, name := range []string{"sh", "cat", "date", "echo", "grep", "head", "ls", "nc", "nslookup", "seq", "sleep", "tail", "true", "wc", "wget"} {
		links["/bin/"+name] = "busybox"
	}
	return links
}

// causalstoreImage makes what the Dockerfile makes.
func causalstoreImage(ctx context.Context, archive, name string) error {
	dir, err := os.MkdirTemp(filepath.Dir(archive), ".image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program := filepath.Join(dir, "causalstore")
	if err := goBuild(ctx, program, "."); err != nil {
		return err
	}
	const user = 65532
	image := oci.Image{Name: name, Entrypoint: []string{"/causalstore"}, Cmd: []string{"--help"}, User: fmt.Sprintf("%[1]d:%[1]d", user), WorkingDir: "/data", Env: []string{path},
		Labels: map[string]string{"org.opencontainers.image.title": "CausalStore", "org.opencontainers.image.licenses": "Apache-2.0"}}
	return oci.Write(archive, image, func(l *oci.Layer) error {
		return errors.Join(l.Dir("data", 0o700, user), l.Dir("tmp", 0o1777, user), l.File("licenses/LICENSE", "LICENSE", 0o644), l.File("causalstore", program, 0o755))
	})
}

// goBuild builds a package of this checkout.
func goBuild(ctx context.Context, out, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, said)
	}
	return nil
}

// baseImages makes the archives of what every cluster has, once.
func (b *bed) baseImages(ctx context.Context) ([]string, error) {
	pause, coredns := b.file("images", "pause.tar"), b.file("images", "coredns.tar")
	if err := os.MkdirAll(b.file("images"), 0o755); err != nil {
		return nil, err
	}
	if _, err := os.Stat(coredns); err == nil {
		return []string{pause, coredns}, nil
	}
	program := b.file("pause")
	if err := goBuild(ctx, program, "github.com/causalstore/causalstore/e2e/cluster/pause"); err != nil {
		return nil, err
	}
	server, err := binaries.Folder{Dir: b.Binaries}.Path("coredns")
	if err != nil {
		return nil, err
	}
	one := func(archive, name, program, to string) error {
		return oci.Write(archive, oci.Image{Name: name, Entrypoint: []string{to}, Env: []string{path}}, func(l *oci.Layer) error { return l.File(to, program, 0o755) })
	}
	return []string{pause, coredns}, errors.Join(one(pause, pauseImage, program, "/pause"), one(coredns, corednsImage, server, "/coredns"))
}

// loadImages gives archives to all nodes at once.
func (b *bed) loadImages(ctx context.Context, archives []string) error {
	results := make(chan error)
	for _, n := range b.Nodes {
		go func() { results <- b.loadNode(ctx, n, archives) }()
	}
	var errs []error
	for range b.Nodes {
		errs = append(errs, <-results)
	}
	return errors.Join(errs...)
}

func (b *bed) loadNode(ctx context.Context, n node, archives []string) error {
	pid := b.pid(n.Name)
	if pid == 0 {
		return fmt.Errorf("%s does not run; `cluster up` starts it", n.Name)
	}
	ctr, err := binaries.Folder{Dir: b.Binaries}.Path("ctr")
	if err != nil {
		return err
	}
	socket := fmt.Sprintf("/proc/%d/root%s", pid, containerdSocket)
	err = await(ctx, startTimeout, func() error { return run(ctx, ctr, "--address", socket, "version") })
	if err != nil {
		return fmt.Errorf("containerd of %s: %w", n.Name, err)
	}
	for _, archive := range archives {
		if err := run(ctx, ctr, "--address", socket, "--namespace", "k8s.io", "images", "import", archive); err != nil {
			return fmt.Errorf("give %s to %s: %w", archive, n.Name, err)
		}
	}
	return nil
}

// startTimeout bounds every wait for something to start. Busy machines take long.
const startTimeout = 3 * time.Minute
